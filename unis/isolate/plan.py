"""Wants and a machine become masks of classes. Pure; the order of the wants does not matter.

Ways for I/O stay free of functions (ResQ, section 4: DMA's ways are not CAT's to give), the root's
class has what is left, and no two classes overlap but where one wants nothing of a cache.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from unis.isolate.bitmask import format_hex, mask_of, runs
from unis.isolate.info import IO_ALLOC_ENABLED, Bandwidth, CacheInfo, CacheResource
from unis.isolate.io_ways import IoWays
from unis.isolate.layout import lay_out
from unis.isolate.schemata import BANDWIDTH, Schemata, level
from unis.isolate.tree import MON_GROUPS, inside
from unis.isolate.wants import GROUP_PREFIX, ClassDemand, OtherGroup, PlanError, Want, demands

LEVELS = ("L3", "L2")
_NOBODY = IoWays("none", "no ways for DMA are known")


@dataclass(frozen=True)
class ClassPlan:
    """A group of the tree."""

    name: str
    members: tuple[str, ...]
    schemata: Schemata
    exclusive: bool  # resctrl's mode: no other group may overlap it
    monitors: tuple[str, ...]  # MON groups, of a class that several share one each


@dataclass(frozen=True)
class CachePlan:
    """All that is decided before anything is written."""

    classes: tuple[ClassPlan, ...]
    default: Schemata  # of the root, whose class is everybody else's
    places: Mapping[str, str]  # by member, the group for its threads; the root's is empty
    io: IoWays
    io_alloc: Mapping[int, int] = field(default_factory=dict)  # to be set; empty: left as it is
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


def plan(
    wants: Mapping[str, Want],
    info: CacheInfo,
    io: IoWays = _NOBODY,
    *,
    io_alloc: int | None = None,
    default_ways: int = 1,
    exclusive: bool = False,
    optional: Collection[str] = (),
    strangers: Sequence[OtherGroup] = (),
    there: CachePlan | None = None,
) -> CachePlan:
    """The plan for all of `wants`; PlanError says what was asked and what there is.

    `io_alloc`: so many ways are given to I/O by resctrl. `default_ways`: at the least so many
    are everybody else's; with 0 those may be left with the ways of I/O. `optional`: of L3, L2
    and MB what the machine may lack. Whose ways are the same in the plan that is `there` keeps
    them if it can.
    """
    classes = demands(wants)
    notes: list[str] = []
    if io_alloc is not None:
        io = _given_to_io(info, io_alloc)
    asked = [at for at in LEVELS if any(_uses(one, at) for one in classes)]
    levels = [at for at in asked if _has(info, at, classes, optional, notes)]
    limits = _limits(info.bandwidth, classes, optional, notes)
    classes = [one for one in classes if any(_uses(one, at) for at in levels) or limits]
    _count_classes(info, classes, strangers, io_alloc is not None)

    masks: dict[str, dict[str, dict[int, int]]] = {one.group: {} for one in (*classes, _ROOT)}
    for at in levels:
        for domain in info.of_level(at)[0].domains:
            found = _Cache(info.of_level(at), at, domain, io, strangers).divide(
                classes, default_ways, _masks_there(there, info, at, domain), notes
            )
            for group, mask in found.items():
                for resource in info.of_level(at):
                    masks[group].setdefault(resource.name, {})[domain] = mask
    monitored = _monitors(info, classes, strangers, notes)
    plans = tuple(
        ClassPlan(
            name=one.group,
            members=tuple(sorted(one.members)),
            schemata=masks[one.group] | ({BANDWIDTH: limits[one.group]} if limits else {}),
            exclusive=exclusive
            and _may_be_exclusive(one, masks[one.group], info, strangers, notes),
            monitors=monitored.get(one.group, ()),
        )
        for one in classes
    )
    places = dict.fromkeys(wants, "")
    places |= {member: _place(one, member) for one in plans for member in one.members}
    return CachePlan(
        classes=plans,
        default=masks[""],
        places=places,
        io=io,
        io_alloc=dict(io.masks) if io_alloc is not None else {},
        notes=tuple(dict.fromkeys(notes)),
    )


class _Root(ClassDemand):
    """The class of everybody who is in no other."""

    @property
    def group(self) -> str:
        return ""


_ROOT = _Root("")


class _Cache:
    """One cache, whose ways are divided."""

    def __init__(
        self,
        resources: Sequence[CacheResource],
        level: str,
        domain: int,
        io: IoWays,
        strangers: Sequence[OtherGroup],
    ) -> None:
        self._level = level
        self._domain = domain
        self._full = resources[0].cbm_mask
        self._least = max(resource.least for resource in resources)
        self._io = io.masks.get(domain, 0) if level == "L3" else 0
        for resource in resources:
            self._io |= resource.shareable_bits
        names = [resource.name for resource in resources]
        self._strangers = {one.name: one.mask(names, domain) for one in strangers}
        self._taken = {one.name: one.mask(names, domain) for one in strangers if one.exclusive}

    def divide(
        self,
        classes: Sequence[ClassDemand],
        default_ways: int,
        there: Mapping[str, int],
        notes: list[str],
    ) -> dict[str, int]:
        """A mask for each group, the root's among them."""
        sizes = self._sizes(classes, notes)
        free = self._full & ~self._io
        for mask in self._taken.values():
            free &= ~mask
        rest = max(default_ways, self._least) if default_ways else 0
        placed = lay_out({**sizes, **({"": rest} if rest else {})}, free, there)
        if placed is None:
            raise PlanError(self._too_much(sizes, rest, free))
        placed.pop("", None)
        default = self._left(free & ~sum(placed.values()), notes)
        self._tell_of_strangers(placed, notes)
        return {one.group: placed.get(one.group, default) for one in classes} | {"": default}

    def _sizes(self, classes: Sequence[ClassDemand], notes: list[str]) -> dict[str, int]:
        sizes = {}
        for one in classes:
            if ways := one.ways(self._level, self._domain):
                sizes[one.group] = max(ways, self._least)
                if ways < self._least:
                    notes.append(
                        f"{one.name} asks for {ways} way of {self._level} and gets {self._least}, "
                        "the fewest that a class may have here"
                    )
        return sizes

    def _left(self, left: int, notes: list[str]) -> int:
        """The root's: the most neighbouring ways that nobody has, else those of I/O."""
        for mask in (left, self._io):
            first, length = max(runs(mask), key=lambda run: run[1], default=(0, 0))
            if length >= self._least:
                if mask != left:
                    notes.append(
                        f"everybody else shares the ways of I/O in {self._where}, for functions "
                        "have all others"
                    )
                return mask_of(first, length)
        raise PlanError(
            f"nothing of {self._where} is left for everybody else, whose class cannot be empty: "
            "ask for a way less"
        )

    def _tell_of_strangers(self, placed: Mapping[str, int], notes: list[str]) -> None:
        ours = sum(placed.values())
        for name, mask in sorted(self._strangers.items()):
            if mask & ours:
                notes.append(
                    f"the group {name}, which is not UNiS', has ways {format_hex(mask & ours)} of "
                    f"{self._where} too: what is there is not isolated from it"
                )

    @property
    def _where(self) -> str:
        return f"{self._level} {self._domain}"

    def _too_much(self, sizes: Mapping[str, int], rest: int, free: int) -> str:
        listed = ", ".join(
            f"{name.removeprefix(GROUP_PREFIX)} {ways}" for name, ways in sorted(sizes.items())
        )
        asked = sum(sizes.values())
        told = (
            f"{asked} ways of {self._where} are asked for ({listed}) and {rest} for everybody "
            f"else; of its {self._full.bit_length()} ways {free.bit_count()} are free"
        )
        held = [f"{self._io.bit_count()} are I/O's"] if self._io else []
        held += [f"{mask.bit_count()} the group {name}'s" for name, mask in self._taken.items()]
        if held:
            told += f" ({', '.join(held)})"
        if asked + rest <= free.bit_count():
            lengths = ", ".join(str(length) for _, length in runs(free))
            told += f", but a class needs neighbours, and those are {lengths}"
        return told


# ---------------------------------------------------------------- what the machine has


def _uses(one: ClassDemand, level: str) -> bool:
    return any(want.uses(level) for want in one.members.values())


def _has(
    info: CacheInfo,
    level: str,
    classes: Sequence[ClassDemand],
    optional: Collection[str],
    notes: list[str],
) -> bool:
    """Whether ways of the level can be given, which somebody wants."""
    resources = info.of_level(level)
    who = next(name for one in classes for name, want in one.members.items() if want.uses(level))
    if not resources:
        told = f"{who} asks for ways of {level}, and this machine cannot allocate {level}"
        if level not in optional:
            raise PlanError(f"{told} (`unis doctor` tells what it can)")
        notes.append(f"{told}: left out, for {level} is optional")
        return False
    known = set(resources[0].domains)
    for one in classes:
        for name, want in one.members.items():
            if unknown := want.domains(level) - known:
                raise PlanError(
                    f"{name} asks for ways of {level} {min(unknown)}, and there is {level} "
                    f"{', '.join(map(str, sorted(known)))}"
                )
    return True


def _given_to_io(info: CacheInfo, ways: int) -> IoWays:
    resources = info.of_level("L3")
    able = [one for one in resources if one.io_alloc in (IO_ALLOC_ENABLED, "disabled")]
    if not able:
        raise PlanError(
            f"{ways} ways are to be given to I/O, and resctrl cannot: it has no io_alloc here "
            "(AMD Zen 5 and later, Linux 6.19)"
        )
    l3 = able[0]
    if not l3.least <= ways < l3.ways:
        raise PlanError(f"{ways} ways are to be given to I/O: {l3.least} to {l3.ways - 1} can be")
    mask = mask_of(l3.ways - ways, ways)
    told = "DMA fills the ways that io_alloc gives it"
    return IoWays("io_alloc", told, dict.fromkeys(l3.domains, mask), dict(l3.way_bytes))


def _limits(
    bandwidth: Bandwidth | None,
    classes: Sequence[ClassDemand],
    optional: Collection[str],
    notes: list[str],
) -> dict[str, dict[int, int]]:
    """By group and cache ID, of all classes; empty where nobody wants a limit."""
    limited = [one for one in classes if one.bandwidth is not None]
    if not limited:
        return {}
    if bandwidth is None:
        told = f"{limited[0].name} has a limit on memory bandwidth, and this machine has none (MBA)"
        if BANDWIDTH not in optional:
            raise PlanError(f"{told} (`unis doctor` tells what it has)")
        notes.append(f"{told}: left out, for {BANDWIDTH} is optional")
        return {}
    found = {}
    for one in classes:
        limit = bandwidth.most if one.bandwidth is None else one.bandwidth
        if not bandwidth.min_bandwidth <= limit <= bandwidth.most:
            raise PlanError(
                f"{one.name} may take {limit} {bandwidth.unit} of memory bandwidth: "
                f"{bandwidth.min_bandwidth} to {bandwidth.most} can be"
            )
        step = bandwidth.bandwidth_gran
        rounded = min(bandwidth.most, -(-limit // step) * step)
        if rounded != limit:
            notes.append(f"{one.name} may take {rounded} {bandwidth.unit}, the step above {limit}")
        found[one.group] = dict.fromkeys(bandwidth.domains, rounded)
    return found


def taken_by_others(
    info: CacheInfo, strangers: Sequence[OtherGroup], *, io: bool = False
) -> list[str]:
    """Whose classes of service there are besides functions'; `io`: I/O is to get one."""
    others = ["everybody else's", *(f"the group {one.name}'s" for one in strangers)]
    if io or any(cache.io_alloc == IO_ALLOC_ENABLED for cache in info.caches.values()):
        others.append("I/O's")
    return others


def _count_classes(
    info: CacheInfo, classes: Sequence[ClassDemand], strangers: Sequence[OtherGroup], io: bool
) -> None:
    others = taken_by_others(info, strangers, io=io)
    if classes and len(classes) + len(others) > info.num_closids:
        left = max(0, info.num_closids - len(others))
        raise PlanError(
            f"{len(classes)} classes of service are asked for and {left} are left: there are "
            f"{info.num_closids} (CLOSIDs), of which {len(others)} are {', '.join(others)}; let "
            "functions share a class, or remove groups"
        )


def _monitors(
    info: CacheInfo,
    classes: Sequence[ClassDemand],
    strangers: Sequence[OtherGroup],
    notes: list[str],
) -> dict[str, tuple[str, ...]]:
    """MON groups for the members of classes that several share, where there are RMIDs for all."""
    shared = {
        one.group: tuple(GROUP_PREFIX + name for name in sorted(one.members))
        for one in classes
        if len(one.members) > 1
    }
    if info.monitoring is None:
        return {}
    groups = 1 + len(classes) + sum(1 + one.monitors for one in strangers)
    if groups > info.monitoring.num_rmids:
        raise PlanError(
            f"{groups} groups need as many RMIDs, and there are {info.monitoring.num_rmids}"
        )
    if groups + sum(map(len, shared.values())) > info.monitoring.num_rmids:
        notes.append(
            f"functions that share a class are not counted apart: there are only "
            f"{info.monitoring.num_rmids} RMIDs"
        )
        return {}
    return shared


def _may_be_exclusive(
    one: ClassDemand,
    masks: Schemata,
    info: CacheInfo,
    strangers: Sequence[OtherGroup],
    notes: list[str],
) -> bool:
    """Only who has ways of its own everywhere can."""
    for cache in info.caches.values():
        resources = info.of_level(level(cache.name))
        for domain in cache.domains:
            shared = any(
                masks[cache.name][domain] & of.mask([it.name for it in resources], domain)
                for of in strangers
                if domain in masks.get(cache.name, {})
            )
            if shared or not one.ways(level(cache.name), domain):
                notes.append(
                    f"{one.name} is not in resctrl's mode `exclusive`: it has no ways of its own "
                    f"in {level(cache.name)} {domain}"
                )
                return False
    return True


def _place(one: ClassPlan, member: str) -> str:
    monitor = GROUP_PREFIX + member
    return inside(one.name, f"{MON_GROUPS}/{monitor}") if monitor in one.monitors else one.name


def _masks_there(
    there: CachePlan | None, info: CacheInfo, level: str, domain: int
) -> dict[str, int]:
    if there is None:
        return {}
    name = info.of_level(level)[0].name
    return {one.name: one.schemata.get(name, {}).get(domain, 0) for one in there.classes}

"""Requests and a machine become masks of classes. Pure; the order of the requests does not matter.

Ways for I/O stay free of functions (ResQ, section 4: DMA's ways are not CAT's to give). The root's
class has what is left, else it shares the ways of I/O.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from unis.isolate.hardware import IoWays
from unis.isolate.info import IO_ALLOC_DISABLED, IO_ALLOC_ENABLED, CacheInfo, CacheResource
from unis.isolate.masks import lay_out, longest_run, mask_of, runs, union
from unis.isolate.request import GROUP_PREFIX, CacheRequest, ClassRequest, PlanError, classes_of
from unis.isolate.schemata import Schemata
from unis.isolate.state import EXCLUSIVE, GroupState
from unis.isolate.tree import MON_GROUPS, inside

_NO_IO = IoWays("none", "no ways for DMA are known")


@dataclass(frozen=True)
class ClassPlan:
    """A group of the tree."""

    name: str
    members: tuple[str, ...]
    schemata: Schemata
    monitors: tuple[str, ...]  # MON groups, of a class that several share one each


@dataclass(frozen=True)
class CachePlan:
    """Everything that is decided before anything is written."""

    classes: tuple[ClassPlan, ...]
    default: Schemata  # of the root, whose class is everybody else's
    places: Mapping[str, str]  # by member, the group for its threads; the root's is empty
    io: IoWays
    io_alloc: Mapping[int, int] = field(default_factory=dict)  # to be set; empty: left as it is
    notes: tuple[str, ...] = ()

    @property
    def schemata(self) -> dict[str, Schemata]:
        """By group, for the next plan."""
        return {clos.name: clos.schemata for clos in self.classes}


def plan(
    requests: Mapping[str, CacheRequest],
    info: CacheInfo,
    io: IoWays = _NO_IO,
    *,
    io_alloc: int | None = None,
    foreign: Mapping[str, GroupState] | None = None,
    previous: Mapping[str, Schemata] | None = None,
) -> CachePlan:
    """The plan for all requests; PlanError says what was asked and what there is.

    `io_alloc`: ways that resctrl gives to I/O. `foreign`: groups of others, by name. `previous`: of
    groups; one whose ways are as many as before keeps them if it can.
    """
    foreign = foreign or {}
    notes: list[str] = []
    classes = classes_of(requests)
    if io_alloc is not None:
        io = _given_to_io(info, io_alloc)
    resources = info.of_level("L3")
    if classes and not resources:
        raise PlanError(
            f"{classes[0].name} asks for ways of L3, and this machine cannot allocate L3 (`unis "
            "doctor` tells what it can)"
        )
    _count_classes(info, classes, foreign, io_alloc is not None)

    groups = [*(clos.group for clos in classes), ""]
    masks: dict[str, dict[int, int]] = {group: {} for group in groups}  # by cache ID
    for domain in resources[0].domains if classes else ():
        cache = _Cache(resources, domain, io, foreign, notes)
        for group, mask in cache.divide(classes, previous or {}).items():
            masks[group][domain] = mask
    schemata: dict[str, Schemata] = {
        group: dict.fromkeys((resource.name for resource in resources), values)
        for group, values in masks.items()
    }
    monitors = _monitors(info, classes, foreign, notes)
    places = dict.fromkeys(requests, "")
    for clos in classes:
        for member in clos.members:
            monitor = GROUP_PREFIX + member
            is_monitored = monitor in monitors.get(clos.group, ())
            places[member] = (
                inside(clos.group, f"{MON_GROUPS}/{monitor}") if is_monitored else clos.group
            )
    return CachePlan(
        classes=tuple(
            ClassPlan(
                name=clos.group,
                members=clos.members,
                schemata=schemata[clos.group],
                monitors=monitors.get(clos.group, ()),
            )
            for clos in classes
        ),
        default=schemata[""],
        places=places,
        io=io,
        io_alloc=dict(io.masks) if io_alloc is not None else {},
        notes=tuple(dict.fromkeys(notes)),
    )


class _Cache:
    """One cache, whose ways are divided."""

    def __init__(
        self,
        resources: Sequence[CacheResource],
        domain: int,
        io: IoWays,
        foreign: Mapping[str, GroupState],
        notes: list[str],
    ) -> None:
        self._resource = resources[0]
        self._domain, self._name = domain, f"L3 {domain}"
        self._least = max(resource.least for resource in resources)
        self._io = union(resource.shareable_bits for resource in resources)
        self._io |= io.masks.get(domain, 0)
        self._foreign = {name: state.mask(resources, domain) for name, state in foreign.items()}
        self._taken = {
            name: mask for name, mask in self._foreign.items() if foreign[name].mode == EXCLUSIVE
        }
        self._notes = notes

    def divide(
        self, classes: Sequence[ClassRequest], previous: Mapping[str, Schemata]
    ) -> dict[str, int]:
        """A mask for each group, the root's among them."""
        sizes = self._sizes(classes)
        free = self._resource.cbm_mask & ~self._io & ~union(self._taken.values())
        before = {
            name: schemata.get(self._resource.name, {}).get(self._domain, 0)
            for name, schemata in previous.items()
        }
        masks = lay_out(sizes, free, before)
        if masks is None:
            raise PlanError(self._too_many(sizes, free))
        ours = union(masks.values())
        default = self._default(free & ~ours)
        for name, mask in sorted(self._foreign.items()):
            if mask & ours:
                self._notes.append(
                    f"the group {name}, which is not UNiS', has ways {mask & ours:x} of "
                    f"{self._name} too: what is there is not isolated from it"
                )
        return masks | {"": default}

    def _sizes(self, classes: Sequence[ClassRequest]) -> dict[str, int]:
        for clos in classes:
            if clos.ways < self._least:
                self._notes.append(
                    f"{clos.name} asks for {clos.ways} way of L3 and gets {self._least}, the "
                    "fewest that a class may have here"
                )
        return {clos.group: max(clos.ways, self._least) for clos in classes}

    def _default(self, left: int) -> int:
        """The root's: the most neighbouring ways that nobody has, else those of I/O."""
        for mask in (left, self._io):
            first, length = longest_run(mask)
            if length >= self._least:
                if mask != left:
                    self._notes.append(
                        f"everybody else shares the ways of I/O in {self._name}, for functions "
                        "have all others"
                    )
                return mask_of(first, length)
        raise PlanError(
            f"nothing of {self._name} is left for everybody else, whose class cannot be empty: "
            "ask for a way less"
        )

    def _too_many(self, sizes: Mapping[str, int], free: int) -> str:
        listed = ", ".join(
            f"{name.removeprefix(GROUP_PREFIX)} {ways}" for name, ways in sorted(sizes.items())
        )
        asked = sum(sizes.values())
        sentence = (
            f"{asked} ways of {self._name} are asked for ({listed}); of its "
            f"{self._resource.ways} ways {free.bit_count()} are free"
        )
        held = [f"{self._io.bit_count()} are I/O's"] if self._io else []
        held += [f"{mask.bit_count()} the group {name}'s" for name, mask in self._taken.items()]
        if held:
            sentence += f" ({', '.join(held)})"
        if asked <= free.bit_count():
            lengths = ", ".join(str(length) for _, length in runs(free))
            sentence += f", but a class needs neighbours, and those are {lengths}"
        return sentence


# ---------------------------------------------------------------- what the machine has


def _given_to_io(info: CacheInfo, ways: int) -> IoWays:
    able = [
        cache
        for cache in info.of_level("L3")
        if cache.io_alloc in (IO_ALLOC_ENABLED, IO_ALLOC_DISABLED)
    ]
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


def other_classes(info: CacheInfo, foreign: Iterable[str], *, io: bool = False) -> list[str]:
    """The owners of classes other than functions'; `io`: I/O is to get one."""
    others = ["everybody else's", *(f"the group {name}'s" for name in foreign)]
    if io or any(cache.io_alloc == IO_ALLOC_ENABLED for cache in info.caches.values()):
        others.append("I/O's")
    return others


def _count_classes(
    info: CacheInfo, classes: Sequence[ClassRequest], foreign: Iterable[str], io: bool
) -> None:
    others = other_classes(info, foreign, io=io)
    if classes and len(classes) + len(others) > info.num_closids:
        left = max(0, info.num_closids - len(others))
        raise PlanError(
            f"{len(classes)} classes of service are asked for and {left} are left: there are "
            f"{info.num_closids} (CLOSIDs), of which {len(others)} are {', '.join(others)}; let "
            "functions share a class, or remove groups"
        )


def _monitors(
    info: CacheInfo,
    classes: Sequence[ClassRequest],
    foreign: Mapping[str, GroupState],
    notes: list[str],
) -> dict[str, tuple[str, ...]]:
    """MON groups for the members of classes that several share, if there are RMIDs for all."""
    if info.monitoring is None:
        return {}
    shared = {
        clos.group: tuple(GROUP_PREFIX + name for name in clos.members)
        for clos in classes
        if len(clos.members) > 1
    }
    groups = 1 + len(classes) + sum(1 + len(state.monitors) for state in foreign.values())
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

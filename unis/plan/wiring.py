"""The links of a chain file, and which port of which function is on which. Needs no machine."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from unis import links
from unis.chain import defaults
from unis.chain.model import Chain, ChainFile, Link
from unis.chain.problem import Problem
from unis.chain.values import EGRESS, INGRESS
from unis.engine.limits import limit
from unis.links.kind import EndName, LinkPlan, MemifPlan
from unis.plan.ports import Way, ways

# Bytes. Each memif has its own, by which it is known; an odd number of cache lines, so that the
# buffers of a ring begin in every set of a cache and not in a few.
_LEAST_BUFFER, _BUFFER_STEP = 2112, 128

# Debian builds DPDK for 32 in a group of processes; one is for the engine's own use.
MOST_PORTS = 31

Stretch = tuple[str, str]


@dataclass(frozen=True)
class Ends:
    """The links of a port."""

    rx: str = ""
    tx: str = ""
    client: bool = False  # of a memif


@dataclass
class Wiring:
    """Everything that packets pass."""

    own: frozenset[str]  # functions of their own DPDK group
    names: "_Names"
    links: dict[str, LinkPlan] = field(default_factory=dict)
    ports: dict[str, list[Ends]] = field(default_factory=dict)  # by function
    ways: dict[str, dict[str, Way]] = field(default_factory=dict)  # by function and chain
    ingress: dict[str, str] = field(default_factory=dict)  # by chain
    egress: dict[str, str] = field(default_factory=dict)
    # By chain: for each stretch of its path the links one behind the other, bridged if two.
    stretches: dict[str, list[list[str]]] = field(default_factory=dict)
    direct: set[str] = field(default_factory=set)  # functions with a memif to another function


def wire(
    file: ChainFile,
    directory: Path,
    rings: Mapping[str, int],
    folders: Mapping[str, Path] | None = None,
    there: Iterable[LinkPlan] = (),
) -> Wiring:
    """The wiring of `file`; `rings` says how many slots those of each chain have. Sockets of memif
    are in the `folders` of their functions (see `unis.plan.users`), of functions that have none in
    `directory`.

    Of the links that are `there` already, those that stay what they are keep their names.
    """
    wiring = Wiring(on_memif(file), _Names(file, there))
    own = wiring.own
    for name in file.functions:
        wiring.ways[name] = ways(file, name, own)
        count = 1 + max(max(way) for way in wiring.ways[name].values())
        wiring.ports[name] = [Ends() for _ in range(count)]
    # The way back uses the memifs of the way there.
    for forward in (True, False):
        for name, chain in file.chains.items():
            if (chain.reverse_of is None) == forward:
                _Weaver(file, wiring, directory, folders or {}, name, rings[name]).weave()
    return wiring


def on_memif(file: ChainFile) -> frozenset[str]:
    """A link says it for the function behind it; else a command is on memif, all else on rings."""
    stated = {link.to: link.kind for link in file.links if link.to != EGRESS}
    return frozenset(
        name
        for name, function in file.functions.items()
        if stated.get(name, "ring" if function.command is None else "memif") == "memif"
    )


def ring_slots(file: ChainFile, chain: str, stretch: Stretch, otherwise: int) -> int:
    """Of the ring there, if there is one; `otherwise`: those of the chain's rings."""
    stated = _stated(file, chain, stretch)
    return (stated.slots if stated and stated.kind == "ring" else None) or otherwise


def memif_slots(file: ChainFile, chain: str, stretch: Stretch) -> int:
    """Of the memif there, if there is one, each way; the way back has that of the way there."""
    if (forward := file.chains[chain].reverse_of) is not None:
        chain, stretch = forward, _turned(stretch)
    stated = _stated(file, chain, stretch)
    return (stated.slots if stated and stated.kind == "memif" else None) or defaults.MEMIF


def _turned(stretch: Stretch) -> Stretch:
    ends = {INGRESS: EGRESS, EGRESS: INGRESS}
    origin, to = stretch
    return ends.get(to, to), ends.get(origin, origin)


def _stated(file: ChainFile, chain: str, stretch: Stretch) -> Link | None:
    """What the file states for it, or for the same stretch of the way back."""
    links_of = {(link.origin, link.to): link for link in file.links}
    there_and_back = any(other.reverse_of == chain for other in file.chains.values())
    return links_of.get(stretch) or (links_of.get(_turned(stretch)) if there_and_back else None)


def link_problems(file: ChainFile, wiring: Wiring) -> list[Problem]:
    """What is wrong with the links that the file states."""
    found: list[Problem] = []
    for at, link in enumerate(file.links):
        most = links.KINDS[link.kind].most_slots
        if link.slots is not None and link.slots > most:
            found.append(
                Problem(
                    ("links", at, "slots"), f"{link.slots} slots; a {link.kind} has up to {most}"
                )
            )
        if link.kind == "memif" and link.to == EGRESS and link.origin not in wiring.own:
            found.append(
                Problem(
                    ("links", at),
                    f"`{link.origin}` receives from a ring, so it sends to one; make the link to "
                    f"`{link.origin}` a memif too, or leave this one out",
                )
            )
        if link.kind == "ring" and {link.origin, link.to} <= wiring.own:
            found.append(
                Problem(
                    ("links", at),
                    f"`{link.origin}` and `{link.to}` are of DPDK groups of their own, which share "
                    "no ring; leave this link out",
                )
            )
    return found


def process_problems(file: ChainFile, wiring: Wiring) -> list[Problem]:
    """What is wrong with the processes, as their links are."""
    return [*_queue_problems(file, wiring), *_too_many_ports(file, wiring)]


def _queue_problems(file: ChainFile, wiring: Wiring) -> Iterator[Problem]:
    for name, function in file.functions.items():
        if function.queues != 1 and name not in wiring.own:
            yield Problem(
                ("functions", name, "queues"), "is of memif ports; one on rings has one queue"
            )
    stretches = {stretch for chain in file.chains for stretch in file.boundaries(chain)}
    for before, behind in sorted(stretches):
        if {before, behind} <= wiring.own:
            counts = file.functions[before].queues, file.functions[behind].queues
            if counts[0] != counts[1]:
                yield Problem(
                    ("functions", behind, "queues"),
                    f"`{before}` has {counts[0]} queues and `{behind}` {counts[1]}; both ends of a "
                    "memif have as many, or nothing passes",
                )


def _too_many_ports(file: ChainFile, wiring: Wiring) -> list[Problem]:
    most_each = limit("FunctionConfig.ports").max_items
    found = [
        Problem(
            ("functions", name),
            f"has {len(ports)} ports for its chains and {most_each} at most; run the program a "
            "second time under another name",
        )
        for name, ports in wiring.ports.items()
        if len(ports) > most_each
    ]
    traffic = sum(end.kind == "port" for end in (file.traffic.source, file.traffic.sink))
    on_rings = sum(len(ports) for name, ports in wiring.ports.items() if name not in wiring.own)
    if (count := on_rings + traffic) > MOST_PORTS:
        found.append(
            Problem(
                ("functions",),
                f"{on_rings} ports on rings and {traffic} of traffic are {count}, more than the "
                f"{MOST_PORTS} that DPDK has for a group of processes; spread them over several "
                "chain files",
            )
        )
    return found


class _Weaver:
    """The links of one chain."""

    def __init__(
        self,
        file: ChainFile,
        wiring: Wiring,
        directory: Path,
        folders: Mapping[str, Path],
        chain: str,
        slots: int,  # of each of its rings, but where the file says otherwise
    ) -> None:
        self._file = file
        self._wiring = wiring
        self._directory = directory
        self._folders = folders
        self._name = chain
        self._chain: Chain = file.chains[chain]
        self._slots = slots
        self._made = 0

    def weave(self) -> None:
        """Adds the chain's links to the wiring."""
        stretches = self._wiring.stretches[self._name] = []
        for stretch in self._file.boundaries(self._name):
            before, behind = (end in self._wiring.own for end in stretch)
            passed: list[str] = []
            if not before:
                passed.append(self._ring(stretch, sends=True, receives=not behind))
            if before or behind:
                passed.append(self._memif(stretch))
            if before and not behind:
                passed.append(self._ring(stretch, sends=False, receives=True))
            stretches.append(passed)
        self._wiring.ingress[self._name] = stretches[0][0]
        self._wiring.egress[self._name] = stretches[-1][-1]

    def _ring(self, stretch: Stretch, *, sends: bool, receives: bool) -> str:
        slots = ring_slots(self._file, self._name, stretch, self._slots)
        name = self._add(stretch, "ring", slots)
        if sends and stretch[0] != INGRESS:
            self._put(stretch[0], self._out(stretch[0]), tx=name)
        if receives and stretch[1] != EGRESS:
            self._put(stretch[1], self._in(stretch[1]), rx=name)
        return name

    def _memif(self, stretch: Stretch) -> str:
        before, behind = stretch
        ports = self._wiring.ports
        if self._chain.reverse_of is not None:
            there = ports[behind][self._in(behind)] if behind in self._wiring.own else None
            return (there or ports[before][self._out(before)]).rx
        direct = {before, behind} <= self._wiring.own
        slots = memif_slots(self._file, self._name, stretch)
        end: EndName = "none" if direct else "server"
        folder = self._folders.get(behind) or self._folders.get(before) or self._directory
        theirs = self._file.functions[behind if behind in self._wiring.own else before]
        name = self._add(stretch, "memif", slots, end, folder, theirs.queues)
        # A client needs its server there: of two functions the one that is started first. (The
        # engine is there before all of them.)
        order = list(self._file.functions)
        served = direct and order.index(before) > order.index(behind)
        if behind in self._wiring.own:
            self._put(behind, self._in(behind), rx=name, tx=name, client=not served)
        if before in self._wiring.own:
            self._put(before, self._out(before), rx=name, tx=name, client=served or not direct)
        if direct:
            self._wiring.direct.update(stretch)
        return name

    def _add(
        self,
        stretch: Stretch,
        kind: str,
        slots: int,
        end: EndName = "none",
        folder: Path | None = None,  # of its socket
        queues: int = 1,
    ) -> str:
        part = sum(link.stretch == (self._name, *stretch) for link in self._wiring.links.values())
        place = LinkPlan("", kind, slots, None, (self._name, *stretch), part)
        wanted = end, folder or self._directory, queues
        name, there = self._wiring.names.choose(place, self._made, wanted)
        self._made += 1
        memif = there.memif if there else None
        if kind == "memif" and memif is None:
            number = self._wiring.names.memif()
            buffer = _LEAST_BUFFER + _BUFFER_STEP * number
            memif = MemifPlan(wanted[1] / f"{name}.sock", number, buffer, end, queues)
        self._wiring.links[name] = replace(place, name=name, memif=memif)
        return name

    def _put(self, function: str, port: int, **ends: str | bool) -> None:
        ports = self._wiring.ports[function]
        ports[port] = replace(ports[port], **ends)  # type: ignore[arg-type]

    def _in(self, function: str) -> int:
        return self._wiring.ways[function][self._name][0]

    def _out(self, function: str) -> int:
        return self._wiring.ways[function][self._name][1]


class _Names:
    """Names of links and numbers of memifs, so that a link which stays what it is keeps them."""

    def __init__(self, file: ChainFile, there: Iterable[LinkPlan]) -> None:
        self._there = {link.name: link for link in there}
        self._by_place = {(link.stretch, link.part): link for link in self._there.values()}
        self._stretches = {(name, *way) for name in file.chains for way in file.boundaries(name)}
        self._used: set[str] = set()
        self._memifs = {link.memif.id for link in self._there.values() if link.memif}

    def choose(
        self, wanted: LinkPlan, at: int, memif: tuple[EndName, Path, int]
    ) -> tuple[str, LinkPlan | None]:
        """A name for a link that is the chain's `at`th; and the link that is there and stays."""
        stays = self._by_place.get((wanted.stretch, wanted.part))
        if stays is None or not _alike(stays, wanted, memif):
            chain = wanted.stretch[0]
            numbers = itertools.chain([at], itertools.count())
            names = (f"{chain}.{number}" for number in numbers)
            name = next(name for name in names if self._free(name, wanted, memif))
            stays = self._there.get(name)
        else:
            name = stays.name
        self._used.add(name)
        return name, stays

    def _free(self, name: str, wanted: LinkPlan, memif: tuple[EndName, Path, int]) -> bool:
        if name in self._used:
            return False
        there = self._there.get(name)
        # One whose place is gone may have another.
        return there is None or (
            there.stretch not in self._stretches and _alike(there, wanted, memif)
        )

    def memif(self) -> int:
        """A number that no memif has, nor had before."""
        number = next(at for at in itertools.count() if at not in self._memifs)
        self._memifs.add(number)
        return number


def _alike(there: LinkPlan, wanted: LinkPlan, memif: tuple[EndName, Path, int]) -> bool:
    return (there.kind, there.slots) == (wanted.kind, wanted.slots) and (
        there.memif is None
        or (there.memif.engine_end, there.memif.socket.parent, there.memif.queues) == memif
    )

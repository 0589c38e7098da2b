"""What a placement looks like: servers on which the same lies, with ways and cores by function."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from unis.slo.cores import SharedMachine, SharedPlacement
from unis.slo.placement import PlacedMachine, Placement
from unis.slo.profile import Workload


@dataclass(frozen=True)
class WayBlock:
    """Neighbouring ways of one class of service."""

    first: int
    ways: tuple[tuple[str, int], ...]  # of each function in it

    @property
    def width(self) -> int:
        """Its ways."""
        return sum(ways for _, ways in self.ways)


@dataclass(frozen=True)
class Used:
    """A core: the load that each function puts on it; its own function's is not told (None)."""

    loads: tuple[tuple[str, float | None], ...]

    @property
    def load(self) -> float | None:
        """Of all; None: it is one function's."""
        if any(load is None for _, load in self.loads):
            return None
        return sum(load or 0.0 for _, load in self.loads)


@dataclass(frozen=True)
class Row:
    """Sockets on which the same lies: a server's, where it has one."""

    server: str
    count: int
    ways: int
    cores: int
    blocks: tuple[WayBlock, ...]
    used: tuple[Used, ...]

    @property
    def free_ways(self) -> int:
        """In no class."""
        return self.ways - sum(block.width for block in self.blocks)


def rows(workload: Workload, placement: Placement) -> list[Row]:
    """The kinds of a placement with a core for each function, the most frequent first."""
    functions = {slo.name: slo.profile.name for slo in workload.slos}
    cores = {slo.name: slo.profile.cores for slo in workload.slos}
    kinds = Counter(
        (machine.server, tuple(sorted(on, key=_largest)))
        for machine in placement.machines
        for on in _sockets(machine, functions, cores)
    )
    servers = {server.name: server for server in workload.servers}
    found = []
    for (name, on), count in kinds.most_common():
        blocks = _laid(((function, ways),) for function, ways, _ in on)
        used = tuple(Used(((function, None),)) for function, _, many in on for _ in range(many))
        server = servers[name]
        found.append(Row(name, count, server.ways, server.cores, blocks, used))
    return found


def rows_of_shared(workload: Workload, placement: SharedPlacement) -> list[Row]:
    """Rows of a placement with shared cores. Loads differ, so most rows are one server."""
    functions = {slo.name: slo.profile.name for slo in workload.slos}
    servers = {server.name: server for server in workload.servers}
    kinds = Counter((machine.server, _cores(machine, functions)) for machine in placement.machines)
    return [
        Row(
            name, count, servers[name].ways, servers[name].cores,
            _laid(itertools.chain.from_iterable(classes for classes, _ in cores)),
            tuple(Used(loads) for _, loads in cores),
        )
        for (name, cores), count in kinds.most_common()
    ]  # fmt: skip


ANY = "any function"


def by_ways(rows_of: Iterable[Row]) -> list[Row]:
    """The same where it does not matter which function has what, nor how full a core is."""
    kinds: Counter[tuple[str, int, int, tuple[int, ...], int]] = Counter()
    for row in rows_of:
        widths = tuple(sorted((block.width for block in row.blocks), reverse=True))
        kinds[row.server, row.ways, row.cores, widths, len(row.used)] += row.count
    return [
        Row(
            server, count, ways, cores, _laid(((ANY, width),) for width in widths),
            (Used(((ANY, None),)),) * used,
        )
        for (server, ways, cores, widths, used), count in kinds.most_common()
    ]  # fmt: skip


def functions_of(rows_of: Iterable[Row]) -> list[str]:
    """Names of the functions in the picture, sorted."""
    return sorted({name for row in rows_of for block in row.blocks for name, _ in block.ways})


_Functions = tuple[tuple[str, int], ...]  # ways of each
_Classes = tuple[_Functions, ...]  # of a core
_Loads = tuple[tuple[str, float | None], ...]


def _sockets(
    machine: PlacedMachine, functions: Mapping[str, str], cores: Mapping[str, int]
) -> Iterator[list[tuple[str, int, int]]]:
    """(function, ways, cores) of what is on each socket that is used."""
    by_socket: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for instance in machine.instances:
        slo = instance.slo
        by_socket[instance.socket].append((functions[slo], instance.ways, cores[slo]))
    yield from by_socket.values()


def _cores(
    machine: SharedMachine, functions: Mapping[str, str]
) -> tuple[tuple[_Classes, _Loads], ...]:
    found = []
    for core in machine.cores:
        classes: dict[int, Counter[str]] = defaultdict(Counter)  # by mask
        loads: dict[str, float] = defaultdict(float)
        for part in core.parts:
            classes[part.mask][functions[part.slo]] += part.ways
            loads[functions[part.slo]] += part.load
        laid = sorted((tuple(sorted(ways.items())) for ways in classes.values()), key=_widest)
        shares = tuple((name, round(load, 4)) for name, load in sorted(loads.items()))
        found.append((tuple(laid), shares))
    found.sort(key=lambda core: (sum(map(_width, core[0])), repr(core)), reverse=True)
    return tuple(found)


def _width(functions: _Functions) -> int:
    return sum(ways for _, ways in functions)


def _widest(functions: _Functions) -> tuple[int, _Functions]:
    return -_width(functions), functions


def _laid(classes: Iterable[_Functions]) -> tuple[WayBlock, ...]:
    blocks: list[WayBlock] = []
    first = 0
    for functions in classes:
        blocks.append(WayBlock(first, functions))
        first += blocks[-1].width
    return tuple(blocks)


def _largest(placed: tuple[str, int, int]) -> tuple[int, str]:
    function, ways, _ = placed
    return -ways, function


def total(rows_of: Sequence[Row]) -> int:
    """Sockets of all kinds."""
    return sum(row.count for row in rows_of)

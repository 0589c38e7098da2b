"""The fewest machines, with a proof: promises as their splits, machines as patterns, a cover.

ResQ's program (appendix A) has a variable for each instance on each machine. But machines of a kind
are alike, and so are promises with the same minimal splits, so only numbers matter: of machines of
each pattern, of promises of a kind that are split so or so. An instance fits into a place with as
many ways or more; all instances fit if for each number of ways there are as many places with that
many or more as there are instances (Hall's condition, for the sets are nested). The program has
some hundreds of variables, however many promises and machines there are.

Where functions have more than one core, or memory bandwidth counts, `column_generation` does it.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from unis.slo.column_generation import by_sockets
from unis.slo.placement import Instance, NoRoomError, PlacedMachine, Placement, Refusal, of_sockets
from unis.slo.profile import Server, Workload, most_ways, only_ways
from unis.slo.program import InfeasibleError, Program
from unis.slo.splits import CannotBeKeptError, Pattern, Split, patterns, splits_of

_SECONDS = 60.0  # to prove it
_EPSILON = 1e-6


@dataclass(frozen=True)
class SloGroup:
    """Promises with the same splits: (name, which) of each."""

    splits: tuple[Split, ...]
    slos: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Cover:
    """How many of each."""

    machines: Mapping[tuple[str, Pattern], int]  # or sockets, where a server has several
    splits: Mapping[tuple[int, Split], int]  # by kind
    bound: float  # machines, perhaps not whole; not finite where none was proven

    @property
    def fewest(self) -> int:
        """Machines that no placement goes below."""
        return max(0, math.ceil(self.bound - _EPSILON)) if math.isfinite(self.bound) else 0


def exact(workload: Workload, *, seconds: float = _SECONDS, gap: float = 0.0) -> Placement:
    """Places all promises that can be kept on the fewest machines.

    `gap`: a placement with so many more machines than the bound, by that, is good enough. Raises
    NoRoomError where the servers are too few.
    """
    if not only_ways(workload):
        return by_sockets(workload, seconds, gap)
    began = time.monotonic()
    kinds, refused = kinds_of(workload)
    if not kinds:
        return Placement((), refused, 0, time.monotonic() - began)
    cover = solve(kinds, workload.servers, seconds, gap)
    machines = filled(cover, kinds)
    if any(server.sockets > 1 for server in workload.servers):
        machines = of_sockets(
            ((machine.server, machine.instances) for machine in machines),
            {server.name: server.sockets for server in workload.servers},
        )
    return Placement(machines, refused, cover.fewest, time.monotonic() - began)


def kinds_of(workload: Workload) -> tuple[list[SloGroup], list[Refusal]]:
    """The promises by their splits, and those that cannot be kept."""
    ways = most_ways(workload.servers)
    found: dict[tuple[Split, ...], list[tuple[str, int]]] = defaultdict(list)
    refused: list[Refusal] = []
    for slo in workload.slos:
        try:
            splits = splits_of(slo, workload.margin, ways)
        except CannotBeKeptError as error:
            refused.append(Refusal(slo.name, str(error), error.tried))
            continue
        found[splits] += [(slo.name, at) for at in range(slo.count)]
    return [SloGroup(splits, tuple(slos)) for splits, slos in found.items()], refused


def solve(
    kinds: Sequence[SloGroup], servers: Sequence[Server], seconds: float, gap: float
) -> Cover:
    """How many machines of each pattern, and promises with each split. Raises NoRoomError."""
    program = Program()
    places = [program.row() for _ in range(most_ways(servers))]
    machines: list[tuple[tuple[str, Pattern], int]] = []
    for server in servers:
        if server.sockets == 1:
            cost, there = 1.0, program.row(-math.inf, server.count)
        else:  # servers are a column of their own, for so many sockets each
            cost, there = 0.0, program.row(-math.inf, 0.0)
            program.column(1.0, {there: -float(server.sockets)}, server.count, whole=True)
        for pattern in patterns(server.ways, server.places):
            rows = {there: 1.0, **at_least(places, pattern, 1)}
            machines.append(((server.name, pattern), program.column(cost, rows, whole=True)))
    splits: list[tuple[tuple[int, Split], int]] = []
    for at, kind in enumerate(kinds):
        promises = program.row(len(kind.slos), len(kind.slos))
        for split in kind.splits:
            rows = {promises: 1.0, **at_least(places, split, -1)}
            splits.append(((at, split), program.column(0.0, rows, whole=True)))
    try:
        found = program.solve(seconds, gap=gap)
    except InfeasibleError:
        told = "the servers cannot hold these promises, whatever is placed where"
        raise NoRoomError(told) from None
    if found is None:
        raise NoRoomError(f"no placement was found within {seconds:g} s")
    values = [round(value) for value in found.values]
    return Cover(
        {key: values[column] for key, column in machines if values[column]},
        {key: values[column] for key, column in splits if values[column]},
        found.bound,
    )


def at_least(rows: Sequence[int], sizes: Sequence[int], sign: int) -> dict[int, float]:
    """How many have 1, 2, … ways or more, by the row of each."""
    counts = _counts_at_least(tuple(sizes))
    return {rows[ways]: sign * count for ways, count in enumerate(counts)}


# Each update of prices counts the same patterns and splits.
@lru_cache(maxsize=1 << 14)
def _counts_at_least(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sum(size > ways for size in sizes) for ways in range(max(sizes)))


def filled(cover: Cover, kinds: Sequence[SloGroup]) -> list[PlacedMachine]:
    """The i-th largest instance into the i-th largest place."""
    machines: list[PlacedMachine] = []
    places: list[tuple[int, int]] = []  # (ways, machine)
    for (server, pattern), count in cover.machines.items():
        for _ in range(count):
            places += [(ways, len(machines)) for ways in pattern]
            machines.append(PlacedMachine(server))
    instances: list[Instance] = []
    for at, kind in enumerate(kinds):
        splits = Counter(
            {split: count for (kind_at, split), count in cover.splits.items() if kind_at == at}
        )
        for (name, which), split in zip(kind.slos, splits.elements(), strict=True):
            instances += [Instance(name, which, ways) for ways in split]
    places.sort(reverse=True)
    instances.sort(key=lambda instance: -instance.ways)
    for instance, (ways, at) in zip(instances, places, strict=False):
        if instance.ways > ways:
            raise AssertionError("a place is too small for its instance")
        machines[at].add(instance)
    return [machine for machine in machines if machine.instances]

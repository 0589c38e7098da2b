"""What fits on a socket where that is more than ways: cores, a class, memory, the NIC.

An instance bears its promise's traffic by what it passes itself, beside the others, so all of them
have the same load; and moves so many bytes a packet, by its ways. So what it takes of the memory's
bandwidth depends on the whole split, and with more ways it may take less: splits that are not
minimal in ways count too. They also count where a promise is too much for one NIC.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from unis.slo.placement import Refusal
from unis.slo.profile import Flow, Server, Slo, Workload, most_ways
from unis.slo.splits import (
    ENOUGH,
    MOST_INSTANCES,
    CannotBeKeptError,
    Split,
    draws,
    minimal_splits,
    rates,
    splits_of,
)

THOUSAND = 1e3  # flows are counted in thousand units/s, whole numbers
Ints = npt.NDArray[np.int64]
_MOST_SPLITS = 20_000  # into so many instances: all are looked at
_FEWER_SPLITS = 2_000  # where there are several flows, which take longer to compare
_NOISE = 1e-4  # thousand units/s
_KBPS = 1e6  # in a GB/s


class Size(tuple[int, ...]):
    """What an instance takes of a socket: cores, ways, and of each flow, rounded up."""

    __slots__ = ()

    @classmethod
    def of(cls, cores: int, ways: int, *flows: int) -> Self:
        """From its parts."""
        return cls((cores, ways, *flows))

    @property
    def cores(self) -> int:
        """The first part."""
        return self[0]

    @property
    def ways(self) -> int:
        """The second part."""
        return self[1]

    @property
    def flows(self) -> tuple[int, ...]:
        """Thousand units/s of each flow of the workload."""
        return self[2:]

    def within(self, other: "Size") -> bool:
        """Whether it takes no more of anything."""
        return all(take <= have for take, have in zip(self, other, strict=True))


class Room(NamedTuple):
    """What functions can have of a socket."""

    size: Size
    places: int  # classes of service for functions


Content = tuple[int, ...]  # of a socket: indices of sizes, growing


def table_of(sizes: Sequence[Size], width: int) -> Ints:
    """A row for each; `width`: parts of a size."""
    return np.array(sizes, np.int64).reshape(-1, width)


def holds(sizes: Sequence[Size], room: Room) -> bool:
    """Whether all of these fit on a socket."""
    takes = zip(*sizes, strict=True)
    return len(sizes) <= room.places and all(
        sum(take) <= have for take, have in zip(takes, room.size, strict=bool(sizes))
    )


@dataclass(frozen=True)
class Task:
    """What a promise wants, and what an instance of its function is able to."""

    cores: int  # of an instance
    mpps: float  # promised
    rates: tuple[float, ...]  # Mpps of an instance in time, with 1, 2, … ways
    draws: tuple[tuple[float, ...], ...]  # of each flow then, thousand units/s

    def sizes(self, split: Split) -> tuple[Size, ...]:
        """Of each instance."""
        flows = self.flows(np.array([split], np.int64))[0].tolist()
        return tuple(
            Size.of(self.cores, ways, *taken) for ways, taken in zip(split, flows, strict=True)
        )

    def passed(self, ways: Ints) -> npt.NDArray[np.float64]:
        """Mpps of each row's instances; ways of 0 are none."""
        passed: npt.NDArray[np.float64] = np.array([0.0, *self.rates])[ways].sum(axis=1)
        return passed

    def flows(self, ways: Ints) -> Ints:
        """Of each instance of each row, rounded up: (rows, instances, flows)."""
        load = self.mpps / self.passed(ways)
        none = (0.0,) * len(self.draws[0])
        taken = np.array([none, *self.draws])[ways] * load[:, None, None]
        return np.maximum(0, np.ceil(taken - _NOISE)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Demand:
    """Promises that are alike: which they are, and what they can be split into, a row each."""

    slos: tuple[tuple[str, int], ...]  # (name, which)
    task: Task
    ways: Ints  # of each instance; 0 behind the last
    flows: Ints  # of each instance; 0 behind the last
    most: int  # instances of a split
    # Every split into so many at most is there, or one that takes no more; of the others up to
    # `most` some are.
    listed: int

    def split(self, row: int) -> Split:
        """One of them."""
        return tuple(int(ways) for ways in self.ways[row] if ways)


@dataclass(frozen=True)
class SocketProblem:
    """What is to be placed, on what."""

    demands: Sequence[Demand]
    servers: Sequence[Server]
    rooms: Sequence[Room]  # a socket of each server


def room_of(server: Server, workload: Workload) -> Room:
    """A socket of it, with what functions may have of each flow."""
    flows: list[int] = []
    if workload.memory is not None:
        flows.append(math.floor((server.memory_gbps or 0.0) * workload.memory * _KBPS))
    if workload.nics is not None:
        flows += [math.floor(each / THOUSAND) for each in workload.nics.capacities[server.name]]
    return Room(Size.of(server.cores, server.ways, *flows), server.classes - 1)


def problem_of(workload: Workload, instances: int = 1) -> tuple[SocketProblem, list[Refusal]]:
    """The promises, those alike together, and those that cannot be kept.

    `instances`: of a promise, to be tried at least where there are flows; MOST_INSTANCES at most.
    """
    rooms = [room_of(server, workload) for server in workload.servers]
    slos: dict[Task, list[Slo]] = defaultdict(list)
    demands: dict[Task, Demand] = {}
    refused: list[Refusal] = []
    for slo in workload.slos:
        try:
            task = task_of(slo, workload)
            if task not in demands:
                demands[task] = _demand(slo, task, workload, rooms, instances)
        except CannotBeKeptError as error:
            refused.append(Refusal(slo.name, str(error), error.tried))
            continue
        slos[task].append(slo)
    alike = [
        replace(
            demands[task],
            slos=tuple((slo.name, at) for slo in group for at in range(slo.count)),
        )
        for task, group in slos.items()
    ]
    return SocketProblem(alike, workload.servers, rooms), refused


def task_of(slo: Slo, workload: Workload) -> Task:
    """Raises CannotBeKeptError where an instance passes nothing in time."""
    ways, margin, memory = most_ways(workload.servers), workload.margin, workload.memory
    passed = rates(slo, margin, ways, memory)
    flows: list[tuple[float, ...]] = []
    if memory is not None:
        flows.append(tuple(gbps * _KBPS for gbps in draws(slo, margin, ways, memory)))
    if workload.nics is not None:
        flows += [
            tuple(mpps * 1e6 * units / THOUSAND for mpps in passed)
            for units in workload.nics.takes[slo.packet]
        ]
    by_ways = tuple(zip(*flows, strict=True)) or ((),) * ways
    return Task(slo.profile.cores, slo.mpps, passed, by_ways)


def _demand(
    slo: Slo, task: Task, workload: Workload, rooms: Sequence[Room], instances: int
) -> Demand:
    """With its splits, of which each instance fits on some socket."""
    if not workload.flows:  # what is minimal in ways is enough
        table = _padded([_rows(splits_of(slo, workload.margin, len(task.rates)))])
        most = listed = MOST_INSTANCES
    else:
        if slo.mpps > MOST_INSTANCES * task.rates[0] + ENOUGH:
            raise CannotBeKeptError(
                f"{slo.name}: not tried: {slo.mpps:.3g} Mpps may take more than {MOST_INSTANCES} "
                f"instances; ask for promises of {MOST_INSTANCES * task.rates[0]:.3g} Mpps or less",
                tried=False,
            )
        table, most, listed = _with_flows(task, rooms, instances)
    flows = task.flows(table)
    fits = _fits(task.cores, table, flows, rooms)
    if not fits.any():
        size = Size.of(task.cores, int(table[-1].max()), *flows[-1].max(axis=0).tolist())
        raise CannotBeKeptError(
            f"{slo.name}: an instance of {slo.profile.name}, of {most} at most, takes "
            f"{told(size, workload.flows)}, which no socket has",
            tried=all(task.cores > room.size.cores for room in rooms),
        )
    return Demand((), task, table[fits], flows[fits], most, listed)


def told(size: Size, flows: Sequence[Flow]) -> str:
    """In words."""
    cores = f"{size.cores} core{'s' if size.cores > 1 else ''}"
    ways = f"{size.ways} way{'s' if size.ways > 1 else ''}"
    rest = [
        f"{taken / flow.scale:.3g} {flow.unit} of {flow.name}"
        for taken, flow in zip(size.flows, flows, strict=True)
        if taken
    ]
    return f"{cores}, {ways}" + (f" and {', '.join(rest)}" if rest else "")


def _fits(cores: int, ways: Ints, flows: Ints, rooms: Sequence[Room]) -> npt.NDArray[np.bool_]:
    """Each row: whether each instance finds room on some socket."""
    somewhere = np.zeros(ways.shape, np.bool_)
    for room in rooms:
        if cores <= room.size.cores:
            enough = (flows <= np.array(room.size.flows, np.int64)).all(axis=2)
            somewhere |= (ways <= room.size.ways) & enough
    return np.array(somewhere.all(axis=1))


def _with_flows(task: Task, rooms: Sequence[Room], instances: int) -> tuple[Ints, int, int]:
    """(splits, instances at most, instances up to which all splits are there)."""
    useful = _useful(task)
    fewest = math.ceil((task.mpps - ENOUGH) / task.rates[-1])
    most = math.ceil((task.mpps - ENOUGH) / task.rates[0])
    most = max(most, instances, _fitting(task, useful, fewest, rooms))
    found: list[Ints] = []
    listed = fewest - 1
    all_up_to = _MOST_SPLITS if len(task.draws[0]) <= 1 else _FEWER_SPLITS
    while listed < most and math.comb(len(useful) + listed, listed + 1) <= all_up_to:
        listed += 1
        found.append(_rows([*combinations_with_replacement(reversed(useful), listed)]))
    if listed < most:  # some of the others: minimal in ways, and of equal instances
        minimal = minimal_splits(task.rates, task.mpps)
        for count in range(listed + 1, most + 1):
            found.append(_equal(useful, count))
            found.append(_rows([split for split in minimal if len(split) == count]))
    return _with_sizes(task, _padded(found))[0], most, listed


def _fitting(task: Task, useful: Sequence[int], fewest: int, rooms: Sequence[Room]) -> int:
    """The fewest equal instances that may be on any socket with cores for them.

    What instances enough of one way each pass may still be too much of a flow for one socket.
    """
    able = [room for room in rooms if task.cores <= room.size.cores and useful[0] <= room.size.ways]
    for count in range(fewest, MOST_INSTANCES + 1):
        ways, flows = _with_sizes(task, _equal(useful, count))
        if all(_fits(task.cores, ways, flows, [room]).any() for room in able):
            return count
    return MOST_INSTANCES


def _with_sizes(task: Task, ways: Ints) -> tuple[Ints, Ints]:
    """(ways, flows) of those that pass what is promised."""
    ways = ways[task.passed(ways) >= task.mpps - ENOUGH]
    return ways, task.flows(ways)


def _useful(task: Task) -> list[int]:
    """Numbers of ways with which an instance passes more than with fewer, or moves less."""
    found: list[int] = []
    for ways, (passed, moved) in enumerate(zip(task.rates, task.draws, strict=True), 1):
        if not any(
            task.rates[less - 1] >= passed and _no_more(task.draws[less - 1], moved)
            for less in found
        ):
            found.append(ways)
    return found


def _no_more(takes: Sequence[float], than: Sequence[float]) -> bool:
    return all(take <= have for take, have in zip(takes, than, strict=True))


def _equal(useful: Sequence[int], count: int) -> Ints:
    return np.repeat(np.array(useful, np.int64)[:, None], count, axis=1)


def _rows(splits: Sequence[Split]) -> Ints:
    longest = max(map(len, splits), default=0)
    table = np.zeros((len(splits), longest), np.int64)
    for row, split in enumerate(splits):
        table[row, : len(split)] = split
    return table


def _padded(tables: Sequence[Ints]) -> Ints:
    longest = max(table.shape[1] for table in tables)
    return np.concatenate(
        [np.pad(table, ((0, 0), (0, longest - table.shape[1]))) for table in tables]
    )

"""What fits on a socket where that is more than ways: cores, a class, memory.

An instance bears its promise's traffic by what it passes itself, beside the others, so all of them
have the same load; and moves so many bytes a packet, by its ways. So what it takes of the memory's
bandwidth depends on the whole split, and with more ways it may take less: splits that are not
minimal in ways count too.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unis.slo.placement import Refusal
from unis.slo.profile import Server, Slo, Workload, most_ways
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

KBPS = 1e6  # in a GB/s
Ints = npt.NDArray[np.int64]
_MOST_SPLITS = 20_000  # into so many instances: all are looked at
_NOISE = 1e-4  # kB/s


class Size(NamedTuple):
    """Of an instance: what it takes of a socket."""

    cores: int
    ways: int
    memory: int  # kB/s, rounded up; 0 where memory is not looked at

    def within(self, other: "Size") -> bool:
        """Whether it takes no more of anything."""
        return self.cores <= other.cores and self.ways <= other.ways and self.memory <= other.memory


class Room(NamedTuple):
    """What functions can have of a socket."""

    size: Size
    places: int  # classes of service for functions


Content = tuple[int, ...]  # of a socket: indices of sizes, growing


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
    draws: tuple[float, ...]  # GB/s that it moves then; 0 where memory is not looked at

    def sizes(self, split: Split) -> tuple[Size, ...]:
        """Of each instance."""
        memory = self.memory(np.array([split], np.int64))[0].tolist()
        return tuple(Size(self.cores, *needed) for needed in zip(split, memory, strict=True))

    def passed(self, ways: Ints) -> npt.NDArray[np.float64]:
        """Mpps of each row's instances; ways of 0 are none."""
        passed: npt.NDArray[np.float64] = np.array([0.0, *self.rates])[ways].sum(axis=1)
        return passed

    def memory(self, ways: Ints) -> Ints:
        """kB/s of each instance of each row, rounded up."""
        load = self.mpps / self.passed(ways)
        kbps = np.array([0.0, *self.draws])[ways] * load[:, None] * KBPS
        return np.maximum(0, np.ceil(kbps - _NOISE)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Demand:
    """Promises that are alike: which they are, and what they can be split into, a row each."""

    slos: tuple[tuple[str, int], ...]  # (name, which)
    task: Task
    ways: Ints  # of each instance; 0 behind the last
    memory: Ints  # kB/s of each instance; 0 behind the last
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


def room_of(server: Server, memory: float | None) -> Room:
    """A socket of it, with so much of the memory's bandwidth for functions."""
    kbps = 0 if memory is None else math.floor((server.memory_gbps or 0.0) * memory * KBPS)
    return Room(Size(server.cores, server.ways, kbps), server.classes - 1)


def problem_of(workload: Workload) -> tuple[SocketProblem, list[Refusal]]:
    """The promises, those alike together, and those that cannot be kept."""
    rooms = [room_of(server, workload.memory) for server in workload.servers]
    slos: dict[Task, list[Slo]] = defaultdict(list)
    demands: dict[Task, Demand] = {}
    refused: list[Refusal] = []
    for slo in workload.slos:
        try:
            task = task_of(slo, workload.servers, workload.margin, workload.memory)
            if task not in demands:
                demands[task] = _demand(slo, task, workload, rooms)
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


def task_of(slo: Slo, servers: Sequence[Server], margin: float, memory: float | None) -> Task:
    """Raises CannotBeKeptError where an instance passes nothing in time."""
    ways = most_ways(servers)
    passed = rates(slo, margin, ways, memory)
    moved = (0.0,) * ways if memory is None else draws(slo, margin, ways, memory)
    return Task(slo.profile.cores, slo.mpps, passed, moved)


def _demand(slo: Slo, task: Task, workload: Workload, rooms: Sequence[Room]) -> Demand:
    """With its splits, of which each instance fits on some socket."""
    if workload.memory is None:  # what is minimal in ways is enough
        table = _padded([_rows(splits_of(slo, workload.margin, len(task.rates)))])
        most = listed = MOST_INSTANCES
    else:
        if slo.mpps > MOST_INSTANCES * task.rates[0] + ENOUGH:
            raise CannotBeKeptError(
                f"{slo.name}: not tried: {slo.mpps:.3g} Mpps may take more than {MOST_INSTANCES} "
                f"instances; ask for promises of {MOST_INSTANCES * task.rates[0]:.3g} Mpps or less",
                tried=False,
            )
        table, most, listed = _with_memory(task, rooms)
    memory = task.memory(table)
    fits = _fits(task.cores, table, memory, rooms)
    if not fits.any():
        size = Size(task.cores, int(table[-1].max()), int(memory[-1].max()))
        raise CannotBeKeptError(
            f"{slo.name}: an instance of {slo.profile.name}, of {most} at most, takes {told(size)},"
            " which no socket has",
            tried=listed == most,
        )
    return Demand((), task, table[fits], memory[fits], most, listed)


def told(size: Size) -> str:
    """In words."""
    cores = f"{size.cores} core{'s' if size.cores > 1 else ''}"
    ways = f"{size.ways} way{'s' if size.ways > 1 else ''}"
    return f"{cores}, {ways}" + (f" and {size.memory / KBPS:.3g} GB/s" if size.memory else "")


def _fits(cores: int, ways: Ints, memory: Ints, rooms: Sequence[Room]) -> npt.NDArray[np.bool_]:
    """Each row: whether each instance finds room on some socket."""
    somewhere = np.zeros(ways.shape, np.bool_)
    for room in rooms:
        if cores <= room.size.cores:
            somewhere |= (ways <= room.size.ways) & (memory <= room.size.memory)
    return np.array(somewhere.all(axis=1))


def _with_memory(task: Task, rooms: Sequence[Room]) -> tuple[Ints, int, int]:
    """(splits, instances at most, instances up to which all splits are there)."""
    useful = _useful(task)
    fewest = math.ceil((task.mpps - ENOUGH) / task.rates[-1])
    most = math.ceil((task.mpps - ENOUGH) / task.rates[0])
    most = max(most, _fitting(task, useful, fewest, rooms))
    found: list[Ints] = []
    listed = fewest - 1
    while listed < most and math.comb(len(useful) + listed, listed + 1) <= _MOST_SPLITS:
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

    What instances enough of one way each pass may still be too much of the memory for one socket.
    """
    able = [room for room in rooms if task.cores <= room.size.cores and useful[0] <= room.size.ways]
    for count in range(fewest, MOST_INSTANCES + 1):
        ways, memory = _with_sizes(task, _equal(useful, count))
        if all(_fits(task.cores, ways, memory, [room]).any() for room in able):
            return count
    return MOST_INSTANCES


def _with_sizes(task: Task, ways: Ints) -> tuple[Ints, Ints]:
    """(ways, memory) of those that pass what is promised."""
    ways = ways[task.passed(ways) >= task.mpps - ENOUGH]
    return ways, task.memory(ways)


def _useful(task: Task) -> list[int]:
    """Numbers of ways with which an instance passes more than with fewer, or moves less."""
    found: list[int] = []
    for ways, (passed, moved) in enumerate(zip(task.rates, task.draws, strict=True), 1):
        if not any(
            task.rates[less - 1] >= passed and task.draws[less - 1] <= moved for less in found
        ):
            found.append(ways)
    return found


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

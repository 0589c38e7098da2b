"""What is worth the most on one socket: of cores, ways, classes and memory, by instances' values.

Dynamic programming over places, cores, ways and a grid of the memory's bandwidth. Rounded down to
the grid it tells what no socket can be worth more than, and rounded up what one can hold; where the
two differ HiGHS decides.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import highspy
import numpy as np
import numpy.typing as npt

from unis.slo.linear import LinearProgram
from unis.slo.sizes import Room, Size

Content = tuple[int, ...]  # indices of sizes, growing
FINE = 384  # grid of the memory's bandwidth of a socket
COARSE = 64
_EPSILON = 1e-9

_Table = npt.NDArray[np.float64]


def roomier(room: Room) -> Room:
    """Which holds whatever the room truly holds, although sizes are rounded up to a kB/s."""
    more = room.size._replace(memory=room.size.memory + room.places + 1)
    return room._replace(size=more)


def holds(sizes: Sequence[Size], room: Room) -> bool:
    """Whether all of these fit on a socket."""
    return (
        len(sizes) <= room.places
        and sum(size.cores for size in sizes) <= room.size.cores
        and sum(size.ways for size in sizes) <= room.size.ways
        and sum(size.memory for size in sizes) <= room.size.memory
    )


@dataclass(frozen=True)
class Knapsack:
    """The best contents by what is left; stage n is of n instances at most."""

    stages: Sequence[_Table]
    values: Sequence[float]
    steps: Sequence[tuple[int, int, int]]  # what each takes of the grid
    of: Sequence[int]  # which size that is

    @property
    def value(self) -> float:
        """The most that a socket can be worth."""
        return float(self.stages[-1][-1, -1, -1])

    def contents(self, least: float) -> Iterator[tuple[float, Content]]:
        """(value, content), the best first, worth more than `least`; the best with each size."""
        if len(self.stages) < 2:
            return
        full = tuple(length - 1 for length in self.stages[-1].shape)
        found: list[tuple[float, int]] = []
        for item, step in enumerate(self.steps):
            left = tuple(have - take for have, take in zip(full, step, strict=True))
            if min(left) >= 0:
                value = self.values[item] + float(self.stages[-2][left])
                found.append((value, item))
        for value, item in sorted(found, reverse=True):
            if value <= least:
                return
            yield value, tuple(sorted(self._back(item, full)))

    def _back(self, item: int, at: tuple[int, ...]) -> Iterator[int]:
        """What is in the best content with `item`."""
        stage = len(self.stages) - 2
        steps, values = np.array(self.steps), np.array(self.values)
        yield self.of[item]
        left = np.array(at) - steps[item]
        while stage > 0 and (value := self.stages[stage][tuple(left)]) > _EPSILON:
            before = self.stages[stage - 1]
            stage -= 1
            if before[tuple(left)] >= value:
                continue
            behind = left - steps
            fits = np.flatnonzero((behind >= 0).all(axis=1))
            core, way, part = behind[fits].T
            other = fits[int((values[fits] + before[core, way, part]).argmax())]
            yield self.of[other]
            left = behind[other]


def knapsack(
    sizes: Sequence[Size], values: Sequence[float], room: Room, *, up: bool, grid: int = FINE
) -> Knapsack:
    """Of any number of each size. `up`: what is found fits; else none that fits is worth more."""
    chosen = worth_it(sizes, values, room)
    one_core = all(sizes[at].cores == 1 for at in chosen)
    room = room if up else roomier(room)
    places = min(room.places, room.size.cores) if one_core else room.places
    cores = 0 if one_core else room.size.cores
    memory = grid if any(sizes[at].memory for at in chosen) and room.size.memory else 0
    steps = [
        (0 if one_core else sizes[at].cores, sizes[at].ways, _step(sizes[at], room, memory, up))
        for at in chosen
    ]
    stages: list[_Table] = [np.zeros((cores + 1, room.size.ways + 1, memory + 1))]
    for _ in range(places):
        before = stages[-1]
        now = before.copy()
        for at, (core, way, part) in zip(chosen, steps, strict=True):
            if core <= cores and way <= room.size.ways and part <= memory:
                there = now[core:, way:, part:]
                rows, columns, depth = there.shape
                np.maximum(there, before[:rows, :columns, :depth] + values[at], out=there)
        if np.array_equal(now, before):
            break
        stages.append(now)
    return Knapsack(stages, [values[at] for at in chosen], steps, chosen)


def _step(size: Size, room: Room, grid: int, up: bool) -> int:
    if not grid:
        return 0
    part = size.memory * grid
    return -(-part // room.size.memory) if up else part // room.size.memory


def worth_it(sizes: Sequence[Size], values: Sequence[float], room: Room) -> list[int]:
    """Those with a value that fit, without those that another, which takes no more, is worth.

    No two of `sizes` are equal.
    """
    able = [at for at, size in enumerate(sizes) if values[at] > _EPSILON and size.within(room.size)]
    if not able:
        return []
    takes = np.array([sizes[at] for at in able])
    worth = np.array([values[at] for at in able])
    no_more = (takes[:, None, :] <= takes[None, :, :]).all(axis=2)
    as_good = worth[:, None] >= worth[None, :]
    np.fill_diagonal(as_good, False)
    beaten = np.array((no_more & as_good).any(axis=0))
    return [at for at, out in zip(able, beaten, strict=True) if not out]


def proven(
    sizes: Sequence[Size], values: Sequence[float], room: Room, seconds: float
) -> tuple[float, Content]:
    """(what no socket is worth more than, the best that was found), by HiGHS."""
    chosen = worth_it(sizes, values, room)
    if not chosen:
        return 0.0, ()
    room = roomier(room)
    takes = np.array([[1, *sizes[at]] for at in chosen], dtype=float)
    have = np.array([room.places, *room.size], dtype=float)
    if not room.size.memory:
        takes, have = takes[:, :3], have[:3]
    else:  # parts of it, so that numbers are of one order
        takes[:, 3] /= have[3]
        have[3] = 1.0
    program = LinearProgram([-np.inf] * len(have), [*have])
    for at, take in zip(chosen, takes, strict=True):
        program.add(-values[at], dict(enumerate(take)), room.places)
    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("time_limit", seconds)
    solver.setOptionValue("mip_rel_gap", 1e-7)
    solver.passModel(program.highs(whole=True))
    solver.run()
    info = solver.getInfo()
    if not info.primal_solution_status:
        return float("inf"), ()
    found = solver.getSolution().col_value
    content = tuple(
        at for at, count in zip(chosen, found, strict=True) for _ in range(round(count))
    )
    return -info.mip_dual_bound, content

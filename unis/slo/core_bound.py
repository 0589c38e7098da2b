"""Numbers of machines that no placement on shared cores goes below.

`pooled` takes machines as one pool of cores and ways. A promise takes of it, with w ways, w of them
and a part of a core. A machine has no more than all of its ways and cores, so this is a bound.

`least_machines` is a relaxed program over all that a core could have if latencies did not count
but for the load that they allow, and promises were cut anywhere. For given prices all promises of
the best core but one are whole, and that one fills the core up: a linear program with one row. So
dynamic programming finds them exactly; what promises take of a core is rounded down. Whatever the
prices: if no core is worth more than `worth` beyond its ways and classes, the cores, ways and
classes of all machines together are worth as much as all promises. So each round gives a bound, and
the best of them counts.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unis.slo.cores import Wish
from unis.slo.profile import Server
from unis.slo.program import Program, Solution

_ROUNDS = 150
_STILL, _HARDLY = 25, 0.004  # machines in so many rounds: no more is to be had
_STEPS = 1000  # of a core
_EPSILON = 1e-7

Floats = NDArray[np.float64]
KnownCore = Sequence[tuple[int, float, int]]  # of which wish, how much of it, with how many ways


class MachineProgram:
    """Cores from as few machines as will do; grows, core by core.

    Machines count by what they have in all: cores, ways, classes of service.
    """

    def __init__(self, server: Server, wanted: int) -> None:
        """`wanted`: rows of what cores are to do."""
        self._program = Program()
        has = (server.places, server.ways, server.classes - 1)
        self._takes = [self._program.row() for _ in has]
        self._program.column(1.0, dict(zip(self._takes, map(float, has), strict=True)))
        self._wanted = [self._program.row(1.0) for _ in range(wanted)]

    def add(self, ways: int, classes: int, wanted: Sequence[int], done: Sequence[float]) -> None:
        """A kind of core: what it takes of machines, and how much it does of which rows."""
        rows = {self._wanted[row]: part for row, part in zip(wanted, done, strict=True)}
        takes = dict(zip(self._takes, (-1.0, -float(ways), -float(classes)), strict=True))
        self._program.column(0.0, takes | rows, whole=True)

    def relaxed(self) -> tuple[float, tuple[float, float, float], Floats]:
        """Machines; what a core, a way, a class more would save; what each row costs."""
        found = _some(self._program.solve(relaxed=True))
        core, way, klass, *rows = (max(0.0, dual) for dual in found.duals)
        return found.objective, (core, way, klass), np.array(rows)

    def whole(self, seconds: float, gap: float, enough: float, nodes: int) -> list[int]:
        """How many of each kind of core; empty: none was found."""
        found = self._program.solve(seconds, gap=gap, enough=enough, nodes=nodes)
        return [round(value) for value in found.values[1:]] if found else []


def pooled(wishes: Sequence[Wish], server: Server, full: float = 1.0) -> tuple[float, list[int]]:
    """Machines, and ways for each where cores get that full."""
    kinds: dict[tuple[float, ...], list[int]] = {}
    for at, wish in enumerate(wishes):
        kinds.setdefault(wish.shares, []).append(at)
    program = Program()
    ways, cores = program.row(), program.row()
    program.column(1.0, {ways: float(server.ways), cores: full * server.places})
    columns = []
    for shares, of in kinds.items():
        row = program.row(len(of), len(of))
        columns += [
            [
                program.column(0.0, {ways: -float(count), cores: -share, row: 1.0})
                for count, share in enumerate(shares, 1)
            ]
        ]
    found = _some(program.solve(relaxed=True))
    chosen = [1] * len(wishes)
    for of, of_ways in zip(kinds.values(), columns, strict=True):
        counts = [found.values[column] for column in of_ways]
        some = [ways for ways, count in enumerate(counts, 1) for _ in range(round(count))]
        most = max((ways for ways, count in enumerate(counts, 1) if count > _EPSILON), default=1)
        for number, at in enumerate(of):
            chosen[at] = some[number] if number < len(some) else most
    return found.objective, chosen


def _some(found: Solution | None) -> Solution:
    if found is None:
        raise AssertionError("as many machines as one likes hold all of it")
    return found


@dataclass(frozen=True)
class _Prices:
    core: float
    way: float
    klass: float
    promise: Floats

    def costs(self, ways: int) -> Floats:
        """With 1, 2, … ways; a class that may be shared counts nothing."""
        each = np.arange(1, ways + 1)
        return np.asarray(self.way * each + self.klass * (each > 1), dtype=np.float64)


def least_machines(
    wishes: Sequence[Wish], server: Server, known: Iterable[KnownCore], enough: float
) -> float:
    """Machines. What is above `enough` is not looked for; `known` are good cores to begin with."""
    promises, number = _promises(wishes)
    program = MachineProgram(server, len(promises))
    for at, shares in enumerate(promises):
        _add(program, {at: (min(1.0, 1 / float(shares[-1])), len(shares))})
    for good in known:
        _add(program, _summed((number[wish], part, ways) for wish, part, ways in good))
    highest = 0.0
    values: list[float] = []
    for _ in range(_ROUNDS):
        value, takes, promise = program.relaxed()
        values.append(value)
        prices = _Prices(*takes, promise)
        worth, parts = _best_core(promises, prices)
        machine = server.places * worth + server.ways * prices.way
        machine += (server.classes - 1) * prices.klass
        highest = max(highest, float(prices.promise.sum()) / machine)
        if highest > enough or worth <= prices.core + _EPSILON:
            break
        if len(values) > _STILL and values[-_STILL] - value < _HARDLY:
            break
        _add(program, parts)
    return highest


def _promises(wishes: Sequence[Wish]) -> tuple[list[Floats], list[tuple[int, int]]]:
    """What each takes of a core with 1, 2, … ways, may be above 1; and the promise of each wish.

    One that needs several cores was made into equal wishes: (number, how many).
    """
    found: dict[tuple[str, int], list[Wish]] = {}
    for wish in wishes:
        found.setdefault((wish.slo.name, wish.at), []).append(wish)
    promises = [np.array(of[0].shares) * len(of) for of in found.values()]
    place = {key: (at, len(of)) for at, (key, of) in enumerate(found.items())}
    return promises, [place[wish.slo.name, wish.at] for wish in wishes]


def _summed(parts: Iterable[tuple[tuple[int, int], float, int]]) -> dict[int, tuple[float, int]]:
    found: dict[int, tuple[float, int]] = {}
    for (at, wishes), part, ways in parts:
        of = found.get(at, (0.0, 0))
        found[at] = of[0] + part / wishes, of[1] + ways
    return found


def _add(program: MachineProgram, parts: Mapping[int, tuple[float, int]]) -> None:
    """A core with so much of each promise, with so many ways."""
    ways = [of for _, of in parts.values()]
    done = [part for part, _ in parts.values()]
    program.add(sum(ways), sum(of > 1 for of in ways), [*parts], done)


def _best_core(
    promises: Sequence[Floats], prices: _Prices
) -> tuple[float, dict[int, tuple[float, int]]]:
    """What the core is worth that is worth most; of each promise how much, with so many ways."""
    best = np.zeros(_STEPS + 1)
    left = (np.arange(_STEPS, -1, -1) + 1) / _STEPS  # of the core, at most
    filled, filled_by = np.zeros(_STEPS + 1), np.full((2, _STEPS + 1), -1)
    chosen: list[tuple[int, NDArray[np.int64]]] = []
    for at, shares in enumerate(promises):
        worth = float(prices.promise[at])
        if worth <= 0:
            continue
        costs = prices.costs(len(shares))
        parts = np.minimum(1.0, left[:, None] / shares) * worth - costs
        ways = parts.argmax(axis=1)
        gain = parts[np.arange(_STEPS + 1), ways]
        more = gain > filled
        filled[more], filled_by[0, more], filled_by[1, more] = gain[more], at, ways[more]
        after, choice = best.copy(), np.full(_STEPS + 1, -1)
        for with_ways, (share, cost) in enumerate(zip(shares, costs, strict=True)):
            size = math.floor(share * _STEPS)
            if share > 1 + _EPSILON or worth <= cost:
                continue
            whole = best[: _STEPS + 1 - size] + worth - cost
            better = whole > after[size:]
            after[size:][better] = whole[better]
            choice[size:][better] = with_ways
        best = after
        chosen.append((at, choice))
    step = int((best + filled).argmax())
    filling, ways_of_it = int(filled_by[0, step]), int(filled_by[1, step])
    parts_of_it = _traced(promises, chosen, step)
    if filling >= 0:  # also where it is there whole: valued too high, it is still a bound
        fills = min(1.0, float(left[step] / promises[filling][ways_of_it]))
        whole, with_ways = parts_of_it.get(filling, (0.0, 0))
        parts_of_it[filling] = (whole + fills, with_ways + ways_of_it + 1)
    return float(best[step] + filled[step]), parts_of_it


def _traced(
    promises: Sequence[Floats], chosen: Sequence[tuple[int, NDArray[np.int64]]], step: int
) -> dict[int, tuple[float, int]]:
    parts: dict[int, tuple[float, int]] = {}
    for at, choice in reversed(chosen):
        ways = int(choice[step])
        if ways >= 0:
            parts[at] = (1.0, ways + 1)
            step -= math.floor(promises[at][ways] * _STEPS)
    return parts

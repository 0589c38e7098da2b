"""A number of machines that no placement on shared cores goes below.

A relaxed program as in `core_cover.py`, over all that a core could have if latencies did not count
but for the load that they allow, and promises were cut anywhere. Of the best cores for given prices
all promises but one are whole then, and that one fills the core up: a linear program with one row.
So they are found exactly, by dynamic programming; what promises take of a core is rounded down.

Whatever the prices: if no core is worth more than `best` beyond its ways and classes, the cores,
ways and classes of all machines together are worth as much as all promises. So each round gives a
bound, and the best of them counts.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unis.slo.cores import Wish
from unis.slo.machine_program import FIRST, MachineProgram
from unis.slo.profile import Server

_ROUNDS = 150
_STILL, _HARDLY = 25, 0.004  # machines in so many rounds: no more is to be had
_STEPS = 1000  # of a core
_EPSILON = 1e-7

Floats = NDArray[np.float64]
KnownCore = Sequence[tuple[int, float, int]]  # of which wish, how much of it, with how many ways


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
        value, price = program.relaxed()
        values.append(value)
        core, way, klass, *_ = price.tolist()
        prices = _Prices(core, way, klass, price[FIRST:])
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
    program.add(sum(ways), sum(of > 1 for of in ways), [FIRST + at for at in parts], done)


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

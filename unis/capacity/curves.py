"""Throughput over packet sizes and chain lengths, and where the winner or the limit changes."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from unis.capacity.case import CapacityCase
from unis.capacity.resources import CapacityError
from unis.capacity.result import MILLION, CapacityCurve, CapacityPoint, Crossing
from unis.chain.defaults import MAX_SIZE, MIN_SIZE

_STEP = 16  # bytes between sizes of a curve
_LONGEST = 8  # functions of a curve; more where the chain is longer
_EQUAL = 1e-6  # a share by which two throughputs are one


@dataclass(frozen=True)
class Sweep:
    """What a curve is over."""

    over: str  # `bytes` or `functions`
    values: Sequence[int]
    case: Callable[[CapacityCase, int], CapacityCase]


def sweeps(case: CapacityCase) -> Iterator[Sweep]:
    """Over packet sizes; over lengths where all chains are paths."""
    steps = range(MIN_SIZE, MAX_SIZE, _STEP)
    yield Sweep("bytes", (*steps, MAX_SIZE), lambda of, size: of.of_size(size))
    if all(chain.is_path for chain in case.chains):
        longest = max(_LONGEST, *(2 * len(chain.functions) for chain in case.chains))
        yield Sweep("functions", range(1, longest + 1), lambda of, n: of.of_length(n))


def curves(cases: Mapping[str, CapacityCase], sweep: Sweep) -> list[CapacityCurve]:
    """A curve of each case; it ends where the machine lacks virtual functions."""
    return [
        CapacityCurve(name=name, over=sweep.over, points=list(_points(case, sweep, sweep.values)))
        for name, case in cases.items()
    ]


def _points(case: CapacityCase, sweep: Sweep, values: Sequence[int]) -> Iterator[CapacityPoint]:
    for value in values:
        try:
            found = sweep.case(case, value).answered().found
        except CapacityError:
            return
        limit = ", ".join(found.bottlenecks)
        yield CapacityPoint(at=value, total_mpps=found.total / MILLION, bottleneck=limit)


def crossings(
    cases: Mapping[str, CapacityCase], found: Sequence[CapacityCurve], sweep: Sweep
) -> Iterator[Crossing]:
    """Between neighbouring points of the curves each is looked for to the byte."""
    for curve in found:
        yield from _limits(cases[curve.name], curve, sweep)
    for first, second in itertools.pairwise(found):
        yield from _winners(cases, first, second, sweep)


def _limits(case: CapacityCase, curve: CapacityCurve, sweep: Sweep) -> Iterator[Crossing]:
    """Where another resource becomes the limit."""
    unit = sweep.over
    for before, after in zip(curve.points, curve.points[1:], strict=False):
        if before.bottleneck == after.bottleneck:
            continue

        def is_past(value: int, old: str = before.bottleneck) -> bool:
            return next(_points(case, sweep, [value])).bottleneck != old

        at = _first(before.at, after.at, is_past)
        told = f"{curve.name}: from {at} {unit} on the limit is {after.bottleneck}"
        yield Crossing(over=unit, at=at, told=f"{told}, before it {before.bottleneck}")


def _winners(
    cases: Mapping[str, CapacityCase], first: CapacityCurve, second: CapacityCurve, sweep: Sweep
) -> Iterator[Crossing]:
    """Where the one passes more than the other did."""
    names = (first.name, second.name)
    last: tuple[int, int] | None = None  # value, and who won there
    for one, other in zip(first.points, second.points, strict=False):
        winner = _winner(one.total_mpps, other.total_mpps)
        if last and winner != last[1]:
            old = last[1]

            def is_past(value: int, old: int = old) -> bool:
                rates = (next(_points(cases[name], sweep, [value])).total_mpps for name in names)
                return _winner(*rates) != old

            at = _first(last[0], one.at, is_past)
            yield Crossing(
                over=sweep.over, at=at,
                told=f"from {at} {sweep.over} on {_said(winner, *names)}; below, "
                f"{_said(old, *names)}",
            )  # fmt: skip
        last = (one.at, winner)


def _winner(one: float, other: float) -> int:
    if abs(one - other) <= _EQUAL * max(one, other):
        return 0
    return 1 if one > other else 2


def _said(winner: int, first: str, second: str) -> str:
    if not winner:
        return f"as much passes over {first} as over {second}"
    return f"more passes over {(first, second)[winner - 1]}"


def _first(low: int, high: int, is_past: Callable[[int], bool]) -> int:
    """The first value above `low` that is past; `high` is."""
    while high - low > 1:
        middle = (low + high) // 2
        if is_past(middle):
            high = middle
        else:
            low = middle
    return high

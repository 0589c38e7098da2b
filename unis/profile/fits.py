"""What was measured, made into a curve that never falls and, where it can, has the known shape.

Points that fall are pooled with their neighbours (isotonic regression). A curve that is concave or
convex as well is a sum of hinges with coefficients of at least 0, found by least squares. It is
taken where the points are of that shape but for their spread; else they stand as they are, and
sentences say where they are not of it, and by how much. Pure.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from unis.profile.bounds import KnownPoint, Reading, Shape, wrong_side
from unis.slo.profile import ImpossibleProfileError

_LEAST_SPREAD = 0.001  # of a value: what is known better than that weighs no more
_FALLS = 0.1  # of a value, beyond its spread: no cache and no load does that


@dataclass(frozen=True)
class Words:
    """How a curve is spoken of."""

    at: Callable[[float], str]  # with 5 ways
    value: Callable[[float], str]  # 87.8 %


@dataclass(frozen=True)
class Fit:
    """A value for each point that was measured, which never falls, and what was wrong with them."""

    values: Mapping[float, float]
    shaped: bool  # of the shape too
    remarks: tuple[str, ...] = ()


def fit(points: Mapping[float, Reading], shape: Shape, words: Words) -> Fit:
    """A curve through what was measured, by point, ascending.

    ImpossibleProfileError if there is none, one is not above 0, or throughput falls by more than
    a tenth, and than it varies, from one point to one with more cache.
    """
    refuse_impossible(points, shape, words)
    xs, readings = [*points], [*points.values()]
    weights = [1 / max(reading.spread, _LEAST_SPREAD * reading.value) ** 2 for reading in readings]
    values = [reading.value for reading in readings]
    remarks = falls(points, words)
    bends = wrong_bends(points, shape, words)
    if remarks:  # beyond the spread: what promises the least, not what is likely
        chosen = _careful(values, shape)
    elif not bends and len(xs) > 2:
        chosen = shaped(xs, values, weights, shape)
        if _misses(chosen, readings):  # neighbours are, all of them together are not
            chosen = isotonic(values, weights)
            bends = [f"taken together the points are not {shape.value} within their spread"]
    else:
        chosen = isotonic(values, weights)
    return Fit(
        dict(zip(xs, chosen, strict=True)), not (remarks or bends), (*remarks, *bends)
    )  # fmt: skip


def refuse_impossible(points: Mapping[float, Reading], shape: Shape, words: Words) -> None:
    """ImpossibleProfileError, as `fit` says."""
    if not points:
        raise ImpossibleProfileError("nothing was measured")
    for x, reading in points.items():
        if not 0 < reading.value < math.inf:
            raise ImpossibleProfileError(f"{words.value(reading.value)} was measured {words.at(x)}")
    if shape is not Shape.CONCAVE:
        return  # p95 may be longer where there is little to do: functions sleep
    for (x, more), (y, less), by in _falling(points):
        if by > _FALLS * more.value:
            raise ImpossibleProfileError(
                f"it passes {words.value(less.value)} {words.at(y)} and {words.value(more.value)} "
                f"{words.at(x)}, which no cache does: something else disturbed the measurement"
            )


def falls(points: Mapping[float, Reading], words: Words) -> list[str]:
    """Where values fall by more than they vary, as sentences."""
    return [
        f"{words.value(less.value)} {words.at(y)} is {words.value(more.value - less.value)} less "
        f"than {words.at(x)}, of which {words.value(by)} is more than it varies: it should not fall"
        for (x, more), (y, less), by in _falling(points)
    ]


def _falling(points: Mapping[float, Reading]) -> list[tuple[KnownPoint, KnownPoint, float]]:
    """Neighbours between which it falls by more than they vary, and by how much more."""
    found: list[tuple[KnownPoint, KnownPoint, float]] = []
    for left, here in pairwise(points.items()):
        fall = left[1].value - here[1].value
        beyond = fall - math.hypot(left[1].spread, here[1].spread)
        if beyond > 0:
            found.append((left, here, beyond))
    return found


def wrong_bends(points: Mapping[float, Reading], shape: Shape, words: Words) -> list[str]:
    """Points on the wrong side of the line between their neighbours, as sentences."""
    each = [*points.items()]
    side = "below" if shape is Shape.CONCAVE else "above"
    return [
        f"{words.value(three[1][1].value)} {words.at(three[1][0])} is {words.value(by)} {side} the "
        f"straight line between its neighbours, beyond what it varies: not {shape.value} there"
        for three in zip(each, each[1:], each[2:], strict=False)
        if (by := wrong_side(*three, shape))
    ]


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The nearest values that never fall, by weighted least squares."""
    from scipy.optimize import isotonic_regression  # takes a second to load

    return [float(value) for value in isotonic_regression(values, weights=weights).x]


def shaped(
    xs: Sequence[float], values: Sequence[float], weights: Sequence[float], shape: Shape
) -> list[float]:
    """The nearest, by least squares, that never fall and are concave or convex: at least one x.

    Every such curve through points is a constant and hinges, one for each: min(x, point) if it is
    concave, max(0, x − point) if it is convex, with coefficients of at least 0.
    """
    from scipy.optimize import nnls

    x = np.asarray(xs, dtype=np.float64)
    if shape is Shape.CONCAVE:
        hinges = np.minimum(x[:, None], x[None, 1:]) - x[0]
    else:
        hinges = np.maximum(0.0, x[:, None] - x[None, :-1])
    scale = np.maximum(hinges.max(axis=0), 1e-12) if hinges.size else np.ones(0)
    # The constant may be below 0: it is the difference of two that may not.
    ones = np.ones((len(x), 1))
    columns = np.hstack([ones, -ones, hinges / scale])
    roots = np.sqrt(np.asarray(weights, dtype=np.float64))
    size = float(np.abs(values).max()) or 1.0
    target = np.asarray(values, dtype=np.float64) / size
    found = columns @ nnls(columns * roots[:, None], target * roots)[0]
    # Not even by a rounding does it fall.
    return [float(value) * size for value in np.maximum.accumulate(found)]


def _misses(values: Sequence[float], readings: Sequence[Reading]) -> bool:
    pairs = zip(values, readings, strict=True)
    return any(
        abs(at - reading.value) > max(reading.spread, _LEAST_SPREAD * reading.value)
        for at, reading in pairs
    )


def _careful(values: Sequence[float], shape: Shape) -> list[float]:
    """Throughput no higher than with more cache, latency no lower than with less load."""
    if shape is Shape.CONCAVE:
        return [float(value) for value in np.minimum.accumulate(values[::-1])[::-1]]
    return [float(value) for value in np.maximum.accumulate(values)]

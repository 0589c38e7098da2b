"""How far a curve of a known shape can be off straight lines between what was measured. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

ROUNDING = 1e-9  # of a value


class Shape(Enum):
    """What a curve that never falls is known to do (ResQ, section 5.2)."""

    CONCAVE = "concave"  # throughput by ways: each way more brings less
    CONVEX = "convex"  # latency by load: each part more costs more
    GROWING = "growing"  # nothing but that it never falls


@dataclass(frozen=True)
class Reading:
    """What one measurement found."""

    value: float
    spread: float = 0.0  # half of the 95 % interval of the value, in its unit
    lost: float = 0.0  # of the packets offered
    disturbed: float = 0.0  # of the windows behind it, those that something else disturbed


KnownPoint = tuple[float, Reading]


def against(left: KnownPoint, here: KnownPoint, right: KnownPoint) -> tuple[float, float]:
    """How far a point is above the straight line between two others, and how far it need not be.

    The second is what the spreads of the three add up to.
    """
    part = (here[0] - left[0]) / (right[0] - left[0])
    line = left[1].value * (1 - part) + right[1].value * part
    noise = math.hypot(here[1].spread, left[1].spread * (1 - part), right[1].spread * part)
    return here[1].value - line, noise


def wrong_side(left: KnownPoint, here: KnownPoint, right: KnownPoint, shape: Shape) -> float:
    """How far a point is on the side of that line where the shape has none, beyond the spread."""
    above, noise = against(left, here, right)
    off = {Shape.CONCAVE: -above, Shape.CONVEX: above, Shape.GROWING: 0.0}[shape]
    return max(0.0, off - noise - ROUNDING * here[1].value)


def is_shaped(points: Sequence[KnownPoint], shape: Shape) -> bool:
    """Whether every point is, for its neighbours, on the side that the shape has."""
    threes = zip(points, points[1:], points[2:], strict=False)
    return all(wrong_side(*three, shape) == 0 for three in threes)


def bounds(known: Mapping[int, Reading], shape: Shape) -> dict[tuple[int, int], float]:
    """By gap between neighbours, of points with whole numbers: the most that is off, of its value.

    Between two neighbours a curve of the shape lies on one side of the straight line, and on the
    other of the lines through the neighbours on the left and right; and it does not fall. If the
    points do not have the shape, only the latter is used. Spreads widen the bound.
    """
    points: list[KnownPoint] = [(number, known[number]) for number in sorted(known)]
    if not is_shaped(points, shape):
        shape = Shape.GROWING
    return {
        (int(points[at][0]), int(points[at + 1][0])): _bound(points, at, shape)
        for at in range(len(points) - 1)
    }


def _bound(points: Sequence[KnownPoint], at: int, shape: Shape) -> float:
    (a, at_a), (b, at_b) = points[at : at + 2]
    lines = [points[at - 1 : at + 1], points[at + 1 : at + 3]] if at else [points[at + 1 : at + 3]]
    lines = [line for line in lines if len(line) == 2 and shape is not Shape.GROWING]
    most = 0.0
    for x in range(int(a) + 1, int(b)):
        here = at_a.value + (at_b.value - at_a.value) * (x - a) / (b - a)
        above = max(0.0, at_b.value - here) if shape is not Shape.CONVEX else 0.0
        below = max(0.0, here - at_a.value) if shape is not Shape.CONCAVE else 0.0
        for first, second in lines:
            # `above` of the line, were it drawn on to x.
            there = second[1].value - first[1].value
            part = (x - first[0]) / (second[0] - first[0])
            off = first[1].value + there * part - here
            noise = math.hypot(first[1].spread * (1 - part), second[1].spread * part)
            above = min(above, max(0.0, off + noise))
            below = min(below, max(0.0, noise - off))
        lowest = here - below
        off_below = below / lowest if lowest > 0 else math.inf
        most = max(most, above / (here + above), off_below)
    return most

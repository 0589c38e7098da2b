"""A curve from few measurements: recursive interpolation (ResQ, section 5.2). Pure.

Least, most and the point in the middle are measured. Where a straight line misses the middle by
more than a tolerance, each half is looked at in the same way. Two things are not as printed:

- A gap is not looked at where no curve of the shape could be off by more than the tolerance
  (`unis.profile.bounds`): what is flat or straight beyond doubt costs nothing.
- Middles alone do not see a bend between them. What may be missed is `Curve.bound`, if the curve
  has the shape; one that has not, as a step, may hide anything. So `careful` trusts no shape: it
  looks at one point more in every gap, and goes on until the bound too is within the tolerance.

All follows from what is known so far, so that measuring may stop at any point and go on another
day.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from unis.profile.bounds import ROUNDING, KnownPoint, Reading, Shape, against, bounds

TOLERANCE = 0.01  # of a value: the paper's
_MOST_POINTS = 10_000  # of an axis


@dataclass(frozen=True)
class Axis:
    """What is varied: from `least` to `most`, in steps. ValueError if that is no whole number."""

    least: float
    most: float
    step: float = 1.0

    def __post_init__(self) -> None:
        steps = (self.most - self.least) / self.step if self.step > 0 else -1.0
        if not 0 <= steps < _MOST_POINTS or abs(steps - round(steps)) > 1e-6:
            raise ValueError(
                f"from {self.least:g} to {self.most:g} there is no whole number of steps of "
                f"{self.step:g}, below {_MOST_POINTS}"
            )

    @property
    def last(self) -> int:
        """The number of the last point; the first is 0."""
        return round((self.most - self.least) / self.step)

    def at(self, number: int) -> float:
        """The point of a number."""
        return round(float(self.least + number * self.step), 9)

    def points(self) -> list[float]:
        """All of them."""
        return [self.at(number) for number in range(self.last + 1)]


@dataclass(frozen=True)
class Method:
    """How near a curve is looked at."""

    tolerance: float = TOLERANCE  # of the value
    careful: bool = False


@dataclass(frozen=True)
class Doubt:
    """A point that is off a straight line by more than was asked for, and less than it varies."""

    least: float
    at: float
    most: float
    off: float  # of the value


@dataclass(frozen=True)
class Curve:
    """What was measured of a curve, and how well that tells the rest."""

    axis: Axis
    shape: Shape
    readings: Mapping[float, Reading]  # by point, ascending
    doubts: tuple[Doubt, ...] = ()

    def at(self, x: float) -> float:
        """In a straight line between what was measured; beyond its ends as there."""
        values = [reading.value for reading in self.readings.values()]
        return float(np.interp(x, [*self.readings], values))

    @property
    def bound(self) -> float:
        """The most, of its value, that a curve of the shape is off the straight lines."""
        return max(bounds(_by_number(self.axis, self.readings), self.shape).values(), default=0.0)


def wanted(axis: Axis, shape: Shape, method: Method, known: Mapping[float, Reading]) -> list[float]:
    """The points that the method asks for next; empty: it is done."""
    return [axis.at(number) for number in _Tracer(axis, shape, method, known).wanted()]


def curve_of(axis: Axis, shape: Shape, method: Method, readings: Mapping[float, Reading]) -> Curve:
    """Of what was measured, whether the method is done or not."""
    tracer = _Tracer(axis, shape, method, readings)
    tracer.wanted()
    return Curve(axis, shape, dict(sorted(readings.items())), tuple(tracer.doubts))


class _Tracer:
    """What a method wants to know next, of what is known."""

    def __init__(
        self, axis: Axis, shape: Shape, method: Method, known: Mapping[float, Reading]
    ) -> None:
        self._axis = axis
        self._method = method
        self._known = _by_number(axis, known)
        self._bounds = bounds(self._known, shape)
        # What is relied on before anything was measured of a gap.
        self._trusted = bounds(self._known, Shape.GROWING) if method.careful else self._bounds
        self.doubts: list[Doubt] = []

    def wanted(self) -> list[int]:
        last = self._axis.last
        if missing := [number for number in (last, 0, last // 2) if number not in self._known]:
            return [*dict.fromkeys(missing)]
        return [*self._split(0, last)]

    def _split(self, least: int, most: int) -> Iterator[int]:
        if most - least < 2:
            return
        middle = (least + most) // 2
        if middle not in self._known:
            if _most(self._trusted, least, most) > self._method.tolerance + ROUNDING:
                yield middle
        elif self._is_off(least, middle, most):
            yield from self._split(least, middle)
            yield from self._split(middle, most)
        elif self._method.careful:
            yield from self._check(least, middle)
            yield from self._check(middle, most)

    def _check(self, least: int, most: int) -> Iterator[int]:
        """One point more, anywhere: a curve that bends at the middles of middles is seen too."""
        if most - least < 2 or _most(self._trusted, least, most) <= self._method.tolerance:
            return
        # The same in every call, so that measuring can be gone on with.
        at = random.Random(f"{least} {most}").randrange(least + 1, most)  # noqa: S311
        if at not in self._known:
            yield at
        elif self._is_off(least, at, most) or self._may_bend(least, most):
            yield from self._check(least, at)
            yield from self._check(at, most)

    def _is_off(self, least: int, at: int, most: int) -> bool:
        """Whether a straight line misses it by more than the tolerance, and than it varies.

        How much the ends vary does not count: where one does, as latency at full load, points
        between that are known better tell more.
        """
        above, _ = against(self._point(least), self._point(at), self._point(most))
        value, noise = self._known[at].value, self._known[at].spread
        if abs(above) <= (self._method.tolerance + ROUNDING) * value:
            return False
        if abs(above) > noise:
            return True
        first, here, last = map(self._axis.at, (least, at, most))
        self.doubts.append(Doubt(first, here, last, abs(above) / value))
        return False

    def _may_bend(self, least: int, most: int) -> bool:
        """Beyond the tolerance; within the spread nothing can be told."""
        ends = (self._known[least], self._known[most])
        noise = max(end.spread / end.value for end in ends)
        allowed = max(self._method.tolerance, noise) + ROUNDING
        return _most(self._bounds, least, most) > allowed

    def _point(self, number: int) -> KnownPoint:
        return number, self._known[number]


def _by_number(axis: Axis, known: Mapping[float, Reading]) -> dict[int, Reading]:
    points = enumerate(axis.points())
    return {number: known[x] for number, x in points if x in known}


def _most(by_gap: Mapping[tuple[int, int], float], least: int, most: int) -> float:
    return max(off for (a, b), off in by_gap.items() if least <= a and b <= most)

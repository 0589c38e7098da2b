"""Curves from few measurements, on curves that are known."""

import math
from collections.abc import Callable, Mapping
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unis.profile.bounds import Reading, Shape, is_shaped
from unis.profile.curve import Axis, Curve, Method, wanted
from unis.profile.curve import curve_of as curve_through
from unis.slo.resq_profiles import PROFILES

WAYS = Axis(1, 18)
LOADS = Axis(10, 100, 5)  # about 20 levels, as the paper has
PRINTED, CAREFUL = Method(), Method(careful=True)


class Measured:
    """A known curve that counts how often it is asked for which point."""

    def __init__(self, of: Callable[[float], float], spread: float = 0.0) -> None:
        self._of = of
        self._spread = spread
        self.asked: list[float] = []

    def __call__(self, x: float) -> Reading:
        self.asked.append(x)
        return Reading(self._of(x), self._spread)


def trace(
    axis: Axis,
    shape: Shape,
    measure: Callable[[float], Reading],
    method: Method = PRINTED,
    known: Mapping[float, Reading] | None = None,
) -> Curve:
    """Measures what the method asks for and is not `known` yet: no point twice."""
    points = set(axis.points())
    readings = {x: reading for x, reading in (known or {}).items() if x in points}
    while asked := wanted(axis, shape, method, readings):
        readings[asked[0]] = measure(asked[0])
    return curve_through(axis, shape, method, readings)


def line_between(values: Mapping[float, float], x: float) -> float:
    return float(np.interp(x, [*values], [*values.values()]))


def error(curve: Curve, of: Callable[[float], float]) -> float:
    """The most that it is off anywhere, of the value."""
    return max(abs(curve.at(x) - of(x)) / of(x) for x in curve.axis.points())


def as_printed(axis: Axis, of: Callable[[float], float], tolerance: float) -> dict[float, float]:
    """The paper's procedure, word for word."""
    found = {axis.at(number): of(axis.at(number)) for number in (0, axis.last)}

    def split(least: int, most: int) -> None:
        if most - least < 2:
            return
        middle = (least + most) // 2
        line = line_between(dict(sorted(found.items())), axis.at(middle))
        found[axis.at(middle)] = value = of(axis.at(middle))
        if abs(line - value) > tolerance * value * (1 + 1e-9):
            split(least, middle)
            split(middle, most)

    split(0, axis.last)
    return found


def by_ways(name: str) -> Callable[[float], float]:
    return lambda ways: PROFILES[name].share(round(ways))


def by_load(name: str) -> tuple[Axis, Callable[[float], float]]:
    """As far as it is printed."""
    known = {load * 100: us for load, us in PROFILES[name].p95_us_by_load}
    most = LOADS.least + math.floor((max(known) - LOADS.least) / LOADS.step) * LOADS.step
    return Axis(LOADS.least, most, LOADS.step), lambda load: line_between(known, load)


# Measurements: throughput by ways, and latency by load. The paper says 8 to 12 a profile. Curves
# that bend at one way after the other, as far as the sixth, cannot be had for that.
COUNTS = {
    "efficuts": (3, 8), "endre": (3, 8), "firewall": (3, 8), "ipsec": (3, 8), "lpm": (7, 8),
    "mazunat": (9, 8), "snort": (11, 9), "stats": (9, 9), "suricata": (3, 8),
}  # fmt: skip


@pytest.mark.parametrize("name", PROFILES)
def test_the_papers_profiles_to_one_percent(name: str) -> None:
    axis, latency = by_load(name)
    ways, loads = Measured(by_ways(name)), Measured(latency)
    throughput = trace(WAYS, Shape.CONCAVE, ways)
    curve = trace(axis, Shape.CONVEX, loads)
    assert error(throughput, by_ways(name)) <= 0.01
    assert error(curve, latency) <= 0.01
    assert (len(ways.asked), len(loads.asked)) == COUNTS[name]
    assert len(set(ways.asked)) == len(ways.asked)
    printed = as_printed(axis, latency, 0.01)
    assert len(loads.asked) <= len(printed)


@pytest.mark.parametrize("name", PROFILES)
def test_the_papers_profiles_looked_at_carefully(name: str) -> None:
    axis, latency = by_load(name)
    assert (
        error(trace(WAYS, Shape.CONCAVE, Measured(by_ways(name)), CAREFUL), by_ways(name)) <= 0.01
    )
    assert error(trace(axis, Shape.CONVEX, Measured(latency), CAREFUL), latency) <= 0.01


def steps(least: float, most: float) -> st.SearchStrategy[list[float]]:
    return st.lists(st.floats(least, most), min_size=2, max_size=40)


def curve_of(slopes: list[float], first: float) -> tuple[Axis, dict[float, float]]:
    values = [*accumulate(slopes, initial=first)]
    return Axis(1, len(values)), {float(x): value for x, value in enumerate(values, 1)}


@given(steps(0, 1), st.floats(0.1, 5), st.booleans(), st.booleans())
def test_curves_of_a_shape(slopes: list[float], first: float, convex: bool, careful: bool) -> None:
    """What is promised: within `bound`; carefully, within the tolerance."""
    axis, known = curve_of(sorted(slopes, reverse=not convex), first)
    shape = Shape.CONVEX if convex else Shape.CONCAVE
    measured = Measured(known.__getitem__)
    curve = trace(axis, shape, measured, Method(careful=careful))
    off = error(curve, known.__getitem__)
    assert off <= curve.bound + 1e-7
    assert len(set(measured.asked)) == len(measured.asked) == len(curve.readings)
    if careful:
        assert off <= 0.01 + 1e-7
    else:
        # A gap is left where its bound is small, or its middle is near: then at most twice as far
        # as the middle, of a value that is that of the gap's lower end.
        lowest = {x: curve.at(axis.least) for x in axis.points()}
        assert off <= 2 * 0.01 * max(known.values()) / lowest[axis.least] + 1e-7
        assert {*measured.asked} <= {*as_printed(axis, known.__getitem__, 0.01)}


@given(steps(0, 1), st.floats(0.1, 5), st.booleans())
def test_what_only_grows(slopes: list[float], first: float, careful: bool) -> None:
    """Of no shape: it ends, measures nothing twice, and is right where it has measured."""
    axis, known = curve_of(slopes, first)
    measured = Measured(known.__getitem__)
    curve = trace(axis, Shape.CONCAVE, measured, Method(careful=careful))
    assert len(set(measured.asked)) == len(measured.asked) <= axis.last + 1
    assert all(curve.at(x) == of.value for x, of in curve.readings.items())


@given(steps(0, 1), st.floats(0.1, 5), st.booleans(), st.integers(0, 40))
def test_it_goes_on_where_it_stopped(
    slopes: list[float], first: float, careful: bool, after: int
) -> None:
    axis, known = curve_of(sorted(slopes, reverse=True), first)
    method = Method(careful=careful)
    whole = Measured(known.__getitem__)
    trace(axis, Shape.CONCAVE, whole, method)
    there = {x: Reading(known[x]) for x in whole.asked[:after]}
    rest = Measured(known.__getitem__)
    trace(axis, Shape.CONCAVE, rest, method, there)
    assert rest.asked == whole.asked[after:]


def hidden(ways: float) -> float:
    """A working set that fits all of a sudden: what lies in the middle tells nothing of it."""
    return 0.6 if ways == 9 else 0.2 if ways < 9 else 1.0


def test_a_step_that_middles_do_not_see_is_seen_carefully() -> None:
    axis = Axis(1, 17)
    assert sorted(as_printed(axis, hidden, 0.01)) == [1, 9, 17]
    assert error(trace(axis, Shape.CONCAVE, Measured(hidden)), hidden) > 1
    careful = trace(axis, Shape.CONCAVE, Measured(hidden), CAREFUL)
    assert error(careful, hidden) <= 0.01
    assert not is_shaped([*careful.readings.items()], careful.shape)


def test_a_bend_between_middles_is_within_what_is_told() -> None:
    """Concave, near the line at the middle and twice as far from it elsewhere."""
    known = {float(x): min(1 + 0.0001 * (x - 1), 0.9 + 0.1 * (x - 1)) for x in range(1, 18)}
    curve = trace(Axis(1, 17), Shape.CONCAVE, Measured(known.__getitem__), Method(0.06))
    assert [*curve.readings] == [1, 9, 17]
    off = error(curve, known.__getitem__)
    assert 0.06 < off <= curve.bound < 0.12


@pytest.mark.parametrize(
    ("last", "at", "before", "behind"), [(65, 3, 0.128, 0.093), (33, 2, 0.12, 0.087)]
)
def test_a_bend_beside_the_one_point_more_is_seen_carefully(
    last: int, at: int, before: float, behind: float
) -> None:
    """That point is near the line as well: how far the curve may bend tells that it is not done."""
    known = {
        float(x): 1 + min(before * (x - 1), before * (at - 1) + behind * (x - at))
        for x in range(1, last + 1)
    }
    careful = trace(Axis(1, last), Shape.CONCAVE, Measured(known.__getitem__), CAREFUL)
    assert error(careful, known.__getitem__) <= 0.01


def test_flat_and_straight_cost_no_more_than_three() -> None:
    for of in (lambda _: 1.0, lambda x: 1 + x / 10):
        measured = Measured(of)
        trace(WAYS, Shape.CONCAVE, measured)
        assert sorted(measured.asked) == [1, 9, 18]


def test_no_more_is_told_apart_than_it_varies() -> None:
    noisy = Measured(lambda ways: 1 - 0.03 * (ways == 1), spread=0.03)
    curve = trace(Axis(1, 17), Shape.CONCAVE, noisy)
    assert sorted(noisy.asked) == [1, 9, 17]
    (doubt,) = curve.doubts
    assert (doubt.least, doubt.at, doubt.most) == (1, 9, 17)
    assert doubt.off == pytest.approx(0.015)
    exact = Measured(lambda ways: 1 - 0.03 * (ways == 1))
    assert len(trace(Axis(1, 17), Shape.CONCAVE, exact).readings) > 3


def test_an_end_that_varies_hides_no_bend() -> None:
    """At full load latency is anything; below it is known well."""

    def queue(load: float) -> Reading:
        return Reading(80, 200) if load == 100 else Reading(2 / (1 - load / 100), 0.01)

    curve = trace(LOADS, Shape.CONVEX, queue)
    assert {55, 75, 90, 95} <= {*curve.readings}
    assert curve.at(90) == pytest.approx(20)


@pytest.mark.parametrize(("axis", "points"), [(Axis(5, 5), [5]), (Axis(5, 6), [6, 5])])
def test_short_axes(axis: Axis, points: list[float]) -> None:
    measured = Measured(lambda x: x)
    trace(axis, Shape.CONVEX, measured)
    assert measured.asked == points


@pytest.mark.parametrize("bad", [(1, 2, 0), (2, 1, 1), (1, 2, 0.3), (0, 1e9, 1)])
def test_what_is_no_axis(bad: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="whole number of steps"):
        Axis(*bad)


def test_what_comes_next_is_known_beforehand() -> None:
    assert wanted(WAYS, Shape.CONCAVE, Method(), {}) == [18, 1, 9]
    there: Mapping[float, Reading] = {1.0: Reading(0.5), 9.0: Reading(0.9), 18.0: Reading(1)}
    assert wanted(WAYS, Shape.CONCAVE, Method(), there) == [5, 13]
    assert wanted(WAYS, Shape.CONCAVE, Method(0.5), there) == []

"""What is made of measured points: never falling, and of the shape where they are."""

from itertools import accumulate, pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from unis.profile.bounds import Reading, Shape
from unis.profile.fits import Words, fit, isotonic, shaped
from unis.slo.profile import ImpossibleProfileError

WORDS = Words(lambda ways: f"with {ways:g} ways", lambda share: f"{share:.1%}")
SHAPES = st.sampled_from([Shape.CONCAVE, Shape.CONVEX])
VALUES = st.lists(st.floats(0.1, 10), min_size=1, max_size=20)
SLOPES = st.lists(st.floats(0, 3), min_size=1, max_size=15)


def readings(*values: float, spread: float = 0.0) -> dict[float, Reading]:
    return {float(x): Reading(value, spread) for x, value in enumerate(values, 1)}


def squares(values: list[float], at: list[float], weights: list[float]) -> float:
    return sum(w * (a - b) ** 2 for a, b, w in zip(values, at, weights, strict=True))


@given(VALUES, st.data())
def test_isotonic_is_the_nearest(values: list[float], data: st.DataObject) -> None:
    many = len(values)
    weights = data.draw(st.lists(st.floats(0.1, 9), min_size=many, max_size=many))
    found = isotonic(values, weights)
    assert all(b >= a for a, b in pairwise(found))
    assert isotonic(found, weights) == pytest.approx(found)
    other = sorted(data.draw(st.lists(st.floats(0, 11), min_size=many, max_size=many)))
    assert squares(values, found, weights) <= squares(values, other, weights) + 1e-9


def slopes_of(xs: list[float], values: list[float]) -> list[float]:
    return [
        (b - a) / (y - x) for (x, y), (a, b) in zip(pairwise(xs), pairwise(values), strict=True)
    ]


@given(VALUES, SHAPES, st.data())
def test_shaped_is_the_nearest(values: list[float], shape: Shape, data: st.DataObject) -> None:
    many = len(values)
    gaps = data.draw(st.lists(st.integers(1, 9), min_size=many, max_size=many))
    xs = [float(x) for x in accumulate(gaps)]
    weights = data.draw(st.lists(st.floats(0.1, 9), min_size=many, max_size=many))
    found = shaped(xs, values, weights, shape)
    bends = [b - a for a, b in pairwise(slopes_of(xs, found))]
    sign = -1 if shape is Shape.CONCAVE else 1
    assert all(b >= a for a, b in pairwise(found))
    assert all(sign * bend >= -1e-6 for bend in bends)
    slopes = data.draw(st.lists(st.floats(0, 3), min_size=many - 1, max_size=many - 1))
    ordered = sorted(slopes, reverse=shape is Shape.CONCAVE)
    rises = [slope * (y - x) for slope, (x, y) in zip(ordered, pairwise(xs), strict=True)]
    other = [*accumulate(rises, initial=data.draw(st.floats(0, 5)))]
    assert squares(values, found, weights) <= squares(values, other, weights) + 1e-6


@given(SLOPES, SHAPES, st.floats(0.1, 5))
def test_what_has_the_shape_stays(slopes: list[float], shape: Shape, first: float) -> None:
    ordered = sorted(slopes, reverse=shape is Shape.CONCAVE)
    values = [*accumulate(ordered, initial=first)]
    found = fit(readings(*values), shape, WORDS)
    assert found.shaped
    assert not found.remarks
    assert [*found.values.values()] == pytest.approx(values, rel=2e-3)


@given(SLOPES, SHAPES, st.integers(0, 14))
def test_noise_within_the_spread_is_smoothed(slopes: list[float], shape: Shape, at: int) -> None:
    assume(at < len(slopes))
    values = [*accumulate(sorted(slopes, reverse=shape is Shape.CONCAVE), initial=1.0)]
    values[at] *= 1.004
    points = {float(x): Reading(value, 0.02 * value) for x, value in enumerate(values, 1)}
    found = fit(points, shape, WORDS)
    assert found.shaped
    assert all(b >= a for a, b in pairwise(found.values.values()))


def test_a_fall_is_told_and_promises_no_more() -> None:
    found = fit(readings(0.5, 0.9, 0.86, 1.0, spread=0.001), Shape.CONCAVE, WORDS)
    assert not found.shaped
    assert "86.0% with 3 ways is 4.0% less than with 2 ways" in found.remarks[0]
    assert [*found.values.values()] == pytest.approx([0.5, 0.86, 0.86, 1.0])
    late = fit(readings(20, 15, 30, spread=0.1), Shape.CONVEX, WORDS)
    assert [*late.values.values()] == pytest.approx([20, 20, 30])


def test_a_step_is_told_and_left_as_it_is() -> None:
    found = fit(readings(0.2, 0.21, 1.0, spread=0.005), Shape.CONCAVE, WORDS)
    assert not found.shaped
    assert "below the straight line between its neighbours" in found.remarks[0]
    assert "with 2 ways" in found.remarks[0]
    assert [*found.values.values()] == [0.2, 0.21, 1.0]


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ({}, "nothing was measured"),
        (readings(0.5, 0.0), "0.0% was measured with 2 ways"),
        (readings(0.5, -0.1), "was measured with 2 ways"),
        (readings(0.5, float("nan")), "was measured with 2 ways"),
        (readings(0.9, 0.7, spread=0.01), "which no cache does"),
    ],
)
def test_impossible_profiles(points: dict[float, Reading], said: str) -> None:
    with pytest.raises(ImpossibleProfileError, match=said):
        fit(points, Shape.CONCAVE, WORDS)


def test_a_fall_within_what_it_varies_is_no_fall() -> None:
    found = fit(readings(0.9, 0.7, 0.95, spread=0.3), Shape.CONCAVE, WORDS)
    assert found.shaped
    assert all(b >= a for a, b in pairwise(found.values.values()))

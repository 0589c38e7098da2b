"""How figures of the evaluation are judged, and the baseline is chosen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.paper import judging
from evaluation.paper.measured import cross_settled
from unis.bench.cooperative import COOPERATIVE, SECOND
from unis.measure.paired import Ratio
from unis.measure.windows import Arm
from unis.v1 import engine_pb2 as pb


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.95, 0.96, 0.97], "agrees"),
        ([0.85, 0.86, 0.87], "differs"),
        ([0.85, 0.91, 0.97], "too close to tell"),
        ([], "cannot be had here"),
    ],
)
def test_an_interval_decides(values: list[float], verdict: str) -> None:
    of = Ratio(median=values[1], lo=values[0], hi=values[2]) if values else None
    assert judging.at_least(of, 0.9) == verdict
    turned = Ratio(median=-values[1], lo=-values[2], hi=-values[0]) if values else None
    assert judging.at_most(turned, -0.9) == verdict
    assert judging.combined(["agrees", judging.at_least(of, 0.9)]) == verdict
    assert judging.combined([]) == "cannot be had here"


@given(st.lists(st.lists(st.floats(0.1, 2), min_size=1, max_size=8), min_size=1, max_size=5))
def test_a_mean_over_lengths_lies_in_its_interval_and_among_them(groups: list[list[float]]) -> None:
    of = judging.pooled(groups)
    assert of
    assert min(map(min, groups)) - 1e-9 <= of.lo <= of.hi <= max(map(max, groups)) + 1e-9
    assert min(map(min, groups)) - 1e-9 <= of.median <= max(map(max, groups)) + 1e-9
    assert judging.pooled([[], *groups]) == of


def test_starts_that_differ_widen_the_interval_of_their_mean() -> None:
    def width(groups: list[list[float]]) -> float:
        of = judging.pooled(groups)
        assert of
        return of.hi - of.lo

    alike = [[0.89, 0.9, 0.91]] * 4
    apart = [[by - 0.01, by, by + 0.01] for by in (0.8, 0.85, 0.95, 1.0)]
    assert width(apart) > 4 * width(alike)


def trial(first: int, second: int) -> dict[str, pb.MeasureReply]:
    return {
        COOPERATIVE: pb.MeasureReply(delivered=first, window_ns=1000),
        SECOND: pb.MeasureReply(delivered=second, window_ns=1000),
    }


def test_the_better_distance_is_chosen_by_rounds_that_it_is_not_judged_by() -> None:
    two = (Arm("cooperative", yield_every=8), Arm("cooperative", yield_every=32))
    # In even rounds the first is better, in odd ones the second.
    rounds, _ = cross_settled([trial(2, 1) if at % 2 == 0 else trial(1, 2) for at in range(8)], two)
    assert [one[COOPERATIVE].delivered for one in rounds] == [1] * 8
    rounds, best = cross_settled([trial(1, 2)] * 8, two)
    assert best == 32
    assert [one[COOPERATIVE].delivered for one in rounds] == [2] * 8

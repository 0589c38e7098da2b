"""The baseline: co-operative functions at the distance between yields that is best."""

from collections.abc import Sequence

import pytest

from unis.bench.cooperative import (
    COOPERATIVE,
    SECOND,
    best_distance,
    best_two,
    best_yield_every,
    settled,
    trial_ratios,
)
from unis.measure.windows import Arm, Rounds, throughput
from unis.v1 import engine_pb2 as pb


def rounds(**mpps: float) -> Rounds:
    windows = {
        name: pb.MeasureReply(delivered=round(of * 1e6), window_ns=10**9)
        for name, of in mpps.items()
    }
    return [windows] * 6


def test_the_best_distance_has_the_most_and_of_equals_yields_most_often() -> None:
    assert best_yield_every({8: 1.0, 16: 3.0, 32: 2.0}) == 16
    assert best_yield_every({64: 3.0, 16: 3.0, 32: 3.0}) == 16


def test_a_trial_in_which_nothing_passes_is_the_worst() -> None:
    mpps = {"unis": 2.0, **{f"cooperative/{every}": 1.0 for every in (16, 24, 32, 64)}}
    trials = trial_ratios(rounds(**mpps, **{"cooperative/8": 0.0}))
    assert trials == {8: 0.0, 16: 0.5, 24: 0.5, 32: 0.5, 64: 0.5}


@pytest.mark.parametrize(("best", "second", "every"), [(5.0, 4.0, 32), (4.0, 5.0, 16), (0, 1, 16)])
def test_of_the_two_best_the_better_when_measured_anew_counts(
    best: float, second: float, every: int
) -> None:
    two = best_two({8: 1.0, 16: 2.0, 32: 3.0})
    assert [arm.yield_every for arm in two] == [32, 16]
    measured, found = settled(rounds(**{COOPERATIVE: best, SECOND: second}), two)
    assert found == every
    assert throughput(measured, COOPERATIVE) == [max(best, second)] * 6
    assert throughput(measured, SECOND) == [min(best, second)] * 6


def test_a_distance_that_was_fast_in_the_trial_only_is_not_the_best() -> None:
    trial = {"unis": 1.0, "cooperative/64": 9.0, "cooperative/32": 5.0}
    anew = {64: 4.0, 32: 5.0}

    def measured(arms: Sequence[Arm], _count: int) -> Rounds:
        named = any(arm.name for arm in arms)
        return rounds(
            **{str(arm): anew[arm.yield_every] if named else trial.get(str(arm), 1) for arm in arms}
        )

    every, windows = best_distance(measured)
    assert every == 32
    assert throughput(windows, COOPERATIVE) == [5.0] * 6

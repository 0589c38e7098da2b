"""Order, length and comparison of windows."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.python.strategies import scaled
from unis.measure import order
from unis.measure.paired import Paired, Quartiles, interval
from unis.measure.windows import (
    SETTLE_SECONDS,
    Arm,
    Offered,
    Rounds,
    Span,
    alternate,
    span_of,
)
from unis.v1 import common_pb2 as common
from unis.v1 import engine_pb2 as pb
from unis.v1 import traffic_pb2 as traffic


@given(st.integers(2, 9))
def test_each_arm_follows_each_other_equally_often(count: int) -> None:
    rounds = order.square(range(count))
    follows = Counter(pair for row in rounds for pair in itertools.pairwise(row))
    assert set(follows) == set(itertools.permutations(range(count), 2))
    assert len(set(follows.values())) == 1
    for place in range(count):
        assert len(set(Counter(row[place] for row in rounds).values())) == 1


@given(st.integers(1, 9), st.integers(1, 40))
def test_rounds_are_whole_squares(arms: int, wanted: int) -> None:
    count = order.balanced_rounds(arms, wanted)
    assert wanted <= count < wanted + 2 * arms
    rows = order.rounds(range(arms), count)
    assert all(sorted(row) == list(range(arms)) for row in rows)
    followed = Counter(pair for row in rows for pair in itertools.pairwise(row))
    assert len(set(followed.values())) <= 1


def test_a_window_of_rr_holds_whole_cycles() -> None:
    assert span_of(Arm("unis"), 0.2, 3, 0.1) == Span(SETTLE_SECONDS, 0.2)
    assert span_of(Arm("unis"), 0.02, 3, 0.1) == Span(0.02, 0.02)
    rr = span_of(Arm("rr"), 0.2, 3, 0.1)
    assert rr.settle == pytest.approx(0.3)
    assert rr.window == pytest.approx(0.9)
    assert span_of(Arm("rr"), 1.0, 3, 0.1).window == pytest.approx(1.2)
    assert span_of(Arm("rr"), 0.2, 1, 0.005).window == pytest.approx(0.2)


def test_arms_are_written_with_or_without_a_controller() -> None:
    for text in ("unis", "unis/signal", "rr", "cooperative/16"):
        assert str(Arm.parse(text)) == text
    assert Arm.parse("handover") == Arm.parse("unis/handover")
    with pytest.raises(ValueError, match="invalid policy"):
        Arm.parse("best")
    with pytest.raises(ValueError, match="invalid controller"):
        Arm.parse("unis/best")
    for bursts in ("0", "99999999999"):
        with pytest.raises(ValueError, match="cooperative/16"):
            Arm.parse(f"cooperative/{bursts}")


class FakeEngine:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.controllers: list[pb.ControllerKind] = []
        self.yields: list[int] = []
        self.offered: list[tuple[float, traffic.Arrivals] | None] = []
        self.schedulers: list[common.SchedulerSettings | None] = []

    def measure(self, request: pb.MeasureRequest) -> pb.MeasureReply:
        self.offered.append((request.pps, request.arrivals) if request.HasField("pps") else None)
        self.schedulers.append(request.scheduler if request.HasField("scheduler") else None)
        self.controllers.append(request.controller)
        self.yields.append(request.yield_every)
        span = request.settle_ns + request.window_ns
        return pb.MeasureReply(policy=request.policy, window_ns=span)


def test_two_controllers_take_turns() -> None:
    arms = [Arm("unis", "priority"), Arm("unis", "signal")]
    engine, seen = FakeEngine(), []
    spans = dict.fromkeys(arms, Span(0.1, 0.2))

    def on_window(done: Rounds, arm: Arm) -> None:
        seen.append((len(done), str(arm)))

    done = alternate(engine, order.rounds(arms, 2), spans, "signal", on_window)
    assert [set(windows) for windows in done] == [{"unis/priority", "unis/signal"}] * 2
    assert engine.controllers == [
        pb.CONTROLLER_PRIORITY, pb.CONTROLLER_SIGNAL, pb.CONTROLLER_SIGNAL, pb.CONTROLLER_PRIORITY,
    ]  # fmt: skip
    assert seen[0] == (1, "unis/priority")


def test_an_arm_is_prepared_before_each_of_its_windows() -> None:
    engine, windows_before = FakeEngine(), []
    prepared = Arm("other", prepare=lambda: windows_before.append(len(engine.controllers)))
    arms = [Arm("unis"), prepared]
    spans = dict.fromkeys(arms, Span(0.1, 0.2))
    alternate(engine, order.rounds(arms, 2), spans, "handover", lambda *_: None)
    assert windows_before == [1, 2]
    assert prepared == Arm("other"), "what is measured is the same"


def test_an_arm_without_a_controller_has_that_of_the_run_whoever_came_before() -> None:
    arms = [Arm("unis", "signal"), Arm("cooperative")]
    engine = FakeEngine()
    spans = dict.fromkeys(arms, Span(0.1, 0.2))
    alternate(engine, order.rounds(arms, 2), spans, "priority", lambda *_: None)
    assert engine.controllers == [
        pb.CONTROLLER_SIGNAL, pb.CONTROLLER_PRIORITY, pb.CONTROLLER_PRIORITY, pb.CONTROLLER_SIGNAL,
    ]  # fmt: skip


def test_each_distance_between_yields_is_an_arm() -> None:
    arms = [Arm.parse("cooperative/8"), Arm.parse("cooperative/64"), Arm.parse("unis")]
    engine = FakeEngine()
    spans = dict.fromkeys(arms, Span(0.1, 0.2))
    alternate(engine, [arms], spans, "priority", lambda *_: None)
    assert engine.yields == [8, 64, 0]
    assert engine.offered == [None] * 3


def test_an_arm_may_say_what_is_offered() -> None:
    arm = Arm("unis", name="half", offered=Offered(2e6, "poisson"))
    engine = FakeEngine()
    (windows,) = alternate(engine, [[arm]], {arm: Span(0.1, 0.2)}, "priority", lambda *_: None)
    assert list(windows) == ["half"]
    assert engine.offered == [(2e6, traffic.ARRIVALS_POISSON)]


def test_rounds_without_a_base_are_counted() -> None:
    paired = Paired.ratio([4.0, 4.0, 4.0, 4.0], [2.0, 0.0, 2.0, 1.0])
    assert paired
    assert (paired.median, paired.rounds, paired.left_out) == (2.0, 3, 1)
    assert Paired.ratio([1.0], [0.0]) is None


def test_rounds_of_one_bring_up_say_less_than_as_many_bring_ups() -> None:
    values = [0.88 + 0.04 * block for block in range(7) for _ in range(8)]
    base = [1.0] * len(values)
    alone, together = Paired.ratio(values, base), Paired.ratio(values, base, blocks=7)
    assert alone
    assert together
    assert (together.median, together.rounds) == (alone.median, 56)
    assert together.high - together.low > 1.5 * (alone.high - alone.low)
    assert Paired.ratio([1.0, 4.0], [0.0, 2.0], blocks=2) == Paired.ratio([4.0], [2.0]).model_copy(  # type: ignore[union-attr]
        update={"left_out": 1}
    )


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=20))
def test_the_interval_holds_the_median(values: list[float]) -> None:
    low, high = interval(values)
    assert min(values) <= low <= Quartiles.of(values).median <= high <= max(values)
    assert interval(values) == (low, high)


def test_more_rounds_make_the_interval_smaller() -> None:
    few, many = [0.8, 0.9, 1.0, 1.1], [0.8, 0.9, 1.0, 1.1] * 16
    (a, b), (c, d) = interval(few), interval(many)
    assert d - c < (b - a) / 2
    assert Quartiles.of(few).q1 == pytest.approx(Quartiles.of(many).q1, rel=0.05)


def test_an_arm_may_have_settings_of_its_own() -> None:
    engine = FakeEngine()
    settings = common.SchedulerSettings(gamma=0.5)
    arms = [Arm("unis"), Arm("unis", name="own", scheduler=settings.SerializeToString())]
    alternate(engine, [arms], dict.fromkeys(arms, Span(0, 1)), "priority", lambda *_: None)
    assert engine.schedulers == [None, settings]


def test_the_interval_of_a_median_is_two_of_the_values() -> None:
    assert interval([3.0]) == (3.0, 3.0)
    assert interval([4.0, 1.0, 3.0, 2.0]) == (1.0, 4.0)
    assert interval([float(value) for value in range(12)]) == (2.0, 9.0)  # 96 %; one less is 85


@settings(max_examples=scaled(20))
@given(st.integers(6, 40), st.integers(0, 2**32 - 1))
def test_it_holds_the_median_nineteen_times_in_twenty(count: int, seed: int) -> None:
    draws = np.random.default_rng(seed).lognormal(size=(400, count))
    held = sum(low <= 1 <= high for low, high in map(interval, draws.tolist()))
    assert held >= 400 * 0.95 - 4 * (400 * 0.05 * 0.95) ** 0.5

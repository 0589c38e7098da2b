"""unis bench latency: loads, frontier and picture."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unis.bench.latency import LatencyResult, LatencyRow, yields_on
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Quartiles
from unis.measure.summary import MachineSummary, latency_ratio
from unis.report.curves import frontier, latency
from unis.v1 import engine_pb2 as pb
from unis.v1.common_pb2 import LatencyHistogram

POINTS = st.lists(st.tuples(st.floats(1, 1e5), st.floats(0, 20)), min_size=1, max_size=30)


def row(policy: str, controller: str | None, p95: float | None, mpps: float) -> LatencyRow:
    return LatencyRow(
        experiment="frontier", cost="light", length=3, ring=256, policy=policy,
        controller=controller, yield_every=None, load=None, arrivals=None, offered_mpps=mpps,
        mpps=Quartiles(median=mpps, q1=mpps, q3=mpps), drops=0.0, latency_us={"p95": p95},
        latency_to_cooperative=None, disturbed=Disturbance.of([]),
    )  # fmt: skip


@pytest.fixture
def result() -> LatencyResult:
    rows = [
        row("unis", "handover", 40, 5),
        row("unis", "handover", 400, 9),
        row("cooperative", None, 90, 8),
        row("cooperative", None, None, 20),  # nothing was delivered
    ]
    machine = MachineSummary(cpu_model="x", cpus=2, kernel="6", dpdk="22.11")
    return LatencyResult(machine=machine, sustained_mpps=9.0, rows=rows)


def test_the_most_within_a_bound(result: LatencyResult) -> None:
    assert [result.frontier("handover", us) for us in (30, 50, 500)] == [None, 5, 9]
    assert [result.frontier("cooperative", us) for us in (50, 100, 1e6)] == [None, 8, 8]


def test_latencies_are_compared_within_a_round() -> None:
    """A machine that is half as fast in one of them changes no ratio."""

    def window(us: float) -> pb.MeasureReply:
        histogram = LatencyHistogram(value_ns=[round(us * 1e3), round(us * 2e3)], count=[90, 10])
        return pb.MeasureReply(latency=histogram)

    both = [{"handover": window(us), "cooperative": window(2 * us)} for us in (10, 100, 1000)]
    for percentile in (50, 95):
        ratio = latency_ratio(both, "handover", "cooperative", percentile)
        assert ratio
        assert (ratio.low, ratio.high) == pytest.approx((0.5, 0.5), rel=0.01)
    assert latency_ratio([{"handover": window(1)}], "handover", "cooperative", 50) is None
    nothing = [
        {"handover": window(1), "cooperative": pb.MeasureReply()},
        {"handover": pb.MeasureReply(), "cooperative": window(1)},
    ]
    assert latency_ratio(nothing, "handover", "cooperative", 50) is None
    some = latency_ratio(nothing + both, "handover", "cooperative", 50)
    assert some
    assert some.median == pytest.approx(0.5, rel=0.01)


@given(POINTS)
def test_no_point_of_the_frontier_is_dominated_and_all_others_are(
    points: list[tuple[float, float]],
) -> None:
    kept = frontier(points)
    assert kept == sorted(kept)
    for us, mpps in points:
        within = [most for at, most in kept if at <= us]
        assert within
        assert max(within) >= mpps
    assert all(one[1] < other[1] for one, other in itertools.pairwise(kept))


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_picture_is_drawn_also_of_what_delivered_nothing(tmp_path: Path, kind: str) -> None:
    loads = {"constant": {"handover": [(0.2, 5.0, 9.0), (1.0, 50.0, 90.0)], "rr": []}}
    latency(loads, {"handover": [(40.0, 5.0)], "rr": []}, tmp_path / f"x.{kind}")
    assert (tmp_path / f"x.{kind}").stat().st_size > 5000


def test_co_operative_functions_yield_within_a_ring_and_not_all_the_time() -> None:
    assert yields_on(128) == [1, 2]
    assert yields_on(1024) == [2, 4, 8, 16]
    assert yields_on(8192) == [16, 32, 64]

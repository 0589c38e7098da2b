"""`evaluation paper` as a whole, without a machine: what is measured, put together and written."""

import csv
import io
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.commands.paper import csv_of
from evaluation.paper import arms, evaluation, scale
from evaluation.paper.case import HANDOVER_FILLS, KERNEL, LOAD, MAIN, ONLINE_COST_FILLS, TUNED, Case
from evaluation.paper.evaluation import FIGURES, PaperSettings, evaluate
from evaluation.paper.measured import Measured, latency_us
from evaluation.paper.report import report_page
from evaluation.paper.simulated import FREE
from evaluation.paper.source import Source
from tests.python.test_paper import ALL, MACHINE, measured, window
from unis.calibrate.fit import Calibrated
from unis.plan.machine import Machine
from unis.simulate.scenario import MachineCosts
from unis.v1 import common_pb2 as common


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is measured or simulated; the keys of what would have been."""
    seen: list[str] = []

    def of(case: Case, *_: object) -> Measured:
        seen.append(case.key)
        return measured(case, lambda _: window(10 / case.length))

    monkeypatch.setattr(evaluation, "measure", of)
    mpps = {arms.PRIORITY: 9.0, arms.HANDOVER: 9.0, FREE: 9.9, arms.PAPER_K: 10.0}
    monkeypatch.setattr(evaluation, "simulate_case", lambda *_: mpps)
    monkeypatch.setattr(
        evaluation, "calibration_of", lambda *_: Calibrated(MachineCosts(switch_ns=8000))
    )
    both = {arm: {"s1": 5.0} for arm in (arms.PRIORITY, arms.PAPER_K)}
    monkeypatch.setattr(evaluation, "simulate_table", lambda *_: {"c": both})
    monkeypatch.setattr(scale, "_mpps", lambda *at: 50 / at[2] / at[3])
    monkeypatch.setattr(Machine, "this", staticmethod(lambda: MACHINE))
    monkeypatch.setattr(Source, "this", staticmethod(lambda: Source("a commit", "a digest")))
    return seen


def test_results_and_table_tell_of_every_figure(measure: list[str], tmp_path: Path) -> None:
    said: list[str] = []
    results = evaluate(
        PaperSettings(quick=False, only=tuple(FIGURES), directory=tmp_path), said.append
    )
    assert measure == list(ALL)
    assert said[0].startswith(f"1 of {len(ALL)}, about ")
    assert [figure.key for figure in results.figures] == list(FIGURES)
    assert len([figure for figure in results.figures if "measured" in figure.source]) >= 12
    data = json.loads(results.model_dump_json())
    needed = {"experiment", "cost", "length", "ring", "policy", "controller", "mpps", "source"}
    needed |= {"ratio_to_cooperative", "ratio_to_fused", "latency_us", "paper", "verdict"}
    assert all(needed <= row.keys() for row in data["rows"])
    assert {row["experiment"] for row in data["rows"]} == set(FIGURES) - {"scale"}
    assert all(row["verdict"] for row in data["rows"])
    assert data["simulator"]["median_error"] == pytest.approx(0.1)
    assert data["simulator"]["by_arm"][arms.PRIORITY]["bias"] == pytest.approx(-0.1)
    assert {of["verdict"] for of in data["rows"]} >= {"agrees", "holds"}
    lines = list(csv.DictReader(io.StringIO(csv_of(results.rows))))
    assert len(lines) == len(results.rows)
    assert float(lines[0]["mpps.median"]) == pytest.approx(results.rows[0].mpps.median)
    assert not (tmp_path / ".unis-parts").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("measure")
def test_the_report_tells_of_every_figure(tmp_path: Path) -> None:
    settings = PaperSettings(quick=False, only=tuple(FIGURES), directory=tmp_path)
    page = report_page(evaluate(settings, lambda _: None))
    for key in FIGURES:
        assert f'id="{key}"' in page
    ids = [part.split('"')[0] for part in page.split(' id="')[1:]]
    assert len(set(ids)) == len(ids)


def test_only_what_a_figure_needs_is_measured(
    measure: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, list[str]] = {}
    first: Callable[..., Measured] = vars(evaluation)["measure"]

    def look(case: Case, *more: object) -> Measured:
        seen[case.key] = [*case.sets]
        return first(case, *more)

    monkeypatch.setattr(evaluation, "measure", look)

    def of(*only: str) -> None:
        seen.clear()
        evaluate(PaperSettings(quick=False, only=only, directory=tmp_path), lambda _: None)

    of("same")
    assert {*map(tuple, seen.values())} == {(MAIN, TUNED)}
    of("fig13")
    assert {*map(tuple, seen.values())} == {(MAIN,)}
    assert "medium-5" in seen
    of("fig4a")
    assert seen["light-5"] == [MAIN, TUNED, KERNEL]
    assert seen["light-5-fused"] == [MAIN]
    of("fig5", "fig6")
    assert seen["light-2"] == [MAIN, TUNED, LOAD]
    assert "light-2-fused" not in seen
    of("fig15")
    assert seen["slices-light"] == [MAIN, ONLINE_COST_FILLS, HANDOVER_FILLS]
    assert measure


def test_what_was_measured_before_an_interruption_is_not_measured_again(
    measure: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = PaperSettings(quick=True, only=("fig7",), directory=tmp_path)
    first: Callable[..., Measured] = vars(evaluation)["measure"]

    def interrupted(case: Case, *more: object) -> Measured:
        if measure:
            raise KeyboardInterrupt
        return first(case, *more)

    monkeypatch.setattr(evaluation, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate(settings, lambda _: None)
    assert measure == ["mixed-2"]
    monkeypatch.setattr(evaluation, "measure", first)
    said: list[str] = []
    evaluate(settings, said.append)
    assert measure == ["mixed-2", "mixed-4"]
    assert "1 of 2 cases are done from an interrupted call" in said[0]
    assert measure.count("mixed-2") == 1


@given(st.lists(st.tuples(st.integers(1, 10**7), st.integers(1, 1000)), min_size=1, max_size=50))
def test_latencies_are_those_of_packets(packets: list[tuple[int, int]]) -> None:
    packets = sorted(dict(packets).items())
    histogram = common.LatencyHistogram(
        value_ns=[value for value, _ in packets], count=[count for _, count in packets]
    )
    found = latency_us(histogram)
    every = list(itertools.chain.from_iterable([value / 1e3] * count for value, count in packets))
    assert found["mean"] == pytest.approx(sum(every) / len(every))
    for percentile in (5, 50, 95, 99):
        of = found[f"p{percentile}"]
        assert of is not None
        no_slower = sum(one <= of for one in every)
        slower_or_as = sum(one >= of for one in every)
        assert no_slower >= percentile / 100 * len(every) - 1e-6
        assert slower_or_as >= (1 - percentile / 100) * len(every) - 1e-6


def test_no_packet_has_no_latency() -> None:
    assert set(latency_us(common.LatencyHistogram()).values()) == {None}


def test_loads_are_measured_after_what_can_be_sustained() -> None:
    for case in ALL.values():
        if LOAD in case.sets:
            assert next(iter(case.sets)) == MAIN


def test_a_row_can_be_told_from_every_other(measure: list[str], tmp_path: Path) -> None:
    results = evaluate(
        PaperSettings(quick=False, only=tuple(FIGURES), directory=tmp_path), lambda _: None
    )
    keys = [
        (one.experiment, one.case, one.set, one.arm, one.x, one.chain, one.source)
        for one in results.rows
    ]
    assert len(keys) == len({*keys})
    assert {one.source for one in results.rows} == {"measured", "simulated"}
    assert measure

"""`unis bench paper`, without a machine: what is measured, how it is judged, what is written."""

import csv
import io
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unis.bench.paper import arms, causes, conditions, evaluation, scale, throughput
from unis.bench.paper.cases import FULL, HANDED, LOAD, MAIN, QUICK, SAME, TUNED, Case, Extent, cases
from unis.bench.paper.evaluation import FIGURES, Settings, evaluate
from unis.bench.paper.figure import Found
from unis.bench.paper.measured import Measured, Window, latency_us, seconds_of
from unis.bench.paper.virtual import Calibrated
from unis.chain.load import LoadedChain
from unis.cli.paper_command import csv_of
from unis.measure.disturbance import Disturbance
from unis.plan.machine import Machine
from unis.plan.planner import make_plan
from unis.report.paper import report_page
from unis.runtime.planning import places
from unis.simulate.scenario import MachineCosts
from unis.v1 import common_pb2 as common

MACHINE = Machine(cpus=frozenset({0, 1}))
ALL = {case.key: case for case in cases(FULL, MACHINE)}


def window(
    mpps: float, *, us: float = 10.0, switches: float = 100.0, share: float = 0.2, second: float = 1
) -> Window:
    return Window(
        mpps=mpps,
        dropped_pps=0,
        latency_us={"mean": us, "p5": us / 2, "p50": us, "p95": us * 2, "p99": us * 3},
        switches_per_s=switches,
        context_switches_per_s={"macswap1": switches, "macswap2": switches},
        cpu_share={"macswap1": share, "macswap2": share * 2},
        chain_mpps={"s1": mpps / (1 + second), "s2": mpps * second / (1 + second)},
    )


def measured(case: Case, of: Callable[[str], Window], *, switch_ns: float = 8000) -> Measured:
    """Windows of each set that differ by a hundredth."""
    rounds = (0.99, 1.0, 1.01, 1.0)
    return Measured(
        key=case.key,
        slots=2048,
        costs_ns={name: {64: 20.0} for name in case.make().file.functions},
        platform_ns={"source": 20.0, "sink": 15.0, "scheduler": 4000.0},
        switch_ns=switch_ns,
        preempt_ns=switch_ns / 2,
        yield_ns=1200,
        three_cpus=False,
        sets={
            name: [
                {arm: of(arm).model_copy(update={"mpps": of(arm).mpps * by}) for arm in wanted}
                for by in rounds
            ]
            for name, wanted in case.sets.items()
        },
        disturbed=Disturbance(windows=4, disturbed=0, stolen=0, worst=0),
    )


def found(
    figure: str, of: Callable[[Case, str], Window], only: Callable[[Case], bool] = lambda _: True
) -> Found:
    wanted = {key: case for key, case in ALL.items() if figure in case.figures and only(case)}
    return Found(
        wanted,
        {
            key: measured(case, lambda arm, case=case: of(case, arm))  # type: ignore[misc]
            for key, case in wanted.items()
        },
    )


def share(of: Mapping[str, float]) -> Callable[[Case, str], Window]:
    """Throughput by arm; 10 where nothing is said."""
    return lambda case, arm: window(10 * of.get(arm, 1.0) / case.length)


# ---------------------------------------------------------------------- cases


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that need not run."""
    program = tmp_path / "functions" / "macswap"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setenv("UNIS_BUILD", str(tmp_path))


@pytest.mark.parametrize("extent", [QUICK, FULL])
@pytest.mark.usefixtures("built")
def test_every_case_is_a_chain_that_can_be_planned(extent: Extent) -> None:
    of = cases(extent, MACHINE)
    assert len({case.key for case in of}) == len(of)
    for case in of:
        chain = case.make()
        assert isinstance(chain, LoadedChain)
        plan = make_plan(chain, MACHINE, [], places)
        assert plan.gamma.value == 0.75
        assert {link.slots for link in plan.links} == {2048}
        for which, names in case.sets.items():
            if which != TUNED:
                assert [str(arms.ALL[name].of(plan)) for name in names] == [*names]


def test_each_figure_has_cases_but_for_what_two_cpus_cannot_show() -> None:
    there = set().union(*(case.figures for case in ALL.values()))
    assert there == set(FIGURES) - {"scale"}
    quick = set().union(*(case.figures for case in cases(QUICK, MACHINE)))
    assert quick == set(FIGURES) - {"same", "scale"}
    many = {case.key: case for case in cases(QUICK, Machine(cpus=frozenset(range(4))))}
    assert many["table1c"].cpus == 2
    assert "table1c" not in ALL


def test_quick_takes_less_than_six_minutes_and_all_of_it_less_than_thirty() -> None:
    for extent, most in ((QUICK, 6), (FULL, 30)):
        assert sum(seconds_of(case, extent) for case in cases(extent, MACHINE)) < most * 60


@pytest.mark.usefixtures("built")
def test_an_arm_has_its_own_settings_and_those_of_the_paper_else() -> None:
    plan = make_plan(ALL["light-2"].make(), MACHINE, [], places)

    def of(name: str) -> common.SchedulerSettings:
        return common.SchedulerSettings.FromString(arms.ALL[name].of(plan).scheduler)

    assert arms.ALL[arms.PRIORITY].of(plan).scheduler == b""
    without = of(arms.WITHOUT)
    assert (without.occupancy, without.gamma, without.online_cost) == (False, 0.75, False)
    assert of(arms.HANDOVER).gamma > 0.9
    assert of(arms.fills(1.25, occupancy=True)).slice_factor == pytest.approx(1.25 / 0.75)


# ---------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    ("unis", "verdict"), [(0.95, "agrees"), (0.90, "agrees"), (0.8, "differs")]
)
def test_a_chain_agrees_unless_unis_is_certainly_slower(unis: float, verdict: str) -> None:
    figure, rows = throughput.fig4a(found("fig4a", share({arms.PRIORITY: unis})))
    assert figure.verdict == verdict
    assert bool(figure.why) == (verdict == "differs")
    one = next(row for row in rows if row.arm == arms.PRIORITY and row.length == 2)
    assert one.ratio_to_paper_k
    assert one.ratio_to_paper_k.median == pytest.approx(unis)
    assert one.ratio_to_fused
    assert {row.policy for row in rows} == {"unis", "cooperative", "fused"}
    assert [point.x for point in figure.plots[0].series[arms.PRIORITY]] == [*range(2, 8)]


def test_the_best_distance_is_that_with_the_most_not_the_papers() -> None:
    speed = {arms.K[32]: 1.25, arms.PRIORITY: 1.0}
    _, rows = throughput.fig7(found("fig7", share(speed)))
    one = next(row for row in rows if row.arm == arms.PRIORITY)
    assert one.ratio_to_cooperative
    assert one.ratio_to_paper_k
    assert one.ratio_to_cooperative.median == pytest.approx(0.8)
    assert one.ratio_to_paper_k.median == pytest.approx(1.0)


def test_density_tells_who_fits_fewer() -> None:
    speed = {arms.PRIORITY: 0.8, arms.HANDOVER: 1.0}
    figure, _ = throughput.fig6(found("fig6", share(speed)))
    assert figure.verdict == "differs"
    assert "as many as the best k" in figure.ours
    figure, _ = throughput.fig6(found("fig6", share({arms.HANDOVER: 0.8})))
    assert figure.verdict == "agrees"
    assert "fewer than the best k at" in figure.ours


@given(
    st.dictionaries(st.integers(1, 9), st.floats(0.1, 50), min_size=2, max_size=6),
    st.floats(0.05, 60),
    st.floats(0.05, 60),
)
def test_more_is_never_passed_by_more_functions(
    curve: dict[int, float], one: float, other: float
) -> None:
    less, more = sorted((one, other))
    assert throughput._density(curve, less) >= throughput._density(curve, more) * (1 - 1e-9)
    for length, mpps in curve.items():
        assert throughput._density(curve, mpps) >= length * (1 - 1e-9)


def test_kernels_that_reach_half_contradict_the_paper() -> None:
    def of(part: float) -> Callable[[Case, str], Window]:
        return share({arms.OTHER: part, arms.RR: 0.01})

    figure, rows = conditions.fig1(found("fig1", of(0.05)))
    assert figure.verdict == "agrees"
    assert {len(points) for points in figure.plots[0].series.values()} == {3}
    each = [(row.arm, row.size) for row in rows if row.arm not in ("handover", "cooperative/8")]
    names = ("other", "rr", "rr, slices of 1 ms")
    assert each == [(name, size) for name in names for size in (64, 512, 1500)]
    assert conditions.fig1(found("fig1", of(0.5)))[0].verdict == "differs"


def test_latency_agrees_where_heavy_functions_have_less_and_others_more() -> None:
    def of(heavy: float) -> Callable[[Case, str], Window]:
        def one(case: Case, arm: str) -> Window:
            us = 12.0 if case.cost != "heavy" else heavy
            return window(5, us=us if arm == arms.PRIORITY else 10.0)

        return one

    assert conditions.fig5(found("fig5", of(8)))[0].verdict == "agrees"
    figure, rows = conditions.fig5(found("fig5", of(12)))
    assert figure.verdict == "differs"
    assert "heavy +2" in figure.ours
    assert {row.experiment for row in rows} == {"fig5"}


def test_switches_and_cpu() -> None:
    def of(switches: float, cpu: float) -> Callable[[Case, str], Window]:
        def one(_: Case, arm: str) -> Window:
            if arm == arms.PRIORITY:
                return window(5, switches=switches, share=cpu)
            return window(5)

        return one

    assert causes.fig10(found("fig10", of(40, 0.2)))[0].verdict == "agrees"
    assert causes.fig10(found("fig10", of(60, 0.2)))[0].verdict == "differs"
    assert causes.fig11(found("fig11", of(40, 0.1)))[0].verdict == "differs"
    assert causes.fig13(found("fig13", of(40, 0.2)))[0].verdict == "agrees"
    assert causes.fig13(found("fig13", of(40, 0.1)))[0].verdict == "differs"


def test_cache_misses_where_they_are_counted() -> None:
    def of(misses: float) -> Callable[[Case, str], Window]:
        def one(_: Case, arm: str) -> Window:
            last = misses if arm == arms.PRIORITY else 0.05
            return window(5).model_copy(
                update={"cache_misses": {"macswap1": 0.3, "macswap2": last}}
            )

        return one

    assert causes.fig12(found("fig12", of(0.1)))[0].verdict == "agrees"
    figure, _ = causes.fig12(found("fig12", of(0.02)))
    assert figure.verdict == "differs"
    assert figure.plots[0].series[arms.PRIORITY][1].y == pytest.approx(2)
    absent = causes.fig12(found("fig12", share({})))[0]
    assert absent.verdict == "cannot be had here"
    assert absent.why


def test_slices_that_are_wrong() -> None:
    def of(short: float, long_without: float) -> Callable[[Case, str], Window]:
        parts = {arms.fills(0.25, occupancy=on): short for on in (True, False)}
        return share({**parts, arms.fills(1.25, occupancy=False): long_without})

    assert conditions.fig15(found("fig15", of(0.99, 0.85)))[0].verdict == "agrees"
    assert conditions.fig15(found("fig15", of(0.8, 0.85)))[0].verdict == "differs"
    figure, rows = conditions.fig15(found("fig15", of(0.99, 0.99)))
    assert figure.verdict == "differs"
    assert {row.x for row in rows} == set(arms.FILLS)


def test_table_one_has_what_was_measured_and_what_was_simulated() -> None:
    of = found("table1", lambda _case, _arm: window(8, second=0.99))
    several = {"b": {arm: {"s1": 5.0, "s2": 5.1} for arm in (arms.PRIORITY, arms.PAPER_K)}}
    figure, _ = throughput.table1(replace(of, several=several))
    assert figure.verdict == "agrees"
    assert figure.source == ["measured", "simulated"]
    assert "(b, simulated) 5.00/5.10" in figure.ours
    starved = found("table1", lambda _case, _arm: window(8, second=0.5))
    assert throughput.table1(starved)[0].verdict == "differs"


def test_the_instrument_is_wrong_where_too_many_intervals_leave_one_out() -> None:
    assert conditions.same(found("same", share({})))[0].verdict == "agrees"
    figure, _ = conditions.same(found("same", share({arms.AGAIN: 1.1})))
    assert figure.verdict == "differs"
    assert all(SAME in case.sets for case in ALL.values() if "same" in case.figures)


def test_scale_tells_how_far_one_thread_serves() -> None:
    def share(cores: int) -> float:
        return 10.0 if cores <= 8 else 5.0

    of = scale.Scale(
        {(cores, functions): share(cores) for cores in scale.CORES for functions in (2, 4, 16)},
        {(us, functions): 10 - us / 10 for us in scale.INTERVALS_US for functions in (2, 4, 16)},
        dict.fromkeys(scale.FUNCTIONS, 3.0),
        14.0,
    )
    figure = scale.figure(of)
    assert "8 cores of 2, 8 cores of 4, 8 cores of 16; T up to 10 µs with 2" in figure.ours
    assert figure.verdict == "not in the paper"
    assert [point.y for point in figure.plots[0].series["2 functions a core"]][3:5] == [1.0, 0.5]


# ---------------------------------------------------------------------- all of it


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is measured or simulated; the keys of what would have been."""
    seen: list[str] = []

    def of(case: Case, *_: object) -> Measured:
        seen.append(case.key)
        return measured(case, lambda _: window(10 / case.length))

    monkeypatch.setattr(evaluation, "measure", of)
    mpps = {arms.PRIORITY: 9.0, arms.HANDOVER: 9.0, arms.PAPER_K: 10.0}
    monkeypatch.setattr(evaluation, "simulate_case", lambda *_: mpps)
    monkeypatch.setattr(
        evaluation, "calibrated", lambda *_: Calibrated(MachineCosts(switch_ns=8000))
    )
    both = {arm: {"s1": 5.0} for arm in (arms.PRIORITY, arms.PAPER_K)}
    monkeypatch.setattr(evaluation, "simulate_table", lambda *_: {"c": both})
    monkeypatch.setattr(scale, "_mpps", lambda *at: 50 / at[2] / at[3])
    monkeypatch.setattr(Machine, "this", staticmethod(lambda: MACHINE))
    return seen


def test_results_report_and_table_tell_of_every_figure(measure: list[str], tmp_path: Path) -> None:
    said: list[str] = []
    results = evaluate(Settings(quick=False, only=tuple(FIGURES), directory=tmp_path), said.append)
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
    page = report_page(results)
    for figure in results.figures:
        assert f'id="{figure.key}"' in page
    ids = [part.split('"')[0] for part in page.split(' id="')[1:]]
    assert len(set(ids)) == len(ids)
    lines = list(csv.DictReader(io.StringIO(csv_of(results.rows))))
    assert len(lines) == len(results.rows)
    assert float(lines[0]["mpps.median"]) == pytest.approx(results.rows[0].mpps.median)
    assert not (tmp_path / "parts").exists()


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
        evaluate(Settings(quick=False, only=only, directory=tmp_path), lambda _: None)

    of("same")
    assert {*map(tuple, seen.values())} == {(SAME,)}
    of("fig13")
    assert seen == {"medium-5": [MAIN]}
    of("fig5", "fig6")
    assert seen["light-2"] == [MAIN, TUNED, LOAD]
    of("fig15")
    assert seen["slices-light"] == [MAIN, HANDED]
    assert measure


def test_what_was_measured_before_an_interruption_is_not_measured_again(
    measure: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(quick=True, only=("fig7",), directory=tmp_path)
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
    assert "1 of 2 are there from before an interruption" in said[0]
    assert measure.count("mixed-2") == 1
    # Of another extent nothing is taken over.
    (tmp_path / "parts").mkdir(exist_ok=True)
    evaluate(replace(settings, quick=False), lambda _: None)
    assert measure.count("mixed-2") == 2


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

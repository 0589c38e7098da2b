"""`evaluation paper`, without a machine: what is measured, how it is judged, what is written."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.paper import (
    arms,
    causes,
    conditions,
    density,
    scale,
    table,
    throughput,
)
from evaluation.paper.case import LOAD, TUNED, Case, Extent
from evaluation.paper.cases import FULL, QUICK, cases
from evaluation.paper.evaluation import FIGURES
from evaluation.paper.figure import Findings
from evaluation.paper.measured import ArmWindow, Measured, seconds_of
from evaluation.paper.simulated import FREE
from unis.calibrate.fit import RING
from unis.chain.load import LoadedChain
from unis.measure.disturbance import Disturbance
from unis.plan.machine import Machine
from unis.plan.planner import make_plan
from unis.runtime.planning import places
from unis.v1 import common_pb2 as common

MACHINE = Machine(cpus=frozenset({0, 1}))
ALL = {case.key: case for case in cases(FULL, MACHINE)}


def window(
    mpps: float, *, us: float = 10.0, switches: float = 100.0, share: float = 0.2, second: float = 1
) -> ArmWindow:
    return ArmWindow(
        mpps=mpps,
        dropped_pps=0,
        lost=0,
        latency_us={"mean": us, "p5": us / 2, "p50": us, "p95": us * 2, "p99": us * 3},
        switches_per_s=switches,
        context_switches_per_s={"macswap1": switches, "macswap2": switches},
        cpu_share={"macswap1": share, "macswap2": share * 2},
        chain_mpps={"s1": mpps / (1 + second), "s2": mpps * second / (1 + second)},
    )


def measured(case: Case, of: Callable[[str], ArmWindow], *, switch_ns: float = 8000) -> Measured:
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
        began=0,
        transfers_ns=[30.0, 31.0],
        best_every=32 if TUNED in case.sets else None,
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
    figure: str, of: Callable[[Case, str], ArmWindow], only: Callable[[Case], bool] = lambda _: True
) -> Findings:
    wanted = {key: case for key, case in ALL.items() if figure in case.figures and only(case)}
    return Findings(
        wanted,
        {
            key: measured(case, lambda arm, case=case: of(case, arm))  # type: ignore[misc]
            for key, case in wanted.items()
        },
    )


def share(of: Mapping[str, float]) -> Callable[[Case, str], ArmWindow]:
    """Throughput by arm; of co-operation at its best that of k = 32."""
    best = {arms.BEST: of.get(arms.K[32], 1.0), **of}
    return lambda case, arm: window(10 * best.get(arm, 1.0) / case.length)


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
                assert [str(arms.SPECS[name].in_run(plan.scheduler, RING)) for name in names] == [
                    *names
                ]


def test_each_figure_has_cases_but_for_what_two_cpus_cannot_show() -> None:
    there = set().union(*(case.figures for case in ALL.values()))
    assert there == set(FIGURES) - {"scale"}
    quick = set().union(*(case.figures for case in cases(QUICK, MACHINE)))
    assert quick == set(FIGURES) - {"scale"}
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
        return common.SchedulerSettings.FromString(
            arms.SPECS[name].in_run(plan.scheduler, RING).scheduler
        )

    assert arms.SPECS[arms.PRIORITY].in_run(plan.scheduler, RING).scheduler == b""
    without = of(arms.NO_OCCUPANCY)
    assert (without.occupancy, without.gamma, without.online_cost) == (False, 0.75, False)
    assert of(arms.HANDOVER).gamma > 0.9
    assert of(arms.fill_name(1.25, occupancy=True)).slice_factor == pytest.approx(1.25 / 0.75)


# ---------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    ("unis", "verdict"), [(0.95, "agrees"), (0.91, "agrees"), (0.8, "differs")]
)
def test_a_chain_agrees_unless_unis_is_certainly_slower(unis: float, verdict: str) -> None:
    figure, rows = throughput.fig4a(found("fig4a", share({arms.PRIORITY: unis})))
    assert figure.verdict == verdict
    assert bool(figure.why) == (verdict == "differs")
    one = next(row for row in rows if row.arm == arms.PRIORITY and row.length == 2)
    assert one.ratio_to_paper_k
    assert one.ratio_to_paper_k.median == pytest.approx(unis)
    assert one.ratio_to_fused
    assert one.ratio_to_fused.median == pytest.approx(unis)
    assert {row.policy for row in rows} == {"unis", "cooperative", "fused", "other"}
    assert [point.x for point in figure.plots[0].series[arms.PRIORITY]] == [*range(2, 8)]


def test_the_best_distance_is_that_with_the_most_not_the_papers() -> None:
    speed = {arms.K[32]: 1.25, arms.PRIORITY: 1.0}
    _, rows = throughput.fig7(found("fig7", share(speed)))
    one = next(row for row in rows if row.arm == arms.PRIORITY)
    assert one.best_every == 32
    assert one.ratio_to_cooperative
    assert one.ratio_to_paper_k
    assert one.ratio_to_cooperative.median == pytest.approx(0.8)
    assert one.ratio_to_paper_k.median == pytest.approx(1.0)


def test_nothing_is_said_of_one_process_on_a_machine_that_has_changed() -> None:
    of = found("fig4a", share({}))
    key = "light-2-fused"
    far = of.measured[key].model_copy(update={"transfers_ns": [30.0, 170.0]})
    _, rows = throughput.fig4a(replace(of, measured={**of.measured, key: far}))
    known = {one.case: one.ratio_to_fused is not None for one in rows if one.arm == arms.PRIORITY}
    assert not known["light-2"]
    assert known["light-3"]


def test_what_a_switch_does_is_what_the_simulator_says() -> None:
    of = found("fig4a", share({arms.PRIORITY: 0.8}))
    mpps = {arms.PRIORITY: 8.0, FREE: 9.8, arms.PAPER_K: 10.0}
    figure, _ = throughput.fig4a(replace(of, simulated={"light-2": mpps}))
    assert "0.80 of k = 8 with it, and 0.98 with switches" in figure.why


def test_density_tells_who_fits_fewer() -> None:
    speed = {arms.PRIORITY: 0.8, arms.HANDOVER: 1.0}
    figure, rows = density.fig6(found("fig6", share(speed)))
    assert figure.verdict == "differs"
    assert "fewer at none" in figure.ours
    whole = [one for one in rows if one.ratio_to == arms.PAPER_K]
    assert {one.length for one in whole} <= set(range(8))
    assert any(one.ratio and one.ratio.hi < 0.9 for one in whole)
    figure, _ = density.fig6(found("fig6", share({arms.HANDOVER: 0.8})))
    assert figure.verdict == "agrees"
    assert "beyond chance" in figure.ours


@given(
    st.dictionaries(st.integers(1, 9), st.floats(0.1, 50), min_size=2, max_size=6),
    st.floats(0.05, 60),
    st.floats(0.05, 60),
)
def test_more_is_never_passed_by_more_functions(
    curve: dict[int, float], one: float, other: float
) -> None:
    less, more = sorted((one, other))
    assert density.density(curve, less) >= density.density(curve, more) * (1 - 1e-9)
    for length, mpps in curve.items():
        assert density.density(curve, mpps) >= length * (1 - 1e-9)


def test_kernels_that_reach_half_contradict_the_paper() -> None:
    def of(part: float) -> Callable[[Case, str], ArmWindow]:
        return share({arms.OTHER: part, arms.RR: 0.01})

    figure, rows = conditions.fig1(found("fig1", of(0.05)))
    assert figure.verdict == "agrees"
    assert {len(points) for points in figure.plots[0].series.values()} == {3}
    assert len(figure.plots[0].series) == 4
    each = {(row.arm, row.size, "short" in row.case) for row in rows if row.policy != "unis"}
    assert len(each) == 3 * 3 * 2
    assert conditions.fig1(found("fig1", of(0.5)))[0].verdict == "differs"


def test_latency_agrees_where_heavy_functions_have_less_and_others_more() -> None:
    def of(heavy: float) -> Callable[[Case, str], ArmWindow]:
        def one(case: Case, arm: str) -> ArmWindow:
            us = 12.0 if case.cost != "heavy" else heavy
            return window(5, us=us if arm == arms.PRIORITY else 10.0)

        return one

    assert conditions.fig5(found("fig5", of(8)))[0].verdict == "agrees"
    figure, rows = conditions.fig5(found("fig5", of(12)))
    assert figure.verdict == "differs"
    assert "heavy: UNiS as in the paper +2" in figure.ours
    assert {row.experiment for row in rows} == {"fig5"}


def test_latency_of_a_machine_that_cannot_keep_up_is_left_out() -> None:
    of = found("fig5", lambda _case, arm: window(5, us=12.0 if arm == arms.PRIORITY else 10.0))
    key = "light-2"
    sets = dict(of.measured[key].sets)
    lost = {arm: one.model_copy(update={"lost": 0.1}) for arm, one in sets[LOAD][0].items()}
    slow = of.measured[key].model_copy(update={"sets": {**sets, LOAD: [lost, *sets[LOAD][1:]]}})
    figure, rows = conditions.fig5(replace(of, measured={**of.measured, key: slow}))
    assert "Left out: 1 chains" in figure.ours
    assert key not in {one.case for one in rows}
    all_lost = {arm: one.model_copy(update={"lost": 0.1}) for arm, one in sets[LOAD][0].items()}
    none = {
        name: one.model_copy(update={"sets": {**one.sets, LOAD: [all_lost] * 8}})
        for name, one in of.measured.items()
    }
    figure, rows = conditions.fig5(replace(of, measured=none))
    assert (figure.verdict, figure.source, rows) == ("cannot be had here", [], [])
    assert figure.why


def test_switches_and_cpu() -> None:
    def of(switches: float, cpu: float) -> Callable[[Case, str], ArmWindow]:
        def one(_: Case, arm: str) -> ArmWindow:
            if arm == arms.PRIORITY:
                return window(5, switches=switches, share=cpu)
            return window(5, share=0.2 if arm == arms.PAPER_K else 0.21)

        return one

    assert causes.fig10(found("fig10", of(40, 0.2)))[0].verdict == "agrees"
    assert causes.fig10(found("fig10", of(60, 0.2)))[0].verdict == "differs"
    assert causes.fig11(found("fig11", of(40, 0.205)))[0].verdict == "agrees"
    assert causes.fig11(found("fig11", of(40, 0.199)))[0].verdict == "too close to tell"
    assert causes.fig11(found("fig11", of(40, 0.19)))[0].verdict == "differs"
    assert causes.fig13(found("fig13", of(40, 0.205)))[0].verdict == "agrees"
    assert causes.fig13(found("fig13", of(40, 0.1)))[0].verdict == "differs"
    assert causes.fig13(found("fig13", of(60, 0.205)))[0].verdict == "differs"


def test_light_functions_that_gain_by_longer_turns_contradict_the_paper() -> None:
    light = {arms.K[16]: 0.97, arms.K[24]: 0.95, arms.PRIORITY: 0.9}
    medium = {arms.K[16]: 1.02, arms.K[24]: 1.03, arms.PRIORITY: 0.98}

    def of(of_light: Mapping[str, float]) -> Callable[[Case, str], ArmWindow]:
        return lambda case, arm: share(of_light if case.cost == "light" else medium)(case, arm)

    assert causes.fig9(found("fig9", of(light)))[0].verdict == "agrees"
    assert causes.fig9(found("fig9", of(medium)))[0].verdict == "differs"


def test_cache_misses_where_they_are_counted() -> None:
    def of(misses: float) -> Callable[[Case, str], ArmWindow]:
        def one(_: Case, arm: str) -> ArmWindow:
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
    def of(short: float, long_without: float) -> Callable[[Case, str], ArmWindow]:
        parts = {arms.fill_name(0.25, occupancy=on): short for on in (True, False)}
        return share({**parts, arms.fill_name(1.25, occupancy=False): long_without})

    # Windows of one round differ alike, so an interval is a point here.
    assert conditions.fig15(found("fig15", of(0.99, 0.85)))[0].verdict == "agrees"
    assert conditions.fig15(found("fig15", of(0.8, 0.85)))[0].verdict == "differs"
    figure, rows = conditions.fig15(found("fig15", of(0.99, 0.99)))
    assert "costs estimated online 1.00" in figure.ours
    assert figure.verdict == "differs"
    assert {row.x for row in rows} == set(arms.FILLS)


def test_table_one_has_what_was_measured_and_what_was_simulated() -> None:
    of = found("table1", lambda _case, _arm: window(8, second=0.99))
    several = {"b": {arm: {"s1": 5.0, "s2": 5.1} for arm in (arms.PRIORITY, arms.PAPER_K)}}
    figure, _ = table.table1(replace(of, table1_mpps=several))
    assert figure.verdict == "agrees"
    assert figure.source == ["measured", "simulated"]
    assert "(b, simulated) 5.00/5.10" in figure.ours
    starved = found("table1", lambda _case, _arm: window(8, second=0.5))
    assert table.table1(starved)[0].verdict == "differs"


def test_the_instrument_is_wrong_where_too_many_intervals_leave_one_out() -> None:
    assert conditions.same(found("same", share({})))[0].verdict == "holds"
    figure, rows = conditions.same(found("same", share({arms.HANDOVER_AGAIN: 1.1})))
    assert figure.verdict == "fails"
    again = next(one for one in rows if one.arm == arms.HANDOVER_AGAIN)
    assert again.ratio
    assert again.ratio.median == pytest.approx(1.1)
    assert all(TUNED in case.sets for case in ALL.values() if "same" in case.figures)


@pytest.mark.parametrize(("rows", "allowed"), [(1, 0), (10, 2), (24, 3), (100, 9)])
def test_so_many_intervals_leave_out_what_is_so_by_chance(rows: int, allowed: int) -> None:
    assert conditions._by_chance(rows) == allowed


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
    assert [point.y for point in figure.plots[0].series["2 functions per core"]][3:5] == [1.0, 0.5]

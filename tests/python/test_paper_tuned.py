"""Hand-over beside co-operation at its best, and slices of a wrong length."""

import pytest

from evaluation.paper import arms, conditions, density, scale, ticks
from evaluation.paper.case import HANDOVER_FILLS, MAIN, ONLINE_COST_FILLS, TUNED
from evaluation.paper.figure import Findings
from evaluation.paper.rows import best_of, row
from tests.python.test_paper import ALL, found, measured, share, window


def test_hand_over_is_held_against_the_distance_that_was_best_when_measured_anew() -> None:
    case = ALL["light-3"]
    of = measured(case, lambda _: window(10))
    assert best_of(of) in arms.K.values()
    of.best_every = 24
    of.sets[TUNED] = [
        dict(zip(arms.TUNED, map(window, (9, 9, 10, 8)), strict=True)) for _ in range(6)
    ]
    assert best_of(of) == arms.K[24]
    tuned = row("fig4a", case, of, arms.HANDOVER, window_set=TUNED)
    assert tuned.ratio_to_cooperative
    assert tuned.ratio_to_cooperative.median == pytest.approx(0.9)
    handed = row("fig4a", case, of, arms.HANDOVER)
    assert handed.ratio_to_cooperative is None, "in other rounds than those that chose the best"
    assert handed.ratio_to_paper_k
    assert handed.ratio_to_paper_k.median == pytest.approx(1.0)
    paper = row("fig4a", case, of, arms.PRIORITY)
    assert paper.ratio_to_cooperative
    assert paper.ratio_to_cooperative.median == pytest.approx(1.0)


def test_one_function_alone_is_the_same_under_all() -> None:
    findings = found(
        "fig6", lambda case, arm: window((10 if arm == arms.HANDOVER else 12) / case.length)
    )
    assert isinstance(findings, Findings)
    for case, windows in findings.chains("fig6"):
        if case.length == 1:
            windows.sets[MAIN] = [dict.fromkeys(case.sets[MAIN], window(12))]
    _, rows = density.fig6(findings)
    handed = [row for row in rows if row.ratio_to == arms.BEST and row.cost == "light"]
    cheapest, dearest = (of(handed, key=lambda row: row.x or 0) for of in (min, max))
    assert dearest.ratio
    assert dearest.ratio.median == pytest.approx(1, rel=0.1)
    assert cheapest.ratio
    assert cheapest.ratio.median < 0.95


def test_hand_over_and_costs_that_are_followed_stand_beside_slices_of_a_wrong_length() -> None:
    shares = {arms.handover_fill_name(0.25): 0.9, arms.online_cost_fill_name(0.25): 0.8}
    figure, rows = conditions.fig15(found("fig15", share(shares)))
    assert "handover 0.90 [0.90–0.90] at 25%" in figure.ours
    assert "costs estimated online 0.80 [0.80–0.80] at 25%" in figure.ours
    told = {row.arm: row for row in rows if row.cost == "light"}
    assert {*told} >= {of(0.25) for of in (arms.handover_fill_name, arms.online_cost_fill_name)}
    assert told[arms.online_cost_fill_name(0.25)].ratio_to == arms.online_cost_fill_name(0.75)
    of = [case for case in ALL.values() if "fig15" in case.figures]
    assert all({HANDOVER_FILLS, ONLINE_COST_FILLS} <= {*case.sets} for case in of)


def test_ticks_are_those_of_the_benchmark() -> None:
    of = ticks.parsed(
        [
            {"name": f"BM_TickWithoutSwitch/cores:{cores}/tasks:16", "real_time": 10.0 * cores}
            for cores in scale.CORES
        ]
    )
    assert of == {"there is nothing to do": {cores: 10.0 * cores for cores in scale.CORES}}
    assert ticks.parsed([{"name": "BM_TickWithoutSwitch_BigO", "real_time": 1.0}]) == {}

"""Hand-over beside co-operation at its best, and slices of a wrong length."""

import pytest

from tests.python.test_paper import ALL, found, measured, share, window
from unis.bench.paper import arms, conditions, scale, throughput, ticks
from unis.bench.paper.cases import HANDED, MAIN, TUNED
from unis.bench.paper.figure import Found
from unis.bench.paper.rows import best_of, row


def test_hand_over_is_held_against_the_distance_that_was_best_when_measured_anew() -> None:
    case = ALL["light-3"]
    of = measured(case, lambda _: window(10))
    assert best_of(of) in arms.K.values()
    of.best_every = 24
    of.sets[TUNED] = [dict(zip(arms.TUNED, map(window, (9, 10, 8)), strict=True)) for _ in range(6)]
    assert best_of(of) == arms.K[24]
    handed = row("fig4a", case, of, arms.HANDOVER)
    assert handed.ratio_to_cooperative
    assert handed.ratio_to_cooperative.median == pytest.approx(0.9)
    assert handed.ratio_to_paper_k
    assert handed.ratio_to_paper_k.median == pytest.approx(1.0)
    paper = row("fig4a", case, of, arms.PRIORITY)
    assert paper.ratio_to_cooperative
    assert paper.ratio_to_cooperative.median == pytest.approx(1.0)


def test_one_function_alone_is_the_same_under_all() -> None:
    of = found("fig6", lambda case, arm: window((10 if arm == arms.HANDOVER else 12) / case.length))
    assert isinstance(of, Found)
    for case, each in of.of("fig6"):
        if case.length == 1:
            each.sets[MAIN] = [dict.fromkeys(case.sets[MAIN], window(12))]
    figure, _ = throughput.fig6(of)
    for plot in figure.plots:
        dearest = max(point.x for point in plot.series[arms.BEST])
        at = {arm: [p.y for p in points if p.x == dearest] for arm, points in plot.series.items()}
        assert at[arms.HANDOVER] == pytest.approx(at[arms.BEST], rel=0.1)
        cheapest = min(point.x for point in plot.series[arms.BEST])
        of_best = [p.y for p in plot.series[arms.BEST] if p.x == cheapest]
        handed = [p.y for p in plot.series[arms.HANDOVER] if p.x == cheapest]
        assert handed[0] < 0.95 * of_best[0]


def test_hand_over_stands_beside_slices_of_a_wrong_length() -> None:
    shares = {arms.handed(of): 1.0 for of in arms.FILLS} | {arms.handed(0.25): 0.9}
    figure, rows = conditions.fig15(found("fig15", share(shares)))
    assert "under hand-over 90 % at worst" in figure.ours
    assert {row.arm for row in rows} >= {arms.handed(of) for of in arms.FILLS}
    assert all(HANDED in case.sets for case in ALL.values() if "fig15" in case.figures)


def test_ticks_are_those_of_the_benchmark() -> None:
    of = ticks.parsed(
        [
            {"name": f"BM_TickWithoutSwitch/cores:{cores}/tasks:16", "real_time": 10.0 * cores}
            for cores in scale.CORES
        ]
    )
    assert of == {"nothing to be done": {cores: 10.0 * cores for cores in scale.CORES}}
    assert ticks.parsed([{"name": "BM_TickWithoutSwitch_BigO", "real_time": 1.0}]) == {}

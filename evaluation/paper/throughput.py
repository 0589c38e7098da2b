"""Figures of throughput: 4, 7, 8 and 14. Densities (6) and Table 1 have modules of their own."""

import statistics
from collections.abc import Sequence

from evaluation.paper import arms
from evaluation.paper.case import KERNEL, MAIN, TUNED
from evaluation.paper.figure import Chain, FigureFinding, FigureOf, by_length, ratio_at, spread_at
from evaluation.paper.judging import at_least, over_lengths, told
from evaluation.paper.measured import ratio
from evaluation.paper.results import Figure, Plot, Point, ResultRow
from evaluation.paper.rows import best_of, row
from evaluation.paper.simulated import FREE

_SHOWN = (arms.PRIORITY, arms.WITHOUT, arms.HANDOVER, arms.PAPER_K)


def fig4a(found: FigureFinding) -> FigureOf:
    """Light functions."""
    return _chains(
        found, "fig4a", "Fig. 4(a)", "Throughput of chains of light functions, 64 B", 0.90,
        "UNiS stays within 10 % of co-operative functions (k = 8) at every length.",
    )  # fmt: skip


def fig4b(found: FigureFinding) -> FigureOf:
    """Medium functions."""
    return _chains(
        found, "fig4b", "Fig. 4(b)", "Throughput of chains of medium functions, 64 B", 0.975,
        "UNiS stays within 2.5 % of co-operative functions (k = 8).",
    )  # fmt: skip


def fig7(found: FigureFinding) -> FigureOf:
    """Medium and heavy functions in turn."""
    return _chains(
        found, "fig7", "Fig. 7", "Throughput of chains of medium and heavy functions in turn", 0.98,
        "UNiS stays within 2 % of co-operative functions (k = 8) at every length.",
    )  # fmt: skip


def fig8(found: FigureFinding) -> FigureOf:
    """Functions whose cost is the packet's size."""
    return _chains(
        found, "fig8", "Fig. 8", "Throughput where cost depends on the packet's size", 0.98,
        "UNiS stays within 2 % of co-operative functions (k = 8) for a data centre's trace. Here: "
        "packets of 200 and 1400 bytes, the trace's two modes.",
    )  # fmt: skip


def _chains(
    found: FigureFinding, key: str, name: str, title: str, least: float, paper: str
) -> FigureOf:
    of = found.of(key)
    by_paper_k = over_lengths(of, arms.PRIORITY, arms.PAPER_K, MAIN)
    verdict = at_least(by_paper_k, least)
    best = ", ".join(f"{best_of(measured).partition('/')[2]} ({of.length})" for of, measured in of)
    each = by_length(
        (case.length, ratio(measured, arms.PRIORITY, arms.PAPER_K)) for case, measured in of
    )
    handed = by_length(
        (case.length, ratio(measured, arms.HANDOVER, arms.BEST, TUNED)) for case, measured in of
    )
    ours = (
        f"UNiS as in the paper ÷ k = 8: {told(by_paper_k)}, by length {each}. Hand-over ÷ the best "
        f"k (k = {best}): {told(over_lengths(of, arms.HANDOVER, arms.BEST, TUNED))}, by length "
        f"{handed}."
    )
    return Figure(
        key=key, name=name, title=title, paper=paper, ours=ours,
        rule=f"UNiS as in the paper ÷ k = 8, the mean over the lengths, is {least:g} or more",
        verdict=verdict, why="" if verdict == "agrees" else switching(found, of),
        source=["measured"], plots=[_plot(found, of, title)],
    ), _rows(found, key, of)  # fmt: skip


def _plot(found: FigureFinding, of: list[Chain], title: str) -> Plot:
    series: dict[str, list[Point]] = {arm: [] for arm in (*_SHOWN, arms.BEST, arms.FUSED)}
    for case, measured in of:
        for arm in _SHOWN:
            series[arm].append(spread_at(case.length, measured.mpps(arm)))
        series[arms.BEST].append(spread_at(case.length, measured.mpps(best_of(measured))))
        if fused := found.fused(case):
            series[arms.FUSED].append(spread_at(case.length, fused.mpps(arms.FUSED)))
    return Plot(
        kind="lines", title=title, x="functions in the chain", y="Mpps",
        series={arm: points for arm, points in series.items() if points},
    )  # fmt: skip


def _rows(found: FigureFinding, key: str, of: list[Chain]) -> list[ResultRow]:
    rows: list[ResultRow] = []
    for case, measured in of:
        fused = found.fused(case)
        rows += [row(key, case, measured, arm, fused=fused) for arm in arms.CHAIN]
        if TUNED in measured.sets:
            rows += [
                row(key, case, measured, arm, which=TUNED, fused=fused)
                for arm in (arms.HANDOVER, arms.BEST)
            ]
        if KERNEL in measured.sets:
            rows.append(row(key, case, measured, arms.OTHER, which=KERNEL, by=arms.HANDOVER))
        if fused:
            rows.append(row(key, found.cases[fused.key], fused, arms.FUSED))
    return rows


def switch_us(of: Sequence[Chain]) -> float:
    """From a decision until the next function runs: the median over these starts."""
    return statistics.median(measured.switch_ns for _, measured in of) / 1e3


def switching(found: FigureFinding, of: list[Chain]) -> str:
    """What a switch takes, and what the simulator says would be without."""
    said = f"a switch by priority takes {switch_us(of):.0f} µs here from decision to work"
    simulated = [found.simulated[case.key] for case, _ in of if case.key in found.simulated]
    if not simulated:
        return said
    real, free = (
        statistics.fmean(mpps[arm] / mpps[arms.PAPER_K] for mpps in simulated)
        for arm in (arms.PRIORITY, FREE)
    )
    return (
        f"{said}: in the simulator UNiS passes {real:.2f} of k = 8 with it, and {free:.2f} where "
        "it takes no time"
    )


# ---------------------------------------------------------------------- Fig. 14


def fig14(found: FigureFinding) -> FigureOf:
    """The occupancy based optimisation, where costs vary."""
    of = found.of("fig14")
    gain = over_lengths(of, arms.PRIORITY, arms.WITHOUT, MAIN)
    gains = {case.length: ratio(measured, arms.PRIORITY, arms.WITHOUT) for case, measured in of}
    plot = Plot(
        kind="lines", title="with ÷ without the optimisation", x="functions in the chain",
        y="ratio of throughput",
        series={
            arms.PRIORITY: [ratio_at(length, gain) for length, gain in gains.items() if gain]
        },
    )  # fmt: skip
    verdict = at_least(gain, 1.0)
    return Figure(
        key="fig14", name="Fig. 14", title="The optimisation by occupancy, where costs vary",
        paper="It adds up to about 10 % of throughput.",
        ours=f"With ÷ without: {told(gain)}, by length {by_length(gains.items())}.",
        rule="with ÷ without, the mean over the lengths, is above 1",
        verdict=verdict,
        why="" if verdict == "agrees" else "the sizes of packets change from one to the next here, "
        "so a slice holds the mean of both",
        source=["measured"], plots=[plot],
    ), [
        row("fig14", case, measured, arm, by=arms.WITHOUT)
        for case, measured in of
        for arm in (arms.PRIORITY, arms.WITHOUT)
    ]  # fmt: skip

"""Figures 4, 7, 8 and 14, on throughput."""

import statistics
from collections.abc import Sequence

from evaluation.paper import arms
from evaluation.paper.case import KERNEL, MAIN, TUNED
from evaluation.paper.figure import (
    FigureAndRows,
    Findings,
    MeasuredCase,
    by_length,
    ratio_at,
    spread_at,
)
from evaluation.paper.judging import at_least, interval_text, mean_over_lengths
from evaluation.paper.measured import ratio
from evaluation.paper.results import Figure, Plot, Point, ResultRow
from evaluation.paper.rows import best_of, row
from evaluation.paper.simulated import FREE

_SHOWN = (arms.PRIORITY, arms.NO_OCCUPANCY, arms.HANDOVER, arms.PAPER_K)


def fig4a(findings: Findings) -> FigureAndRows:
    """Light functions."""
    return _chains(
        findings, "fig4a", "Fig. 4(a)", "Throughput of chains of light functions, 64 B", 0.90,
        "UNiS stays within 10 % of co-operative functions (k = 8) at every length.",
    )  # fmt: skip


def fig4b(findings: Findings) -> FigureAndRows:
    """Medium functions."""
    return _chains(
        findings, "fig4b", "Fig. 4(b)", "Throughput of chains of medium functions, 64 B", 0.975,
        "UNiS stays within 2.5 % of co-operative functions (k = 8).",
    )  # fmt: skip


def fig7(findings: Findings) -> FigureAndRows:
    """Medium and heavy functions alternate."""
    return _chains(
        findings, "fig7", "Fig. 7", "Throughput of chains of medium and heavy functions", 0.98,
        "UNiS stays within 2 % of co-operative functions (k = 8) at every length.",
    )  # fmt: skip


def fig8(findings: Findings) -> FigureAndRows:
    """Functions whose cost depends on the packet's size."""
    return _chains(
        findings, "fig8", "Fig. 8", "Throughput where cost depends on the packet's size", 0.98,
        "UNiS stays within 2 % of co-operative functions (k = 8) for a data centre's trace. Here: "
        "packets of 200 and 1400 bytes, the trace's two modes.",
    )  # fmt: skip


def _chains(
    findings: Findings, key: str, name: str, title: str, least: float, paper: str
) -> FigureAndRows:
    chains = findings.chains(key)
    by_paper_k = mean_over_lengths(chains, arms.PRIORITY, arms.PAPER_K, MAIN)
    verdict = at_least(by_paper_k, least)
    best = ", ".join(
        f"{best_of(measured).partition('/')[2]} ({case.length})" for case, measured in chains
    )
    by_paper_k_text = by_length(
        (case.length, ratio(measured, arms.PRIORITY, arms.PAPER_K)) for case, measured in chains
    )
    by_best_k = mean_over_lengths(chains, arms.HANDOVER, arms.BEST, TUNED)
    by_best_k_text = by_length(
        (case.length, ratio(measured, arms.HANDOVER, arms.BEST, TUNED)) for case, measured in chains
    )
    ours = (
        f"UNiS as in the paper ÷ k = 8: {interval_text(by_paper_k)}, by length {by_paper_k_text}. "
        f"Hand-over ÷ the best k (k = {best}): {interval_text(by_best_k)}, by length "
        f"{by_best_k_text}."
    )
    return Figure(
        key=key, name=name, title=title, paper=paper, ours=ours,
        rule=f"UNiS as in the paper ÷ k = 8, the mean over the lengths, is {least:g} or more",
        verdict=verdict, why="" if verdict == "agrees" else switching(findings, chains),
        source=["measured"], plots=[_plot(findings, chains, title)],
    ), _rows(findings, key, chains)  # fmt: skip


def _plot(findings: Findings, chains: list[MeasuredCase], title: str) -> Plot:
    series: dict[str, list[Point]] = {arm: [] for arm in (*_SHOWN, arms.BEST, arms.FUSED)}
    for case, measured in chains:
        for arm in _SHOWN:
            series[arm].append(spread_at(case.length, measured.mpps(arm)))
        series[arms.BEST].append(spread_at(case.length, measured.mpps(best_of(measured))))
        if fused := findings.fused(case):
            series[arms.FUSED].append(spread_at(case.length, fused.mpps(arms.FUSED)))
    return Plot(
        kind="lines", title=title, x="functions in the chain", y="Mpps",
        series={arm: points for arm, points in series.items() if points},
    )  # fmt: skip


def _rows(findings: Findings, key: str, chains: list[MeasuredCase]) -> list[ResultRow]:
    rows: list[ResultRow] = []
    for case, measured in chains:
        fused = findings.fused(case)
        rows += [row(key, case, measured, arm, fused=fused) for arm in arms.CHAIN]
        if TUNED in measured.sets:
            rows += [
                row(key, case, measured, arm, window_set=TUNED, fused=fused)
                for arm in (arms.HANDOVER, arms.BEST)
            ]
        if KERNEL in measured.sets:
            rows.append(row(key, case, measured, arms.OTHER, window_set=KERNEL, base=arms.HANDOVER))
        if fused:
            rows.append(row(key, findings.cases[fused.key], fused, arms.FUSED))
    return rows


def switch_us(chains: Sequence[MeasuredCase]) -> float:
    """The time from a decision until the next function runs, the median over these starts."""
    return statistics.median(measured.switch_ns for _, measured in chains) / 1e3


def switching(findings: Findings, chains: list[MeasuredCase]) -> str:
    """The time of a switch, and the simulated throughput with and without it."""
    cost = f"a switch by priority takes {switch_us(chains):.0f} µs here"
    simulated = [
        findings.simulated[case.key] for case, _ in chains if case.key in findings.simulated
    ]
    if not simulated:
        return cost
    real, free = (
        statistics.fmean(mpps[arm] / mpps[arms.PAPER_K] for mpps in simulated)
        for arm in (arms.PRIORITY, FREE)
    )
    return (
        f"{cost}: in the simulator UNiS reaches {real:.2f} of k = 8 with it, and {free:.2f} with "
        "switches that take no time"
    )


# ---------------------------------------------------------------------- Fig. 14


def fig14(findings: Findings) -> FigureAndRows:
    """The optimisation by occupancy, with varying costs."""
    chains = findings.chains("fig14")
    gain = mean_over_lengths(chains, arms.PRIORITY, arms.NO_OCCUPANCY, MAIN)
    gains = {
        case.length: ratio(measured, arms.PRIORITY, arms.NO_OCCUPANCY) for case, measured in chains
    }
    plot = Plot(
        kind="lines", title="with ÷ without the optimisation", x="functions in the chain",
        y="ratio of throughput",
        series={
            arms.PRIORITY: [ratio_at(length, gain) for length, gain in gains.items() if gain]
        },
    )  # fmt: skip
    verdict = at_least(gain, 1.0)
    return Figure(
        key="fig14", name="Fig. 14", title="The optimisation by occupancy, with varying costs",
        paper="It adds up to about 10 % of throughput.",
        ours=f"With ÷ without: {interval_text(gain)}, by length {by_length(gains.items())}.",
        rule="with ÷ without, the mean over the lengths, is above 1",
        verdict=verdict,
        why="" if verdict == "agrees" else "packet sizes alternate here, so a slice "
        "holds the mean of both",
        source=["measured"], plots=[plot],
    ), [
        row("fig14", case, measured, arm, base=arms.NO_OCCUPANCY)
        for case, measured in chains
        for arm in (arms.PRIORITY, arms.NO_OCCUPANCY)
    ]  # fmt: skip

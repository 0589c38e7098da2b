"""Figures of throughput: 4, 6, 7, 8, 14 and Table 1."""

import statistics
from collections.abc import Mapping

from unis.bench.paper import arms
from unis.bench.paper.cases import CONFIGURATIONS, TUNED
from unis.bench.paper.figure import (
    FigureOf,
    Found,
    excludes,
    judged,
    ratio_at,
    ratios_text,
    spread_at,
)
from unis.bench.paper.measured import Measured
from unis.bench.paper.rows import best_of, ratio, row
from unis.measure.paired import Paired, Ratio
from unis.report.evaluation import Figure, Plot, Point, Row, Source

_SWITCH = (
    "a switch by priority is an interrupt into a virtual CPU here and takes "
    "{switch:.0f} µs; the paper's machine was not virtual"
)
_NOTHING = 1e-9  # Mpps
_COSTS = ("light", "medium", "heavy")
_SHOWN = (arms.PRIORITY, arms.WITHOUT, arms.HANDOVER, arms.PAPER_K)


def fig4a(found: Found) -> FigureOf:
    """Light functions."""
    return _chains(
        found, "fig4a", "Fig. 4(a)", "Throughput of chains of light functions, 64 B", 0.90,
        "UNiS stays within 10 % of co-operative functions (k = 8) at every length.",
    )  # fmt: skip


def fig4b(found: Found) -> FigureOf:
    """Medium functions."""
    return _chains(
        found, "fig4b", "Fig. 4(b)", "Throughput of chains of medium functions, 64 B", 0.975,
        "UNiS stays within 2.5 % of co-operative functions (k = 8).",
    )  # fmt: skip


def fig7(found: Found) -> FigureOf:
    """Medium and heavy functions in turn."""
    return _chains(
        found, "fig7", "Fig. 7", "Throughput of chains of medium and heavy functions in turn", 0.98,
        "UNiS stays within 2 % of co-operative functions (k = 8) at every length.",
    )  # fmt: skip


def fig8(found: Found) -> FigureOf:
    """Functions whose cost is the packet's size."""
    return _chains(
        found, "fig8", "Fig. 8", "Throughput where cost depends on the packet's size", 0.98,
        "UNiS stays within 2 % of co-operative functions (k = 8) for a data centre's trace. Here: "
        "packets of 200 and 1400 bytes, the trace's two modes.",
    )  # fmt: skip


def _chains(found: Found, key: str, name: str, title: str, least: float, paper: str) -> FigureOf:
    of = found.of(key)
    shown = (*_SHOWN, arms.BEST, arms.FUSED)
    series: dict[str, list[Point]] = {arm: [] for arm in shown}
    rows: list[Row] = []
    for case, measured in of:
        fused = found.fused(case)
        rows += [row(key, case, measured, arm, fused=fused) for arm in arms.CHAIN]
        if fused:
            rows.append(row(key, case, fused, arms.FUSED))
        for arm in _SHOWN:
            series[arm].append(spread_at(case.length, measured.mpps(arm)))
        series[arms.BEST].append(spread_at(case.length, measured.mpps(best_of(measured))))
        if fused:
            series[arms.FUSED].append(spread_at(case.length, fused.mpps(arms.FUSED)))
    unis = [one for one in rows if one.arm == arms.PRIORITY]
    handed = [one for one in rows if one.arm == arms.HANDOVER]
    agrees = not any(excludes(one.ratio_to_paper_k, least) for one in unis)
    best = {measured.key: best_of(measured).partition("/")[2] for _, measured in of}
    ours = (
        f"UNiS as in the paper ÷ k = 8: {ratios_text(unis, best=False)} (length); ÷ the best k "
        f"({', '.join(best.values())}): {ratios_text(unis, best=True)}. Hand-over ÷ the best k: "
        f"{ratios_text(handed, best=True)}."
    )
    plot = Plot(
        kind="lines", title=title, x="functions in the chain", y="Mpps",
        series={arm: points for arm, points in series.items() if points},
    )  # fmt: skip
    return Figure(
        key=key, name=name, title=title, paper=paper, ours=ours, verdict=judged(agrees),
        why="" if agrees else _SWITCH.format(switch=switch_us(of[0][1])), source=["measured"],
        plots=[plot],
    ), rows  # fmt: skip


def switch_us(measured: Measured) -> float:
    """From a decision until the next function runs."""
    return measured.switch_ns / 1e3


# ---------------------------------------------------------------------- Fig. 6


def fig6(found: Found) -> FigureOf:
    """How many functions fit at a target."""
    compared = (arms.PRIORITY, arms.HANDOVER, arms.PAPER_K, arms.BEST)
    plots: list[Plot] = []
    off: list[float] = []
    fewer: list[str] = []
    for cost in _COSTS:
        there = [(case, of) for case, of in found.of("fig6") if case.cost == cost]
        if len(there) < 2:
            continue
        curves = {arm: {case.length: _passed(of, arm) for case, of in there} for arm in compared}
        targets = _targets(curves[arms.BEST])
        density = {
            arm: [Point(x=target, y=_density(curve, target)) for target in targets]
            for arm, curve in curves.items()
        }
        plots.append(
            Plot(
                kind="lines",
                title=f"{cost} functions",
                x="target, Mpps",
                y="functions on the CPU (interpolated)",
                series=density,
            )
        )
        for at, target in enumerate(targets):
            off.append(density[arms.PRIORITY][at].y / density[arms.PAPER_K][at].y - 1)
            if round(density[arms.HANDOVER][at].y / density[arms.BEST][at].y, 2) < 0.97:
                fewer.append(f"{cost} at {target:g} Mpps")
    agrees = min(off) >= -0.10
    ours = (
        f"UNiS as in the paper: {100 * min(off):+.0f} to {100 * max(off):+.0f} % of the functions "
        "that fit with k = 8. Hand-over: "
        + (f"fewer than the best k at {', '.join(fewer)}." if fewer else "as many as the best k.")
    )
    return Figure(
        key="fig6", name="Fig. 6", title="How many functions fit on a CPU at a target",
        paper="Nearly as many as with co-operative functions, in a few cases less by up to 10 %.",
        ours=ours, verdict=judged(agrees),
        why="" if agrees else _SWITCH.format(switch=switch_us(found.of("fig6")[0][1])),
        source=["measured"], plots=plots,
    ), [
        row("fig6", case, of, arm, x=statistics.median(of.mpps(arm)))
        for case, of in found.of("fig6")
        for arm in (arms.PRIORITY, arms.HANDOVER, arms.PAPER_K)
    ]  # fmt: skip


def _passed(measured: Measured, arm: str) -> float:
    """Mpps; of one function alone under all arms together, for nobody passes anything on."""
    if len(measured.costs_ns) == 1:
        return statistics.median(of for each in arms.CHAIN for of in measured.mpps(each))
    if TUNED in measured.sets and arm in arms.TUNED:
        return statistics.median(measured.mpps(arm, TUNED))
    return statistics.median(measured.mpps(best_of(measured) if arm == arms.BEST else arm))


def _targets(curve: Mapping[int, float]) -> list[float]:
    """Round numbers of Mpps between the least and the most that was measured."""
    least, most = min(curve.values()), max(curve.values())
    step = next(step for step in (0.25, 0.5, 1, 2, 5, 10) if (most - least) / step <= 8)
    count = int(most / step)
    return [step * at for at in range(1, count + 1) if least <= step * at <= most]


def _density(curve: Mapping[int, float], target: float) -> float:
    """How many functions pass `target` Mpps: time a packet grows with them, piece by piece.

    What a longer chain passed a shorter one could: so the time never falls with the length.
    """
    points: list[tuple[float, float]] = []
    for length in sorted(curve, reverse=True):
        time = 1 / max(curve[length], _NOTHING)
        if points:
            time = min(time, points[0][0])
        points.insert(0, (time, float(length)))
    wanted = 1 / target
    reached = [at for at, (time, _) in enumerate(points) if time <= wanted]
    last = reached[-1] if reached else 0
    last_time, last_length = points[last]
    if not reached or last + 1 == len(points):  # in proportion, beyond what was measured
        return last_length * wanted / last_time
    more_time, more = points[last + 1]
    share = (wanted - last_time) / (more_time - last_time)
    return last_length + (more - last_length) * share


# ---------------------------------------------------------------------- Fig. 14


def fig14(found: Found) -> FigureOf:
    """The occupancy based optimisation, where costs vary."""
    of = found.of("fig14")
    gains = {case.length: ratio(measured, arms.PRIORITY, arms.WITHOUT) for case, measured in of}
    known = {length: gain for length, gain in gains.items() if gain}
    plot = Plot(
        kind="lines", title="with ÷ without the optimisation", x="functions in the chain",
        y="ratio of throughput",
        series={
            arms.PRIORITY: [ratio_at(length, gain) for length, gain in known.items()]
        },
    )  # fmt: skip
    agrees = any(gain.median >= 1.03 for gain in known.values()) and not any(
        excludes(gain, 0.98) for gain in known.values()
    )
    told = ", ".join(f"{gain.median:.2f} ({length})" for length, gain in known.items())
    why = (
        "the sizes of packets change from one to the next here, so that a slice holds the mean of "
        "both; what the optimisation does to slices that are wrong is seen in Fig. 15"
    )
    return Figure(
        key="fig14", name="Fig. 14", title="The optimisation by occupancy, where costs vary",
        paper="It adds up to about 10 % of throughput.",
        ours=f"With ÷ without: {told} (length).", verdict=judged(agrees),
        why="" if agrees else why, source=["measured"], plots=[plot],
    ), [
        row("fig14", case, measured, arm)
        for case, measured in of
        for arm in (arms.PRIORITY, arms.WITHOUT)
    ]  # fmt: skip


# ---------------------------------------------------------------------- Table 1

_PAPER_TABLE = {
    "a": {"s1": (5.31, 5.30), "s2": (5.31, 5.21)},
    "b": {"s1": (5.24, 5.10), "s2": (5.24, 5.14)},
    "c": {"s1": (5.41, 5.34)},
}  # Mpps: co-operative, UNiS


def table1(found: Found) -> FigureOf:
    """Several chains on several CPUs."""
    plots: list[Plot] = []
    rows: list[Row] = []
    said: list[str] = []
    agrees = True
    simulated = False
    of = {case.key[-1]: (case, measured) for case, measured in found.of("table1")}
    for name in CONFIGURATIONS:
        if name in of:
            case, measured = of[name]
            rows += [row("table1", case, measured, arm, x=None) for arm in arms.CHAIN]
            mpps = {
                arm: {chain: _chain_mpps(measured, arm, chain) for chain in CONFIGURATIONS[name]}
                for arm in (arms.PRIORITY, arms.HANDOVER, arms.PAPER_K)
            }
            total = ratio(measured, arms.PRIORITY, arms.PAPER_K)
            shares = _shares(measured)
            agrees &= not excludes(total, 0.97) and (shares is None or _even(shares))
            source: Source = "measured"
        elif name in found.several:
            mpps = {arm: dict(chains) for arm, chains in found.several[name].items()}
            by = sum(mpps[arms.PRIORITY].values()) / sum(mpps[arms.PAPER_K].values())
            agrees &= by >= 0.97
            source, simulated = "simulated", True
        else:
            continue
        said.append(f"({name}, {source}) {_told(mpps)}")
        plots.append(
            Plot(
                kind="bars",
                title=f"configuration {name}, {source}",
                x="chain",
                y="Mpps",
                series={
                    arm: [Point(x=chain.upper(), y=of_chain) for chain, of_chain in chains.items()]
                    for arm, chains in mpps.items()
                },
            )
        )
    return Figure(
        key="table1", name="Table 1", title="Several chains on several CPUs, medium functions",
        paper="No chain starves: UNiS gives both the same, within 2.7 % of co-operative functions: "
        + "; ".join(
            f"({name}) " + ", ".join(f"{unis} of {coop} Mpps" for coop, unis in chains.values())
            for name, chains in _PAPER_TABLE.items()
        ) + ".",
        ours="UNiS as in the paper, hand-over, k = 8: " + "; ".join(said) + ".",
        verdict=judged(agrees),
        why="" if agrees else _SWITCH.format(switch=switch_us(next(iter(found.measured.values())))),
        source=["measured", *(["simulated"] if simulated else [])],
        plots=plots,
    ), rows  # fmt: skip


def _told(mpps: Mapping[str, Mapping[str, float]]) -> str:
    return ", ".join("/".join(f"{of:.2f}" for of in chains.values()) for chains in mpps.values())


def _chain_mpps(measured: Measured, arm: str, chain: str) -> float:
    return statistics.median(measured.values(arm, lambda window: window.chain_mpps[chain]))


def _shares(measured: Measured) -> Ratio | None:
    """What the second chain gets by the first, under UNiS as in the paper."""
    first, second = (
        measured.values(arms.PRIORITY, lambda window, name=name: window.chain_mpps.get(name, 0.0))  # type: ignore[misc]
        for name in ("s1", "s2")
    )
    return Ratio.of(Paired.ratio(second, first)) if any(second) else None


def _even(shares: Ratio) -> bool:
    return shares.lo <= 1.03 and shares.hi >= 0.97

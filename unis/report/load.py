"""The picture of `unis bench load`: CPU over load, and latency over load, of each chain."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

# Okabe and Ito, with a mark of its own each: told apart without colours too.
_STYLES = (("#D55E00", "o"), ("#0072B2", "s"), ("#009E73", "D"), ("#7F7F7F", "^"))

# Of a policy, by load: (load, functions' share of a CPU, platform's, p50 µs, p99 µs); None: no
# packet came.
LoadPoint = tuple[float, float, float, float | None, float | None]


def picture(chains: Mapping[str, Mapping[str, Sequence[LoadPoint]]], to: Path) -> None:
    """A row of two plots for each chain, its points by policy in the order of loads.

    Written to `to`, whose ending says as what (svg, png).
    """
    with mpl.rc_context({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(11, 4.2 * len(chains)), layout="constrained")
        every = figure.subplots(len(chains), 2, squeeze=False)
        for (cpu, latency), (chain, curves) in zip(every, chains.items(), strict=True):
            for (policy, curve), (colour, mark) in zip(curves.items(), _STYLES, strict=False):
                loads = [100 * load for load, *_ in curve]
                style = {"color": colour, "marker": mark, "markersize": 5}
                functions = [100 * share for _, share, *_ in curve]
                platform = [100 * share for _, _, share, *_ in curve]
                cpu.plot(loads, functions, "-", label=f"{policy}: functions", **style)
                cpu.plot(loads, platform, ":", label=f"{policy}: platform", **style)
                timed = [point for point in curve if point[3] and point[4]]
                shares = [100 * point[0] for point in timed]
                latency.plot(shares, [p[4] for p in timed], "-", label=f"{policy}: p99", **style)
                latency.plot(shares, [p[3] for p in timed], ":", label=f"{policy}: p50", **style)
            cpu.plot([0, 100], [0, 100], color="#AAAAAA", linewidth=1, label="CPU = load")
            cpu.set_ylim(0, 105)
            cpu.set_ylabel("% of a CPU")
            latency.set_yscale("log")
            latency.yaxis.set_major_formatter("{x:g}")
            latency.set_ylabel("time from when a packet was due, µs")
            for axes, what in ((cpu, "CPU"), (latency, "latency")):
                axes.set_xlabel("packets offered, % of what the chain passes")
                axes.set_title(f"{chain}: {what} over load")
                axes.grid(visible=True, alpha=0.35)
                axes.legend(frameon=False, fontsize=9, loc="lower right")
        figure.savefig(to, dpi=96)

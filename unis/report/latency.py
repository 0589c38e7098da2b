"""The pictures of `unis bench latency`, as files of their own."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

# Okabe and Ito, with a mark and a line of its own each: told apart without colours too.
_COLOURS = {"priority": "#0072B2", "handover": "#004466", "cooperative": "#009E73"}
_MORE = ("#D55E00", "#8A6FB0", "#B8860B", "#7F7F7F")
_MARKS = "osD^vPX"
_LINES = ("-", "--", "-.", ":")

# Inches; a browser shows 96 pixels of each, and pages are at most 1200 wide.
_WIDEST = 12.4

# Of a policy: (share of what is sustained, p50 µs, p95 µs), by load.
LatencyCurve = Sequence[tuple[float, float, float]]
# Of a policy: (p95 µs, Mpps) of each point.
Points = Sequence[tuple[float, float]]


def picture(
    loads: Mapping[str, Mapping[str, LatencyCurve]], points: Mapping[str, Points], to: Path
) -> None:
    """Latency against load by kind of arrivals, and throughput against latency, side by side.

    Written to `to`, whose ending says as what (svg, png, pdf).
    """
    with mpl.rc_context({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(min(5.2 * (len(loads) + 1), _WIDEST), 4.6), layout="constrained")
        every = figure.subplots(1, len(loads) + 1)
        for axes, (arrivals, curves) in zip(every[:-1], loads.items(), strict=True):
            for at, (policy, curve) in enumerate(curves.items()):
                shares = [100 * share for share, _, _ in curve]
                style = {"color": _colour(policy, at), "marker": _MARKS[at % len(_MARKS)]}
                axes.plot(shares, [p95 for _, _, p95 in curve], "-", label=f"{policy} p95", **style)
                axes.plot(shares, [p50 for _, p50, _ in curve], ":", label=f"{policy} p50", **style)
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.set_xlabel("packets offered, % of what co-operative sustains")
            axes.set_ylabel("time from when a packet was due, µs")
            axes.set_title(f"{arrivals} arrivals")
            axes.grid(visible=True, alpha=0.35)
            axes.legend(frameon=False, fontsize=9)
        axes = every[-1]
        longest = max((us for measured in points.values() for us, _ in measured), default=0.0)
        for at, (policy, measured) in enumerate(points.items()):
            if not measured:
                continue
            style = {"color": _colour(policy, at), "marker": _MARKS[at % len(_MARKS)]}
            axes.plot(*zip(*measured, strict=True), linestyle="none", alpha=0.45, **style)
            best = frontier(measured)
            steps = [*best, (longest, best[-1][1])]  # more time does no harm
            axes.step(
                *zip(*steps, strict=True), where="post", label=policy,
                color=style["color"], linestyle=_LINES[at % len(_LINES)], linewidth=2,
            )  # fmt: skip
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(bottom=0)
        axes.set_xlabel("p95 latency at full load, µs")
        axes.set_ylabel("Mpps; line: the most within that latency")
        axes.set_title("throughput against latency")
        axes.grid(visible=True, alpha=0.35)
        axes.legend(frameon=False, loc="lower right")
        figure.savefig(to, dpi=96)


def frontier(points: Points) -> list[tuple[float, float]]:
    """The points that no other has more Mpps within their latency; ascending."""
    best: list[tuple[float, float]] = []
    for us, mpps in sorted(points, key=lambda point: (point[0], -point[1])):
        if not best or mpps > best[-1][1]:
            best.append((us, mpps))
    return best


def _colour(policy: str, at: int) -> str:
    return _COLOURS.get(policy, _MORE[at % len(_MORE)])

"""The pictures of `unis bench latency` and `unis bench load`, as files of their own."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

# Okabe and Ito, with a mark and a line of its own each: told apart without colours too.
_COLOURS = {
    "priority": "#0072B2",
    "handover": "#004466",
    "handover, sleeping": "#56B4E9",
    "cooperative": "#009E73",
}
_MORE = ("#D55E00", "#8A6FB0", "#B8860B", "#7F7F7F")
_MARKS = "osD^vPX"
_LINES = ("-", "--", "-.", ":")

# Inches; a browser shows 96 pixels of each, and pages are at most 1200 wide.
_WIDEST = 12.4
_DUE = "time from when a packet was due, µs"

# Of a policy: (share of what is sustained, p50 µs, p95 µs), by load.
LatencyCurve = Sequence[tuple[float, float, float]]
# Of a policy: (p95 µs, Mpps) of each point.
Points = Sequence[tuple[float, float]]
# Of a policy, by load: (load, functions' share of a CPU, platform's, p50 µs, p99 µs); None: no
# packet came.
LoadCurve = Sequence[tuple[float, float, float, float | None, float | None]]


def latency(
    loads: Mapping[str, Mapping[str, LatencyCurve]], points: Mapping[str, Points], to: Path
) -> None:
    """Latency against load by kind of arrivals, and throughput against latency, side by side.

    Written to `to`, whose ending says as what (svg, png, pdf).
    """
    with _file(to, min(5.2 * (len(loads) + 1), _WIDEST), 4.6) as figure:
        every = figure.subplots(1, len(loads) + 1)
        for axes, (arrivals, curves) in zip(every[:-1], loads.items(), strict=True):
            for at, (policy, curve) in enumerate(curves.items()):
                shares = [100 * share for share, _, _ in curve]
                style = _style(policy, at)
                axes.plot(shares, [p95 for _, _, p95 in curve], "-", label=f"{policy} p95", **style)
                axes.plot(shares, [p50 for _, p50, _ in curve], ":", label=f"{policy} p50", **style)
            _logarithmic(axes)
            offered = "packets offered, % of what co-operative sustains"
            _finish(axes, f"{arrivals} arrivals", offered, _DUE)
        axes = every[-1]
        longest = max((us for measured in points.values() for us, _ in measured), default=0.0)
        for at, (policy, measured) in enumerate(points.items()):
            if not measured:
                continue
            style = _style(policy, at)
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
        most = "Mpps; line: the most within that latency"
        _finish(axes, "throughput against latency", "p95 latency at full load, µs", most)


def load(chains: Mapping[str, Mapping[str, LoadCurve]], to: Path) -> None:
    """CPU over load, and latency over load: a row of two plots for each chain.

    The curves of a chain are by policy. Written to `to`, whose ending says as what (svg, png).
    """
    offered = "packets offered, % of what the chain passes"
    with _file(to, 16, 4.2 * len(chains)) as figure:
        every = figure.subplots(len(chains), 2, squeeze=False)
        for (cpu, waits), (chain, curves) in zip(every, chains.items(), strict=True):
            for at, (policy, curve) in enumerate(curves.items()):
                loads = [100 * load for load, *_ in curve]
                functions = [100 * share for _, share, *_ in curve]
                platform = [100 * share for _, _, share, *_ in curve]
                cpu.plot(loads, functions, "-", label=f"{policy}: functions", **_style(policy, at))
                cpu.plot(loads, platform, ":", label=f"{policy}: platform", **_style(policy, at))
                for part, name, line in ((4, "p99", "-"), (3, "p50", ":")):
                    timed = [(100 * point[0], us) for point in curve if (us := point[part])]
                    waits.plot(
                        [share for share, _ in timed], [us for _, us in timed], line,
                        label=f"{policy}: {name}", **_style(policy, at),
                    )  # fmt: skip
            cpu.plot([0, 100], [0, 100], color="#AAAAAA", linewidth=1, label="CPU = load")
            cpu.set_ylim(bottom=0)
            _logarithmic(waits)
            _finish(cpu, f"{chain}: CPU over load", offered, "% of a CPU", beside=True)
            _finish(waits, f"{chain}: latency over load", offered, _DUE, beside=True)


@contextlib.contextmanager
def _file(to: Path, width: float, height: float) -> Iterator[Figure]:
    with mpl.rc_context({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        figure.savefig(to, dpi=96)


def _style(policy: str, at: int) -> dict[str, str]:
    colour = _COLOURS.get(policy, _MORE[at % len(_MORE)])
    return {"color": colour, "marker": _MARKS[at % len(_MARKS)]}


def _logarithmic(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")


def _finish(axes: Axes, title: str, x: str, y: str, *, beside: bool = False) -> None:
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(visible=True, alpha=0.35)
    if beside:
        axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
    else:
        axes.legend(frameon=False, fontsize=9)


def frontier(points: Points) -> list[tuple[float, float]]:
    """The points that no other has more Mpps within their latency; ascending."""
    best: list[tuple[float, float]] = []
    for us, mpps in sorted(points, key=lambda point: (point[0], -point[1])):
        if not best or mpps > best[-1][1]:
            best.append((us, mpps))
    return best

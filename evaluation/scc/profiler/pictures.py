"""Pictures of `--only profiler`."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evaluation.scc.profiler.found import MemoryPoint, ProfilerFound
from unis.parts.accounting import PARTS

# Okabe and Ito's, told apart by most people.
_COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#999999", "#F0E442",
)  # fmt: skip
# Beside the colour, for those who tell few of them apart and for curves on one another.
_MARKERS = "os^Dv*xP"
_SMALL = 4096
_UNITS = ((1 << 20, "MiB"), (1 << 10, "KiB"))


def draw_profiler(found: ProfilerFound, folder: Path) -> list[Path]:
    """A file for each part that was measured."""
    made = []
    for name, is_there, plot in _PLOTS:
        if is_there(found):
            file = folder / f"profiler-{name}.png"
            with mpl.rc_context({"font.size": 10, "axes.spines.top": False}):
                plot(found).savefig(file, dpi=96)
            made.append(file)
    return made


def _figure(columns: int = 1, width: float = 11, height: float = 4.8) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, columns, squeeze=False)[0])


def _size(count: int) -> str:
    for unit, name in _UNITS:
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} B"


def _memory(found: ProfilerFound) -> Figure:
    figure, axes = _figure(2, 14)
    for panel, order in zip(axes, ("random", "forward"), strict=True):
        points = [
            point for point in found.memory if point.order == order and point.page_bytes == _SMALL
        ]
        strides = sorted({point.stride_bytes for point in points})
        for colour, marker, stride in zip(_COLOURS, _MARKERS, strides, strict=False):
            mine = [point for point in points if point.stride_bytes == stride]
            _curve(panel, mine, colour, marker)
        for level in found.levels:
            panel.axhline(level.paper.high, color="black", lw=0.8, ls=":")
            panel.annotate(
                f"paper: {level.level} up to {level.paper.high:g}",
                (0.995, level.paper.high), fontsize=7, ha="right",
                va="bottom", xycoords=("axes fraction", "data"),
            )  # fmt: skip
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter("{x:g}")
        sizes = sorted({point.array_bytes for point in points})
        panel.set_xticks(sizes, [_size(size) for size in sizes], rotation=45, ha="right")
        panel.minorticks_off()
        panel.set_xlabel("size of the array")
        panel.set_ylabel("ns an access")
        told = "in random order" if order == "random" else "in the order of the addresses"
        panel.set_title(f"memory, {told}, pages of 4 KiB (Fig. 3)")
        panel.grid(visible=True, axis="y", alpha=0.35)
    axes[-1].legend(
        title="stride", frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1)
    )
    return figure


def _curve(axes: Axes, points: Sequence[MemoryPoint], colour: str, marker: str) -> None:
    ordered = sorted(points, key=lambda point: point.array_bytes)
    xs = [point.array_bytes for point in ordered]
    low = [max(1e-2, point.ns.low_ns) for point in ordered]
    axes.plot(
        xs, [point.ns.median_ns for point in ordered], f"{marker}-", ms=5, mfc="none", lw=1.2,
        color=colour,
        label=_size(ordered[0].stride_bytes),
    )  # fmt: skip
    axes.fill_between(xs, low, [point.ns.high_ns for point in ordered], color=colour, alpha=0.12)


def _contexts(found: ProfilerFound) -> Figure:
    figure, (left, right) = _figure(2, 13)
    names = [row.context for row in found.contexts]
    at = range(len(names))
    bars = (
        (left, "median latency of a packet, half load", [row.latency_us for row in found.contexts]),
        (right, "1 ÷ what passes in overload", [_us(row.ns_per_packet) for row in found.contexts]),
    )
    for panel, title, values in bars:
        heights = [value or 0.0 for value in values]
        shift = 0.2 if panel is left else 0.0
        panel.bar([x - shift for x in at], heights, 0.4, color=_COLOURS[0], label="here")
        if panel is left:  # the paper has one figure, of latency
            panel.bar(
                [x + 0.2 for x in at], [row.paper.low for row in found.contexts], 0.4,
                color=_COLOURS[6], label="paper (Table 4, calculated, 0.82 Mpps)",
            )  # fmt: skip
        for x, value in zip(at, values, strict=True):
            if value is not None:
                panel.annotate(
                    _short(value), (x - shift, value), ha="center", va="bottom", fontsize=8
                )
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter("{x:g}")
        panel.set_xticks(at, names)
        panel.set_ylabel("µs a packet")
        panel.set_title(f"one router (Fig. 4): {title}")
        panel.grid(visible=True, axis="y", alpha=0.35)
        panel.legend(frameon=False, fontsize=8)
    return figure


def _us(ns: float | None) -> float | None:
    return None if ns is None else ns / 1000


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _lengths(found: ProfilerFound) -> Figure:
    arms = list(dict.fromkeys(row.arm for row in found.lengths))
    figure, (left, right) = _figure(2, 14, 5.4)
    for colour, marker, arm in zip(_COLOURS, _MARKERS, arms, strict=False):
        rows = sorted((row for row in found.lengths if row.arm == arm), key=lambda row: row.length)
        xs = [row.length for row in rows]
        left.plot(xs, [row.measured_us for row in rows], f"{marker}-", color=colour, label=arm)
        left.plot(xs, [row.explained_us for row in rows], "x--", color=colour, ms=7)
        residuals = [100 * row.profile.residual for row in rows]
        ends = [row.profile.residual_interval for row in rows]
        spread = [
            [max(0.0, each - 100 * low) for each, (low, _) in zip(residuals, ends, strict=True)],
            [max(0.0, 100 * high - each) for each, (_, high) in zip(residuals, ends, strict=True)],
        ]
        shift = 0.08 * (arms.index(arm) - (len(arms) - 1) / 2)
        right.errorbar(
            [x + shift for x in xs], residuals, yerr=spread, fmt=marker, color=colour,
            capsize=3, label=arm,
        )  # fmt: skip
    left.set_yscale("log")
    left.yaxis.set_major_formatter("{x:g}")
    left.yaxis.set_minor_formatter("")
    left.set_ylabel("median latency, µs")
    left.set_title("measured (lines), sum of the parts (crosses), half load (Fig. 5)")
    lengths = sorted({row.length for row in found.lengths})
    for begin, end, bound in ((0.4, 6, 15), (6, 8.6, 25)):
        right.fill_between([begin, end], -bound, bound, color="black", alpha=0.08)
    right.axhline(0, color="black", lw=0.8)
    right.set_ylabel("residual, % of the measured latency")
    right.set_title("what the parts do not explain, 95 % (grey: the bound)")
    return _by_length(figure, (left, right), lengths)


def _by_length(figure: Figure, panels: tuple[Axes, Axes], lengths: list[int]) -> Figure:
    """The same axis below both, and one legend beside them."""
    for panel in panels:
        panel.set_xticks(lengths)
        panel.set_xlabel("functions of the chain")
        panel.grid(visible=True, axis="y", alpha=0.35)
    panels[-1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _shares(found: ProfilerFound) -> Figure:
    """A stacked bar for each profile: which part has what share of the latency."""
    rows = found.lengths
    figure, (panel,) = _figure(1, 14, 1.2 + 0.28 * len(rows))
    for at, row in enumerate(rows):
        above = below = 0.0
        for colour, part in zip(_COLOURS, PARTS, strict=False):
            share = 100 * row.profile.part_ns(part) / (row.profile.median_latency_ns or 1)
            label = part if at == 0 else None
            left = above if share >= 0 else below
            panel.barh(at, share, left=left, color=colour, ec="white", lw=0.4, label=label)
            above, below = above + max(0.0, share), below + min(0.0, share)
    panel.axvline(100, color="black", lw=0.8)
    panel.axvline(0, color="black", lw=0.8)
    panel.set_yticks(range(len(rows)), [f"{row.arm}, {row.length}" for row in rows], fontsize=8)
    panel.invert_yaxis()
    panel.set_xlabel("% of the latency that was measured while nothing was traced")
    panel.set_title(
        "parts of the time of a packet: source, functions and sink together (below 0: less than "
        "what following it costs)"
    )
    panel.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _waits(found: ProfilerFound) -> Figure:
    figure, (left, right) = _figure(2, 14.5)
    arms = list(dict.fromkeys(row.arm for row in found.waits))
    for colour, marker, arm in zip(_COLOURS, _MARKERS, arms, strict=False):
        rows = sorted((row for row in found.waits if row.arm == arm), key=lambda row: row.length)
        xs = [row.length for row in rows]
        for panel, values in (
            (left, [row.wait for row in rows]), (right, [row.contention for row in rows]),
        ):  # fmt: skip
            known = [math.nan if value is None else value for value in values]
            panel.plot(xs, known, f"{marker}-", mfc="none", color=colour, label=arm)
        if waited := [(row.length, row.paper_wait.low) for row in rows if row.paper_wait]:
            left.plot(*zip(*waited, strict=True), "k_", ms=14)
        if held := [(row.length, row.paper_contention.low) for row in rows if row.paper_contention]:
            right.plot(*zip(*held, strict=True), "_", color=colour, ms=14)
    left.set_title("wait ÷ run in overload, veth (dashes: the paper's Table 5, OVS)")
    right.set_title("contention ÷ run in overload, veth (dashes: the paper's Table 8)")
    left.set_yscale("symlog", linthresh=0.1)
    left.yaxis.set_major_formatter("{x:g}")
    left.set_ylabel("time not runnable ÷ run time")
    right.set_ylabel("run delay ÷ run time")
    lengths = sorted({row.length for row in found.waits})
    return _by_length(figure, (left, right), lengths)


def _injected(found: ProfilerFound) -> Figure:
    rows = found.injected
    figure, (panel,) = _figure(1, 10)
    for shift, colour, label, shares in (
        (-0.2, _COLOURS[0], "found in its part", [row.share for row in rows]),
        (0.2, _COLOURS[1], "most found in another part", [row.elsewhere_share for row in rows]),
    ):
        for at, share in enumerate(shares):
            if share:
                panel.bar(
                    at + shift, 100 * share.median, 0.38, color=colour,
                    yerr=[[100 * (share.median - share.lo)], [100 * (share.hi - share.median)]],
                    capsize=3, label=label if at == 0 else None,
                )  # fmt: skip
    panel.axhspan(85, 115, color="black", alpha=0.08)
    panel.axhline(15, color="black", lw=0.8, ls=":")
    panel.set_xticks(
        range(len(rows)), [f"{row.name}\n{row.injected_ns / 1e3:,.0f} µs" for row in rows]
    )
    panel.set_ylabel("% of what was injected")
    panel.set_title("a known delay, and where it was found (grey: within 15 %)")
    panel.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    panel.grid(visible=True, axis="y", alpha=0.35)
    return figure


_PLOTS: tuple[
    tuple[str, Callable[[ProfilerFound], bool], Callable[[ProfilerFound], Figure]], ...
] = (
    ("memory", lambda found: bool(found.memory), _memory),
    ("contexts", lambda found: bool(found.contexts), _contexts),
    ("lengths", lambda found: bool(found.lengths), _lengths),
    ("parts", lambda found: bool(found.lengths), _shares),
    ("waits", lambda found: bool(found.waits), _waits),
    ("injected", lambda found: bool(found.injected), _injected),
)

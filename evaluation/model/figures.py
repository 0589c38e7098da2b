"""Pictures of `python -m evaluation model`: predicted against measured, and overload."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evaluation.model.judging import MEDIAN, WORST, ModelRow
from evaluation.model.overload import HAND_OVER, KERNEL, OverloadPoint, in_hardware

# Okabe and Ito's, told apart by most people.
_COLOURS = {
    "ring": "#0072B2", "memif": "#E69F00", "vhost": "#CC79A7", "veth": "#009E73", "ovs": "#D55E00",
}  # fmt: skip
_ARMS = {
    HAND_OVER: ("#0072B2", "o", "links drop in software, hand-over (measured)"),
    KERNEL: ("#D55E00", "s", "links drop in software, kernel's `other` (measured)"),
}
_MPPS = 1e6


def draw_model(
    rows: Sequence[ModelRow], overload: Sequence[OverloadPoint], folder: Path
) -> list[Path]:
    """A file for each that was measured."""
    made = []
    with mpl.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        for name, figure in (
            ("model", _predicted(rows) if rows else None),
            ("overload", _overload(overload) if overload else None),
        ):
            if figure is not None:
                made.append(folder / f"{name}.png")
                figure.savefig(made[-1], dpi=110)
    return made


def _predicted(rows: Sequence[ModelRow]) -> Figure:
    figure = Figure(figsize=(11.5, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    _scatter(left, rows)
    _errors(right, [row for row in rows if not row.fits])
    return figure


def _scatter(axes: Axes, rows: Sequence[ModelRow]) -> None:
    all_pps = [pps for row in rows for pps in (row.measured_pps, row.predicted_pps) if pps > 0]
    low, high = min(all_pps) / _MPPS / 1.3, max(all_pps) / _MPPS * 1.3
    ends = [low, high]
    axes.fill_between(
        ends, [end * (1 - WORST) for end in ends], [end * (1 + WORST) for end in ends],
        color="0.93", label=f"±{WORST:.0%}",
    )  # fmt: skip
    axes.fill_between(
        ends, [end * (1 - MEDIAN) for end in ends], [end * (1 + MEDIAN) for end in ends],
        color="0.84", label=f"±{MEDIAN:.0%}",
    )  # fmt: skip
    axes.plot(ends, ends, color="0.4", linewidth=0.8)
    for link in dict.fromkeys(row.link for row in rows):
        for fits in (True, False):
            mine = [row for row in rows if row.link == link and row.fits == fits]
            axes.plot(
                [row.measured_pps / _MPPS for row in mine],
                [row.predicted_pps / _MPPS for row in mine],
                linestyle="none", marker="x" if fits else "o", markersize=5 if fits else 7,
                color=_COLOURS[link], alpha=0.6 if fits else 1.0,
                label=None if fits else link,
            )  # fmt: skip
    axes.plot([], [], "x", color="0.4", label="fits the parameters")
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("measured at most, Mpps")
    axes.set_ylabel("predicted, Mpps")
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    axes.grid(visible=True, alpha=0.3)


def _errors(axes: Axes, tests: Sequence[ModelRow]) -> None:
    for at, row in enumerate(tests):
        middle, low, high = (
            100 * (each - 1) for each in (row.ratio.median, row.ratio.lo, row.ratio.hi)
        )
        axes.plot([low, high], [at, at], color=_COLOURS[row.link], linewidth=2, alpha=0.5)
        axes.plot([middle], [at], "o", color=_COLOURS[row.link])
    for bound, style in ((MEDIAN, ":"), (WORST, "--")):
        for sign in (-1, 1):
            axes.axvline(100 * sign * bound, color="0.5", linestyle=style, linewidth=0.8)
    axes.axvline(0, color="0.4", linewidth=0.8)
    axes.set_yticks(
        range(len(tests)), [f"{row.link}, {row.chain}, {row.size} B" for row in tests], fontsize=8
    )
    axes.invert_yaxis()
    axes.set_xlabel("error of chains that test, % (line: 95 % interval)")
    axes.grid(visible=True, axis="x", alpha=0.3)


def _overload(points: Sequence[OverloadPoint]) -> Figure:
    links = list(dict.fromkeys(point.link for point in points))
    figure = Figure(figsize=(4.2 * len(links), 4.3), layout="constrained")
    panels = list(figure.subplots(1, len(links), squeeze=False, sharey=True)[0])
    for panel, link in zip(panels, links, strict=True):
        mine = [point for point in points if point.link == link]
        for policy, (colour, marker, label) in _ARMS.items():
            line = [point for point in mine if point.policy == policy]
            if line:
                _line(panel, line, colour, marker, label)
        loads = sorted({point.load for point in mine})
        panel.plot(
            loads, in_hardware(loads), color="0.35", linestyle="--", zorder=1,
            label="links drop in hardware (model, not measured)",
        )  # fmt: skip
        kernel = [point.most.median for point in mine if point.policy == KERNEL]
        told = f" (at most {kernel[0]:.2g} of hand-over's under `other`)" if kernel else ""
        panel.set_title(f"{link}{told}", fontsize=10)
        panel.set_xlabel("offered ÷ at most")
        panel.set_ylim(0, 1.15)
        panel.grid(visible=True, alpha=0.3)
    panels[0].set_ylabel("passed ÷ at most under the same policy")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def _line(
    axes: Axes, points: Sequence[OverloadPoint], colour: str, marker: str, label: str
) -> None:
    middle = [point.passed.median for point in points]
    axes.errorbar(
        [point.offered.median for point in points],
        middle,
        yerr=(
            [max(0.0, point.passed.median - point.passed.lo) for point in points],
            [max(0.0, point.passed.hi - point.passed.median) for point in points],
        ),
        color=colour, marker=marker, markersize=5, capsize=2, label=label,
    )  # fmt: skip

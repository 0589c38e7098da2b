"""The report's plots, as SVG that stands in an HTML page."""

import statistics
from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from unis.report import colours
from unis.report.svg import STYLE, figure_of, svg
from unis.v1 import engine_pb2 as pb


def throughput(windows: Mapping[str, Sequence[float]], notes: Mapping[str, str]) -> str:
    """A bar for each arm: the median of its windows (Mpps), which are the dots on it.

    `notes` are written beside the bars: what may be said of the arm.
    """
    with mpl.rc_context(STYLE):
        figure = figure_of(9.2, 0.62 * len(windows) + 0.9)
        axes = figure.add_subplot()
        medians = {arm: statistics.median(values) for arm, values in windows.items()}
        widest = max([*(max(v) for v in windows.values()), 1e-9])
        for row, (arm, values) in enumerate(windows.items()):
            axes.barh(row, medians[arm], height=0.62, color=colours.of_arm(arm), alpha=0.9)
            axes.scatter(
                values, [row] * len(values), s=11, color=colours.PAPER, edgecolor=colours.INK,
                linewidth=0.6, zorder=3, clip_on=False,
            )  # fmt: skip
            label = "   ".join([_rate(medians[arm]), *filter(None, [notes.get(arm)])])
            axes.text(
                max(values) + widest * 0.015, row, label, va="center",
                fontweight="bold" if row == 0 else "normal",
            )  # fmt: skip
        axes.set_yticks(range(len(windows)), list(windows))
        axes.invert_yaxis()
        axes.set_xlim(0, widest * 1.32)
        axes.set_xlabel("packets delivered, millions per second (bar: median, dots: windows)")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(visible=True, axis="x")
        axes.set_axisbelow(True)
        return svg(figure, "Throughput by policy", "throughput")


def _rate(mpps: float) -> str:
    if not mpps:
        return "nothing delivered in most windows"
    return f"{mpps:.2f} Mpps" if mpps >= 0.1 else f"{mpps * 1000:.1f} kpps"


def latency(curves: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """The share of packets that were no slower, by latency (µs, logarithmic)."""
    with mpl.rc_context(STYLE):
        figure = figure_of(9.2, 3.6)
        axes = figure.add_subplot()
        for policy, points in curves.items():
            if not points:
                continue
            below = [0.0, *(share for _, share in points)]
            axes.step(
                [points[0][0], *(us for us, _ in points)], [100 * share for share in below],
                where="post", color=colours.of_arm(policy), linewidth=2.2, label=policy,
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_ylim(0, 101)
        axes.set_yticks([0, 5, 25, 50, 75, 95, 100], ["0", "5", "25", "50", "75", "95", "100 %"])
        axes.xaxis.set_major_formatter(_time_label)
        axes.set_xlabel("time from source to sink")
        axes.set_ylabel("packets no slower")
        axes.grid(visible=True, axis="both")
        if axes.lines:
            axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return svg(figure, "Latency distribution by policy", "latency")


def _time_label(us: float, _position: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:g} s"
    return f"{us / 1e3:g} ms" if us >= 1e3 else f"{us:g} µs"


def timeline(
    traces: Mapping[str, pb.TraceReply],
    functions: Sequence[str],
    wide_ms: float,
    close_ms: float,
) -> str:
    """Who ran when: a strip for each policy and CPU, from afar and from close by."""
    rows = [
        (policy, cpu, trace)
        for policy, trace in traces.items()
        for cpu in sorted({run.cpu for run in trace.runs})
    ]
    shades = colours.of_functions(functions)
    many_cpus = len({cpu for _, cpu, _ in rows}) > 1
    with mpl.rc_context(STYLE):
        figure = figure_of(9.2, 0.55 * max(1, len(rows)) + 1.1)
        axes_pair = figure.subplots(1, 2, sharey=True)
        for axes, span in zip(axes_pair, (wide_ms, close_ms), strict=True):
            for row, (_, cpu, trace) in enumerate(rows):
                _strip(axes, row, trace, cpu, span, shades)
            axes.set_xlim(0, span)
            axes.set_xticks(
                [0, span / 4, span / 2, 3 * span / 4]
            )  # the end would meet its neighbour
            axes.set_xlabel(f"ms ({'the first ' if span == close_ms else ''}{span:g} ms)")
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
        labels = [f"{policy}, CPU {cpu}" if many_cpus else policy for policy, cpu, _ in rows]
        axes_pair[0].set_yticks(range(len(rows)), labels)
        axes_pair[0].set_ylim(max(1, len(rows)) - 0.5, -0.5)
        figure.legend(
            handles=[Patch(color=shade, label=name) for name, shade in shades.items()],
            loc="outside upper center", ncols=min(8, max(1, len(shades))), frameon=False,
        )  # fmt: skip
        return svg(figure, "Who ran when, by policy", "timeline")


def _strip(
    axes: Axes, row: int, trace: pb.TraceReply, cpu: int, span_ms: float, shades: Mapping[str, str]
) -> None:
    begin = trace.begin_ns or min((run.begin_ns for run in trace.runs), default=0)
    spans: dict[str, list[tuple[float, float]]] = {}
    for run in trace.runs:
        start = (run.begin_ns - begin) / 1e6
        if run.cpu == cpu and start < span_ms:
            spans.setdefault(run.function, []).append((start, (run.end_ns - run.begin_ns) / 1e6))
    for function, bars in spans.items():
        axes.broken_barh(bars, (row - 0.36, 0.72), facecolors=shades[function], linewidth=0)

"""The report of `python -m evaluation paper`: each figure next to the paper's statement."""

from collections.abc import Sequence

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes

from evaluation.paper.results import Figure, Plot, Point, Results
from unis.report import colours
from unis.report.svg import STYLE, figure_of, svg
from unis.report.templates import template

# By name of the arm. Okabe and Ito's colours, each with its own marker and line, for readers and
# printers without colours.
_STYLES = {
    "priority": ("#0072B2", "o", "-", "UNiS as in the paper"),
    "priority without occupancy": ("#56B4E9", "v", ":", "UNiS without the optimisation"),
    "handover": ("#D55E00", "s", "-", "UNiS, hand-over"),
    "cooperative/8": ("#009E73", "D", "--", "co-operative, k = 8"),
    "cooperative": ("#117A55", "^", "-", "co-operative, best k"),
    "fused": ("#7F7F7F", "P", "-.", "one process"),
}
_MORE = ("#0072B2", "#D55E00", "#009E73", "#8A6FB0", "#B8860B")
_MARKS, _LINES = "osD^v", ("-", "--", "-.", ":")


def report_page(results: Results) -> str:
    """The page. Figures that contradict the paper come first."""
    return template("report.html.j2", __package__).render(
        results=results,
        pictures={figure.key: _pictures(figure) for figure in results.figures},
        counts=counts(results.figures),
        differs=[figure for figure in results.figures if figure.verdict in ("differs", "fails")],
        good=("agrees", "holds"),
        bad=("differs", "fails"),
    )


def counts(figures: Sequence[Figure]) -> str:
    """The number of figures by verdict, in a sentence."""
    by_verdict = {
        word: sum(figure.verdict == word for figure in figures)
        for word in ("agrees", "differs", "too close to tell", "cannot be had here")
    }
    measured = sum(
        "measured" in figure.source for figure in figures if figure.verdict in by_verdict
    )
    return (
        f"Of {sum(by_verdict.values())} figures of the paper {by_verdict['agrees']} agree, "
        f"{by_verdict['differs']} differ, {by_verdict['too close to tell']} are too close to tell "
        f"and {by_verdict['cannot be had here']} cannot be had here; {measured} were measured."
    )


def _pictures(figure: Figure) -> list[Markup]:
    return [
        Markup(_picture(plot, f"{figure.key}-{number}"))  # noqa: S704  our own plot
        for number, plot in enumerate(figure.plots)
    ]


def _picture(plot: Plot, salt: str) -> str:
    with mpl.rc_context(STYLE):
        figure = figure_of(7.2, 3.5)
        axes = figure.add_subplot()
        (_lines if plot.kind == "lines" else _bars)(axes, plot)
        axes.set_title(plot.title, fontsize=11)
        axes.set_xlabel(plot.x)
        axes.set_ylabel(plot.y)
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.grid(visible=True, axis="y" if plot.kind == "bars" else "both")
        axes.set_axisbelow(True)
        if len(plot.series) > 1:
            axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
        return svg(figure, f"{plot.title}: {plot.y} by {plot.x or 'approach'}", salt)


def _style(name: str, number: int) -> tuple[str, str, str, str]:
    more = (
        _MORE[number % len(_MORE)],
        _MARKS[number % len(_MARKS)],
        _LINES[number % len(_LINES)],
        name,
    )
    label = name.replace("cooperative/", "co-operative, k = ")
    return _STYLES.get(name, (*more[:3], label))


def _lines(axes: Axes, plot: Plot) -> None:
    for number, (name, points) in enumerate(plot.series.items()):
        colour, mark, line, label = _style(name, number)
        xs, ys = [float(point.x) for point in points], [point.y for point in points]
        axes.plot(xs, ys, line, color=colour, marker=mark, markersize=5, label=label)
        if all(point.low is not None and point.high is not None for point in points):
            axes.errorbar(xs, ys, _spread(points), fmt="none", ecolor=colour, alpha=0.5, capsize=2)
    all_x = sorted({float(point.x) for points in plot.series.values() for point in points})
    if len(all_x) <= 10 and all(x.is_integer() for x in all_x):
        axes.set_xticks(all_x)


def _bars(axes: Axes, plot: Plot) -> None:
    names = list(dict.fromkeys(point.x for points in plot.series.values() for point in points))
    width = 0.8 / len(plot.series)
    for number, (series, points) in enumerate(plot.series.items()):
        colour, _, _, label = _style(series, number)
        places = [names.index(point.x) + (number + 0.5) * width - 0.4 for point in points]
        spread = _spread(points) if all(point.low is not None for point in points) else None
        axes.bar(
            places, [point.y for point in points], width * 0.92, color=colour, label=label,
            yerr=spread, ecolor=colours.INK, capsize=2,
        )  # fmt: skip
    long = max(len(str(name)) for name in names) * len(names) > 70
    axes.set_xticks(
        range(len(names)), [str(name) for name in names], rotation=30 if long else 0,
        ha="right" if long else "center",
    )  # fmt: skip


def _spread(points: Sequence[Point]) -> list[list[float]]:
    return [
        [max(0.0, point.y - (point.low if point.low is not None else point.y)) for point in points],
        [
            max(0.0, (point.high if point.high is not None else point.y) - point.y)
            for point in points
        ],
    ]

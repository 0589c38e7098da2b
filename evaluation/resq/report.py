"""The report of `python -m evaluation resq`: methods, the paper's numbers, and the servers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes

from evaluation.resq.results import Placed, Resq
from unis.report import colours
from unis.report.placement_rows import Row, functions_of
from unis.report.servers import drawing
from unis.report.svg import STYLE, figure_of, svg
from unis.report.templates import template

_HERE, _PAPER = "#0072B2", "#E0A458"  # distinct for colour-blind readers


@dataclass(frozen=True)
class PlacementMethod:
    """A method that places promises."""

    label: str
    key: str  # a field of `Placed`
    paper: str = ""  # a key of `Placed.paper`; empty: no number in the paper


METHODS = (
    PlacementMethod("exact (the paper: MILP)", "exact", "exact"),
    PlacementMethod("lower bound of any placement", "bound"),
    PlacementMethod("ResQ's greedy", "greedy", "greedy"),
    PlacementMethod("elastic scaling (E2)", "dynamic", "dynamic"),
    PlacementMethod("elastic scaling, at most 95 % loaded", "dynamic_headroom"),
    PlacementMethod("predictor, by the authors' program", "predictor", "predictor"),
    PlacementMethod("predictor, the program corrected", "predictor_named"),
    PlacementMethod("predictor, by the paper's text", "predictor_second"),
    PlacementMethod("packing that ignores contention", "agnostic"),
)
CACHE_COLUMNS = (
    "placement", "servers", "broken promises", "broken with profiles 1.5 points off",
    "largest loss by function, %",
)  # fmt: skip
_TOLD_LOSS = 0.005
_BARS = (
    PlacementMethod("exact", "exact", "exact"),
    PlacementMethod("greedy", "greedy", "greedy"),
    PlacementMethod("elastic", "dynamic", "dynamic"),
    PlacementMethod("predictor", "predictor", "predictor"),
)
_VIOLATIONS = (
    PlacementMethod("shared", "agnostic_shared_violated", "agnostic_shared_violated"),
    PlacementMethod("equal parts", "agnostic_split_violated", "agnostic_split_violated"),
)


def resq_page(
    results: Resq, exact: Mapping[str, Sequence[Row]], shared: Mapping[str, Sequence[Row]]
) -> str:
    """The page. `exact` and `shared`: the servers of each workload."""
    all_rows = [row for rows in (*exact.values(), *shared.values()) for row in rows]
    shades = colours.of_functions(functions_of(all_rows))
    wrong = broken_promises(results)
    return template("report.html.j2", __package__, number=_number).render(
        results=results,
        headline=headline(results),
        wrong=wrong,
        kept=kept(wrong),
        methods=METHODS,
        machines=Markup(_bars(results, _BARS, "servers", "machines")),  # noqa: S704  our own plot
        violations=Markup(_bars(results, _VIOLATIONS, "% of promises", "violations")),  # noqa: S704
        colours=shades,
        drawings={name: drawing(rows, shades, f"servers, {name}") for name, rows in exact.items()},
        shared={
            name: drawing(rows, shades, f"servers with shared cores, {name}")
            for name, rows in shared.items()
        },
        scale=scale(results),
        admission=admission(results),
        sockets=sockets(results),
        caches=caches(results),
        cache_columns=CACHE_COLUMNS,
        cache_rows=cache_rows(results),
    )


def headline(results: Resq) -> str:
    """The result in a sentence."""
    exact = "/".join(str(placed.exact) for placed in results.placement.values())
    greedy = "/".join(str(placed.greedy) for placed in results.placement.values())
    names = ", ".join(results.placement)
    proven = all(placed.exact == placed.bound for placed in results.placement.values())
    return (
        f"The exact method keeps all promises on {exact} servers ({names}), "
        f"{'proven to be the fewest' if proven else 'not all proven to be the fewest'}; "
        f"ResQ's greedy takes {greedy}."
    )


def broken_promises(results: Resq) -> int:
    """The promises that UNiS' own placements break; those of the baselines do not count."""
    wrong = results.scale.wrong + results.admission.wrong
    wrong += sum(placed.wrong + placed.off for placed in results.placement.values())
    wrong += sum(sockets.wrong for sockets in results.sockets.values())
    if (modelled := results.caches) is not None:
        wrong += modelled.wrong + modelled.arms[modelled.kept_apart].broken_when_off
    return wrong + sum(shared.late_or_short + shared.wrong for shared in results.shared.values())


def kept(wrong: int) -> str:
    """Whether all promises are kept, in a sentence."""
    if wrong:
        return f"{wrong} promises are not kept."
    return (
        "Every promise is kept: by the greedy and the exact method, by online admission, with "
        "shared cores, and with profiles that are wrong by 1.5 points."
    )


def scale(results: Resq) -> str:
    """The placement of many promises, in a sentence."""
    placed = results.scale
    return (
        f"{placed.slos:,} promises on {placed.servers:,} servers: {placed.machines:,} machines, "
        f"{placed.gap:.2%} above the bound, {placed.seconds:.1f} s."
    )


def caches(results: Resq) -> str:
    """The placement by modelled caches, in a sentence."""
    modelled = results.caches
    if modelled is None:
        return "Our own functions in a modelled cache: not simulated, because Valgrind is missing."
    servers = modelled.arms[modelled.kept_apart].servers
    return (
        f"{modelled.promises} promises of our own functions in a modelled last-level cache: placed "
        f"on {servers} servers by their profiles. With ways for each function no placement has "
        f"fewer than {modelled.bound}."
    )


def cache_rows(results: Resq) -> list[tuple[str, ...]]:
    """A row per arm, with the columns of CACHE_COLUMNS."""
    if results.caches is None:
        return []
    return [
        (
            name, str(arm.servers), str(sum(arm.broken.values())), str(arm.broken_when_off),
            ", ".join(
                f"{function} {100 * part:.1f}" for function, part in arm.lost.items()
                if part >= _TOLD_LOSS
            ) or "–",
        )
        for name, arm in results.caches.arms.items()
    ]  # fmt: skip


def sockets(results: Resq) -> str:
    """The placement on sockets, in a sentence."""
    workloads = [*results.sockets.values()]
    proven = sum(found.exact == found.bound for found in workloads)
    return (
        f"With sockets, functions of several cores and memory bandwidth, {len(workloads)} random "
        f"workloads of {workloads[0].promises} promises: the exact method uses "
        f"{_from_to([found.exact for found in workloads])} servers ({proven} proven to be the "
        f"fewest) in {_from_to([round(found.seconds, 1) for found in workloads])} s, greedy "
        f"{_from_to([found.greedy for found in workloads])}."
    )


def _from_to(values: Sequence[float]) -> str:
    return f"{min(values):g} to {max(values):g}"


def admission(results: Resq) -> str:
    """Online admission and its answer times, in two sentences."""
    admitted, answers = results.admission, results.answers
    return (
        f"Online admission of {admitted.workloads} random workloads of {admitted.promises:,} "
        f"promises each uses {admitted.median:.3f} times the fewest machines in the median and "
        f"{admitted.worst:.3f} times at worst. With {answers.slos:,} promises on "
        f"{answers.servers:,} servers an answer takes {answers.median_ms:.2f} ms of CPU time in "
        f"the median, {answers.p99_ms:.2f} ms in the 99th percentile, and {answers.worst_ms:.1f} "
        f"ms at most; an update of prices, between two requests, takes "
        f"{answers.prices_ms:.0f} ms."
    )


def _number(placed: Placed, key: str) -> str:
    return f"{getattr(placed, key):g}"


def _bars(results: Resq, methods: Sequence[PlacementMethod], quantity: str, salt: str) -> str:
    """A plot per workload on one scale: the numbers here next to the paper's."""
    with mpl.rc_context(STYLE):
        figure = figure_of(9.4, 3.3)
        all_axes = figure.subplots(1, len(results.placement), sharey=True, squeeze=False)[0]
        for axes, (name, placed) in zip(all_axes, results.placement.items(), strict=True):
            ours = [float(getattr(placed, method.key)) for method in methods]
            theirs = [float(placed.paper[method.paper]) for method in methods]
            _side_by_side(axes, ours, theirs)
            axes.set_xticks(range(len(methods)), [method.label for method in methods])
            axes.tick_params(axis="x", length=0, labelsize=10)
            axes.set_title(name, fontsize=11)
            axes.grid(visible=True, axis="y")
            axes.set_axisbelow(True)
        all_axes[0].set_ylabel(quantity)
        all_axes[0].margins(y=0.12)
        figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2,
                      frameon=False)  # fmt: skip
        return svg(figure, f"{quantity} by method, here and in the paper", salt)


def _side_by_side(axes: Axes, ours: Sequence[float], theirs: Sequence[float]) -> None:
    for values, shift, colour, label in (
        (ours, -0.2, _HERE, "here"),
        (theirs, 0.2, _PAPER, "ResQ paper"),
    ):
        places = [index + shift for index in range(len(values))]
        bars = axes.bar(places, values, 0.37, color=colour, label=label)
        axes.bar_label(bars, fmt="%.3g", fontsize=9, padding=1, color=colours.INK)

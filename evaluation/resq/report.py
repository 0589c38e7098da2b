"""The page of `evaluation resq`: every method beside the paper's numbers, and servers drawn."""

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

_HERE, _PAPER = "#0072B2", "#E0A458"  # told apart by the colour-blind too


@dataclass(frozen=True)
class Method:
    """One that places promises."""

    label: str
    key: str  # of `Placed`
    paper: str = ""  # of `Placed.paper`; empty: the paper has no such number


METHODS = (
    Method("exact (the paper: MILP)", "exact", "exact"),
    Method("no placement has fewer than", "bound"),
    Method("ResQ's greedy", "greedy", "greedy"),
    Method("elastic scaling (E2)", "dynamic", "dynamic"),
    Method("the same, at most 95 % loaded", "dynamic_headroom"),
    Method("predictor, as the authors' program", "predictor", "predictor"),
    Method("the same, functions by their names", "predictor_named"),
    Method("the same, as the paper's text", "predictor_second"),
    Method("knowing of no contention", "agnostic"),
)
CACHE_COLUMNS = (
    "servers in a modelled cache", "servers", "promises broken", "with profiles 1.5 points off",
    "% lost at most, of what it passes alone",
)  # fmt: skip
_TOLD_LOSS = 0.005
_BARS = (
    Method("exact", "exact", "exact"),
    Method("greedy", "greedy", "greedy"),
    Method("elastic", "dynamic", "dynamic"),
    Method("predictor", "predictor", "predictor"),
)
_VIOLATIONS = (
    Method("shared", "agnostic_shared_violated", "agnostic_shared_violated"),
    Method("equal parts", "agnostic_split_violated", "agnostic_split_violated"),
)


def resq_page(
    results: Resq, exact: Mapping[str, Sequence[Row]], shared: Mapping[str, Sequence[Row]]
) -> str:
    """The whole page; `exact` and `shared`: the servers of each workload."""
    every = [row for rows in (*exact.values(), *shared.values()) for row in rows]
    shades = colours.of_functions(functions_of(every))
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
    exact = "/".join(str(of.exact) for of in results.placement.values())
    greedy = "/".join(str(of.greedy) for of in results.placement.values())
    names = ", ".join(results.placement)
    proven = all(of.exact == of.bound for of in results.placement.values())
    return (
        f"The exact method keeps all promises on {exact} servers ({names}), "
        f"{'proven to be the fewest' if proven else 'not all proven to be the fewest'}; "
        f"ResQ's greedy takes {greedy}."
    )


def broken_promises(results: Resq) -> int:
    """That our own placements do not keep; the baselines' are not among them."""
    wrong = results.scale.wrong + results.admission.wrong
    wrong += sum(of.wrong + of.off for of in results.placement.values())
    wrong += sum(of.wrong for of in results.sockets.values())
    if (of := results.caches) is not None:
        wrong += of.wrong + of.arms[of.kept_apart].broken_when_off
    return wrong + sum(of.late_or_short + of.wrong for of in results.shared.values())


def kept(wrong: int) -> str:
    """That in a sentence."""
    if wrong:
        return f"{wrong} promises are not kept!"
    return (
        "Every promise is kept, in every placement by greedy, exact method, admission one by one "
        "and with shared cores, and where profiles are off by 1.5 points."
    )


def scale(results: Resq) -> str:
    """In a sentence."""
    of = results.scale
    return (
        f"{of.slos:,} promises on {of.servers:,} servers: {of.machines:,} machines, "
        f"{of.gap:.2%} above the bound, {of.seconds:.1f} s."
    )


def caches(results: Resq) -> str:
    """In a sentence."""
    of = results.caches
    if of is None:
        return (
            "Our own functions in a cache that is modelled: not looked at, for Valgrind is missing."
        )
    servers = of.arms[of.kept_apart].servers
    return (
        f"{of.promises} promises of our own functions in a last-level cache that is modelled: "
        f"placed on {servers} servers by their profiles, none fewer with ways for each on "
        f"{of.bound}."
    )


def cache_rows(results: Resq) -> list[tuple[str, ...]]:
    """As `CACHE_COLUMNS`, an arm each."""
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
    """In a sentence."""
    of = [*results.sockets.values()]
    proven = sum(one.exact == one.bound for one in of)
    return (
        f"With sockets, functions of several cores and memory bandwidth, {len(of)} random "
        f"workloads of {of[0].promises} promises: {_from_to([one.exact for one in of])} servers, "
        f"{proven} proven, by greedy {_from_to([one.greedy for one in of])}; "
        f"{_from_to([round(one.seconds, 1) for one in of])} s."
    )


def _from_to(of: Sequence[float]) -> str:
    return f"{min(of):g} to {max(of):g}"


def admission(results: Resq) -> str:
    """In two sentences."""
    of, took = results.admission, results.answers
    return (
        f"Admitted one by one, {of.workloads} random workloads of {of.promises:,} promises each "
        f"need {of.median:.3f} times the fewest machines in the median and {of.worst:.3f} times at "
        f"worst. With {took.slos:,} promises on {took.servers:,} servers an answer takes "
        f"{took.median_ms:.2f} ms of the CPU in the median, {took.p99_ms:.2f} ms in 99 of 100 "
        f"cases, and {took.worst_ms:.1f} ms at most; new prices, between two requests, "
        f"{took.prices_ms:.0f} ms."
    )


def _number(of: Placed, key: str) -> str:
    return f"{getattr(of, key):g}"


def _bars(results: Resq, methods: Sequence[Method], what: str, salt: str) -> str:
    """A plot for each workload, all to one scale: ours and the paper's side by side."""
    with mpl.rc_context(STYLE):
        figure = figure_of(9.4, 3.3)
        every = figure.subplots(1, len(results.placement), sharey=True, squeeze=False)[0]
        for axes, (name, of) in zip(every, results.placement.items(), strict=True):
            ours = [float(getattr(of, method.key)) for method in methods]
            theirs = [float(of.paper[method.paper]) for method in methods]
            _side_by_side(axes, ours, theirs)
            axes.set_xticks(range(len(methods)), [method.label for method in methods])
            axes.tick_params(axis="x", length=0, labelsize=10)
            axes.set_title(name, fontsize=11)
            axes.grid(visible=True, axis="y")
            axes.set_axisbelow(True)
        every[0].set_ylabel(what)
        every[0].margins(y=0.12)
        figure.legend(*every[0].get_legend_handles_labels(), loc="outside lower center", ncols=2,
                      frameon=False)  # fmt: skip
        return svg(figure, f"{what} by method, here and in the paper", salt)


def _side_by_side(axes: Axes, ours: Sequence[float], theirs: Sequence[float]) -> None:
    for values, shift, colour, label in (
        (ours, -0.2, _HERE, "here"),
        (theirs, 0.2, _PAPER, "ResQ paper"),
    ):
        places = [at + shift for at in range(len(values))]
        bars = axes.bar(places, values, 0.37, color=colour, label=label)
        axes.bar_label(bars, fmt="%.3g", fontsize=9, padding=1, color=colours.INK)

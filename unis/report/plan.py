"""The page of `unis plan --report`: the servers of a plan, drawn."""

from collections.abc import Iterable, Sequence

from unis.report import colours
from unis.report.placement_rows import ANY, Row, by_ways, functions_of
from unis.report.servers import drawing
from unis.report.templates import template
from unis.slo.explain import PromiseExplanation
from unis.slo.placement import Refusal

_PROMISES = 200
_GREY = "#B7B7B7"
_ALONE = (
    "A row is a kind of server, and how many there are of it: the ways of the cache by function, "
    "each in a class of service of its own, and the cores that are used. The order of masks on a "
    "server may be another (unis plan --json has it)."
)
_SHARED = (
    "A row is a server, or several on which the same lies: the ways of the cache by function, "
    "those of a core in one class of service (framed where there are several), and the cores, each "
    "filled by its load."
)


def plan_page(
    name: str,
    summary: str,
    rows: Sequence[Row],
    refused: Iterable[Refusal],
    kept: Sequence[PromiseExplanation] = (),
    costs: Iterable[str] = (),
    *,
    shared: bool = False,
) -> str:
    """The whole page; it needs nothing else."""
    shades = colours.of_functions(functions_of(rows))
    main = drawing(rows, shades, f"the servers of {name}")
    alike = drawing(by_ways(rows), {ANY: _GREY}, f"the servers of {name}, by ways")
    more = f"And {len(kept) - _PROMISES:,} more." if len(kept) > _PROMISES else ""
    return template("plan.html.j2").render(
        name=name,
        summary=summary,
        note=_SHARED if shared else _ALONE,
        costs=[*costs],
        refused=[refusal.why for refusal in refused],
        colours=shades,
        drawing=main,
        alike=alike if main.more else None,
        kept=kept[:_PROMISES],
        more=more,
    )

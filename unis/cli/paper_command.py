"""`unis bench paper`."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.bench_parts import table_of
from unis.cli.terminal import errors_told, out, say, writable, write_result

if TYPE_CHECKING:
    from unis.report.evaluation import Results, Row

_STYLES = {
    "agrees": "green",
    "differs": "red",
    "cannot be had here": "dim",
    "not in the paper": "dim",
}


def paper(
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer lengths and rounds: under six minutes.")
    ] = False,
    only: Annotated[
        str,
        typer.Option(
            help="Figures, as fig4a,fig15,table1; same: one policy under two names; scale: many "
            "cores."
        ),
    ] = "",
    output: Annotated[
        Path, typer.Option("--out", "-o", help="Directory for report and figures.")
    ] = Path("build/bench"),
) -> None:
    """The evaluation of the UNiS paper, measured on this machine beside what the paper says.

    Every figure of its sections 3 and 5, with a verdict. Writes report.html, results.json and
    results.csv. What an interrupted call has measured is taken over by the next of the same kind.
    Takes less than half an hour; needs root, hugepages, what `make build` builds and two CPUs that
    do nothing else.

    Example: unis bench paper --quick -o build/bench
    """
    from unis.bench.paper.evaluation import Settings, evaluate
    from unis.report.paper import counts, report_page

    wanted = figures_of(only, quick=quick)
    with errors_told():
        report, results, table = (
            writable(output / name) for name in ("report.html", "results.json", "results.csv")
        )
        found = evaluate(Settings(quick, wanted, output), say)
        write_result(results, found.model_dump_json(indent=1) + "\n")
        write_result(table, csv_of(found.rows))
        write_result(report, report_page(found))
    _print(found)
    out.print(counts(found.figures), markup=False)
    if found.disturbed:
        out.print(found.disturbed, markup=False, style="yellow")
    out.print(f"{report}  {results}  {table}", markup=False, style="bold")


def figures_of(text: str, *, quick: bool) -> tuple[str, ...]:
    """What --only says."""
    from unis.bench.paper.evaluation import FIGURES

    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if unknown := [word for word in words if word not in FIGURES]:
        raise typer.BadParameter(
            f"there is no {unknown[0]!r}: {', '.join(FIGURES)}", param_hint="--only"
        )
    if quick and "same" in words:
        raise typer.BadParameter("`same` is not in the quick run", param_hint="--only")
    return words or tuple(FIGURES)


def csv_of(rows: list[Row]) -> str:
    """A line for each row; what has parts has a column for each."""
    flat = [_flat(row.model_dump()) for row in rows]
    columns = list(dict.fromkeys(name for one in flat for name in one))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return stream.getvalue()


def _flat(data: dict[str, object], before: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in data.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{before}{name}.")
        else:
            flat[before + name] = value
    return flat


def _print(results: Results) -> None:
    table = table_of("", "figure", ())
    table.add_column("verdict")
    table.add_column("here")
    for figure in results.figures:
        said = f"{figure.ours} {figure.why}".strip()
        table.add_row(figure.name, f"[{_STYLES[figure.verdict]}]{figure.verdict}[/]", said)
    out.print(table)
    simulator = results.simulator
    if simulator.points:
        out.print(
            f"Simulator beside machine, {len(simulator.points)} points: median error "
            f"{simulator.median_error:.3f}, the worst {simulator.worst_error:.3f}.",
            markup=False,
        )

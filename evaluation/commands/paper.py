"""`python -m evaluation paper`."""

from __future__ import annotations

import csv
import io
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from unis.cli.terminal import fail, out, say, table_of, writable
from unis.errors import EXIT_FAILED
from unis.runtime.files import write_atomically

if TYPE_CHECKING:
    from pydantic import BaseModel

    from evaluation.paper.results import ResultRow, Results

_STYLES = {
    "agrees": "green",
    "holds": "green",
    "differs": "red",
    "fails": "red",
    "too close to tell": "yellow",
}
_MODE = 0o644
# Keys of a row's mappings, which the model does not name.
_KEYS = {"latency_us": ("mean", "p5", "p50", "p95", "p99")}


def paper(
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer lengths and rounds. Takes under six minutes.")
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(
            help="Figures to measure, as in fig4a,fig15,table1. same: one policy under two "
            "names. scale: many cores."
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--out", "-o", help="Output directory for the report and its data.")
    ] = Path("build/bench"),
) -> None:
    """Repeat the evaluation of the UNiS paper on this machine, next to the paper's results.

    Measures every figure of its sections 3 and 5, and gives a verdict on each. Writes report.html,
    results.json and results.csv. After Ctrl-C the same command within a day continues. Results with
    more figures, or without --quick, are not overwritten by results with fewer. Takes less than
    half an hour. Needs root, hugepages, what `make build` builds, and two CPUs that do nothing
    else.

    Example: uv run python -m evaluation paper --quick -o build/bench
    """
    from evaluation.paper.evaluation import PaperSettings, evaluate
    from evaluation.paper.parts import exclusive, refuse_to_overwrite
    from evaluation.paper.report import counts
    from evaluation.paper.source import Source

    wanted = figures_of(only)
    with exclusive(output):
        files = [writable(output / name) for name in ("report.html", "results.csv", "results.json")]
        refuse_to_overwrite(files[-1], wanted if only else None, quick=quick)
        source = Source.this()
        if source.trouble:
            say(source.trouble)
        found = evaluate(
            PaperSettings(quick, wanted, output),
            say,
            source=source,
            keep=lambda results: _write(files, results),
        )
    _print(found)
    out.print(counts(found.figures), markup=False)
    if found.disturbed:
        out.print(found.disturbed, markup=False, style="yellow")
    out.print(*files, sep="  ", markup=False, style="bold")


def _write(files: list[Path], results: Results) -> None:
    """Renders all files before it writes the first, so that an error keeps the old results."""
    from evaluation.paper.report import report_page

    texts = [
        report_page(results), csv_of(results.rows), results.model_dump_json(indent=1) + "\n",
    ]  # fmt: skip
    for file, text in zip(files, texts, strict=True):
        try:
            write_atomically(file, text, _MODE)
        except OSError as error:
            raise fail(f"cannot write {file}: {error.strerror}", EXIT_FAILED) from None


def figures_of(text: str | None) -> tuple[str, ...]:
    """The figures that --only names; without it all."""
    from evaluation.paper.evaluation import FIGURES

    if text is None:
        return tuple(FIGURES)
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not words:
        raise typer.BadParameter(
            f"{text!r} names no figure: {', '.join(FIGURES)}", param_hint="--only"
        )
    if unknown := [word for word in words if word not in FIGURES]:
        raise typer.BadParameter(
            f"there is no {unknown[0]!r}: {', '.join(FIGURES)}", param_hint="--only"
        )
    return words


def csv_of(rows: list[ResultRow]) -> str:
    """A line per row. A nested value has a column per field, also if the field is unknown."""
    from evaluation.paper.results import ResultRow

    columns = [*_columns(ResultRow)]
    flat = [_flat(row.model_dump()) for row in rows]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return stream.getvalue()


def _columns(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        parts = [field.annotation, *typing.get_args(field.annotation)]  # two for `Ratio | None`
        submodel = next((part for part in parts if hasattr(part, "model_fields")), None)
        if submodel:
            yield from _columns(submodel, f"{prefix}{name}.")
        elif name in _KEYS:
            yield from (f"{prefix}{name}.{key}" for key in _KEYS[name])
        else:
            yield prefix + name


def _flat(data: dict[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in data.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _print(results: Results) -> None:
    table = table_of("", "figure", (), ("verdict", "here"))
    for figure in results.figures:
        finding = f"{figure.ours} {figure.why}".strip()
        style = _STYLES.get(figure.verdict, "dim")
        table.add_row(figure.name, Text(figure.verdict, style), finding)
    out.print(table)
    simulator = results.simulator
    if simulator.points:
        out.print(
            f"Simulator compared with the machine at {len(simulator.points)} points: median error "
            f"{simulator.median_error:.3f}, worst {simulator.worst_error:.3f}.",
            markup=False,
        )

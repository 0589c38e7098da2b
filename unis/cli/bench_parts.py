"""What commands that compare have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.table import Table

from unis.cli.terminal import print_line
from unis.engine.limits import limit

if TYPE_CHECKING:  # the command line explains itself without numpy
    from collections.abc import Iterable, Sequence

    from unis.measure.disturbance import Disturbance
    from unis.measure.paired import Paired, Ratio

WINDOW = 0.2  # seconds


def table_of(title: str, first: str, numbers: Sequence[str]) -> Table:
    """One column of names, and those of numbers beside it."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    table.add_column(first)
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def print_disturbed(parts: Iterable[Disturbance]) -> None:
    """Below a table, if its windows were disturbed."""
    from unis.measure.disturbance import remark

    if told := remark(parts):
        print_line(told, "yellow")


def paired_ratio(ratio: Paired | None) -> tuple[str, str]:
    """Median and interval, as cells of a table."""
    return ratio_cells((ratio.median, ratio.low, ratio.high) if ratio else None)


def interval_ratio(ratio: Ratio | None) -> tuple[str, str]:
    """The same of a ratio as results have it."""
    return ratio_cells((ratio.median, ratio.lo, ratio.hi) if ratio else None)


def ratio_cells(ratio: tuple[float, float, float] | None) -> tuple[str, str]:
    """Median, low and high, as cells of a table."""
    from unis.measure.paired import ratio_text

    if ratio is None:
        return "–", "–"
    median, low, high = map(ratio_text, ratio)
    return median, f"{low}–{high}"


def lengths_of(text: str, option: str) -> list[int]:
    """Of chains, with commas."""
    most = limit("ChainConfig.hops").max_items
    try:
        lengths = [int(part) for part in text.split(",")]
    except ValueError:
        lengths = [0]
    if not all(1 <= length <= most for length in lengths):
        raise typer.BadParameter(
            f"`{text}`: write lengths from 1 to {most}, as 2,3,4,5", param_hint=option
        )
    return lengths

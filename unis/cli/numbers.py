"""Numbers on the command line: within bounds, and numbers indeed."""

import math
from typing import Any

import typer


def between(least: float, most: float, said: str) -> Any:
    """An option that holds a number from `least` to `most`; `said` is its help."""
    return typer.Option(min=least, max=most, callback=_a_number, help=said)


def _a_number(value: float | None) -> float | None:
    # nan is neither below the least nor above the most.
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is no number")
    return value

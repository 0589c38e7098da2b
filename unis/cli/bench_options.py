"""Options of commands that compare policies, what their words mean, and cells of their tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.options import between
from unis.cli.terminal import print_line
from unis.engine.limits import limit

if TYPE_CHECKING:  # the command line explains itself without numpy
    from unis.measure.disturbance import Disturbance
    from unis.measure.paired import Ratio
    from unis.measure.windows import Arm

WINDOW = 0.2  # seconds

WindowOption = Annotated[float, between(0.02, 3600, "Length of a measured window, seconds.")]
ResultFileOption = Annotated[
    Path | None, typer.Option("--json", help="Write the result to this file as JSON.")
]


def words_of(text: str, known: Iterable[str] | None, option: str) -> tuple[str, ...]:
    """Comma-separated words, without repetitions. `known`: the words that exist; None: any."""
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for word in words:
        if known is not None and word not in known:
            raise typer.BadParameter(f"there is no {word!r}: {', '.join(known)}", param_hint=option)
    return words


def arms_of(text: str) -> tuple[Arm, ...]:
    """What --arms says."""
    from unis.measure.windows import Arm

    try:
        return tuple(dict.fromkeys(map(Arm.parse, words_of(text, None, "--arms"))))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--arms") from None


def policies_of(text: str, *, fused: bool) -> tuple[str, ...]:
    """What --policies says."""
    from unis.bench.throughput import FUSED, POLICIES

    return words_of(text, [*POLICIES, FUSED] if fused else POLICIES, "--policies")


def costs_of(text: str) -> tuple[str, ...]:
    """What --cost says."""
    from unis.bench.synthetic import COSTS

    words = words_of(text, None, "--cost")
    for word in words:
        if word not in COSTS and not (word.isdecimal() and int(word) <= 100_000_000):
            raise typer.BadParameter(
                f"`{word}`: write {', '.join(COSTS)} or a number of cycles", param_hint="--cost"
            )
    return words


def lengths_of(text: str, option: str) -> list[int]:
    """Lengths of chains, with commas between."""
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


def one_chain_of(cost: str, length: str) -> tuple[str, int]:
    """What --cost and --length say where there is one chain only."""
    costs, lengths = costs_of(cost), lengths_of(length, "--length")
    if len(costs) > 1 or len(lengths) > 1:
        raise typer.BadParameter("one of them", param_hint="--cost and --length")
    return costs[0], lengths[0]


def rings_of(text: str) -> list[int | None]:
    """What --ring says, in slots; None: auto."""
    words = words_of(text, None, "--ring")
    return [None if word == "auto" else _slots(word, "auto or ", "--ring") for word in words]


def slots_of(text: str) -> tuple[int, ...]:
    """What --rings says."""
    return tuple(_slots(word, "", "--rings") for word in words_of(text, None, "--rings"))


def _slots(word: str, other: str, option: str) -> int:
    slots = limit("LinkConfig.slots")
    least, most = int(slots.min or 0), int(slots.max or 0)
    number = int(word) if word.isdecimal() else 0
    if not least <= number <= most or number.bit_count() != 1:
        raise typer.BadParameter(
            f"`{word}`: write {other}a power of two from {least} to {most}", param_hint=option
        )
    return number


def ratio_cells(ratio: Ratio | None) -> tuple[str, str]:
    """Median and interval, as cells of a table."""
    from unis.measure.paired import ratio_text

    if ratio is None:
        return "–", "–"
    return ratio_text(ratio.median), f"{ratio_text(ratio.lo)}–{ratio_text(ratio.hi)}"


def us_text(us: float | None) -> str:
    """A latency in a table."""
    return "–" if us is None else f"{us:,.0f}"


def print_disturbed(parts: Iterable[Disturbance]) -> None:
    """Below a table, if its windows were disturbed."""
    from unis.measure.disturbance import remark

    if told := remark(parts):
        print_line(told, "yellow")

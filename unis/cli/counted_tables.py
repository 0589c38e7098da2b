"""What was counted of a chain, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unis.cli.terminal import out, print_line, table_of

if TYPE_CHECKING:
    from unis.counted.hot import Hot
    from unis.counted.result import Counted


def print_counted(counted: Counted) -> None:
    """A row for each thing counted, unless it is 0 everywhere; a column for each place."""
    rows = counted.rows
    places = [each.name for each in counted.places]
    table = table_of("", "counted, a packet", places, ("provider",), whole=("counted, a packet",))
    for row in rows:
        table.add_row(*row)
    if rows:
        print_line("")
        out.print(table)
    if counted.counter_share is not None:
        print_line(
            "events shared the hardware counters: each had a counter for at least "
            f"{counted.counter_share:.0%} of the time, and its number is scaled"
        )


def print_hot(hot: Hot) -> None:
    """The hottest symbols of each function."""
    print_line("")
    table = table_of("", "function", ("share",), ("symbol", "module"), whole=("function", "symbol"))
    for function in hot.functions:
        for at, symbol in enumerate(function.symbols):
            name = "" if at else function.name
            table.add_row(name, f"{symbol.share:.1%}", symbol.symbol, symbol.module)
    out.print(table)
    samples = sum(each.samples for each in hot.functions)
    print_line(f"{samples:,} samples, {hot.hertz} for each second of CPU time, by {hot.event}")

"""What was counted of a chain, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unis.cli.terminal import out, print_line, table_of

if TYPE_CHECKING:
    from unis.counted.hot import Hot
    from unis.counted.result import Count, Counted


def print_counted(counted: Counted) -> None:
    """A row for each thing counted, unless it is 0 everywhere; a column for each place."""
    rows: dict[tuple[str, str], dict[str, Count]] = {}
    for place in counted.places:
        for what, count in (*place.counts.items(), *place.ratios.items()):
            rows.setdefault((count.provider, what), {})[place.name] = count
    shown = {
        key: cells for key, cells in rows.items() if any(count.value for count in cells.values())
    }
    places = [each.name for each in counted.places]
    table = table_of("", "counted, a packet", places, ("provider",), whole=("counted, a packet",))
    for (provider, what), cells in shown.items():
        numbers = [_number(cells[name].value) if name in cells else "" for name in places]
        table.add_row(what, *numbers, provider)
    if shown:
        print_line("")
        out.print(table)
    if counted.counter_share is not None:
        print_line(
            f"events shared hardware counters, and each had one for {counted.counter_share:.0%} of "
            "the time at least: their numbers are scaled"
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
    print_line(f"{samples:,} samples, {hot.hertz} a second of {hot.event}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

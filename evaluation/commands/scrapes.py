"""`python -m evaluation scrapes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.bench_options import (
    ResultFileOption,
    one_chain_of,
    print_disturbed,
)
from unis.cli.options import between
from unis.cli.terminal import out, print_line, say, table_of, writable, write_result

if TYPE_CHECKING:
    from evaluation.scrapes import ScrapeCost

_VERDICTS = {
    True: ("a scrape each second costs under 0.5 % of the throughput", "green"),
    False: ("a scrape each second costs more than 0.5 % of the throughput", "red"),
    None: (
        "whether a scrape each second costs under 0.5 % cannot be told from these windows",
        "yellow",
    ),
}


def scrapes(
    every: Annotated[float, between(0.2, 60, "Seconds between two scrapes.")] = 1.0,
    cost: Annotated[str, typer.Option(help="Cost of a packet: light, medium, heavy.")] = "light",
    length: Annotated[str, typer.Option(help="Number of functions in the chain.")] = "3",
    rounds: Annotated[
        int, typer.Option(min=1, max=10_000, help="Number of pairs of windows.")
    ] = 30,
    window: Annotated[float, between(0.02, 3600, "Length of a window, seconds.")] = 2.0,
    file: ResultFileOption = None,
) -> None:
    """Measure what it costs a chain at full load that Prometheus scrapes its metrics.

    Windows with scrapes and without alternate; `unis serve` runs throughout. More scrapes show more
    clearly what one costs: the verdict is on one a second.

    Example: uv run python -m evaluation scrapes --every 0.2 --rounds 60
    """
    from evaluation import scrapes as bench
    from unis.plan.machine import Machine

    one_cost, one_length = one_chain_of(cost, length)
    settings = bench.ScrapeSettings(one_cost, one_length, every, rounds, window)
    if file:
        writable(file)
    result = bench.measure(settings, Machine.this(), say)
    if file:
        write_result(file, result.model_dump_json(indent=2) + "\n")
    _print(result)


def _print(result: ScrapeCost) -> None:
    title = f"{result.length} {result.cost}, {result.windows} rounds of {result.window_s:g} s"
    table = table_of(title, "", ("Mpps", "q1", "q3", "ratio", "95 %"))
    for name, mpps in result.mpps.items():
        cells = [f"{it:.3f}" for it in (mpps.median, mpps.q1, mpps.q3)]
        if (ratio := result.ratio) and name == "scrapes":
            cells += [f"{ratio.median:.4f}", f"{ratio.lo:.4f}–{ratio.hi:.4f}"]
        table.add_row(name, *cells)
    out.print(table)
    shares = (f"{share:.2%} of a CPU with {name}" for name, share in result.server_cpu.items())
    print_line(
        f"{result.scrapes} scrapes of {result.text_bytes / 1000:.0f} kB, one each "
        f"{result.every_s:g} s; the server takes {', '.join(shares)}"
    )
    if (each := result.each_second) and result.every_s != 1:
        print_line(
            f"one each second: {each.median:.4f} of the throughput ({each.lo:.4f}–{each.hi:.4f})"
        )
    print_disturbed([result.disturbed])
    verdict, style = _VERDICTS[result.kept]
    print_line(verdict if result.every_s == 1 else f"{verdict}, if each costs the same", style)

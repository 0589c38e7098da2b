"""`python -m evaluation soak`."""

from __future__ import annotations

import random
from typing import Annotated

import typer

from unis.cli.bench_options import ResultFileOption
from unis.cli.options import between
from unis.cli.terminal import fail, print_line, say, writable, write_result

_SEEDS = 1 << 32


def soak(
    operations: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Number of operations.")
    ] = 1000,
    minutes: Annotated[float, between(0.1, 1440, "End after so many minutes at the latest.")] = 10,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the random numbers.")] = None,
    one_run: Annotated[
        bool,
        typer.Option(
            "--one-run",
            help="No operation ends the run: engine and launcher must not grow.",
        ),
    ] = False,
    file: ResultFileOption = None,
) -> None:
    """Change a run by random operations over the API, kill its processes, and scrape its metrics.

    After each operation the run must be what a model says. At the end nothing may be left of the
    runs, and no process that lived throughout may have grown by more than 4 MB, 2 descriptors or 2
    threads, nor may there be more files. That is the server, and with --one-run the engine and the
    launcher too. Needs CPU 1 for itself.

    Example: uv run python -m evaluation soak --minutes 10
    """
    from evaluation import soak as bench

    used = random.randrange(_SEEDS) if seed is None else seed  # noqa: S311
    say(f"seed {used}")
    if file:
        writable(file)
    result = bench.soak(bench.SoakSettings(operations, minutes, used, one_run), say)
    if file:
        write_result(file, result.model_dump_json(indent=2) + "\n")
    total = sum(result.operations.values())
    each = ", ".join(f"{name} {count}" for name, count in sorted(result.operations.items()))
    print_line(f"{total} operations in {result.seconds:.0f} s: {each}")
    killed = ", ".join(f"{count} {what}" for what, count in sorted(result.killed.items()))
    print_line(f"killed: {killed or 'nothing'}")
    print_line(f"{result.refused} were refused, as they had to be; {result.scrapes} scrapes")
    for name, growth in result.growth.items():
        before, after = growth.first, growth.last
        print_line(
            f"{name}, second quarter → last: memory {before.rss_kb:,} → {after.rss_kb:,} kB, "
            f"descriptors {before.descriptors} → {after.descriptors}, threads {before.threads} → "
            f"{after.threads}; files {before.files} → {after.files}"
        )
    if len(result.growth) < (3 if one_run else 1):
        print_line("it was too short to tell whether something grew", "yellow")
    if wrong := [*result.left, *result.grown]:
        raise fail("\n".join(wrong), code=1)
    print_line("nothing is left of the runs, and nothing was seen to grow", "green")

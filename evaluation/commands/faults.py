"""`python -m evaluation faults`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from unis.cli.options import between
from unis.cli.terminal import out, say, table_of, writable, write_result

if TYPE_CHECKING:
    from evaluation.faults import FaultsResult


def faults(
    minutes: Annotated[float, between(0.05, 600, "How long to inject faults, minutes.")] = 5,
    max_faults: Annotated[
        int, typer.Option("--faults", min=1, help="Stop after this many faults.")
    ] = 100_000,
    seed: Annotated[
        int, typer.Option(help="Random seed. The same seed gives the same faults.")
    ] = 1,
    cpu: Annotated[
        int | None, typer.Option(help="CPU of the functions. Default: the last CPU.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--json", help="Write the result to this file as JSON.")
    ] = None,
) -> None:
    """Kill parts of a run at random moments, and check the consequences.

    Kills and stops functions on rings and memifs, and in every second run a process that sends the
    packets: they must come back, the chain next to them must lose nothing, and every packet must be
    accounted for. Kills engine, launcher and guard, one or two at once: then nothing of the run may
    be left. Exit code 1 if a check failed.

    Example: uv run python -m evaluation faults --minutes 5 --json faults.json
    """
    from evaluation.faults import run_faults
    from unis.plan.machine import Machine

    until = time.monotonic() + 60 * minutes
    if file:
        writable(file)
    functions_cpu = max(Machine.this().cpus) if cpu is None else cpu
    result = run_faults(
        functions_cpu, seed, lambda done: done < max_faults and time.monotonic() < until, say
    )
    out.print(_faults_table(result))
    if file:
        write_result(file, result.model_dump_json(indent=2) + "\n")
    if result.wrong:
        say(f"checks failed after {result.wrong} of {result.faults} faults")
        raise typer.Exit(1)


def _faults_table(result: FaultsResult) -> Table:
    title = f"{result.faults} faults, seed {result.seed}"
    table = table_of(title, "fault", ("faults", "failed", "s to recover", "q1–q3"))
    for fault, counts in result.kinds.items():
        table.add_row(
            fault,
            str(counts.faults),
            str(counts.wrong),
            f"{counts.seconds.median:.2f}",
            f"{counts.seconds.q1:.2f}–{counts.seconds.q3:.2f}",
            style="red" if counts.wrong else "",
        )
    return table

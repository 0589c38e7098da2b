"""`python -m evaluation faults`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from unis.cli.bench_parts import table_of
from unis.cli.numbers import between
from unis.cli.terminal import errors_told, out, say, writable, write_result

if TYPE_CHECKING:
    from evaluation.faults import Result as Faults


def faults(
    minutes: Annotated[float, between(0.05, 600, "For how long.")] = 5,
    most: Annotated[int, typer.Option("--faults", min=1, help="Most faults.")] = 100_000,
    seed: Annotated[int, typer.Option(help="The same seed, the same faults.")] = 1,
    cpu: Annotated[int | None, typer.Option(help="Of functions; default: the last.")] = None,
    file: Annotated[
        Path | None, typer.Option("--json", help="Write the result to this file.")
    ] = None,
) -> None:
    """Kill what a run is made of at random moments, and look at what comes of it.

    Functions over rings and over memif, and in every second run a process that sends the packets,
    are killed and stopped: they must come back, the chain beside them lose nothing, and every
    packet be accounted for. Engine, launcher and guard are killed, alone and two at once: then
    nothing of the run may be left. Exit code 1 if something was not as it should be.

    Example: uv run python -m evaluation faults --minutes 5 --json faults.json
    """
    from evaluation.faults import run_faults
    from unis.plan.machine import Machine

    until = time.monotonic() + 60 * minutes
    with errors_told():
        if file:
            writable(file)
        functions_cpu = max(Machine.this().cpus) if cpu is None else cpu
        result = run_faults(
            functions_cpu, seed, lambda done: done < most and time.monotonic() < until, say
        )
    out.print(_faults_table(result))
    if file:
        write_result(file, result.model_dump_json(indent=2) + "\n")
    if result.wrong:
        say(f"{result.wrong} of {result.faults} faults did not end as they should")
        raise typer.Exit(1)


def _faults_table(result: Faults) -> Table:
    title = f"{result.faults} faults, seed {result.seed}"
    table = table_of(title, "struck", ("faults", "wrong", "s until all is well", "q1–q3"))
    for fault, of in result.kinds.items():
        table.add_row(
            fault,
            str(of.faults),
            str(of.wrong),
            f"{of.seconds.median:.2f}",
            f"{of.seconds.q1:.2f}–{of.seconds.q3:.2f}",
            style="red" if of.wrong else "",
        )
    return table

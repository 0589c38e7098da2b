"""`python -m evaluation agreement`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from unis.cli.bench_options import WINDOW, lengths_of
from unis.cli.options import between
from unis.cli.terminal import out, say, table_of, writable, write_result
from unis.engine import names

if TYPE_CHECKING:
    from evaluation.agreement import Comparison
    from unis.measure.paired import Paired


def agreement(
    functions: Annotated[
        str, typer.Option(help="Numbers of functions in the chain, comma-separated.")
    ] = "2,3,4,5",
    cost: Annotated[
        str, typer.Option(help="Cost of a packet in macswap: light, medium, heavy.")
    ] = "light",
    rounds: Annotated[int, typer.Option(min=2)] = 16,
    window: Annotated[float, between(0.02, 3600, "Length of a measured window, seconds.")] = WINDOW,
    output: Annotated[Path, typer.Option("--out", help="Output file (JSON).")] = Path(
        "build/agreement.json"
    ),
) -> None:
    """Compare the machine with the simulator, which gets costs measured on the machine.

    Exit code 1 if they order the policies differently. `unis` and `cooperative` are too close to
    judge: their ratio is printed for machine and simulator, with its interval.

    Example: uv run python -m evaluation agreement --functions 2,5 --cost medium
    """
    from evaluation import agreement as bench

    lengths = lengths_of(functions, "--functions")
    writable(output)
    results = [bench.compare(length, cost, rounds, window, say) for length in lengths]
    out.print(_agreement_table(results))
    data = [{**result.model_dump(), "agrees": result.agrees} for result in results]
    write_result(output, json.dumps(data, indent=2) + "\n")
    if not all(result.agrees for result in results):
        say("simulator and machine order the policies differently")
        raise typer.Exit(1)


def _agreement_table(results: list[Comparison]) -> Table:
    table = table_of(
        "Mpps, machine / simulator",
        "functions",
        (*names.COMPARED, "unis ÷ cooperative", "difference", "same order"),
    )
    for result in results:
        table.add_row(
            str(result.functions),
            *(
                f"{result.machine_mpps[policy]:.3f} / {result.simulator_mpps[policy]:.3f}"
                for policy in names.COMPARED
            ),
            f"{_median(result.machine_ratio)} / {_median(result.simulator_ratio)}",
            _difference(result.difference),
            _order(result),
            style="" if result.agrees else "red",
        )
    return table


def _order(result: Comparison) -> str:
    if not result.judged:
        return "too close"
    same = sum(result.judged.values())
    return f"{same} of {len(result.judged)} pairs"


def _median(ratio: Paired | None) -> str:
    return f"{ratio.median:.2f}" if ratio else "–"


def _difference(found: Paired | None) -> str:
    return f"{found.median:+.2f} [{found.low:+.2f}, {found.high:+.2f}]" if found else "–"

"""`python -m evaluation fairness`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.bench_options import WINDOW, one_chain_of, policies_of, print_disturbed
from unis.cli.options import between
from unis.cli.terminal import out, say, table_of, writable, write_result
from unis.engine.limits import limit

if TYPE_CHECKING:
    from evaluation.fairness import FairnessResult, ManyFunctions, TwoChains
    from unis.measure.paired import Ratio


def fairness(
    cost: Annotated[
        str,
        typer.Option(
            help="Cost of a packet: light, medium, heavy, variable, or a number of cycles."
        ),
    ] = "medium",
    length: Annotated[
        str, typer.Option(help="Number of functions in each of the two chains.")
    ] = "3",
    functions: Annotated[
        int,
        typer.Option(
            min=2,
            help="Functions in the second part: an even number, half of them in each of "
            "two chains.",
        ),
    ] = 16,
    policies: Annotated[
        str,
        typer.Option(
            help="Comma-separated: priority, handover, signal (`unis` with that "
            "controller), cooperative, rr, other."
        ),
    ] = "handover,priority",
    rounds: Annotated[
        int,
        typer.Option(
            min=2,
            help="Minimum number of rounds with two chains. Rounded up to whole balanced "
            "Latin squares.",
        ),
    ] = 48,
    window: Annotated[
        float, between(0.02, 3600, "Length of a measured window with two chains, seconds.")
    ] = WINDOW,
    seconds: Annotated[
        int, typer.Option(min=1, max=86_400, help="Seconds under each policy with many functions.")
    ] = 60,
    file: Annotated[
        Path | None, typer.Option("--json", help="Write the result to this file as JSON.")
    ] = None,
) -> None:
    """Measure whether chains and functions that share a CPU get equal shares.

    First two equal chains: the packets of the second relative to the first, in windows of one run.
    Then many functions: the turns and packets of the function that got least in a second, and the
    longest wait for a turn.

    Example: uv run python -m evaluation fairness --seconds 60 --json fairness.json
    """
    from evaluation import fairness as bench
    from unis.plan.machine import Machine

    most_functions = int(limit("DeployRequest.functions").max_items)
    if functions % 2 or functions > most_functions:
        raise typer.BadParameter(
            f"`{functions}`: write an even number up to {most_functions}", param_hint="--functions"
        )
    one_cost, one_length = one_chain_of(cost, length)
    settings = bench.FairnessSettings(
        cost=one_cost,
        length=one_length,
        functions=functions,
        policies=policies_of(policies, fused=False),
        rounds=rounds,
        window=window,
        seconds=seconds,
    )
    if file:
        writable(file)
    result = bench.measure(settings, Machine.this(), say)
    _print(result)
    if file:
        write_result(file, result.model_dump_json(indent=2) + "\n")


def _print(result: FairnessResult) -> None:
    first = result.two_chains[0]
    title = f"two chains of {result.length} {result.cost}, {first.windows} windows"
    table = table_of(title, "policy", ("Mpps", "second ÷ first", "95 %", "worst window"))
    for pair in result.two_chains:
        table.add_row(
            _name(pair), f"{pair.mpps.median:.3f}", *_ratio(pair.ratio), f"{pair.worst:.3f}"
        )
    out.print(table)
    many = result.many_functions[0]
    title = f"{result.functions} functions, {many.windows} windows of {many.window_s:.1f} s"
    columns = ("Mpps", "least turns", "least packets", "longest wait ms")
    table = table_of(title, "policy", columns)
    for row in result.many_functions:
        gap = row.longest_gap_us
        table.add_row(
            _name(row),
            f"{row.mpps.median:.3f}",
            "–" if row.least_turns is None else f"{row.least_turns:,}",
            f"{row.least_packets:,}",
            "–" if gap is None else f"{gap / 1e3:.2f}",
        )
    out.print(table)
    print_disturbed(pair.disturbed for pair in result.two_chains)
    print_disturbed(row.disturbed for row in result.many_functions)


def _ratio(ratio: Ratio | None) -> tuple[str, str]:
    """With three digits: unfairness is often below 0.1."""
    return (f"{ratio.median:.3f}", f"{ratio.lo:.3f}–{ratio.hi:.3f}") if ratio else ("–", "–")


def _name(row: TwoChains | ManyFunctions) -> str:
    return row.policy + (f"/{row.controller}" if row.controller else "")

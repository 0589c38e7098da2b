"""`python -m evaluation promises`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.options import between
from unis.cli.terminal import out, say, table_of, writable, write_result

if TYPE_CHECKING:
    from evaluation.promises.result import PromisesResult


def promises(
    output: Annotated[
        Path, typer.Option("--out", "-o", help="Output directory for results.json.")
    ] = Path("build/promises"),
    costs: Annotated[
        str,
        typer.Option(
            help="Cost of a packet in each of the two functions, cycles, comma-separated."
        ),
    ] = "1000,2500",
    parts: Annotated[
        str,
        typer.Option(
            help="Promised throughput, in percent of what each function passes alone, "
            "comma-separated."
        ),
    ] = "30,40",
    p95_us: Annotated[
        float, between(1, 1e6, "Promised p95 latency of both functions, µs. Default: the paper's.")
    ] = 100.0,
    blocks: Annotated[
        int,
        typer.Option(
            min=1,
            max=100,
            help="Number of blocks. A block measures the profiles, plans, and runs both "
            "functions together.",
        ),
    ] = 3,
    windows: Annotated[
        int, typer.Option(min=2, max=1000, help="Number of windows with both functions together.")
    ] = 12,
    rounds: Annotated[
        int, typer.Option(min=2, max=100, help="Minimum number of windows per point of a profile.")
    ] = 5,
    window: Annotated[float, between(0.02, 60, "Length of a measured window, seconds.")] = 0.2,
    again: Annotated[
        int,
        typer.Option(min=0, max=100, help="Retries of a block that other processes disturbed."),
    ] = 2,
) -> None:
    """Place two promises on one core of this machine, and measure whether both hold.

    Profiles two functions (`macswap`) alone on the core. The planner places both promises on the
    core or refuses them; it also prints the smallest latency that it would promise, and the load
    that it would refuse. Then both functions run, each in a chain of its own, with Poisson arrivals
    at the promised rate: throughput and p95 latency are compared with the promise. A second
    measurement uses the refused load, to check the refusal. Windows in which other processes had
    the engine's CPU do not count; if most windows are such, there is no verdict. Needs root,
    hugepages and two CPUs. Takes four to six minutes. Writes results.json. Exit code 1 if a promise
    does not hold.

    Example: uv run python -m evaluation promises --parts 20,50 --blocks 5
    """
    from evaluation.promises import blocks as bench
    from unis.plan.machine import Machine

    settings = bench.PromiseSettings(
        costs=_costs_of(costs),
        parts=_parts_of(parts),
        p95_us=p95_us,
        blocks=blocks,
        windows=windows,
        rounds=rounds,
        window=window,
        again=again,
    )
    file = writable(output / "results.json")
    machine = Machine.this()
    # Written after each block, in case a later one fails.
    for blocks_done, left_out in bench.measure(settings, machine, say):
        result = bench.result(blocks_done, left_out, settings, machine)
        write_result(file, result.model_dump_json(indent=1) + "\n")
    _print(result)
    out.print(str(file), markup=False, style="bold")
    if result.kept is False:
        raise typer.Exit(1)


def _costs_of(text: str) -> tuple[str, str]:
    words = [word.strip() for word in text.split(",")]
    if len(words) != 2 or not all(word.isdecimal() and int(word) for word in words):
        raise typer.BadParameter(
            f"`{text}`: write two numbers of cycles, as 1000,2500", param_hint="--costs"
        )
    return words[0], words[1]


def _parts_of(text: str) -> tuple[float, float]:
    try:
        found = [float(word) / 100 for word in text.split(",")]
    except ValueError:
        found = []
    if len(found) != 2 or not all(0.01 <= part <= 0.95 for part in found) or sum(found) > 0.95:
        raise typer.BadParameter(
            f"`{text}`: write two percentages, together 95 at most, as 30,40", param_hint="--parts"
        )
    return found[0], found[1]


def _print(result: PromisesResult) -> None:
    table = table_of(
        "Two promises on one core", "block, chain",
        ("Mpps promised", "passed", "p95 µs promised", "least", "measured", "windows kept"),
    )  # fmt: skip
    for number, block in enumerate(result.blocks, 1):
        for promise in block.promised.promises:
            table.add_row(
                f"{number}, {promise.chain}" + ("" if block.counts else " (disturbed)"),
                f"{promise.promised_mpps:.3f}",
                f"{promise.mpps.median:.3f}",
                f"{promise.promised_p95_us:g}",
                f"{promise.least_p95_us:.1f}" if promise.least_p95_us else "–",
                f"{promise.pooled_p95_us:.1f}",
                f"{promise.windows_kept} of {promise.windows}",
            )
    out.print(table)
    disturbed = sum(block.promised.disturbed for block in result.blocks)
    windows = sum(len(block.promised.windows) for block in result.blocks)
    remarks = []
    if disturbed:
        remarks.append(f"Other processes had the engine's CPU in {disturbed} of {windows} windows.")
    if result.left_out:
        remarks.append(
            f"{result.left_out} blocks were repeated: other processes disturbed the profiles, or "
            "the machine changed."
        )
    for sentence in remarks:
        out.print(sentence, markup=False, style="yellow")
    style = {True: "green", False: "red", None: "yellow"}[result.kept]
    out.print(result.verdict, markup=False, style=style)
    for sentence in result.tightness if result.counting else []:
        out.print(sentence, markup=False)

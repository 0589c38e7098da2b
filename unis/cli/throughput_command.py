"""`unis bench throughput`."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.bench_parts import WINDOW, interval_ratio, lengths_of, print_disturbed, table_of
from unis.cli.numbers import between
from unis.cli.terminal import out, say, writable, write_result
from unis.engine.limits import limit

if TYPE_CHECKING:
    from unis.bench.throughput import ThroughputRow


def throughput(
    cost: Annotated[
        str,
        typer.Option(
            help="Cost of a packet, comma-separated: light, medium, heavy, variable "
            "(depends on the size; 200/1400 B mix), or a number of cycles."
        ),
    ] = "light",
    length: Annotated[
        str, typer.Option(help="Number of functions in the chain, comma-separated.")
    ] = "3",
    ring: Annotated[
        str,
        typer.Option(
            help="Slots of each ring, comma-separated. auto: chosen by controller as `unis "
            "up` does."
        ),
    ] = "auto",
    policies: Annotated[
        str,
        typer.Option(
            help="Comma-separated: priority, handover, signal (`unis` with that "
            "controller), cooperative, fused, rr, other."
        ),
    ] = "priority,handover,cooperative,fused",
    rounds: Annotated[
        int,
        typer.Option(
            min=1,
            help="Minimum number of rounds per block. Rounded up to whole balanced Latin squares.",
        ),
    ] = 24,
    blocks: Annotated[
        int, typer.Option(min=1, help="How often the chain and `fused` are started anew.")
    ] = 4,
    window: Annotated[float, between(0.02, 3600, "Length of a measured window, seconds.")] = WINDOW,
    file: Annotated[
        Path | None, typer.Option("--json", help="Write the result to this file as JSON.")
    ] = None,
) -> None:
    """Compare the throughput of a chain of the paper's functions under each policy.

    Measures in alternating windows of one run. `cooperative` yields after the number of bursts that
    passes most of those tried. `fused` has all functions in one process, and alternates with the
    chain in blocks. With --ring auto each controller gets the ring length that `unis up` would
    choose, and a table of its own.

    Example: unis bench throughput --cost light --length 5 --json throughput.json
    """
    from unis.bench import throughput as of
    from unis.plan.machine import Machine

    wanted = policies_of(policies, fused=True)
    cases = [
        of.ThroughputCase(*case)
        for case in product(costs_of(cost), lengths_of(length, "--length"), rings_of(ring))
    ]
    settings = of.ThroughputSettings(wanted, rounds, blocks, window)
    rows: list[ThroughputRow] = []
    if file:
        writable(file)
    machine = Machine.this()
    for case in cases:
        for found in of.compare(case, settings, machine, say):
            rows += found
            _print(found)
            if file:  # what there is, if a later one fails
                text = of.result(rows, machine).model_dump_json(indent=2)
                write_result(file, text + "\n")


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",")))


def policies_of(text: str, *, fused: bool) -> tuple[str, ...]:
    """What --policies says."""
    from unis.bench.throughput import FUSED, POLICIES

    there = [*POLICIES, *([FUSED] if fused else [])]
    words = _words(text)
    for name in words:
        if name not in there:
            raise typer.BadParameter(
                f"there is no {name!r}: {', '.join(there)}", param_hint="--policies"
            )
    return words


def costs_of(text: str) -> tuple[str, ...]:
    """What --cost says."""
    from unis.bench.synthetic import COSTS

    words = _words(text)
    for word in words:
        if word not in COSTS and not (word.isdecimal() and int(word) <= 100_000_000):
            raise typer.BadParameter(
                f"`{word}`: write {', '.join(COSTS)} or a number of cycles", param_hint="--cost"
            )
    return words


def one_chain_of(cost: str, length: str) -> tuple[str, int]:
    """What --cost and --length say where there is one chain only."""
    costs, lengths = costs_of(cost), lengths_of(length, "--length")
    if len(costs) > 1 or len(lengths) > 1:
        raise typer.BadParameter("one of them", param_hint="--cost and --length")
    return costs[0], lengths[0]


def rings_of(text: str) -> list[int | None]:
    """What --ring says; None: auto."""
    slots = limit("LinkConfig.slots")
    least, most = int(slots.min or 0), int(slots.max or 0)
    rings: list[int | None] = []
    for word in _words(text):
        if word == "auto":
            rings.append(None)
            continue
        number = int(word) if word.isdecimal() else 0
        if not least <= number <= most or number & (number - 1):
            raise typer.BadParameter(
                f"`{word}`: write auto or a power of two from {least} to {most}",
                param_hint="--ring",
            )
        rings.append(number)
    return rings


def _print(rows: list[ThroughputRow]) -> None:
    first = rows[0]
    title = f"{first.length} {first.cost}, rings of {first.ring}, {first.windows} windows"
    if first.blocks_left_out:
        title += f", {first.blocks_left_out} blocks left out for a machine that changed"
    columns = ("Mpps", "q1–q3", "÷ cooperative", "95 %", "÷ fused", "95 %", "switches/s")
    table = table_of(title, "policy", (*columns, "p50 µs", "p95"))
    for row in rows:
        name = row.policy + (f"/{row.controller}" if row.controller else "")
        if row.yield_every:
            last = row.tried and row.yield_every == max(row.tried)
            name += f" (a yield every {row.yield_every}{', the last tried' if last else ''})"
        table.add_row(
            name,
            f"{row.mpps.median:.3f}",
            f"{row.mpps.q1:.3f}–{row.mpps.q3:.3f}",
            *interval_ratio(row.ratio_to_cooperative),
            *interval_ratio(row.ratio_to_fused),
            f"{row.switches_per_s:,.0f}",
            *(us_text(row.latency_us[name]) for name in ("p50", "p95")),
        )
    out.print(table)
    print_disturbed(row.disturbed for row in rows)


def us_text(us: float | None) -> str:
    """A latency in a table."""
    return "–" if us is None else f"{us:,.0f}"

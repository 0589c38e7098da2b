"""`unis bench latency`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.bench_parts import WINDOW, interval_ratio, print_disturbed, table_of
from unis.cli.numbers import between
from unis.cli.terminal import out, print_line, say, writable, write_result
from unis.cli.throughput_command import one_chain_of, policies_of, rings_of, us_text

if TYPE_CHECKING:
    from unis.bench.latency import LatencyResult, LatencyRow
    from unis.report.latency import Curve, Points

_LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2)
_QUICK_LOADS = (0.2, 0.5, 0.8, 1.0)
_RINGS = (128, 256, 512, 1024, 2048, 4096, 8192)
_QUICK_RINGS = (256, 512, 1024, 4096)


def latency(
    cost: Annotated[
        str,
        typer.Option(
            help="Cost of a packet: light, medium, heavy, variable, or a number of cycles."
        ),
    ] = "light",
    length: Annotated[str, typer.Option(help="Number of functions in the chain.")] = "3",
    ring: Annotated[
        str,
        typer.Option(
            help="Slots of each ring while the load varies. auto: chosen as `unis up` does."
        ),
    ] = "auto",
    policies: Annotated[
        str, typer.Option(help="Comma-separated: priority, handover, signal, cooperative.")
    ] = "priority,handover,cooperative",
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Fewer loads, ring lengths and rounds. Takes four minutes."),
    ] = False,
    loads: Annotated[
        str | None,
        typer.Option(help="Loads, in percent of what `cooperative` sustains, as in 20,80,100."),
    ] = None,
    rings: Annotated[
        str | None,
        typer.Option(help="Ring lengths (slots) to measure at full load, comma-separated."),
    ] = None,
    window: Annotated[float, between(0.02, 3600, "Length of a measured window, seconds.")] = WINDOW,
    output: Annotated[
        Path, typer.Option("--out", "-o", help="Output directory for the report and its data.")
    ] = Path("build/latency"),
) -> None:
    """Measure latency against load, and throughput against latency, under each policy.

    First packets arrive at a given rate, evenly and at random (Poisson), from a low load to more
    than co-operative functions sustain. Then packets arrive as fast as rings of several lengths
    take them: the most that each policy passes within a bound on the latency. Writes latency.svg,
    latency.png and latency.json.

    Example: unis bench latency --quick -o build/latency
    """
    from unis.bench import latency as of
    from unis.plan.machine import Machine
    from unis.report import check_plots

    wanted = policies_of(policies, fused=False)
    one_cost, one_length = one_chain_of(cost, length)
    settings = of.LatencySettings(
        cost=one_cost,
        length=one_length,
        ring=rings_of(ring)[0],
        policies=wanted,
        loads=_loads_of(loads) if loads else _QUICK_LOADS if quick else _LOADS,
        rings=_slots_of(rings) if rings else _QUICK_RINGS if quick else _RINGS,
        rounds=3 if quick else 6,
        blocks=1 if quick else 2,
        window=window,
    )
    check_plots()
    from unis.report.latency import picture

    files = [writable(output / f"latency.{kind}") for kind in ("svg", "png", "json")]
    result = of.compare(settings, Machine.this(), say)
    _print(result, wanted)
    for file in files[:2]:
        picture(_curves(result, wanted), _points(result, wanted), file)
    write_result(files[2], result.model_dump_json(indent=2) + "\n")
    print_line("  ".join(map(str, files)), "bold")


def _loads_of(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(word) / 100 for word in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0.01 <= load <= 2 for load in found):
        raise typer.BadParameter(
            f"`{text}`: write percentages from 1 to 200, as 20,80,100", param_hint="--loads"
        )
    return found


def _slots_of(text: str) -> tuple[int, ...]:
    found = tuple(slots for slots in rings_of(text) if slots is not None)
    if len(found) != len(text.split(",")):
        raise typer.BadParameter(f"`{text}`: write numbers of slots", param_hint="--rings")
    return found


def _curves(result: LatencyResult, policies: tuple[str, ...]) -> dict[str, dict[str, Curve]]:
    from unis.bench.latency import ARRIVALS, called

    return {
        arrivals: {
            policy: [
                (row.load, row.latency_us["p50"] or 0.0, row.latency_us["p95"] or 0.0)
                for row in result.rows
                if row.arrivals == arrivals and called(row) == policy and row.load is not None
            ]
            for policy in policies
        }
        for arrivals in ARRIVALS
    }


def _points(result: LatencyResult, policies: tuple[str, ...]) -> dict[str, Points]:
    from unis.bench.latency import called

    return {
        policy: [
            (p95, row.mpps.median)
            for row in result.rows
            if row.experiment == "frontier"
            and called(row) == policy
            and (p95 := row.latency_us["p95"]) is not None
        ]
        for policy in policies
    }


def _latency(row: LatencyRow, name: str) -> tuple[str, str, str]:
    ratio = (row.latency_to_cooperative or {}).get(name)
    return us_text(row.latency_us[name]), *interval_ratio(ratio)


def _print(result: LatencyResult, policies: tuple[str, ...]) -> None:
    from unis.bench.latency import BOUNDS_US, called

    loads = [row for row in result.rows if row.experiment == "load"]
    title = (
        f"{loads[0].length} {loads[0].cost}, rings of {loads[0].ring}; 100 % is "
        f"{result.sustained_mpps:.2f} Mpps"
    )
    ratios = "÷ cooperative", "95 %"
    columns = ("load", "Mpps", "dropped/s", "p50 µs", *ratios, "p95 µs", *ratios, "p99 µs")
    table = table_of(title, "arrivals, policy", columns)
    for row in loads:
        table.add_row(
            f"{row.arrivals} {called(row)}",
            f"{row.load:.0%}",
            f"{row.mpps.median:.3f}",
            f"{row.drops:,.0f}",
            *(cell for name in ("p50", "p95") for cell in _latency(row, name)),
            us_text(row.latency_us["p99"]),
        )
    out.print(table)
    table = table_of(
        "the most Mpps within a p95 latency of", "policy", [f"{us} µs" for us in BOUNDS_US]
    )
    for policy in policies:
        most = [result.frontier(policy, us) for us in BOUNDS_US]
        table.add_row(policy, *("–" if mpps is None else f"{mpps:.3f}" for mpps in most))
    out.print(table)
    print_disturbed(row.disturbed for row in result.rows)

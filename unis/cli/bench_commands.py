"""`unis bench`: policies compared on this machine."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.bench_evaluation import ANY_OPTIONS, model, scc, vhost
from unis.cli.bench_options import (
    WINDOW,
    ResultFileOption,
    WindowOption,
    arms_of,
    costs_of,
    lengths_of,
    one_chain_of,
    policies_of,
    print_disturbed,
    ratio_cells,
    rings_of,
    slots_of,
    us_text,
    words_of,
)
from unis.cli.options import between
from unis.cli.terminal import moved, out, print_line, say, table_of, writable, write_result

if TYPE_CHECKING:  # the command line explains itself without matplotlib and gRPC
    from unis.bench.alerts import Alerts
    from unis.bench.beside import BesideRow
    from unis.bench.latency import LatencyResult, LatencyRow
    from unis.bench.load import LoadResult, LoadRow
    from unis.bench.throughput import ThroughputRow
    from unis.bench.unmodified import ChainResult
    from unis.report.curves import LatencyCurve, LoadCurve, Points

_LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2)
_QUICK_LOADS = (0.2, 0.5, 0.8, 1.0)
_RINGS = (128, 256, 512, 1024, 2048, 4096, 8192)
_QUICK_RINGS = (256, 512, 1024, 4096)

bench = typer.Typer(no_args_is_help=True, help="Compare policies on this machine.")


@bench.command()
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
    window: WindowOption = WINDOW,
    file: ResultFileOption = None,
) -> None:
    """Compare the throughput of a chain of the paper's functions under each policy.

    Measures in alternating windows of one run. `cooperative` yields after the number of bursts that
    passes most of those tried. `fused` has all functions in one process, and alternates with the
    chain in blocks. With --ring auto each controller gets the ring length that `unis up` would
    choose, and a table of its own.

    Example: unis bench throughput --cost light --length 5 --json throughput.json
    """
    from unis.bench.throughput import ThroughputCase, ThroughputSettings, compare, result
    from unis.plan.machine import Machine

    wanted = policies_of(policies, fused=True)
    cases = [
        ThroughputCase(*case)
        for case in product(costs_of(cost), lengths_of(length, "--length"), rings_of(ring))
    ]
    settings = ThroughputSettings(wanted, rounds, blocks, window)
    rows: list[ThroughputRow] = []
    if file:
        writable(file)
    machine = Machine.this()
    for case in cases:
        for found in compare(case, settings, machine, say):
            rows += found
            _print_throughput(found)
            if file:  # what there is, if a later one fails
                text = result(rows, machine).model_dump_json(indent=2)
                write_result(file, text + "\n")


def _print_throughput(rows: list[ThroughputRow]) -> None:
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
            *ratio_cells(row.ratio_to_cooperative),
            *ratio_cells(row.ratio_to_fused),
            f"{row.switches_per_s:,.0f}",
            *(us_text(row.latency_us[name]) for name in ("p50", "p95")),
        )
    out.print(table)
    print_disturbed(row.disturbed for row in rows)


@bench.command()
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
    window: WindowOption = WINDOW,
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
    from unis.bench.latency import LatencySettings, compare
    from unis.plan.machine import Machine
    from unis.report import check_plots

    wanted = policies_of(policies, fused=False)
    one_cost, one_length = one_chain_of(cost, length)
    settings = LatencySettings(
        cost=one_cost,
        length=one_length,
        ring=rings_of(ring)[0],
        policies=wanted,
        loads=_loads_of(loads, 1, 200) if loads is not None else _QUICK_LOADS if quick else _LOADS,
        rings=slots_of(rings) if rings else _QUICK_RINGS if quick else _RINGS,
        rounds=3 if quick else 6,
        blocks=1 if quick else 2,
        window=window,
    )
    check_plots()
    from unis.report import curves

    files = [writable(output / f"latency.{kind}") for kind in ("svg", "png", "json")]
    result = compare(settings, Machine.this(), say)
    _print_latency(result, wanted)
    for file in files[:2]:
        curves.latency(_curves(result, wanted), _points(result, wanted), file)
    write_result(files[2], result.model_dump_json(indent=2) + "\n")
    print_line("  ".join(map(str, files)), "bold")


def _loads_of(text: str, least: int, most: int) -> tuple[float, ...]:
    try:
        found = tuple(sorted({float(word) / 100 for word in text.split(",")}))
    except ValueError:
        found = ()
    if not found or not all(least <= 100 * load <= most for load in found):
        raise typer.BadParameter(
            f"`{text}`: write percentages from {least} to {most}, as 20,80,100",
            param_hint="--loads",
        )
    return found


def _curves(result: LatencyResult, policies: tuple[str, ...]) -> dict[str, dict[str, LatencyCurve]]:
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
    return us_text(row.latency_us[name]), *ratio_cells(ratio)


def _print_latency(result: LatencyResult, policies: tuple[str, ...]) -> None:
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


@bench.command()
def unmodified(
    only: Annotated[
        str | None,
        typer.Option(
            help="Chains to measure, by the third-party program in them, comma-separated. "
            "Default: all."
        ),
    ] = None,
    arms: Annotated[
        str,
        typer.Option(
            "--arms",
            "--policies",
            help="Comma-separated policies, or controllers of `unis` (priority, handover, signal).",
        ),
    ] = "unis,priority,rr,other",
    rounds: Annotated[
        int,
        typer.Option(
            min=1, help="Minimum number of rounds. Rounded up to whole balanced Latin squares."
        ),
    ] = 24,
    window: WindowOption = WINDOW,
    file: ResultFileOption = None,
) -> None:
    """Compare policies on chains of third-party programs over memif.

    Measures policies in alternating windows, and next to them UNiS' own functions that co-operate
    on the same links, each with the distance between yields that passes most. The two chains
    alternate in blocks. `tools/third-party` fetches the programs. Some programs have threads that
    poll only rings inside the program. `unis/groups` is `unis` with these threads out of the line.
    Suricata also runs alone on a core: exit code 1 if its alerts differ from those in the chain.

    Example: unis bench unmodified --only testpmd --json unmodified.json
    """
    from unis.bench.third_party import CHAINS, check
    from unis.bench.unmodified import UnmodifiedResult, UnmodifiedSettings, compare

    chains = words_of(only, CHAINS, "--only") if only else tuple(CHAINS)
    compared = arms_of(arms)
    if any(arm.policy == "cooperative" for arm in compared):
        raise typer.BadParameter("third-party programs do not co-operate", param_hint="--arms")
    settings = UnmodifiedSettings(rounds, window, compared)
    results: dict[str, ChainResult] = {}
    if file:
        writable(file)
    for name in chains:
        check(name)
    for name in chains:
        results[name] = compare(name, settings, say)
        _print_unmodified(name, results[name])
        if file:  # what there is, if a later one fails
            result = UnmodifiedResult(chains=results)
            write_result(file, result.model_dump_json(indent=2) + "\n")
    if not all(result.alerts is None or result.alerts.same for result in results.values()):
        say("alerts differ from those of the program alone on a core")
        raise typer.Exit(1)


def _print_unmodified(name: str, result: ChainResult) -> None:
    from unis.measure.paired import Ratio

    title = f"{name}: {' → '.join(result.programs)}, {result.windows} windows"
    if took := result.line_transfer_ns:
        title += f", CPUs {min(took):.0f} to {max(took):.0f} ns apart"
        title += f", {result.blocks_left_out} blocks left out for that" * bool(
            result.blocks_left_out
        )
    table = table_of(title, "policy", ("Mpps", "q1–q3", "÷ other", "95 %", "÷ cooperative", "95 %"))
    for policy, summary in result.policies.items():
        told = f" (a yield every {result.yield_every})" if policy == "cooperative" else ""
        table.add_row(
            policy + told,
            f"{summary.mpps.median:.3f}",
            f"{summary.mpps.q1:.3f}–{summary.mpps.q3:.3f}",
            *ratio_cells(Ratio.of(summary.ratio_to_other)),
            *ratio_cells(Ratio.of(summary.ratio_to_cooperative)),
        )
    out.print(table)
    if "unis" in result.policies and (gain := result.policies["unis"].ratio_to_groups):
        print_line(f"unis ÷ unis/groups: {' (95 %: '.join(ratio_cells(Ratio.of(gain)))})")
    print_disturbed(policy.disturbed for policy in result.policies.values())
    if result.alerts:
        _print_alerts(name, result.alerts)


def _print_alerts(name: str, alerts: Alerts) -> None:
    title = f"{name}: alerts of a capture that goes through once"
    table = table_of(
        title,
        "capture",
        ("packets", "alerts alone", "under unis", "same", "dropped alone", "under unis"),
    )
    for capture, alert in alerts.captures.items():
        table.add_row(
            capture,
            *map(str, (alert.unis.offered, alert.alone.alerts, alert.unis.alerts)),
            "yes" if alert.same else "no",
            *(
                f"{each.dropped_by_function}{'' if each.accounted else f' of {each.drops}'}"
                for each in (alert.alone, alert.unis)
            ),
        )
    out.print(table)


@bench.command()
def load(
    chains: Annotated[
        str,
        typer.Option(
            help="Comma-separated: light, medium (three functions of the paper), testpmd (three "
            "programs of DPDK over memif), openvswitch (alone, between two memifs). "
            "`make third-party` fetches the programs."
        ),
    ] = "light,medium",
    loads: Annotated[
        str | None,
        typer.Option(
            help="Loads, in percent of what the chain passes at most, as in 0,10,50. 0 is one "
            "packet a second."
        ),
    ] = None,
    max_delay: Annotated[
        float,
        between(1, 2000, "Longest wait of a packet for functions that sleep, µs (`max_delay_us`)."),
    ] = 100,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two bring-ups in place of five. Takes five minutes.")
    ] = False,
    window: WindowOption = WINDOW,
    output: Annotated[
        Path, typer.Option("--out", "-o", help="Output directory for the picture and its data.")
    ] = Path("build/load"),
) -> None:
    """Measure the CPU that functions and platform use at each load, latency and loss.

    Compares three modes: hand-over with functions that poll, hand-over with functions that sleep
    between packets, and `cooperative`. For Open vSwitch the third is its own sleep: `pmd-maxsleep`
    of the same length, under the kernel's scheduler. The windows alternate. Each chain is brought
    up several times. CPU time is what the kernel's scheduler counts of the threads that poll.

    At 10 % of the load a process that computes then runs on the functions' CPU. Writes load.svg,
    load.png and results.json after each chain.

    Example: unis bench load --quick -o build/load
    """
    from unis.bench.load import (
        CHAINS,
        LOADS,
        THIRD_PARTY,
        LoadResult,
        LoadSettings,
        compare,
        took_from_platform,
    )  # fmt: skip
    from unis.bench.third_party import check
    from unis.measure.summary import MachineSummary
    from unis.plan.machine import Machine
    from unis.report import check_plots

    names = words_of(chains, CHAINS, "--chains")
    settings = LoadSettings(
        loads=_loads_of(loads, 0, 100) if loads is not None else LOADS,
        max_delay_us=max_delay,
        runs=2 if quick else 5,
        rounds=6,
        window=window,
    )
    check_plots()
    from unis.report import curves

    for name in {*names} & {*THIRD_PARTY}:
        check(name)
    files = [writable(output / name) for name in ("load.svg", "load.png", "results.json")]
    machine = Machine.this()
    result = LoadResult(
        machine=MachineSummary.this(len(machine.cpus)), settings=settings, rows=[], beside=[]
    )
    for name in names:
        rows, beside = compare(name, settings, machine, say)
        _print_load(rows)
        _print_beside(beside)
        if told := took_from_platform(rows):
            print_line(told, "yellow")
        result.rows += rows
        result.beside += beside
        for file in files[:2]:  # what there is, if a later one fails
            curves.load(_load_curves(result), file)
        write_result(files[2], result.model_dump_json(indent=2) + "\n")
    print_disturbed(
        [row.disturbed for row in result.rows] + [row.disturbed for row in result.beside]
    )
    print_line("  ".join(map(str, files)), "bold")


def _load_curves(result: LoadResult) -> dict[str, dict[str, LoadCurve]]:
    found: dict[str, dict[str, LoadCurve]] = {}
    for row in result.rows:
        us = row.latency_us
        point = (row.load, row.cpu_functions, row.cpu_platform, us["p50"], us["p99"])
        curves = found.setdefault(row.chain, {})
        curves[row.policy] = (*curves.get(row.policy, ()), point)
    return found


def _print_load(rows: list[LoadRow]) -> None:
    columns = "policy|functions' CPU|by bring-up|platform's|p50 µs|p95|p99|lost|ns/packet"
    if any(row.ratio_to_pmd_maxsleep for row in rows):
        columns += "|÷ pmd-maxsleep|95 %"
    title = f"{rows[0].chain}: load 100 % is {rows[0].most_mpps:.2f} Mpps"
    table = table_of(title, "load", columns.split("|"))
    before = None
    for row in rows:
        table.add_row(
            "" if row.load == before else f"{100 * row.load:g}%",
            row.policy,
            f"{row.cpu_functions:.1%}",
            f"{min(row.cpu_functions_by_run):.1%}–{max(row.cpu_functions_by_run):.1%}",
            f"{row.cpu_platform:.1%}",
            *(us_text(row.latency_us[name]) for name in ("p50", "p95", "p99")),
            f"{row.lost:.2%}",
            f"{row.ns_per_packet:,.0f}" if row.load else "–",
            *(ratio_cells(row.ratio_to_pmd_maxsleep) if row.ratio_to_pmd_maxsleep else ()),
        )
        before = row.load
    out.print(table)


def _print_beside(rows: list[BesideRow]) -> None:
    if not rows:
        return
    title = f"{rows[0].chain}: a process on the functions' CPU, load {100 * rows[0].load:g} %"
    table = table_of(
        title, "process", ["functions' CPU", "process' CPU", "p50 µs", "p95", "p99", "lost"]
    )
    for row in rows:
        table.add_row(
            row.beside,
            f"{row.cpu_functions:.1%}",
            "–" if row.cpu_beside is None else f"{row.cpu_beside:.1%}",
            *(us_text(row.latency_us[name]) for name in ("p50", "p95", "p99")),
            f"{row.lost:.2%}",
        )
    out.print(table)


for command in (scc, model, vhost):
    bench.command(add_help_option=False, context_settings=ANY_OPTIONS)(command)


# Commands that were here once, and are run from a clone now.
MOVED = ("paper", "goals", "fairness", "agreement", "faults", "resq", "promises")


def _told(name: str) -> Callable[[], None]:
    def said() -> None:
        raise moved(f"unis bench {name}", name)

    return said


for each in MOVED:
    bench.command(
        each,
        hidden=True,
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(_told(each))

"""`unis demo` and `unis bench`: policies compared on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from unis.cli.bench_parts import WINDOW, paired_ratio, print_disturbed, table_of
from unis.cli.numbers import between
from unis.cli.terminal import err, out, print_line, say, writable, write_result
from unis.engine import names

if TYPE_CHECKING:  # the command line explains itself without matplotlib and gRPC
    from unis.bench.alerts import Alerts
    from unis.bench.unmodified import ChainResult
    from unis.measure.windows import Arm


def demo(
    pcap: Annotated[
        Path | None, typer.Option(help="Replay this pcap or pcapng file instead of 64 B packets.")
    ] = None,
    output: Annotated[Path, typer.Option("--out", help="Output directory for the report.")] = Path(
        "build/demo"
    ),
    rounds: Annotated[
        int,
        typer.Option(
            min=2, help="Minimum number of rounds. Rounded up to whole balanced Latin squares."
        ),
    ] = 12,
    window: Annotated[float, between(0.02, 3600, "Length of a measured window, seconds.")] = WINDOW,
    arms: Annotated[
        str,
        typer.Option(
            "--arms",
            help="Comma-separated: policies, controllers of `unis`, or cooperative/BURSTS. "
            "`cooperative`: with the number of bursts that passes most.",
        ),
    ] = ",".join(names.COMPARED),
) -> None:
    """Run firewall → nat → monitor on one CPU under four policies, and compare the policies.

    Compares `unis` with functions that co-operate, and with `rr` and `other` of the kernel, in
    alternating windows of one run. Windows of `rr` are longer, because its turns are. Writes
    report.html and summary.json.

    Example: unis demo --arms unis/priority,unis/signal,cooperative
    """
    from unis.report import check_plots

    compared = _arms(arms)
    check_plots()
    from unis.bench.demo import DemoOptions, run_demo
    from unis.bench.view import print_result

    page, numbers = (writable(output / file) for file in ("report.html", "summary.json"))
    result = run_demo(DemoOptions(pcap, rounds, window, compared), err)
    print_result(result.summary, out)
    for file, text in ((page, result.page), (numbers, result.json())):
        write_result(file, text)
    print_line(f"{page}  {numbers}", "bold")
    if not result.summary.accounted:
        raise typer.Exit(1)


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
    window: Annotated[float, between(0.02, 3600, "Length of a measured window, seconds.")] = WINDOW,
    file: Annotated[
        Path | None, typer.Option("--json", help="Write the result to this file as JSON.")
    ] = None,
) -> None:
    """Compare policies on chains of third-party programs over memif.

    Measures policies in alternating windows, and next to them UNiS' own functions that co-operate
    on the same links, each with the distance between yields that passes most. The two chains
    alternate in blocks. `tools/strangers` fetches the programs. Compares the alerts of Suricata
    with those that it raises alone on a core; exit code 1 if they differ.

    Example: unis bench unmodified --only testpmd --json unmodified.json
    """
    from unis.bench import unmodified as unmodified_bench
    from unis.bench.strangers import CHAINS, check

    names_of = [name.strip() for name in only.split(",")] if only else list(CHAINS)
    if unknown := [name for name in names_of if name not in CHAINS]:
        raise typer.BadParameter(
            f"there is no chain {unknown[0]!r}: {', '.join(CHAINS)}", param_hint="--only"
        )
    compared = _arms(arms)
    if any(arm.policy == "cooperative" for arm in compared):
        raise typer.BadParameter("strangers do not co-operate", param_hint="--arms")
    settings = unmodified_bench.UnmodifiedSettings(rounds, window, compared)
    results: dict[str, ChainResult] = {}
    if file:
        writable(file)
    for name in names_of:
        check(name)
    for name in dict.fromkeys(names_of):
        results[name] = unmodified_bench.compare(name, settings, say)
        out.print(_unmodified_table(name, results[name]))
        print_disturbed(policy.disturbed for policy in results[name].policies.values())
        if alerts := results[name].alerts:
            out.print(_alerts_table(name, alerts))
        if file:  # what there is, if a later one fails
            result = unmodified_bench.UnmodifiedResult(chains=results)
            write_result(file, result.model_dump_json(indent=2) + "\n")
    if not all(result.alerts is None or result.alerts.same for result in results.values()):
        say("alerts differ from those of the program alone on a core")
        raise typer.Exit(1)


def _arms(text: str) -> tuple[Arm, ...]:
    """What --arms says."""
    from unis.measure.windows import Arm

    try:
        return tuple(dict.fromkeys(Arm.parse(word.strip()) for word in text.split(",")))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--arms") from None


def _unmodified_table(name: str, result: ChainResult) -> Table:
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
            *paired_ratio(summary.ratio_to_other),
            *paired_ratio(summary.ratio_to_cooperative),
        )
    return table


def _alerts_table(name: str, alerts: Alerts) -> Table:
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
    return table

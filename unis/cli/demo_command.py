"""`unis demo`: its command, its live view and its result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from unis.cli.bench_options import WINDOW, WindowOption, arms_of, ratio_cells, us_text
from unis.cli.terminal import err, out, print_line, say, table_of, writable, write_result
from unis.engine import names

if TYPE_CHECKING:  # the command line explains itself without matplotlib and gRPC
    from rich.console import RenderableType

    from unis.measure.summary import Summary
    from unis.measure.windows import Rounds

_BAR = 32  # characters


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
    window: WindowOption = WINDOW,
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

    compared = arms_of(arms)
    check_plots()
    from rich.live import Live

    from unis.bench.demo import DemoOptions, run_demo

    page, numbers = (writable(output / file) for file in ("report.html", "summary.json"))
    with Live(console=err, auto_refresh=False, transient=True) as live:

        def show(rounds: Rounds, total: int) -> None:
            live.update(_live_view(rounds, total), refresh=True)

        result = run_demo(DemoOptions(pcap, rounds, window, compared), say, show)
    print_result(result.summary)
    write_result(page, result.page)
    write_result(numbers, result.summary.model_dump_json(indent=2) + "\n")
    print_line(f"{page}  {numbers}", "bold")
    if not result.summary.accounted:
        raise typer.Exit(1)


def _live_view(rounds: Rounds, total: int) -> RenderableType:
    """A bar for each arm that was measured."""
    from rich.console import Group

    from unis.measure.paired import Ratio
    from unis.measure.summary import BASELINE, summarise_arm
    from unis.report import colours

    summaries = {arm: summarise_arm(rounds, arm) for arm in rounds[0]}
    most = max(summary.mpps.median for summary in summaries.values()) or 1.0
    table = table_of("", "policy", ("Mpps", f"÷ {BASELINE}", "p50 µs"), ("",))
    for arm, summary in summaries.items():
        filled = round(summary.mpps.median / most * _BAR)
        table.add_row(
            arm,
            f"{summary.mpps.median:.3f}",
            ratio_cells(Ratio.of(summary.ratio_to_cooperative))[0],
            us_text(summary.latency_us["p50"]),
            Text("█" * filled, colours.of_arm(arm)) + Text("░" * (_BAR - filled), "bright_black"),
        )
    return Group(Text(f"round {len(rounds)} of {total}: windows of one run, in turn"), table)


def print_result(summary: Summary) -> None:
    """A table, and what a reader of it must know."""
    from unis.measure.paired import Ratio
    from unis.measure.summary import BASELINE
    from unis.report.page import headline, missing, remarks

    columns = ("Mpps", "q1–q3", f"÷ {BASELINE}", "95 %", "dropped/s", "p5 µs", "p50", "p95", "p99")
    table = table_of("", "policy", columns)
    for arm, found in summary.policies.items():
        name = Text(arm, "bold" if arm == "unis" else "")
        tuning = summary.tuning_of(arm)
        table.add_row(
            name + Text(f"\n  {tuning}", "dim") if tuning else name,
            f"{found.mpps.median:.3f}",
            f"{found.mpps.q1:.3f}–{found.mpps.q3:.3f}",
            *ratio_cells(Ratio.of(found.ratio_to_cooperative)),
            f"{found.drops.per_second:,.0f}",
            *map(us_text, found.latency_us.values()),
        )
    out.print(table, *remarks(summary), "", headline(summary), sep="\n")
    if summary.accounted:
        out.print("Every packet is accounted for.")
    else:
        out.print(missing(summary), style="red")

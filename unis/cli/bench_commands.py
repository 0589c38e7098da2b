"""`unis demo` and `unis bench`: policies compared on this machine."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from unis.bench import agreement as agreement_bench
from unis.bench.windows import WINDOW_SECONDS
from unis.cli.terminal import err, errors_told, out, say

bench = typer.Typer(no_args_is_help=True, help="Comparisons that check UNiS itself.")


def demo(
    pcap: Annotated[
        Path | None, typer.Option(help="Replay this pcap or pcapng instead of 64 B packets.")
    ] = None,
    output: Annotated[Path, typer.Option("--out", help="Directory for the report.")] = Path(
        "build/demo"
    ),
    rounds: Annotated[int, typer.Option(min=2, help="Each measures every policy once.")] = 14,
    window: Annotated[float, typer.Option(min=0.02, help="Seconds of one measurement.")] = (
        WINDOW_SECONDS
    ),
) -> None:
    """Run firewall → nat → monitor on one CPU under four policies, and compare them.

    unis against functions that co-operate and the kernel's rr and other, in alternating windows
    of one run. Writes report.html and summary.json.

    Example: unis demo --pcap capture.pcap
    """
    from unis.bench.demo import DemoOptions, print_result, run_demo  # matplotlib takes its time

    with errors_told():
        summary = run_demo(DemoOptions(pcap, output, rounds, window), err)
    print_result(summary, output, out)
    if not summary.accounted:
        raise typer.Exit(1)


@bench.command()
def agreement(
    functions: Annotated[str, typer.Option(help="Lengths of chains, with commas.")] = "2,3,4,5",
    cost: Annotated[str, typer.Option(help="macswap's --cost: light, medium, heavy.")] = "light",
    rounds: Annotated[int, typer.Option(min=2)] = 16,
    window: Annotated[float, typer.Option(min=0.02, help="Seconds.")] = WINDOW_SECONDS,
    output: Annotated[Path, typer.Option("--out", help="JSON file.")] = Path(
        "build/agreement.json"
    ),
) -> None:
    """Compare the machine with the simulator, which is fed with costs measured in between.

    Exit code 1 if they differ in the order of the policies, or by more than 0.15 in UNiS's share
    of co-operative.

    Example: unis bench agreement --functions 2,5 --cost medium
    """
    try:
        lengths = [int(part) for part in functions.split(",")]
    except ValueError:
        raise typer.BadParameter("write lengths as 2,3,4,5") from None
    with errors_told():
        results = [agreement_bench.compare(length, cost, rounds, window, say) for length in lengths]
    out.print(_agreement_table(results))
    output.parent.mkdir(parents=True, exist_ok=True)
    data = [{**r.model_dump(), "difference": r.difference, "agrees": r.agrees} for r in results]
    output.write_text(json.dumps(data, indent=2) + "\n")
    if not all(result.agrees for result in results):
        say("the simulator and the machine do not agree")
        raise typer.Exit(1)


def _agreement_table(results: list[agreement_bench.Comparison]) -> Table:
    table = Table(box=None, pad_edge=False, title="Mpps, machine / simulator", title_justify="left")
    table.add_column("functions")
    columns = (*agreement_bench.POLICIES, "unis ÷ cooperative", "difference", "order")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for result in results:
        table.add_row(
            str(result.functions),
            *(
                f"{result.machine_mpps[policy]:.3f} / {result.simulator_mpps[policy]:.3f}"
                for policy in agreement_bench.POLICIES
            ),
            f"{result.machine_ratio.median:.2f} / {result.simulator_ratio.median:.2f}",
            f"{result.difference:+.2f}",
            "differs" if result.reversed else "same",
            style="" if result.agrees else "red",
        )
    return table

"""`unis trace` and `estimate`: what a chain does, and what a packet costs its functions."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.options import JsonOption, NameArgument, NameOption, between
from unis.cli.select import connect, one_name
from unis.cli.terminal import out, print_line, say, table_of, writable, write_result
from unis.errors import EXIT_FAILED

if TYPE_CHECKING:
    from unis.chain.load import LoadedChain
    from unis.runtime.costs import Cost


def trace(
    *,
    run: NameArgument = None,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Output file. Open it in ui.perfetto.dev."
        ),
    ],
    seconds: Annotated[float, between(0.001, 60, "Length of the recording, seconds.")] = 1.0,
    name: NameOption = None,
) -> None:
    """Record which function ran when, and the reason of each switch.

    The file has the Chrome trace format: a track per CPU. Below are the reasons of the scheduler
    and the occupancies that it saw.

    Example: unis trace mine -o trace.json --seconds 0.1
    """
    _, _, client = connect(one_name(run, name))
    from unis.report.trace import trace_text

    with client:
        writable(output)
        reply = client.trace(seconds)
    write_result(output, trace_text(reply))
    lost = f"; {reply.dropped_events:,} more did not fit" if reply.dropped_events else ""
    say(f"{output}: {len(reply.runs):,} runs, {len(reply.switches):,} switches{lost}")


def _sizes(value: str | None) -> list[int]:
    from unis.chain import defaults

    try:
        sizes = [int(part) for part in value.split(",")] if value else []
    except ValueError:
        sizes = [-1]
    if any(not defaults.MIN_SIZE <= size <= defaults.MAX_SIZE for size in sizes):
        raise typer.BadParameter(
            f"give packet sizes from {defaults.MIN_SIZE} to {defaults.MAX_SIZE} bytes, as "
            "64,512,1500"
        )
    return sizes


def estimate(
    target: Annotated[
        str, typer.Argument(metavar="PROGRAM|FILE", help="Program of a function, or chain file.")
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- ARGUMENT]...", help="Arguments of the program."),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(help="Packet sizes in bytes, comma-separated.", metavar="64,512,1500"),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Measure again what was measured before.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure the cost of a packet in a function (the paper's Cycle Estimator).

    Starts the functions in a run of their own, and sends bursts through one function at a time.
    This needs the CPUs of the functions: run `unis down` first if the chains of FILE are up. The
    cost is the mean over the packet sizes, weighted as in the traffic. For a capture or a port,
    whose sizes are not read, it is the mean over 64, 512, 1024 and 1500 bytes. UNiS remembers the
    cost for a day, for this program, its arguments, the files in the arguments, and this CPU model.
    A function that has a link to another function gets a short run of its own. Functions with the
    same program and arguments on the same CPU are measured once. Exit code 1 if a function could
    not be measured.

    Examples: unis estimate firewall -- --rules firewall.rules  |  unis estimate examples/demo.yaml
    """
    from unis.chain.load import load
    from unis.runtime.costs import alike, known_costs
    from unis.runtime.interrupts import interrupts
    from unis.runtime.planning import plan_chain
    from unis.runtime.run import Options
    from unis.runtime.running import measure_costs

    measured_sizes = _sizes(sizes)
    is_file = target.endswith((".yaml", ".yml"))
    if is_file and arguments:
        raise typer.BadParameter(
            f"{' '.join(arguments)}: a chain file states the arguments of its functions itself"
        )
    chain = load(Path(target)) if is_file else _alone(target, arguments or [])
    plan = plan_chain(chain)
    options = Options(sizes=measured_sizes)
    known = {} if no_cache else known_costs(plan, measured_sizes)
    costs = {name: cost for name, cost in known.items() if cost.solo}
    names = [function.name for function in plan.functions]
    wanted = [name for name in names if name not in costs]
    with interrupts() as switch:
        groups = alike(plan, wanted, measured_sizes)
        costs.update(measure_costs(plan, groups, options, say, switch))
    found = {name: costs[name] for name in names if name in costs}
    if as_json:
        out.print_json(data={name: dataclasses.asdict(cost) for name, cost in found.items()})
    else:
        for name, cost in found.items():
            _print_cost(name, cost)
    if len(found) < len(names):
        raise typer.Exit(EXIT_FAILED)


def _alone(program: str, arguments: list[str]) -> LoadedChain:
    from pydantic import ValidationError

    from unis.chain.load import LoadedChain
    from unis.chain.model import API_VERSION, ChainFile
    from unis.runtime.errors import LaunchError
    from unis.runtime.planning import free_cpu

    known = str(Path(program).resolve()) if "/" in program else program
    data = {
        "apiVersion": API_VERSION,
        "name": "estimate",
        "functions": {"function": {"program": known, "args": arguments, "cpu": free_cpu()}},
        "chains": {"chain": {"path": ["function"]}},
    }
    try:
        file = ChainFile.model_validate(data)
    except ValidationError as error:
        raise LaunchError(error.errors()[0]["msg"]) from None
    return LoadedChain(Path.cwd() / "estimate", file)


def _print_cost(name: str, cost: Cost) -> None:
    print_line(f"{name}: {cost.ns:.1f} ns, {cost.cycles:.0f} cycles a packet", "bold")
    table = table_of("", "size", ("ns", "q1", "q3", "cycles"))
    for size in cost.sizes:
        table.add_row(
            str(size.size), f"{size.ns:.1f}", f"{size.ns_q1:.1f}", f"{size.ns_q3:.1f}",
            f"{size.cycles:.0f}",
        )  # fmt: skip
    table.add_row("mean", f"{cost.ns:.1f}", f"{cost.ns_q1:.1f}", f"{cost.ns_q3:.1f}",
                  f"{cost.cycles:.0f}", style="bold")  # fmt: skip
    out.print(table)

"""`unis trace`, `estimate` and `simulate`: what a chain does, costs and would do."""

import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table

from unis.bench.windows import ratio_text
from unis.chain.load import LoadedChain, load
from unis.chain.machine import Machine, Surroundings, find_program
from unis.chain.model import API_VERSION, ChainFile
from unis.cli.run_commands import ChainFileArgument
from unis.cli.select import connect
from unis.cli.terminal import err, errors_told, fail, out, say
from unis.cli.view import number
from unis.engine import names
from unis.launch.costs import Cost, CostCache, cost_key, sizes_of
from unis.launch.errors import LaunchError
from unis.launch.interrupts import interrupts
from unis.launch.launcher import Options, running
from unis.report.trace import chrome_trace, trace_text
from unis.simulate.run import Summary, simulate
from unis.simulate.scenario import CostOf, MachineCosts, scenario, shortened
from unis.v1 import engine_pb2 as pb

# A function of which nothing is known: about a hash look-up a packet.
ASSUMED_COST_NS = 60.0
COMPARED = ["unis", "cooperative", "rr", "other"]


def trace(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File to write, for ui.perfetto.dev.")
    ],
    seconds: Annotated[float, typer.Option(min=0.001, max=60)] = 1.0,
    name: Annotated[str | None, typer.Option(help="The run; not needed if there is one.")] = None,
) -> None:
    """Record who ran when, and why each switch was made.

    The file has the Chrome trace format: a track for each CPU, and the scheduler's reasons, with
    the occupancies that it saw, below.

    Example: unis trace -o trace.json --seconds 0.1
    """
    _, _, client = connect(name)
    with errors_told(), client:
        reply = client.trace(seconds)
    try:
        output.write_text(trace_text(reply))
    except OSError as error:
        raise fail(f"cannot write {output}: {error.strerror}") from None
    lost = f"; {reply.dropped_events:,} more did not fit" if reply.dropped_events else ""
    say(f"{output}: {len(reply.runs):,} runs, {len(reply.switches):,} switches{lost}")


def _sizes(value: str | None) -> list[int]:
    try:
        sizes = [int(part) for part in value.split(",")] if value else []
    except ValueError:
        sizes = [-1]
    if any(not 64 <= size <= 1518 for size in sizes):
        raise typer.BadParameter("give packet sizes from 64 to 1518 bytes, as 64,512,1500")
    return sizes


def estimate(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="PROGRAM|FILE", help="A function, or a chain file.")
    ],
    sizes: Annotated[
        str | None, typer.Option(help="Packet sizes in bytes, with commas.", metavar="64,512,1500")
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Measure even what was measured before.")
    ] = False,
) -> None:
    """Measure what a packet costs a function (the paper's Cycle Estimator).

    Each function runs alone while bursts go through it. The cost is the mean over the sizes; it is
    remembered for this program, its arguments, the files that they name and this CPU.

    Examples: unis estimate firewall -- --rules firewall.rules  |  unis estimate examples/demo.yaml
    """
    with errors_told():
        machine = Machine.this()
        chain = (
            load(Path(target), machine)
            if target.endswith((".yaml", ".yml"))
            else _alone(target, context.args, machine)
        )
        measured_sizes = _sizes(sizes)
        options = Options(start=False, use_cache=not no_cache, estimate=False, sizes=measured_sizes)
        costs = {} if no_cache else _cached(chain, measured_sizes)
        wanted = [f.name for f in chain.file.functions if f.name not in costs]
        if wanted:
            with interrupts() as switch, running(chain, machine, options, say, switch) as run:
                run.estimate(wanted)
                costs.update(run.costs)
    for function in chain.file.functions:
        _print_cost(function.name, costs[function.name])


def _alone(program: str, args: list[str], machine: Machine) -> LoadedChain:
    directory = Path.cwd()
    path = Path(program)
    known = str(path.resolve()) if path.is_file() else program
    if find_program(known, directory) is None:
        raise LaunchError(f"there is no program `{program}` here, among the functions or on PATH")
    free = sorted(machine.cpus - {machine.platform_cpu})
    function = {"name": "function", "program": known, "args": args, "cpu": (free or [0])[0]}
    data = {
        "apiVersion": API_VERSION,
        "name": "estimate",
        "chains": [{"name": "chain", "functions": [function]}],
    }
    try:
        file = ChainFile.model_validate(data, context=Surroundings(directory, machine))
    except ValidationError as error:
        raise LaunchError(error.errors()[0]["msg"]) from None
    return LoadedChain(directory / "estimate", file)


def _cached(chain: LoadedChain, sizes: list[int]) -> dict[str, Cost]:
    cache = CostCache()
    costs: dict[str, Cost] = {}
    for function in chain.file.functions:
        program = find_program(function.program, chain.directory)
        wanted = sizes or sizes_of(chain.file.traffic)
        if program is None:
            continue
        if cost := cache.get(cost_key(program, function, chain.directory, wanted)):
            costs[function.name] = cost
    return costs


def _print_cost(name: str, cost: Cost) -> None:
    out.print(f"{name}: {cost.ns:.1f} ns, {cost.cycles:.0f} cycles a packet", style="bold")
    table = Table(box=None)
    for column in ("size", "ns", "q1", "q3", "cycles"):
        table.add_column(column, justify="right")
    for size in cost.sizes:
        table.add_row(
            str(size.size), f"{size.ns:.1f}", f"{size.ns_q1:.1f}", f"{size.ns_q3:.1f}",
            f"{size.cycles:.0f}",
        )  # fmt: skip
    table.add_row("mean", f"{cost.ns:.1f}", f"{cost.ns_q1:.1f}", f"{cost.ns_q3:.1f}",
                  f"{cost.cycles:.0f}", style="bold")  # fmt: skip
    out.print(table)


def _stated_costs(values: list[str]) -> dict[str, float]:
    costs: dict[str, float] = {}
    for value in values:
        name, _, number_text = value.partition("=")
        try:
            costs[name] = float(number_text)
        except ValueError:
            raise typer.BadParameter(f"`{value}`: write NAME=NS, as fw=60") from None
        if not costs[name] > 0:
            raise typer.BadParameter(f"`{value}`: a cost is above 0 ns")
    return costs


def known_costs(chain: LoadedChain, stated: dict[str, float]) -> dict[str, CostOf]:
    """Costs of a chain's functions: as stated, else of the file, else measured here before."""
    costs: dict[str, CostOf] = {}
    for name, cost in _cached(chain, []).items():
        by_size = {size.size: size.ns for size in cost.sizes}
        costs[name] = by_size if len(by_size) > 1 else cost.ns
    costs |= {f.name: f.cost_ns for f in chain.file.functions if f.cost_ns is not None}
    return {**costs, **stated}


def _assume_missing(chain: LoadedChain, costs: dict[str, CostOf]) -> dict[str, CostOf]:
    missing = [f.name for f in chain.file.functions if f.name not in costs]
    if missing:
        say(
            f"what a packet costs {', '.join(missing)} is not known here: reckoning with "
            f"{ASSUMED_COST_NS:g} ns; give --cost {missing[0]}=NS, or measure it with "
            f"`unis estimate {chain.path}`"
        )
    return {**dict.fromkeys(missing, ASSUMED_COST_NS), **costs}


def simulate_command(
    file: ChainFileArgument,
    policy: Annotated[
        list[str] | None,
        typer.Option(help=f"One or more of {', '.join(names.policies())}."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.001, max=3600, help="Of virtual time.")] = 1.0,
    cost: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NS", help="What a packet costs a function, ns."),
    ] = None,
    nfs: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many functions of each chain.")
    ] = None,
    switch_us: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            help="From the scheduler's decision till the next one runs; in the second half of it "
            "nobody runs.",
        ),
    ] = None,
    yield_us: Annotated[
        float | None, typer.Option(min=0.01, help="One co-operative yield.")
    ] = None,
    source_ns: Annotated[
        float, typer.Option(min=0, max=1e6, help="What a packet costs the source, ns.")
    ] = 0,
    sink_ns: Annotated[
        float, typer.Option(min=0, max=1e6, help="What a packet costs the sink, ns.")
    ] = 0,
    three_cpus: Annotated[
        bool,
        typer.Option(
            "--three-cpus",
            help="Source, sink and scheduler have a CPU each; else, where they take time, one.",
        ),
    ] = False,
    seed: int = 1,
    trace_file: Annotated[
        Path | None, typer.Option("--trace", help="Write who ran when (of the first policy).")
    ] = None,
) -> None:
    """Run the chains of FILE on virtual time: no root, no hugepages, as many CPUs as it names.

    Costs are those of --cost, else of the file, else those that `unis estimate` measured on this
    machine. Without --policy it compares unis with cooperative, rr and other; a function that does
    not say how often it yields does so every 8 bursts under cooperative, as in the paper. Source
    and sink take no time unless it is stated.

    Example: unis simulate examples/two-cores.yaml --seconds 0.5 --source-ns 30 --sink-ns 25
    """
    policies = policy or COMPARED
    for each in policies:
        if each not in names.policies():
            raise typer.BadParameter(f"{each} is none of {', '.join(names.policies())}")
    with errors_told():
        chain = load(file)
        if nfs is not None:
            chain = shortened(chain, nfs)
        costs = _assume_missing(chain, known_costs(chain, _stated_costs(cost or [])))
        half = (switch_us or 0) * 500
        machine = MachineCosts(
            switch_ns=2 * half,
            switch_call_ns=half,
            kernel_switch_ns=half,
            yield_ns=(yield_us or 0) * 1000,
            source_ns=source_ns,
            sink_ns=sink_ns,
            platform_has_three_cpus=three_cpus,
        )
        results: list[pb.SimResult] = []
        with Progress(SpinnerColumn(), TextColumn("{task.description}"), console=err,
                      transient=True) as progress:  # fmt: skip
            task = progress.add_task("")
            for index, each in enumerate(policies):
                progress.update(task, description=f"simulating {each}")
                wanted = scenario(
                    chain, costs, each, seconds, machine, seed=seed,
                    trace=trace_file is not None and index == 0,
                )  # fmt: skip
                results.append(simulate(wanted))
    _print_simulated([Summary.of(result) for result in results])
    if trace_file:
        first = results[0]
        trace_file.write_text(json.dumps(chrome_trace(first.policy, first.runs, first.events)))
        say(f"{trace_file}: open it with ui.perfetto.dev")


def _print_simulated(summaries: list[Summary]) -> None:
    base = next((s.mpps for s in summaries if s.policy == "cooperative"), None)
    table = Table(box=None)
    table.add_column("policy")
    for column in ("Mpps", "÷ cooperative", "drops/s", "switches/s", "p50 µs", "p99 µs"):
        table.add_column(column, justify="right")
    for summary in summaries:
        latency = [summary.latency.percentile_us(p) for p in (50, 99)]
        table.add_row(
            summary.policy,
            f"{summary.mpps:.3f}",
            ratio_text(summary.mpps / base) if base else "–",
            number(summary.dropped_pps),
            number(summary.switches_per_second),
            *("–" if value is None else f"{value:,.0f}" for value in latency),
        )
    out.print(table)

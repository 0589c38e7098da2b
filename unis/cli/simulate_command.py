"""`unis simulate`: what a chain would do."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table

from unis.cli.numbers import between, by_name
from unis.cli.select import ChainFileArgument, JsonOption
from unis.cli.simulate_ways import CACHES, costs_with_ways, stated_ways
from unis.cli.terminal import err, errors_told, out, say, writable, write_result
from unis.cli.view import number
from unis.engine import names
from unis.engine.limits import limit
from unis.runtime.directory import keep_off_functions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from unis.chain.load import LoadedChain
    from unis.profile.what_if import CostWithWays
    from unis.runtime.costs import Cost
    from unis.simulate.run import Summary
    from unis.simulate.scenario import CostOf, MachineCosts
    from unis.v1 import simulator_pb2 as pb

# A function of which nothing is known: about a hash look-up a packet.
ASSUMED_COST_NS = 60.0
_MOST_NS = limit("SimFunction.cost_ns").max or math.inf
_MOST_US = 1e6
_CONTROLLERS = ("handover", "priority")  # that the simulator tells apart


def _stated_costs(values: list[str]) -> dict[str, float]:
    costs: dict[str, float] = {}
    for value, name, ns in by_name(values, float, "NAME=NS, as fw=60"):
        if not 0 < ns <= _MOST_NS:
            raise typer.BadParameter(f"`{value}`: a cost is above 0 and up to {_MOST_NS:g} ns")
        costs[name] = ns
    return costs


def _known_costs(chain: LoadedChain, stated: dict[str, float]) -> dict[str, CostOf]:
    """Costs of a chain's functions: as stated, else of the file, else measured here before."""
    costs: dict[str, CostOf] = {}
    for name, cost in _measured(chain).items():
        by_size = {size.size: size.ns for size in cost.sizes}
        costs[name] = by_size if len(by_size) > 1 else cost.ns
    for name in chain.file.functions:
        if (of_file := chain.file.function(name).cost_ns) is not None:
            costs[name] = of_file
    return {**costs, **stated}


def _see_that_they_are_there(names: Iterable[str], chain: LoadedChain, option: str) -> None:
    if unknown := [name for name in names if name not in chain.file.functions]:
        raise typer.BadParameter(
            f"there is no function `{unknown[0]}`: {', '.join(chain.file.functions)}",
            param_hint=option,
        )


def _machine(*, calibrated: bool) -> MachineCosts:
    from unis.simulate.calibration import kept
    from unis.simulate.scenario import MachineCosts

    if not calibrated:
        return MachineCosts()
    found = kept()
    say(f"calibrated on {found.measured}")
    if told := found.remark():
        say(told)
    return found.costs


def _stated_machine(
    machine: MachineCosts,
    *,
    switch_us: float | None,
    yield_us: float | None,
    source_ns: float | None,
    sink_ns: float | None,
    three_cpus: bool,
) -> MachineCosts:
    """With what the command line says."""
    if switch_us is not None:
        half = switch_us * 500
        machine = replace(machine, switch_ns=2 * half, switch_call_ns=half, kernel_switch_ns=half)
    if yield_us is not None:
        machine = replace(machine, yield_ns=yield_us * 1000)
    if source_ns is not None:
        machine = replace(machine, source_ns=source_ns)
    if sink_ns is not None:
        machine = replace(machine, sink_ns=sink_ns)
    return replace(machine, platform_has_three_cpus=True) if three_cpus else machine


def _measured(chain: LoadedChain) -> dict[str, Cost]:
    from unis.chain.problem import ChainFileError
    from unis.runtime.costs import known_costs
    from unis.runtime.planning import plan_anywhere

    try:
        return known_costs(plan_anywhere(chain))
    except ChainFileError:  # its programs need not be here
        return {}


def _assume_missing(chain: LoadedChain, costs: dict[str, CostOf]) -> dict[str, CostOf]:
    missing = [name for name in chain.file.functions if name not in costs]
    if missing:
        say(
            f"what a packet costs {', '.join(missing)} is not known here: reckoning with "
            f"{ASSUMED_COST_NS:g} ns; give --cost {missing[0]}=NS, or measure it with "
            f"`unis estimate {chain.path}`"
        )
    return {**dict.fromkeys(missing, ASSUMED_COST_NS), **costs}


def simulate(
    file: ChainFileArgument,
    policy: Annotated[
        list[str] | None,
        typer.Option(help=f"One or more, with commas, of {', '.join(names.policies())}."),
    ] = None,
    controller: Annotated[
        str | None,
        typer.Option(
            metavar="handover|priority",
            help="Who ends a turn under unis: the function itself, or the engine. Absent: as FILE "
            "says.",
        ),
    ] = None,
    seconds: Annotated[float, between(0.001, 3600, "Of virtual time.")] = 1.0,
    cost: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NS", help="What a packet costs a function, ns."),
    ] = None,
    ways: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N",
            help="A function with so many ways of the last-level cache to itself: modelled.",
        ),
    ] = None,
    caches: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(CACHES),
            help="Of which machine: this, or the ResQ paper's Xeon (paper). Absent: this.",
        ),
    ] = None,
    nfs: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many functions of each chain.")
    ] = None,
    switch_us: Annotated[
        float | None,
        between(
            0.01,
            _MOST_US,
            "From the scheduler's decision till the next one runs; in the second half of it "
            "nobody runs.",
        ),
    ] = None,
    yield_us: Annotated[float | None, between(0.01, _MOST_US, "One co-operative yield.")] = None,
    source_ns: Annotated[
        float | None, between(0, 1e6, "What a packet costs the source, ns.")
    ] = None,
    sink_ns: Annotated[float | None, between(0, 1e6, "What a packet costs the sink, ns.")] = None,
    three_cpus: Annotated[
        bool,
        typer.Option(
            "--three-cpus",
            help="Source, sink and scheduler have a CPU each; else, where they take time, one.",
        ),
    ] = False,
    calibrated: Annotated[
        bool,
        typer.Option(
            "--calibrated", help="As `unis calibrate` found this machine, but for what is stated."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, max=2**64 - 1)] = 1,
    as_json: JsonOption = False,
    trace_file: Annotated[
        Path | None, typer.Option("--trace", help="Write who ran when (of the first policy).")
    ] = None,
) -> None:
    """Run the chains of FILE on virtual time: no root, no hugepages, as many CPUs as it names.

    Costs come from --cost, else from the file, else from `unis estimate` or an earlier run on this
    machine. Without --policy it compares unis with cooperative, rr and other; a
    function that does not say how often it yields does so every 8 bursts under cooperative, as in
    the paper. Source and sink take no time, and switches what they took where this was written,
    unless it is stated or --calibrated. Under unis every function can hand the CPU over, unless the
    controller is another; those without packets poll, they do not sleep. Links lose nothing, even
    those of kinds that drop packets by themselves, as a veth.

    --ways asks what if a function had few ways of the last-level cache: its cost is taken as that
    with all of it, and the ns are added that by the cache model its program waits longer at the
    file's number of flows (first recorded, for seconds, under Valgrind). Those of all functions are
    no more than the cache has beside the two for devices. The answer says that it is modelled.

    Examples: unis simulate examples/demo.yaml --source-ns 30  |  unis simulate x.yaml --ways nat=2
    """
    keep_off_functions()
    policies = [word.strip() for text in policy or names.COMPARED for word in text.split(",")]
    for each in policies:
        if each not in names.policies():
            raise typer.BadParameter(f"{each} is none of {', '.join(names.policies())}")
    if controller not in (None, *_CONTROLLERS):
        raise typer.BadParameter(
            f"{controller} is none of {', '.join(_CONTROLLERS)}", param_hint="--controller"
        )
    if caches not in (None, *CACHES):
        raise typer.BadParameter(f"{caches} is none of {', '.join(CACHES)}", param_hint="--caches")
    if caches and not ways:
        raise typer.BadParameter("it is said for --ways, which is absent", param_hint="--caches")
    from unis.chain.load import load
    from unis.simulate.run import Summary
    from unis.simulate.run import simulate as run_simulator
    from unis.simulate.scenario import between_yields, remarks, scenario, shortened

    with errors_told():
        chain = load(file)
        if nfs is not None:
            chain = shortened(chain, nfs)
        stated = _stated_costs(cost or [])
        few_ways = stated_ways(ways or [])
        _see_that_they_are_there(stated, chain, "--cost")
        _see_that_they_are_there(few_ways, chain, "--ways")
        costs = _assume_missing(chain, _known_costs(chain, stated))
        modelled = costs_with_ways(chain, few_ways, costs, caches or CACHES[0])
        costs |= {of.function: of.cost for of in modelled}
        machine = _stated_machine(
            _machine(calibrated=calibrated), switch_us=switch_us, yield_us=yield_us,
            source_ns=source_ns, sink_ns=sink_ns, three_cpus=three_cpus,
        )  # fmt: skip
        results: list[pb.SimResult] = []
        if trace_file:
            writable(trace_file)
        with Progress(SpinnerColumn(), TextColumn("{task.description}"), console=err,
                      transient=True) as progress:  # fmt: skip
            task = progress.add_task("")
            for index, each in enumerate(policies):
                progress.update(task, description=f"simulating {each}")
                wanted = scenario(
                    chain, costs, each, seconds, machine, controller=controller, seed=seed,
                    trace=trace_file is not None and index == 0,
                )  # fmt: skip
                results.append(run_simulator(wanted))
    summaries = [Summary.of(result) for result in results]
    if as_json:
        out.print_json(json.dumps([_as_json(summary, modelled) for summary in summaries]))
    else:
        for told in modelled:
            out.print(str(told), markup=False, soft_wrap=True)
        _print_simulated(summaries, between_yields(chain))
        for remark in remarks(chain):
            say(remark)
    if trace_file:
        first = results[0]
        from unis.report.trace import chrome_trace

        trace = chrome_trace(first.policy, first.runs, first.events)
        write_result(trace_file, json.dumps(trace))
        say(f"{trace_file}: open it with ui.perfetto.dev")


def _print_simulated(summaries: list[Summary], k: str) -> None:
    from unis.measure.paired import ratio_text

    base = next((s.mpps for s in summaries if s.policy == "cooperative"), None)
    table = Table(box=None)
    table.add_column("policy")
    ratio = f"÷ cooperative (k = {k})"
    for column in ("Mpps", ratio, "drops/s", "switches/s", "p50 µs", "p99 µs"):
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


def _as_json(summary: Summary, modelled: list[CostWithWays]) -> dict[str, Any]:
    return {
        "policy": summary.policy,
        "mpps": summary.mpps,
        "offered_mpps": summary.offered_mpps,
        "dropped_per_second": summary.dropped_pps,
        "switches_per_second": summary.switches_per_second,
        "latency_us": summary.latency.percentiles_us([5, 50, 95, 99]),
        "modelled_costs": {of.function: of.as_json() for of in modelled},
    }

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
from unis.cli.terminal import err, errors_told, out, say, writable, write_result
from unis.cli.view import number
from unis.engine import names
from unis.engine.limits import limit
from unis.runtime.directory import keep_off_functions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from unis.chain.load import LoadedChain
    from unis.profile.machine_caches import Caches
    from unis.profile.what_if import CostWithWays
    from unis.runtime.costs import Cost
    from unis.simulate.run import Summary
    from unis.simulate.scenario import CostOf, MachineCosts
    from unis.v1 import simulator_pb2 as pb

# A function of which nothing is known: about a hash look-up a packet.
ASSUMED_COST_NS = 60.0
_MOST_NS = limit("SimFunction.cost_ns").max or math.inf
_MOST_US = 1e6
_CACHES = ("this", "paper")
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
            f"the cost of a packet in {', '.join(missing)} is unknown; assuming "
            f"{ASSUMED_COST_NS:g} ns; give --cost {missing[0]}=NS, or measure it with "
            f"`unis estimate {chain.path}`"
        )
    return {**dict.fromkeys(missing, ASSUMED_COST_NS), **costs}


def simulate(
    file: ChainFileArgument,
    policy: Annotated[
        list[str] | None,
        typer.Option(help=f"Comma-separated policies: {', '.join(names.policies())}."),
    ] = None,
    controller: Annotated[
        str | None,
        typer.Option(
            metavar="handover|priority",
            help="How `unis` switches functions. Default: as FILE says.",
        ),
    ] = None,
    seconds: Annotated[float, between(0.001, 3600, "Virtual time, seconds.")] = 1.0,
    cost: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NS", help="Cost of a packet in a function, ns."),
    ] = None,
    ways: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N",
            help="Model a function that has this many ways of the last-level cache to itself.",
        ),
    ] = None,
    caches: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(_CACHES),
            help="Machine whose caches are modelled: `this`, or `paper` (the Xeon of the "
            "ResQ paper). Default: this.",
        ),
    ] = None,
    nfs: Annotated[
        int | None, typer.Option(min=1, help="Simulate only the first N functions of each chain.")
    ] = None,
    switch_us: Annotated[
        float | None,
        between(
            0.01,
            _MOST_US,
            "Time from the scheduler's decision until the next function runs, µs. In "
            "the second half no function runs.",
        ),
    ] = None,
    yield_us: Annotated[
        float | None, between(0.01, _MOST_US, "Duration of one co-operative yield, µs.")
    ] = None,
    source_ns: Annotated[
        float | None, between(0, 1e6, "Cost of a packet in the source, ns.")
    ] = None,
    sink_ns: Annotated[float | None, between(0, 1e6, "Cost of a packet in the sink, ns.")] = None,
    three_cpus: Annotated[
        bool,
        typer.Option(
            "--three-cpus",
            help="Give source, sink and scheduler a CPU each. Default: they share one.",
        ),
    ] = False,
    calibrated: Annotated[
        bool,
        typer.Option(
            "--calibrated",
            help="Use the costs of switches that `unis calibrate` measured. Stated options "
            "override them.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, max=2**64 - 1)] = 1,
    as_json: JsonOption = False,
    trace_file: Annotated[
        Path | None,
        typer.Option("--trace", help="Write a trace of the first policy: which function ran when."),
    ] = None,
) -> None:
    """Simulate the chains of FILE on virtual time: no root, no hugepages, any number of CPUs.

    Costs of packets come from --cost, else from FILE, else from `unis estimate` or an earlier run
    on this machine. Without --policy it compares `unis` with `cooperative`, `rr` and `other`. Under
    `cooperative`, a function yields every 8 bursts as in the paper, unless FILE says otherwise.
    Source and sink take no time, and a switch takes what it took on the machine of the authors,
    unless you state these or use --calibrated. Under `unis` every function can hand over the CPU,
    unless another controller is set. Functions without packets poll; they do not sleep. Links lose
    nothing, not even a veth, which on a machine drops packets.

    --ways models a function that has few ways of the last-level cache. UNiS takes its cost as the
    cost with all ways, and adds the time that the program waits longer for memory by the cache
    model, at the number of flows in FILE. The first time, it records the program under Valgrind for
    some seconds. All functions together cannot have more ways than the cache, less two for devices.
    The output says that the result is modelled.

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
    if caches not in (None, *_CACHES):
        raise typer.BadParameter(f"{caches} is none of {', '.join(_CACHES)}", param_hint="--caches")
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
        few_ways = _stated_ways(ways or [])
        _see_that_they_are_there(stated, chain, "--cost")
        _see_that_they_are_there(few_ways, chain, "--ways")
        costs = _assume_missing(chain, _known_costs(chain, stated))
        modelled = costs_with_ways(chain, few_ways, costs, caches or _CACHES[0])
        costs |= {cost.function: cost.cost for cost in modelled}
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
        "modelled_costs": {cost.function: cost.as_json() for cost in modelled},
    }


def _stated_ways(values: list[str]) -> dict[str, int]:
    """By function. BadParameter for what is no number."""
    return {name: ways for _, name, ways in by_name(values, int, "NAME=N, as nat=2", "--ways")}


def costs_with_ways(
    chain: LoadedChain, ways: Mapping[str, int], whole: Mapping[str, CostOf], caches: str
) -> list[CostWithWays]:
    """Of functions of `chain`, whose costs with the `whole` cache are known; `caches` names it."""
    if not ways:
        return []
    from unis.plan.alone import alone
    from unis.profile.cache_model import IO_WAYS
    from unis.profile.what_if import cost_with_ways
    from unis.runtime.planning import plan_anywhere

    geometry = _geometry(caches)
    there = geometry.llc.ways
    most = there - IO_WAYS
    if min(ways.values()) < 1 or sum(ways.values()) > most:
        told = " ".join(f"{name}={count}" for name, count in ways.items())
        raise typer.BadParameter(
            f"`{told}`: the last-level cache of {geometry.name} has {there} ways, {IO_WAYS} of "
            f"them for what devices write: functions have 1 or more each, and {most} in all",
            param_hint="--ways",
        )
    return [
        cost_with_ways(plan_anywhere(alone(chain, name)), count, geometry, whole[name], say)
        for name, count in ways.items()
    ]


def _geometry(caches: str) -> Caches:
    from unis.profile.machine_caches import PAPER, CacheError, read_caches

    if caches == "paper":
        return PAPER
    try:
        return read_caches()
    except CacheError as error:
        raise CacheError(
            f"{error}: `--caches paper` takes those of {PAPER.name}", bad_input=error.bad_input
        ) from None

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

from unis.cli.options import ChainFileArgument, JsonOption, between, by_name, one_of
from unis.cli.terminal import err, moved, out, say, writable, write_result
from unis.cli.view import number
from unis.engine import names
from unis.engine.limits import limit
from unis.runtime.directory import keep_off_functions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from unis.chain.load import LoadedChain
    from unis.simulate.run import SimulationSummary
    from unis.simulate.scenario import CostOf, MachineCosts
    from unis.v1 import simulator_pb2 as pb

# Forms of before, which say where they are now.
MovedOption = Annotated[list[str] | None, typer.Option(hidden=True)]
# A function of which nothing is known: about a hash look-up a packet.
ASSUMED_COST_NS = 60.0
_MOST_NS = limit("SimFunction.cost_ns").max or math.inf
_MOST_US = 1e6
_CONTROLLERS = ("handover", "priority")  # that the simulator tells apart


def costs_of(chain: LoadedChain, stated: list[str]) -> dict[str, tuple[CostOf, str]]:
    """Costs of a chain's functions, each with its source: stated as NAME=NS, else of the file, else
    measured here before, else assumed, which is told.
    """
    by_option = stated_costs(stated)
    see_that_they_are_there(by_option, chain, "--cost")
    known = {"measured": measured_costs(chain), "file": _of_file(chain), "--cost": by_option}
    found = {
        name: (cost, source) for source, costs in known.items() for name, cost in costs.items()
    }
    missing = [name for name in chain.file.functions if name not in found]
    if missing:
        say(
            f"the cost of a packet in {', '.join(missing)} is unknown; assuming "
            f"{ASSUMED_COST_NS:g} ns; give --cost {missing[0]}=NS, or measure it with "
            f"`unis estimate {chain.path}`"
        )
    return {**dict.fromkeys(missing, (ASSUMED_COST_NS, "assumed")), **found}


def _head_line(chain: LoadedChain, costs: Mapping[str, tuple[CostOf, str]]) -> str:
    """The file, and the cost of each function with its source."""
    parts = []
    for name in chain.file.functions:
        cost, source = costs[name]
        parts.append(f"{name} {_cost_text(cost)} ({source})")
    return f"{chain.path}; ns a packet: {', '.join(parts)}"


def _cost_text(cost: CostOf) -> str:
    if isinstance(cost, dict):
        return f"{_cost_text(min(cost.values()))} to {_cost_text(max(cost.values()))}"
    return f"{cost:.4g}" if cost < 1000 else f"{cost:.0f}"


def see_that_they_are_there(names: Iterable[str], chain: LoadedChain, option: str) -> None:
    """BadParameter where `option` names a function that `chain` does not have."""
    if unknown := [name for name in names if name not in chain.file.functions]:
        raise typer.BadParameter(
            f"there is no function `{unknown[0]}`: {', '.join(chain.file.functions)}",
            param_hint=option,
        )


def stated_costs(values: list[str]) -> dict[str, CostOf]:
    """Of each `NAME=NS`."""
    costs: dict[str, CostOf] = {}
    for value, name, ns in by_name(values, float, "NAME=NS, as fw=60"):
        if not 0 < ns <= _MOST_NS:
            raise typer.BadParameter(f"`{value}`: a cost is above 0 and up to {_MOST_NS:g} ns")
        costs[name] = ns
    return costs


def _of_file(chain: LoadedChain) -> dict[str, CostOf]:
    stated = ((name, chain.file.function(name).cost_ns) for name in chain.file.functions)
    return {name: cost for name, cost in stated if cost is not None}


def measured_costs(chain: LoadedChain) -> dict[str, CostOf]:
    """What was measured here before."""
    from unis.chain.problem import ChainFileError
    from unis.runtime.costs import known_costs
    from unis.runtime.planning import plan_anywhere

    try:
        known = known_costs(plan_anywhere(chain))
    except ChainFileError:  # its programs need not be here
        return {}
    return {
        name: {size.size: size.ns for size in cost.sizes} if len(cost.sizes) > 1 else cost.ns
        for name, cost in known.items()
    }


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
    """The costs of `machine`, changed by the options."""
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
            callback=one_of("controller", _CONTROLLERS),
            help="How `unis` switches functions. Default: as FILE says.",
        ),
    ] = None,
    seconds: Annotated[float, between(0.001, 3600, "Virtual time, seconds.")] = 1.0,
    cost: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NS", help="Cost of a packet in a function, ns."),
    ] = None,
    ways: MovedOption = None,
    caches: MovedOption = None,
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
    seed: Annotated[
        int, typer.Option(min=0, max=2**64 - 1, help="Seed of the random numbers.")
    ] = 1,
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

    Example: unis simulate examples/demo.yaml --source-ns 30
    """
    keep_off_functions()
    policies = [word.strip() for text in policy or names.COMPARED for word in text.split(",")]
    for each in policies:
        one_of("policy", names.policies())(each)
    if ways or caches:
        raise moved("unis simulate --ways", "ways FILE NAME=N")
    from unis.chain.load import load
    from unis.simulate.run import SimulationSummary
    from unis.simulate.run import simulate as run_simulator
    from unis.simulate.scenario import between_yields, remarks, scenario, shortened

    chain = load(file)
    if nfs is not None:
        chain = shortened(chain, nfs)
    sourced = costs_of(chain, cost or [])
    costs = {name: ns for name, (ns, _) in sourced.items()}
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
    summaries = [SimulationSummary.of(result) for result in results]
    if as_json:
        out.print_json(json.dumps([_as_json(summary) for summary in summaries]))
    else:
        say(_head_line(chain, sourced))
        _print_simulated(summaries, between_yields(chain))
        for remark in remarks(chain):
            say(remark)
    if trace_file:
        first = results[0]
        from unis.report.trace import chrome_trace

        trace = chrome_trace(first.policy, first.runs, first.events)
        write_result(trace_file, json.dumps(trace))
        say(f"{trace_file}: open it with ui.perfetto.dev")


def _print_simulated(summaries: list[SimulationSummary], k: str) -> None:
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


def _as_json(summary: SimulationSummary) -> dict[str, Any]:
    return {
        "policy": summary.policy,
        "mpps": summary.mpps,
        "offered_mpps": summary.offered_mpps,
        "dropped_per_second": summary.dropped_pps,
        "switches_per_second": summary.switches_per_second,
        "latency_us": summary.latency.percentiles_us([5, 50, 95, 99]),
    }

"""A chain file as the simulator wants it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from unis import links
from unis.chain.graph import ChainGraph, Edge
from unis.chain.load import LoadedChain
from unis.chain.model import (
    NS_PER_MS,
    ChainFile,
    Function,
    PcapSource,
    SchedulerPart,
    SyntheticSource,
    Traffic,
)
from unis.chain.problem import Problem
from unis.chain.values import EGRESS, INGRESS, mean_cost
from unis.engine import names
from unis.errors import UnisError
from unis.plan.contract import SIZE_MIXES, fair_slice_ns, scheduler_settings
from unis.plan.machine import rr_timeslice_ms
from unis.plan.rings import size
from unis.plan.wiring import Wiring, link_problems, wire
from unis.simulate.capture import mean_size
from unis.v1 import simulator_pb2 as pb

# Bursts between two yields of a co-operative function, where the file states none (section 5.1.3).
PAPER_YIELD_EVERY = 8

CostOf = float | dict[int, float]  # ns a packet, or that for each packet size


class ScenarioError(UnisError):
    """A chain that cannot be simulated; the text says what is missing."""


@dataclass(frozen=True)
class MachineCosts:
    """What switching costs, ns; 0 stands for the simulator's own default."""

    switch_ns: float = 0  # from the scheduler's decision until the next function runs
    switch_call_ns: float = 0  # of which the scheduler's own system call takes
    yield_ns: float = 0  # sched_yield between two functions
    kernel_switch_ns: float = 0  # a preemption by the kernel, in which nobody runs
    source_ns: float = 0  # per packet; with sink_ns 0: source, sink and decisions take no time
    sink_ns: float = 0
    platform_has_three_cpus: bool = False  # else source, sink and scheduler take turns on one
    scheduled_switch_ns: float = 0  # what the scheduler believes of switch_ns; 0: the truth
    # What a packet costs a function between others by what it costs it alone, as it was estimated.
    # The scheduler reckons with the latter.
    chain_factor: float = 1

    def message(self, scheduler: SchedulerPart) -> pb.SimMachine:
        """As the simulator wants it; SCHED_RR's slice is this kernel's unless given."""
        return pb.SimMachine(
            switch_ns=self.switch_ns,
            switch_call_ns=self.switch_call_ns,
            yield_ns=self.yield_ns,
            kernel_switch_ns=self.kernel_switch_ns,
            rr_slice_ns=(scheduler.rr_timeslice_ms or rr_timeslice_ms()) * NS_PER_MS,
            fair_slice_ns=fair_slice_ns(scheduler),
            source_ns=self.source_ns,
            sink_ns=self.sink_ns,
            platform_has_three_cpus=self.platform_has_three_cpus,
            scheduled_switch_ns=self.scheduled_switch_ns,
        )


def scenario(
    chain: LoadedChain,
    costs: Mapping[str, CostOf],
    policy: str,
    seconds: float,
    machine: MachineCosts,
    *,
    controller: str | None = None,
    factors: Mapping[str, float] = MappingProxyType({}),
    seed: int = 1,
    trace: bool = False,
) -> pb.Scenario:
    """One run of the simulator. `costs` by function; ScenarioError names those that lack one.

    `controller`: the file's, unless given; all that are not hand-over preempt alike. `factors`: a
    function's own chain factor.
    """
    file = chain.file
    missing = [name for name in file.functions if name not in costs]
    if missing:
        raise ScenarioError(
            f"the cost of {', '.join(missing)} is not known: add cost_ns to {chain.path}, give "
            f"`--cost {missing[0]}=NS`, or measure it with `unis estimate {chain.path}`"
        )
    wired = wire(file, chain.graph)
    means = {name: mean_cost(cost, file.traffic.size_shares) for name, cost in costs.items()}
    sizes = size(file, wired, means)
    if problems := [
        *link_problems(file, wired),
        *_bridged(chain),
        *sizes.narrow,
    ]:
        raise chain.error(problems)
    arrivals = _arrivals(file.traffic, chain.directory, 1 / len(file.chains))
    return pb.Scenario(
        functions=[
            _function(
                name,
                file.function(name),
                costs[name],
                file.traffic.size_shares,
                factors.get(name, machine.chain_factor),
            )
            for name in file.functions
        ],
        chains=[_chain(part, wired, sizes.slots, arrivals) for part in chain.graph.chains.values()],
        machine=machine.message(file.scheduler),
        scheduler=scheduler_settings(file.scheduler, sizes.gamma.value),
        policy=names.policy(policy),
        duration_ns=round(seconds * 1e9),
        warmup_ns=round(min(0.1, seconds / 10) * 1e9),
        seed=seed,
        trace=trace,
        handover=(controller or file.scheduler.controller) == "handover",
    )


def _bridged(chain: LoadedChain) -> Iterator[Problem]:
    """Edges that pass no function: in the simulator every packet has one to pass."""
    for name, part in chain.file.chains.items():
        for at, edge in enumerate(part.graph or []):
            if (edge.origin, edge.to) == (INGRESS, EGRESS):
                yield Problem(
                    ("chains", name, "graph", at),
                    "passes no function, which the simulator cannot do; to simulate the rest, "
                    f"leave this edge out, and what decides between it and others from {INGRESS}",
                )


def between_yields(chain: LoadedChain) -> str:
    """Bursts of its functions between two yields, under cooperative: one number, or several."""
    functions = map(chain.file.function, chain.file.functions)
    return ", ".join(map(str, sorted({_yield_every(function) for function in functions})))


def remarks(chain: LoadedChain) -> Iterator[str]:
    """What a reader of the numbers must know of this chain."""
    wired = wire(chain.file, chain.graph)
    kinds = {place.kind for place in wired.places}
    if dropping := sorted(kind for kind in kinds if links.KINDS[kind].drops):
        yield (
            f"a {' and a '.join(dropping)} drops packets by itself, where its receiver is slow; "
            "here it is a link that loses none"
        )
    if any(
        not part.is_path and any(len(places) > 1 for places in wired.passed[name].values())
        for name, part in chain.graph.chains.items()
    ):
        yield (
            "splits, merges and copies take no time here; on the machine the CPU of the platform "
            "makes them, and may be the limit"
        )
    if tapped := [name for name, part in chain.graph.chains.items() if part.has_taps]:
        yield f"Mpps count the copies that were watched too, in {', '.join(tapped)}"


def _chain(
    part: ChainGraph, wired: Wiring, rings: Mapping[str, int], arrivals: pb.SimArrivals
) -> pb.SimChain:
    # Packets between two functions; where the engine carries them across, the smaller link's.
    capacity = {
        edge: min(links.KINDS[link.kind].capacity(link.slots(rings)) for link in passed)
        for edge, passed in wired.passed[part.name].items()
    }
    chain = pb.SimChain(name=part.name, arrivals=arrivals)
    if part.is_path:
        chain.path.extend(part.functions)
        chain.capacity.extend(capacity.values())
    else:
        chain.capacity.append(max(capacity.values()))
        chain.edges.extend(_edge(edge, capacity[edge]) for edge in part.edges)
        # The simulator has no drains: copies that were watched are delivered, and counted so.
        watching = [name for name in part.functions if not part.out_of(name)]
        chain.edges.extend(_edge(Edge(name, EGRESS), 0) for name in watching)
    return chain


def _edge(edge: Edge, capacity: int) -> pb.SimEdge:
    """What matches is not known beforehand: of such edges each has the same share."""
    simulated = pb.SimEdge(
        to=edge.to,
        port=edge.out_port or 0,
        weight=edge.weight or 0,
        copy=edge.tap,
        capacity=capacity,
    )
    setattr(simulated, "from", edge.origin)
    return simulated


def _function(
    name: str, function: Function, cost: CostOf, shares: Mapping[int, int], factor: float
) -> pb.SimFunction:
    simulated = pb.SimFunction(
        name=name,
        cpu=function.cpu or 0,
        yield_every=_yield_every(function),
    )
    if isinstance(cost, dict):
        simulated.size.extend(sorted(cost))
        simulated.size_cost_ns.extend(cost[size] * factor for size in sorted(cost))
        simulated.scheduled_cost_ns = mean_cost(cost, shares)
    else:
        simulated.scheduled_cost_ns = cost
    simulated.cost_ns = simulated.scheduled_cost_ns * factor
    return simulated


def _yield_every(function: Function) -> int:
    return function.yield_every or PAPER_YIELD_EVERY


def _arrivals(traffic: Traffic, directory: Path, share: float) -> pb.SimArrivals:
    arrivals = pb.SimArrivals(kind=pb.ARRIVAL_SATURATING)
    match traffic.source:
        case SyntheticSource(size=str(mix)):
            arrivals.mix, of_size = SIZE_MIXES[mix], traffic.size_shares
            size = sum(each * share for each, share in of_size.items()) / sum(of_size.values())
        case SyntheticSource(size=int(fixed)):
            arrivals.size = fixed
            size = fixed
        case PcapSource(file=file):
            arrivals.size = mean_size(directory / file)
            size = arrivals.size
        case _:
            raise ScenarioError(
                "the traffic of a port or wire is not known beforehand: simulate with source kind "
                "synthetic or pcap"
            )
    if pps := traffic.pps or traffic.bps / 8 / size:
        poisson = traffic.arrivals == "poisson"
        arrivals.kind = pb.ARRIVAL_POISSON if poisson else pb.ARRIVAL_CONSTANT
        arrivals.pps = pps * share
        arrivals.burst = 1  # the source sends each packet as soon as it is due
    return arrivals


def shortened(chain: LoadedChain, functions: int) -> LoadedChain:
    """The same file with only the first so many functions of each path."""
    file = chain.file
    if branching := [name for name, part in chain.graph.chains.items() if not part.is_path]:
        raise ScenarioError(f"chain {branching[0]} has branches, so it has no first functions")
    chains = {
        name: part
        if part.reverse_of
        else part.model_copy(
            update={"path": [*chain.graph.chains[name].functions[:functions]], "graph": None}
        )
        for name, part in file.chains.items()
    }
    kept = {name for part in chains.values() for name in part.path or []}
    ends = {*kept, INGRESS, EGRESS}
    shorter: ChainFile = file.model_copy(
        update={
            "chains": chains,
            "functions": {name: part for name, part in file.functions.items() if name in kept},
            "links": [link for link in file.links if {link.origin, link.to} <= ends],
        }
    )
    return LoadedChain(chain.path, shorter, chain.document)

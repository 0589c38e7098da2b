"""`unis bench agreement`: does the simulator say what the machine does?

The costs that it is fed with are measured in the same run (Cycle Estimator, switch cost), none is
fitted. They must agree on the order of the policies and on UNiS's share of co-operative.
"""

from collections.abc import Callable, Mapping, Sequence

from pydantic import BaseModel

from unis import built
from unis.bench.windows import Quartiles, alternate, mpps, ratios
from unis.chain.load import LoadedChain
from unis.chain.machine import Machine, Surroundings
from unis.chain.model import API_VERSION, ChainFile
from unis.engine import names
from unis.launch.interrupts import interrupts
from unis.launch.launcher import Options, Run, running
from unis.simulate.run import Summary, simulate
from unis.simulate.scenario import PAPER_YIELD_EVERY, MachineCosts, scenario

POLICIES = ("unis", "cooperative", "rr", "other")
TOLERANCE = 0.15  # of the ratio unis / cooperative
_SAME = 0.05  # throughputs this close (relative) have no order
_SWITCH_ROUNDS = 2000
_SIMULATED_SECONDS = 2.0


class Comparison(BaseModel):
    """One chain on the machine and in the simulator."""

    functions: int
    cost_ns: dict[str, float]
    switch_ns: float
    yield_ns: float
    machine_mpps: dict[str, float]  # mean
    simulator_mpps: dict[str, float]
    machine_ratio: Quartiles  # unis / cooperative, paired windows
    simulator_ratio: float

    @property
    def difference(self) -> float:
        """Simulator's ratio less the machine's."""
        return self.simulator_ratio - self.machine_ratio.median

    @property
    def same_order(self) -> bool:
        """Whether no two policies that differ on the machine are the other way round."""
        return not reversed_pairs(self.machine_mpps, self.simulator_mpps)

    @property
    def agrees(self) -> bool:
        """Whether order and ratio are close enough."""
        return self.same_order and abs(self.difference) <= TOLERANCE


def reversed_pairs(
    machine: Mapping[str, float], simulator: Mapping[str, float]
) -> list[tuple[str, str]]:
    """Pairs of policies that both sides tell apart, in opposite order."""

    def order(values: Mapping[str, float], first: str, second: str) -> int:
        a, b = values[first], values[second]
        if abs(a - b) <= _SAME * max(a, b):
            return 0
        return 1 if a > b else -1

    policies = list(machine)
    return [
        (first, second)
        for index, first in enumerate(policies)
        for second in policies[index + 1 :]
        if order(machine, first, second) * order(simulator, first, second) < 0
    ]


def macswap_chain(count: int, cost: str, machine: Machine) -> LoadedChain:
    """A chain of `count` macswap functions on the first CPU after the platform's."""
    cpu = min(machine.cpus - {machine.platform_cpu}, default=machine.platform_cpu)
    functions = [
        {
            "name": f"macswap{index}",
            "program": "macswap",
            "args": ["--cost", cost],
            "cpu": cpu,
            "yield_every": PAPER_YIELD_EVERY,
        }
        for index in range(1, count + 1)
    ]
    data = {
        "apiVersion": API_VERSION,
        "name": f"agreement{count}",
        "chains": [{"name": "chain", "functions": functions}],
    }
    directory = built.clone()
    file = ChainFile.model_validate(data, context=Surroundings(directory, machine))
    return LoadedChain(directory / "agreement", file)


def compare(
    count: int, cost: str, rounds: int, window: float, report: Callable[[str], None]
) -> Comparison:
    """Measures a chain of `count` functions, then simulates it with the costs just measured."""
    machine = Machine.this()
    chain = macswap_chain(count, cost, machine)
    with interrupts() as switch:
        # Every cost is measured anew: the machine of an hour ago is another machine.
        options = Options(start=False, use_cache=False)
        with running(chain, machine, options, report, switch) as run:
            return _compare(run, chain, rounds, window, report)


def _compare(
    run: Run, chain: LoadedChain, rounds: int, window: float, report: Callable[[str], None]
) -> Comparison:
    cpu = min(chain.file.cpus)
    switching = run.client.switch_cost(cpu, _SWITCH_ROUNDS)
    run.client.start(names.policy("unis"))
    interval = _decision_interval(run)
    report(f"measuring {len(chain.file.functions)} functions, {rounds} rounds")
    measured = alternate(run.client, POLICIES, rounds, window, lambda *_: run.check())
    costs = {name: cost.ns for name, cost in run.costs.items()}
    machine_costs = MachineCosts(
        switch_ns=switching.until_running_ns,
        switch_call_ns=switching.call_ns,
        yield_ns=switching.yield_ns,
        kernel_switch_ns=switching.until_running_ns - switching.until_preempted_ns,
    )
    simulated = {}
    for policy in POLICIES:
        wanted = scenario(chain, costs, policy, _SIMULATED_SECONDS, machine_costs)
        wanted.scheduler.interval_ns = interval
        simulated[policy] = Summary.of(simulate(wanted)).mpps
    return Comparison(
        functions=len(chain.file.functions),
        cost_ns=costs,
        switch_ns=switching.until_running_ns,
        yield_ns=switching.yield_ns,
        machine_mpps={
            policy: _mean([mpps(windows[policy]) for windows in measured]) for policy in POLICIES
        },
        simulator_mpps=simulated,
        machine_ratio=Quartiles.of(ratios(measured, "unis", "cooperative")),
        simulator_ratio=simulated["unis"] / simulated["cooperative"],
    )


def _decision_interval(run: Run) -> int:
    """How often this machine's scheduler really decides, ns: T, or longer where it shares its CPU
    with source and sink.
    """
    before = run.client.stats()
    run.wait(0.3)
    after = run.client.stats()
    decisions = max(1, after.ticks - before.ticks)
    return max(1000, (after.time_ns - before.time_ns) // decisions)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

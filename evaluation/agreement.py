"""`python -m evaluation agreement`: whether the simulator orders policies as the machine does.

The simulator gets measured costs. A machine changes its speed within seconds, so each round has its
own: the functions' costs are the scheduler's estimates before the round, those of source and sink
are measured in the round. A switch needs a free CPU, so its cost is measured once, before the
rounds.

The verdict compares the order of each pair of policies, except `unis` and `cooperative`: they are a
few percent apart, and caches, which the simulator does not model, may change more. For that pair
the difference is printed with its interval. The other pairs are far apart: the verdict finds a
wrong simulator, but does not prove an exact one.
"""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence

from pydantic import BaseModel

from unis.bench.synthetic import macswap_chain
from unis.calibrate.calibration import has_three_cpus, platform_ns
from unis.chain.load import LoadedChain
from unis.engine import names
from unis.measure import order
from unis.measure.paired import Paired
from unis.measure.windows import Arm, Rounds, in_turn, mpps
from unis.plan.machine import Machine
from unis.runtime.interrupts import interrupts
from unis.runtime.planning import plan_chain
from unis.runtime.run import Options, Run
from unis.runtime.running import running
from unis.simulate.run import SimulationSummary, simulate
from unis.simulate.scenario import MachineCosts, scenario
from unis.v1 import costs_pb2
from unis.v1 import engine_pb2 as pb

_SAME = 0.05  # relative difference below which two policies have no order
_NOT_JUDGED = {"unis", "cooperative"}
_SWITCH_ROUNDS = 2000
_SIMULATED_SECONDS = {"rr": 2.0, "other": 2.0}  # their slices are long
_SIMULATED_SECONDS_ELSE = 0.5


class Comparison(BaseModel):
    """One chain on the machine and in the simulator. Costs in ns, means over the rounds."""

    functions: int
    cost_ns: dict[str, float]  # by component: per packet; of the scheduler per switch
    switch_ns: float  # both measured once, before the rounds
    yield_ns: float
    machine_mpps: dict[str, float]
    simulator_mpps: dict[str, float]
    machine_ratio: Paired | None  # unis ÷ cooperative, within rounds
    simulator_ratio: Paired | None  # in the same rounds
    difference: Paired | None  # simulator_ratio - machine_ratio, within rounds
    judged: dict[str, bool]  # "unis, rr": whether both order this pair alike

    @property
    def agrees(self) -> bool:
        """Whether machine and simulator order all judged pairs alike; False without any pair."""
        return bool(self.judged) and all(self.judged.values())


def judged_pairs(
    machine: Sequence[Mapping[str, float]], simulator: Sequence[Mapping[str, float]]
) -> dict[str, bool]:
    """The pairs of policies that differ on both sides, and whether their order is the same.

    `machine`, `simulator`: throughput by policy, in each round.
    """
    leads = {
        f"{first}, {second}": _lead(machine, first, second) * _lead(simulator, first, second)
        for first, second in itertools.combinations(machine[0], 2)
        if {first, second} != _NOT_JUDGED
    }
    return {pair: lead > 0 for pair, lead in leads.items() if lead}


def _lead(rounds: Sequence[Mapping[str, float]], first: str, second: str) -> int:
    """1 if the first policy has more throughput, -1 if the second has, 0 if they are the same."""
    # No first ÷ second: either policy may have delivered nothing.
    sums = [(mpps[first], mpps[first] + mpps[second]) for mpps in rounds]
    lead = 2 * statistics.median(part / total if total else 0.5 for part, total in sums) - 1
    return 0 if abs(lead) <= _SAME / 2 else 1 if lead > 0 else -1


def compare(
    length: int, cost: str, rounds: int, window: float, report: Callable[[str], None]
) -> Comparison:
    """Measures a chain of `length` functions, then simulates it with the measured costs."""
    chain = macswap_chain(f"agreement{length}", cost, length, max(Machine.this().cpus))
    # Costs from an earlier run are of a machine with another speed.
    options = Options(start=False, costs="anew")
    with interrupts() as switch, running(plan_chain(chain), options, report, switch) as run:
        return _compare(run, chain, rounds, window, report)


def _compare(
    run: Run, chain: LoadedChain, rounds: int, window: float, report: Callable[[str], None]
) -> Comparison:
    switching = run.client.switch_cost(min(chain.file.cpus), _SWITCH_ROUNDS)
    run.client.start(names.policy("unis"))
    costs: list[dict[str, float]] = []  # one per round
    stats = [run.client.stats()]  # before each round and after the last
    arms = [Arm(policy) for policy in names.COMPARED]
    count = order.balanced_rounds(len(arms), rounds)
    report(f"measuring {len(chain.file.functions)} functions, {count} rounds")

    def look(done: Rounds, _: Arm) -> None:
        if len(done[-1]) == len(arms):
            stats.append(run.client.stats())

    windows = in_turn(run, arms, count, window, look)
    measured = [{policy: mpps(reply) for policy, reply in replies.items()} for replies in windows]
    report("simulating each round")
    simulated: list[dict[str, float]] = []
    for before, after in itertools.pairwise(stats):
        cost = {function.name: function.cost_ns for function in before.functions}
        cost |= platform_ns(before, after)
        costs.append(cost)
        machine = _machine_costs(switching, cost, after)
        simulated.append(
            {policy: _simulated(chain, cost, policy, machine) for policy in names.COMPARED}
        )
    return Comparison(
        functions=len(chain.file.functions),
        cost_ns=_means(costs),
        switch_ns=switching.until_running_ns,
        yield_ns=switching.yield_ns,
        machine_mpps=_means(measured),
        simulator_mpps=_means(simulated),
        machine_ratio=_ratio(measured),
        simulator_ratio=_ratio(simulated),
        difference=difference(measured, simulated),
        judged=judged_pairs(measured, simulated),
    )


def difference(
    machine: Sequence[Mapping[str, float]], simulator: Sequence[Mapping[str, float]]
) -> Paired | None:
    """unis ÷ cooperative in the simulator minus on the machine, in rounds where both are known."""
    values = [
        simulated["unis"] / simulated["cooperative"] - measured["unis"] / measured["cooperative"]
        for measured, simulated in zip(machine, simulator, strict=True)
        if measured["cooperative"] and simulated["cooperative"]
    ]
    return Paired.differences(values, left_out=len(machine) - len(values)) if values else None


def _ratio(rounds: Sequence[Mapping[str, float]]) -> Paired | None:
    return Paired.ratio([mpps["unis"] for mpps in rounds], [mpps["cooperative"] for mpps in rounds])


def _machine_costs(
    switching: costs_pb2.SwitchCostReply, cost: Mapping[str, float], stats: pb.Stats
) -> MachineCosts:
    return MachineCosts(
        switch_ns=switching.until_running_ns,
        switch_call_ns=cost["scheduler"],
        yield_ns=switching.yield_ns,
        kernel_switch_ns=switching.until_running_ns - switching.until_preempted_ns,
        source_ns=cost["source"],
        sink_ns=cost["sink"],
        platform_has_three_cpus=has_three_cpus(stats),
    )


def _simulated(
    chain: LoadedChain, costs: Mapping[str, float], policy: str, machine: MachineCosts
) -> float:
    seconds = _SIMULATED_SECONDS.get(policy, _SIMULATED_SECONDS_ELSE)
    return SimulationSummary.of(simulate(scenario(chain, costs, policy, seconds, machine))).mpps


def _means(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {key: statistics.fmean(values[key] for values in rounds) for key in rounds[0]}

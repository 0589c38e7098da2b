"""`python -m evaluation agreement`: does the simulator say what the machine does?

The costs that it is fed with are measured (the functions' alone, a switch, source and sink). A
machine changes its speed within seconds, so every round has its own: the functions' are those that
the scheduler had found before the round, source's and sink's those of the round. What a switch
costs is measured once, before the rounds: while a chain runs, the CPU is not free.

The verdict is on the order of the policies, but for UNiS and co-operative: how far those are apart,
some hundredths, is less than what caches may change, which the simulator does not know. That
difference is told with its interval, and not judged. The pairs that are judged lie far apart, so
the verdict is coarse: it finds a simulator that is wrong, and does not show one that is exact.
"""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence

from pydantic import BaseModel

from unis.bench.synthetic import macswap_chain
from unis.chain.load import LoadedChain
from unis.engine import names
from unis.measure import order
from unis.measure.paired import Paired
from unis.measure.spans import spans
from unis.measure.windows import Arm, Rounds, alternate, mpps
from unis.plan.machine import Machine
from unis.runtime.interrupts import interrupts
from unis.runtime.options import Options
from unis.runtime.planning import plan_chain
from unis.runtime.run import Run
from unis.runtime.running import running
from unis.simulate.run import Summary, simulate
from unis.simulate.scenario import MachineCosts, scenario
from unis.v1 import costs_pb2
from unis.v1 import engine_pb2 as pb

_SAME = 0.05  # policies whose throughputs are this close (relative) have no order
_NOT_JUDGED = {"unis", "cooperative"}
_SWITCH_ROUNDS = 2000
_SIMULATED_SECONDS = {"rr": 2.0, "other": 2.0}  # their slices are long
_SIMULATED_SECONDS_ELSE = 0.5


class Comparison(BaseModel):
    """One chain on the machine and in the simulator. Costs in ns, means over the rounds."""

    functions: int
    cost_ns: dict[str, float]  # of a packet: functions, source, sink; of a switch: scheduler
    switch_ns: float  # measured once, before the rounds
    yield_ns: float  # likewise
    machine_mpps: dict[str, float]
    simulator_mpps: dict[str, float]
    machine_ratio: Paired | None  # unis / cooperative, windows of one round
    simulator_ratio: Paired | None  # of the same rounds
    difference: Paired | None  # simulator's ratio less the machine's, round by round
    judged: dict[str, bool]  # "unis, rr": whether both order these two alike

    @property
    def agrees(self) -> bool:
        """Whether machine and simulator order the policies alike; not if no two can be told apart.

        Then nothing was shown.
        """
        return bool(self.judged) and all(self.judged.values())


def judged_pairs(
    machine: Sequence[Mapping[str, float]], simulator: Sequence[Mapping[str, float]]
) -> dict[str, bool]:
    """The pairs of policies that both sides tell apart, and whether in the same order.

    Throughput of each policy, round by round; compared within the rounds.
    """
    leads = {
        f"{first}, {second}": _lead(machine, first, second) * _lead(simulator, first, second)
        for first, second in itertools.combinations(machine[0], 2)
        if {first, second} != _NOT_JUDGED
    }
    return {pair: lead > 0 for pair, lead in leads.items() if lead}


def _lead(rounds: Sequence[Mapping[str, float]], first: str, second: str) -> int:
    """Which of two is ahead: 1 the first, -1 the second, 0 neither."""
    # Not a / b: one of the two may have delivered nothing.
    sums = [(of[first], of[first] + of[second]) for of in rounds]
    by = 2 * statistics.median(one / both if both else 0.5 for one, both in sums) - 1
    return 0 if abs(by) <= _SAME / 2 else 1 if by > 0 else -1


def compare(
    count: int, cost: str, rounds: int, window: float, report: Callable[[str], None]
) -> Comparison:
    """Measures a chain of `count` functions, then simulates it with the costs just measured."""
    chain = macswap_chain(f"agreement{count}", cost, count, max(Machine.this().cpus))
    # Every cost is measured anew: the machine of an hour ago is another machine.
    options = Options(start=False, costs="anew")
    with interrupts() as switch, running(plan_chain(chain), options, report, switch) as run:
        return _compare(run, chain, rounds, window, report)


def _compare(
    run: Run, chain: LoadedChain, rounds: int, window: float, report: Callable[[str], None]
) -> Comparison:
    switching = run.client.switch_cost(min(chain.file.cpus), _SWITCH_ROUNDS)
    run.client.start(names.policy("unis"))
    costs: list[dict[str, float]] = []  # of each round
    stats: list[pb.Stats] = []  # before each round and after the last
    arms = [Arm(policy) for policy in names.COMPARED]
    count = order.balanced_rounds(len(arms), rounds)
    report(f"measuring {len(chain.file.functions)} functions, {count} rounds")
    windows: Rounds = alternate(
        run.client,
        order.rounds(arms, count),
        spans(arms, run.plan, window),
        run.plan.controller,
        lambda *_: run.check(),
        lambda: stats.append(run.client.stats()),
    )
    measured = [{policy: mpps(reply) for policy, reply in of.items()} for of in windows]
    stats.append(run.client.stats())
    report("simulating each round")
    simulated: list[dict[str, float]] = []
    for before, after in itertools.pairwise(stats):
        cost = {function.name: function.cost_ns for function in before.functions}
        cost |= _platform_costs(before, after)
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
    """unis / cooperative in the simulator less that on the machine, in rounds that have both."""
    values = [
        there["unis"] / there["cooperative"] - here["unis"] / here["cooperative"]
        for here, there in zip(machine, simulator, strict=True)
        if here["cooperative"] and there["cooperative"]
    ]
    return Paired.differences(values, left_out=len(machine) - len(values)) if values else None


def _ratio(rounds: Sequence[Mapping[str, float]]) -> Paired | None:
    return Paired.ratio([of["unis"] for of in rounds], [of["cooperative"] for of in rounds])


def _platform_costs(before: pb.Stats, after: pb.Stats) -> dict[str, float]:
    """What a packet cost source and sink in between, and a switch the scheduler, ns."""
    return {
        now.name: (now.busy_ns - then.busy_ns) / max(1, now.handled - then.handled)
        for then, now in zip(before.components, after.components, strict=True)
    }


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
        platform_has_three_cpus=len({component.cpu for component in stats.components}) > 1,
    )


def _simulated(
    chain: LoadedChain, costs: Mapping[str, float], policy: str, machine: MachineCosts
) -> float:
    seconds = _SIMULATED_SECONDS.get(policy, _SIMULATED_SECONDS_ELSE)
    return Summary.of(simulate(scenario(chain, costs, policy, seconds, machine))).mpps


def _means(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {key: statistics.fmean(of[key] for of in rounds) for key in rounds[0]}

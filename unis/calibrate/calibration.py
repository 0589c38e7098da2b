"""Measures two short chains for `unis simulate --calibrated`.

Only windows of one round are compared: a machine that changes its speed between rounds changes
little in the result.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from unis.bench.synthetic import Stage, chain_of, size_of
from unis.calibrate.fit import (
    BESIDE,
    DISTANCES,
    RING,
    Readings,
    calibrated,
    cooperative,
    short_slices,
)
from unis.chain import defaults
from unis.chain.load import LoadedChain
from unis.engine import names
from unis.measure import disturbance
from unis.measure.disturbance import Disturbance
from unis.measure.summary import ratio
from unis.measure.windows import Rounds, in_turn
from unis.plan.machine import Machine
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up
from unis.simulate.scenario import MachineCosts
from unis.v1 import engine_pb2 as pb

_REFERENCES = ("light", "medium")
_LENGTH = 3
_ROUNDS = 8
_WINDOW = 0.1  # seconds
SWITCH_ROUNDS = 500  # of the engine's own measurement of a switch
# As in the paper.
_SCHEDULER = {"controller": "priority", "gamma": defaults.PAPER_GAMMA, "cost": "static"}


def calibrate_machine(machine: Machine, report: Callable[[str], None]) -> dict[str, MachineCosts]:
    """The costs of the machine by each of two short chains."""
    found: dict[str, MachineCosts] = {}
    seen: list[Disturbance] = []
    for cost in _REFERENCES:
        name = f"{_LENGTH} {cost}"
        report(f"measuring {name} functions, about 10 s")
        path = [Stage(cost, max(machine.cpus))] * _LENGTH
        chain = chain_of(
            "calibrate", {"chain": path}, size=size_of(cost), ring=RING, scheduler=_SCHEDULER
        )
        readings, disturbed = _measured(chain, machine, report)
        seen.append(disturbed)
        found[name] = calibrated(readings).machine
    if remark := disturbance.remark(seen):
        report(remark)
    return found


def mean_of(found: Sequence[MachineCosts]) -> MachineCosts:
    """The mean of each cost. The scheduler then believes the true cost of a switch."""
    means: dict[str, Any] = {
        field.name: statistics.fmean(getattr(costs, field.name) for costs in found)
        for field in fields(MachineCosts)
        if not isinstance(getattr(found[0], field.name), bool)
    }
    return replace(found[0], **{**means, "scheduled_switch_ns": 0})


def platform_ns(before: pb.Stats, after: pb.Stats) -> dict[str, float]:
    """Busy time of the engine's components: a packet of source and sink, a scheduler's switch."""
    return {
        now.name: (now.busy_ns - then.busy_ns) / max(1, now.handled - then.handled)
        for then, now in zip(before.components, after.components, strict=True)
    }


def has_three_cpus(stats: pb.Stats) -> bool:
    """Whether source, sink and scheduler have one CPU each."""
    return len({component.cpu for component in stats.components}) > 1


def _measured(
    chain: LoadedChain, machine: Machine, report: Callable[[str], None]
) -> tuple[Readings, Disturbance]:
    """Brings the chain up, measures it, takes it down."""
    options = Options(start=False, costs="anew")
    return brought_up(
        lambda: chain, machine, options, report, lambda run: _read(run, chain, machine)
    )


def _read(run: Run, chain: LoadedChain, machine: Machine) -> tuple[Readings, Disturbance]:
    switch = run.client.switch_cost(max(machine.cpus), SWITCH_ROUNDS)
    short, beside = short_slices(chain.file.scheduler), cooperative(BESIDE)
    run.client.start(names.policy("unis"), names.controller("priority"))
    before = run.client.stats()
    rounds = in_turn(run, [short, *map(cooperative, DISTANCES)], _ROUNDS, _WINDOW)
    after = run.client.stats()
    platform = platform_ns(before, after)
    of_short = ratio(rounds, str(short), str(beside))
    readings = Readings(
        chain=chain,
        costs_ns={
            name: {size.size: size.ns for size in cost.sizes} for name, cost in run.costs.items()
        },
        cpu_ns={name: _cpu_ns(rounds, name) for name in chain.file.functions},
        short_ratio=of_short.median if of_short else None,
        engine=MachineCosts(
            switch_call_ns=platform["scheduler"],
            yield_ns=switch.yield_ns,
            source_ns=platform["source"],
            sink_ns=platform["sink"],
            platform_has_three_cpus=has_three_cpus(after),
            scheduled_switch_ns=switch.until_running_ns,
        ),
        preempt_ns=switch.until_preempted_ns,
    )
    windows = [reply for replies in rounds for reply in replies.values()]
    return readings, Disturbance.of(windows)


def _cpu_ns(rounds: Rounds, name: str) -> Mapping[int, Sequence[float]]:
    """CPU time a packet by distance, of each window in which packets passed."""
    return {
        every: [
            reply.function_cpu_ns[name] / reply.delivered
            for windows in rounds
            if (reply := windows[str(cooperative(every))]).delivered
        ]
        for every in DISTANCES
    }

"""Fits the simulator's parameters to windows of one chain.

A packet's cost inside a chain comes from co-operative windows. The time of a switch by priority
comes from windows with short slices: these have three times as many switches. The engine measures
all other costs itself.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from unis.chain.load import LoadedChain
from unis.chain.model import SchedulerPart
from unis.chain.values import mean_cost
from unis.errors import UnisError
from unis.measure.windows import Arm
from unis.plan.contract import scheduler_settings
from unis.plan.rings import gamma_choice
from unis.simulate.run import simulate
from unis.simulate.scenario import CostOf, MachineCosts, scenario
from unis.v1.common_pb2 import SchedulerSettings

RING = 2048  # slots of each ring
SHORT_FILL = 0.25  # of its egress, by a short slice
DISTANCES = (16, 24, 32)  # bursts between yields; without 8, which judges the simulator
BESIDE = 24  # at this distance yields are as frequent as switches with slices of 75 %
_MOST_NS = 60_000.0  # of a switch
_STEPS = 10  # bisections: to 60 ns
_BURST = 64  # packets
_LEAST_FACTOR = 0.01
_SECONDS = 0.15  # of virtual time


@dataclass(frozen=True)
class Readings:
    """What was measured of one chain."""

    chain: LoadedChain
    costs_ns: Mapping[str, dict[int, float]]  # of each function alone, by the packet's size
    # CPU time a packet, by function and distance: of each window in which packets passed.
    cpu_ns: Mapping[str, Mapping[int, Sequence[float]]]
    short_ratio: float | None  # throughput with short slices by that at BESIDE; None: no packet
    engine: MachineCosts  # what the engine measured itself
    preempt_ns: float  # from the scheduler's decision until the preempted function stops


@dataclass(frozen=True)
class Calibrated:
    """What the simulator must know of the machine."""

    machine: MachineCosts
    # By function: a packet's cost in the chain by its cost alone.
    factors: Mapping[str, float] = field(default_factory=dict)


def cooperative(every: int) -> Arm:
    """Functions that yield after `every` bursts."""
    return Arm("cooperative", yield_every=every)


def short_slices(part: SchedulerPart) -> Arm:
    """Priority with slices that fill `SHORT_FILL` of a ring."""
    gamma = gamma_choice(part, RING).value
    settings = scheduler_settings(part, gamma)
    settings.slice_factor = SHORT_FILL / gamma
    return Arm("unis", "priority", name="short slices").with_settings(settings)


def chain_mpps(
    chain: LoadedChain, costs: Mapping[str, CostOf], arm: Arm, by: Calibrated
) -> dict[str, float]:
    """Simulated Mpps of each chain under an arm."""
    run = scenario(
        chain, costs, arm.policy, _SECONDS, by.machine, controller=arm.controller,
        factors=by.factors,
    )  # fmt: skip
    if arm.scheduler:
        run.scheduler.CopyFrom(SchedulerSettings.FromString(arm.scheduler))
    if arm.yield_every:
        for function in run.functions:
            function.yield_every = arm.yield_every
    result = simulate(run)
    return {chain.name: chain.delivered / result.duration_ns * 1e3 for chain in result.chains}


def calibrated(readings: Readings) -> Calibrated:
    """The parameters that explain the readings. UnisError if no packet passed at a distance."""
    factors = _chain_factors(readings)
    engine = replace(readings.engine, chain_factor=statistics.fmean(factors.values()))
    found = Calibrated(engine, factors)
    if readings.short_ratio is not None and len(factors) > 1:
        lost = _lost(readings, found, readings.short_ratio)
    else:
        lost = engine.scheduled_switch_ns - readings.preempt_ns
    return with_switch(found, readings.preempt_ns, lost)


def with_switch(costs: Calibrated, preempt_ns: float, lost_ns: float) -> Calibrated:
    """After a decision the function runs on for `preempt_ns`, then the CPU idles for `lost_ns`."""
    machine = replace(costs.machine, switch_ns=preempt_ns + lost_ns, kernel_switch_ns=lost_ns)
    return replace(costs, machine=machine)


def _chain_factors(readings: Readings) -> dict[str, float]:
    """Of each function: a packet's cost in the chain by its cost alone.

    The cost in the chain is the CPU time that the kernel counts, less the share of a yield. The
    functions at both ends pay most where CPUs are far apart: their packets change the CPU.
    """
    of_sizes = readings.chain.file.traffic.size_shares
    found: dict[str, float] = {}
    for name, by_size in readings.costs_ns.items():
        in_chain = statistics.median(_in_chain(readings, name, every) for every in DISTANCES)
        found[name] = max(_LEAST_FACTOR, in_chain / mean_cost(by_size, of_sizes))
    return found


def _in_chain(readings: Readings, name: str, every: int) -> float:
    """ns a packet, without yields."""
    spent = readings.cpu_ns[name][every]
    if not spent:
        raise UnisError(
            f"no packet passed {name} while functions yielded every {every} bursts, so its cost in "
            "the chain is not known: try again while nothing else runs",
            bad_input=False,
        )
    return statistics.median(spent) - readings.engine.yield_ns / (every * _BURST)


def _lost(readings: Readings, calibrated_costs: Calibrated, seen: float) -> float:
    """How long the CPU idles in a switch, ns, if short slices pass `seen` of co-operation."""
    chain, costs = readings.chain, readings.costs_ns
    short = short_slices(chain.file.scheduler)
    beside = sum(chain_mpps(chain, costs, cooperative(BESIDE), calibrated_costs).values())
    low, high = 1.0, _MOST_NS
    for _ in range(_STEPS):
        middle = (low + high) / 2
        tried = with_switch(calibrated_costs, readings.preempt_ns, middle)
        if sum(chain_mpps(chain, costs, short, tried).values()) > seen * beside:
            low = middle
        else:
            high = middle
    return (low + high) / 2

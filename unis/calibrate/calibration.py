"""What the simulator must know of the machine, from windows that it is not judged by.

What a packet costs between other functions: from co-operative windows at distances other than the
paper's. What a switch by priority takes: from windows with slices that fill 25 % of the ring, in
which there are three times as many. Windows of one round are held against each other, so a machine
that changes its speed meanwhile changes little. What is left (source, sink, a yield, the
scheduler's call) the engine measures itself.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from unis.calibrate import arms
from unis.calibrate.case import MAIN, Case, Extent, chain_case
from unis.calibrate.measured import Measured, measure, ratio
from unis.calibrate.virtual import Calibrated, mpps_of
from unis.chain.sizes import mean_cost, shares
from unis.measure import disturbance
from unis.measure.disturbance import Disturbance
from unis.plan.machine import Machine
from unis.simulate.scenario import MachineCosts

_OTHERS = tuple(arms.K[every] for every in (16, 24, 32))
_BESIDE = arms.K[24]  # as many switches as UNiS' own slices make
_MOST_NS = 60_000.0  # that a switch may take
_STEPS = 10  # of halving it: to 60 ns
_BURST = 64  # packets
_LEAST_FACTOR = 0.01


# Chains that are brought up for nothing else.
_REFERENCES = ("light", "medium")
_LENGTH = 3
_EXTENT = Extent(lengths={}, sets=2)


def calibrate_machine(machine: Machine, report: Callable[[str], None]) -> dict[str, MachineCosts]:
    """Measures two short chains; what each says of the machine, by what it is made of."""
    found: dict[str, MachineCosts] = {}
    seen: list[Disturbance] = []
    for cost in _REFERENCES:
        name = f"{_LENGTH} {cost}"
        report(f"measuring {name} functions, about 10 s")
        case = chain_case(cost, _LENGTH, max(machine.cpus), {MAIN: (arms.SHORT, *_OTHERS)})
        of = measure(case, _EXTENT, machine, report)
        seen.append(of.disturbed)
        found[name] = calibrated(case, of).machine
    if remark := disturbance.remark(seen):
        report(remark)
    return found


def mean_of(found: Sequence[MachineCosts]) -> MachineCosts:
    """Each cost, the mean; the scheduler then believes the truth."""
    means: dict[str, Any] = {
        field.name: statistics.fmean(getattr(of, field.name) for of in found)
        for field in fields(MachineCosts)
        if not isinstance(getattr(found[0], field.name), bool)
    }
    return replace(found[0], **{**means, "scheduled_switch_ns": 0})


def can_calibrate(case: Case) -> bool:
    """Whether it is one chain, on one CPU, of which all that is needed is measured."""
    wanted = {arms.SHORT, *_OTHERS}
    return wanted <= {*case.sets.get(MAIN, ())} and len(case.make().file.chains) == 1


def calibrated(case: Case, measured: Measured) -> Calibrated:
    """For chains like this one, as the machine was while it ran."""
    factors = _chain_factors(case, measured)
    found = Calibrated(
        MachineCosts(
            switch_call_ns=measured.platform_ns["scheduler"],
            yield_ns=measured.yield_ns,
            source_ns=measured.platform_ns["source"],
            sink_ns=measured.platform_ns["sink"],
            platform_has_three_cpus=measured.three_cpus,
            scheduled_switch_ns=measured.switch_ns,
            chain_factor=statistics.fmean(factors.values()),
        ),
        factors,
    )
    lost = measured.switch_ns - measured.preempt_ns
    seen = ratio(measured, arms.SHORT, _BESIDE)
    if seen is not None and len(measured.costs_ns) > 1:
        lost = _lost(case, measured, found, seen.median)
    return with_switch(found, measured.preempt_ns, lost)


def with_switch(of: Calibrated, preempt_ns: float, lost_ns: float) -> Calibrated:
    """After whose decision a function runs on for `preempt_ns`, and then nobody for a while."""
    machine = replace(of.machine, switch_ns=preempt_ns + lost_ns, kernel_switch_ns=lost_ns)
    return replace(of, machine=machine)


def _chain_factors(case: Case, measured: Measured) -> dict[str, float]:
    """What a packet costs each function in the chain by what it costs it alone.

    That is the CPU time that the kernel counts for it, a packet, less its share of a yield. Who
    takes packets from another CPU, or is taken from, pays most where CPUs are far apart.
    """
    of_sizes = shares(case.make().file.traffic)
    found: dict[str, float] = {}
    for name, by_size in measured.costs_ns.items():
        in_chain = statistics.median(map(partial(_in_chain, measured, name), _OTHERS))
        found[name] = max(_LEAST_FACTOR, in_chain / mean_cost(by_size, of_sizes))
    return found


def _in_chain(measured: Measured, name: str, arm: str) -> float:
    """ns a packet, in the windows of a co-operative arm."""
    turn = arms.ALL[arm].arm.yield_every * _BURST
    spent = measured.values(
        arm, lambda window: 1e3 * window.cpu_share[name] / window.mpps if window.mpps else math.nan
    )
    return statistics.median(ns for ns in spent if ns == ns) - measured.yield_ns / turn


def _lost(case: Case, measured: Measured, of: Calibrated, seen: float) -> float:
    """In a switch nobody runs for so long, ns, if short slices pass `seen` of co-operation."""
    beside = mpps_of(case, measured, _BESIDE, of)
    low, high = 1.0, _MOST_NS
    for _ in range(_STEPS):
        middle = (low + high) / 2
        tried = with_switch(of, measured.preempt_ns, middle)
        if mpps_of(case, measured, arms.SHORT, tried) > seen * beside:
            low = middle
        else:
            high = middle
    return (low + high) / 2

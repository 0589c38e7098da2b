"""Measures one case. The result is plain data that is saved as JSON."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from pydantic import BaseModel

from evaluation.paper import arms
from evaluation.paper.case import (
    HANDOVER_FILLS,
    LATENCY_LOAD,
    LOAD,
    MAIN,
    ONLINE_COST_FILLS,
    SHORT,
    TUNED,
    Case,
    Extent,
)
from unis.bench.cooperative import best_two, exchanged, settled
from unis.calibrate.calibration import SWITCH_ROUNDS, has_three_cpus, platform_ns
from unis.engine import names
from unis.engine.transfer import line_transfer_ns, steady
from unis.measure import order
from unis.measure.counters import CACHE_MISSES, CACHE_REFERENCES, Counters, CountersError, counting
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Paired, Quartiles, Ratio
from unis.measure.windows import Arm, Offered, Rounds, in_turn, mpps, span_of
from unis.plan.machine import Machine
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up
from unis.v1 import engine_pb2 as pb
from unis.v1.common_pb2 import LatencyHistogram

_PERCENTILES = (5, 50, 95, 99)
_LEAST_ROUNDS = 4
_LEAST_JUDGED = 8  # for a usable interval
_LEAST_ALONE = 6  # in a set of one arm


_T = TypeVar("_T")


class ArmWindow(BaseModel):
    """One window of one arm."""

    mpps: float
    dropped_pps: float
    lost: float  # share of the offered packets
    latency_us: dict[str, float | None]  # mean, p5, p50, p95, p99
    switches_per_s: float  # by the engine, and hand-overs
    context_switches_per_s: dict[str, float]  # the kernel's, by function
    cpu_share: dict[str, float]  # of a CPU, by function
    chain_mpps: dict[str, float]
    cache_misses: dict[str, float] = {}  # share of the references, by function; empty: no counters

    @classmethod
    def of(cls, reply: pb.MeasureReply, cache_misses: Mapping[str, float]) -> "ArmWindow":
        """From the engine's reply, and the hardware counters in that window."""
        seconds = reply.window_ns / 1e9
        return cls(
            mpps=mpps(reply),
            dropped_pps=reply.dropped / seconds,
            lost=reply.dropped / max(1, reply.offered),
            latency_us=latency_us(reply.latency),
            switches_per_s=reply.switches / seconds,
            context_switches_per_s={
                name: count / seconds for name, count in reply.function_context_switches.items()
            },
            cpu_share={name: ns / reply.window_ns for name, ns in reply.function_cpu_ns.items()},
            chain_mpps={
                chain.name: chain.delivered / reply.window_ns * 1e3 for chain in reply.chains
            },
            cache_misses=dict(cache_misses),
        )


def latency_us(histogram: LatencyHistogram) -> dict[str, float | None]:
    """Mean and percentiles, µs; None: no packet. Vectorised, for hundreds of windows."""
    values = np.array(histogram.value_ns, dtype=np.float64) / 1e3
    below = np.cumsum(np.array(histogram.count, dtype=np.float64))
    if not below.size or not below[-1]:
        return dict.fromkeys(("mean", *(f"p{percentile}" for percentile in _PERCENTILES)))
    indices = np.searchsorted(below, below[-1] * np.array(_PERCENTILES) / 100)
    found = {
        f"p{percentile}": float(values[index])
        for percentile, index in zip(_PERCENTILES, indices, strict=True)
    }
    return {"mean": float(np.diff(below, prepend=0) @ values / below[-1]), **found}


class Measured(BaseModel):
    """One case: the windows of each set, round by round, by arm."""

    key: str
    slots: int
    costs_ns: dict[str, dict[int, float]]  # by function and packet size
    platform_ns: dict[str, float]  # source and sink: per packet; scheduler: per switch
    switch_ns: float  # from the decision until the next function runs
    preempt_ns: float  # from the decision until the function before stops
    yield_ns: float
    three_cpus: bool  # source, sink and scheduler have one each
    began: float  # seconds since 1970
    transfers_ns: list[float | None]  # of a cache line between the CPUs, before and after
    offered_pps: float | None = None  # in the set LOAD
    no_counters: str = ""  # why cache misses were not counted
    best_every: int | None = None  # bursts between yields of arms.BEST; None: no set TUNED
    sets: dict[str, list[dict[str, ArmWindow]]]
    disturbed: Disturbance

    def values(
        self, arm: str, quantity: Callable[[ArmWindow], _T], window_set: str = MAIN
    ) -> list[_T]:
        """A quantity of each window of an arm."""
        return [
            quantity(windows[arm]) for windows in self.sets.get(window_set, []) if arm in windows
        ]

    def mpps(self, arm: str, window_set: str = MAIN) -> list[float]:
        """Throughput of each window of an arm."""
        return self.values(arm, lambda window: window.mpps, window_set)

    def is_same_state(self, other: "Measured") -> bool:
        """Whether the machine stayed in one state from this case to the other."""
        return steady([*self.transfers_ns, *other.transfers_ns])


def seconds_of(case: Case, extent: Extent) -> float:
    """The estimated time of the measurement."""
    windows = sum(len(names) * _rounds(case, name, extent) for name, names in case.sets.items())
    slow = any(arms.RR in names for names in case.sets.values()) and not case.key.endswith(SHORT)
    span = span_of(Arm("unis"), extent.window, 1, 0.0)
    return 3.6 + windows * (span.settle + span.window) + (6.0 if slow else 0.0)


def measure(
    case: Case, extent: Extent, machine: Machine, report: Callable[[str], None]
) -> Measured:
    """Brings the case up, measures its sets one after the other, takes it down."""
    options = Options(start=False, costs="anew")
    began = time.time()
    cpus = min(machine.cpus), max(machine.cpus)
    before = line_transfer_ns(*cpus)
    found = brought_up(
        case.make, machine, options, report, lambda run: _measured(run, case, extent, machine)
    )
    transfers = [before, line_transfer_ns(*cpus)]
    return found.model_copy(update={"began": began, "transfers_ns": transfers})


def _measured(run: Run, case: Case, extent: Extent, machine: Machine) -> Measured:
    cost = run.client.switch_cost(max(machine.cpus), SWITCH_ROUNDS)
    run.client.start(names.policy("unis"), names.controller(arms.PRIORITY))
    before = run.client.stats()
    sets: dict[str, list[dict[str, ArmWindow]]] = {}
    threads = {function.name: function.tid for function in before.functions}
    replies: list[pb.MeasureReply] = []
    no_counters = ""
    slots = min(link.slots for link in run.plan.links)
    offered: Offered | None = None
    best: int | None = None
    for name, arm_names in case.sets.items():
        load = offered if name == LOAD else None
        if name == TUNED:
            rounds, best = _tuned(
                run, slots, sets[MAIN], _rounds(case, name, extent), extent.window
            )
            misses: _Misses = {}
        else:
            wanted = [arms.SPECS[arm].in_run(run.plan.scheduler, slots, load) for arm in arm_names]
            rounds, misses, no_counters = _counted(
                run, wanted, _rounds(case, name, extent), extent.window, threads
            )
        sets[name] = [
            {
                arm: ArmWindow.of(reply, misses.get((number, arm), {}))
                for arm, reply in windows.items()
            }
            for number, windows in enumerate(rounds)
        ]
        replies += [reply for windows in rounds for reply in windows.values()]
        if name == MAIN and LOAD in case.sets:
            # The lower quartile: at the median a machine that slows down would queue for ever.
            sustained = min(
                Quartiles.of([windows[arm].mpps for windows in sets[MAIN]]).q1
                for arm in case.sets[LOAD]
            )
            offered = Offered(sustained * LATENCY_LOAD * 1e6, "constant")
    after = run.client.stats()
    return Measured(
        key=case.key,
        slots=slots,
        costs_ns={
            name: {size.size: size.ns for size in cost.sizes} for name, cost in run.costs.items()
        },
        platform_ns=platform_ns(before, after),
        switch_ns=cost.until_running_ns,
        preempt_ns=cost.until_preempted_ns,
        yield_ns=cost.yield_ns,
        three_cpus=has_three_cpus(after),
        began=0,
        transfers_ns=[],
        offered_pps=offered.pps if offered else None,
        no_counters=no_counters,
        best_every=best,
        sets=sets,
        disturbed=Disturbance.of(replies),
    )


def _tuned(
    run: Run, slots: int, tried: Sequence[Mapping[str, ArmWindow]], rounds: int, window: float
) -> tuple[Rounds, int]:
    """Hand-over and co-operation at its best distance, and that distance.

    The maximum of many distances is too high by chance. So the two best distances are measured
    again. The better of them in the even rounds is used in the odd rounds and vice versa: no round
    takes part in a choice that it then confirms.
    """
    trials = {
        bursts: trial.median if (trial := _by_paper_k(tried, arm)) else 0.0
        for bursts, arm in arms.K.items()
    }
    two = best_two(trials)
    wanted = [
        arms.SPECS[name].in_run(run.plan.scheduler, slots)
        for name in (arms.HANDOVER, arms.HANDOVER_AGAIN)
    ]
    return cross_settled(in_turn(run, [*wanted, *two], rounds, window), two)


def _by_paper_k(tried: Sequence[Mapping[str, ArmWindow]], arm: str) -> Paired | None:
    values, base = ([windows[name].mpps for windows in tried] for name in (arm, arms.PAPER_K))
    return Paired.ratio(values, base)


def cross_settled(rounds: Rounds, two: tuple[Arm, Arm]) -> tuple[Rounds, int]:
    """The rounds with COOPERATIVE as the better of the two, and the better distance overall.

    For even rounds the odd ones choose, for odd rounds the even ones.
    """
    halves = [rounds[parity::2] for parity in range(2)]
    by_other = [
        dict(zip((two[0].yield_every, two[1].yield_every), (half, exchanged(half)), strict=True))[
            settled(other, two)[1]
        ]
        for half, other in zip(halves, halves[::-1], strict=True)
    ]
    mixed = [by_other[number % 2][number // 2] for number in range(len(rounds))]
    return mixed, settled(rounds, two)[1]


# Cache misses ÷ references of each function, by round and arm, while it settled and was measured.
_Misses = dict[tuple[int, str], dict[str, float]]


def _counted(
    run: Run, compared: Sequence[Arm], rounds: int, window: float, threads: Mapping[str, int]
) -> tuple[Rounds, _Misses, str]:
    """The windows, the cache misses in them, and why nothing was counted."""
    misses: _Misses = {}
    no_counters = ""
    counters: Counters | None = None
    last: dict[str, tuple[int, ...]] = {}

    def look(done: Rounds, arm: Arm) -> None:
        if counters is None:
            return
        now = counters.read()
        for name, (references, missed) in now.items():
            before_references, before_missed = last.get(name, (0, 0))
            if references > before_references:
                ratio = (missed - before_missed) / (references - before_references)
                misses.setdefault((len(done) - 1, str(arm)), {})[name] = ratio
        last.update(now)

    with contextlib.ExitStack() as stack:
        try:
            counters = stack.enter_context(counting(threads, (CACHE_REFERENCES, CACHE_MISSES)))
        except CountersError as error:
            no_counters = str(error)
        windows = in_turn(run, compared, rounds, window, look)
    return windows, misses, no_counters


def _rounds(case: Case, window_set: str, extent: Extent) -> int:
    names = case.sets[window_set]
    square = len(order.square(list(names)))
    least = _LEAST_ROUNDS if len(names) > 1 else _LEAST_ALONE
    if window_set in (TUNED, LOAD, ONLINE_COST_FILLS, HANDOVER_FILLS):
        least = _LEAST_JUDGED * extent.sets
    if window_set == MAIN:
        least = max(least, case.least_rounds)
    return order.balanced_rounds(len(names), max(square * extent.sets, least))


def ratio(measured: Measured, arm: str, base: str, window_set: str = MAIN) -> Ratio | None:
    """The median over rounds of `arm` ÷ `base`, and its interval."""
    values, base_values = measured.mpps(arm, window_set), measured.mpps(base, window_set)
    return (
        Ratio.of(Paired.ratio(values, base_values))
        if values and len(values) == len(base_values)
        else None
    )

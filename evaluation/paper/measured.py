"""The measurements of one case, as plain data that a file can hold."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from pydantic import BaseModel

from evaluation.paper import arms
from evaluation.paper.case import (
    FOLLOWED,
    HANDED,
    LATENCY_LOAD,
    LOAD,
    MAIN,
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
from unis.measure.spans import in_turn
from unis.measure.windows import SETTLE_SECONDS, Arm, Offered, Rounds, mpps
from unis.plan.machine import Machine
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up
from unis.v1 import engine_pb2 as pb
from unis.v1.common_pb2 import LatencyHistogram

_PERCENTILES = (5, 50, 95, 99)
_LEAST_ROUNDS = 4
_LEAST_JUDGED = 8  # for an interval that is no guess
_LEAST_ALONE = 6  # of a set of one arm


_T = TypeVar("_T")


class Window(BaseModel):
    """One window of one arm."""

    mpps: float
    dropped_pps: float
    lost: float  # of what was offered
    latency_us: dict[str, float | None]  # mean, p5, p50, p95, p99
    switches_per_s: float  # the engine's, and those that functions passed on
    context_switches_per_s: dict[str, float]  # the kernel's, by function
    cpu_share: dict[str, float]  # of a CPU, by function
    chain_mpps: dict[str, float]
    cache_misses: dict[str, float] = {}  # of the references, by function; empty: no counters

    @classmethod
    def of(cls, reply: pb.MeasureReply, cache_misses: Mapping[str, float]) -> "Window":
        """What the engine measured, and the counters beside it."""
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
    """Mean and percentiles, µs; None: no packet. Of hundreds of windows, so it is quick."""
    values = np.array(histogram.value_ns, dtype=np.float64) / 1e3
    below = np.cumsum(np.array(histogram.count, dtype=np.float64))
    if not below.size or not below[-1]:
        return dict.fromkeys(("mean", *(f"p{percentile}" for percentile in _PERCENTILES)))
    at = np.searchsorted(below, below[-1] * np.array(_PERCENTILES) / 100)
    found = {f"p{of}": float(values[i]) for of, i in zip(_PERCENTILES, at, strict=True)}
    return {"mean": float(np.diff(below, prepend=0) @ values / below[-1]), **found}


class Measured(BaseModel):
    """One case: the windows of each set, round by round, by arm."""

    key: str
    slots: int
    costs_ns: dict[str, dict[int, float]]  # by function, by the packet's size
    platform_ns: dict[str, float]  # a packet of source and sink, a switch of the scheduler
    switch_ns: float  # from the decision until the next function runs
    preempt_ns: float  # of which until the one before stops
    yield_ns: float
    three_cpus: bool  # source, sink and scheduler have one each
    began: float  # seconds since 1970
    transfers_ns: list[float | None]  # a cache line between the CPUs, before and after
    offered_pps: float | None = None  # of the set LOAD
    no_counters: str = ""  # why cache misses were not counted
    best_every: int | None = None  # bursts between yields of arms.BEST; None: not measured anew
    sets: dict[str, list[dict[str, Window]]]
    disturbed: Disturbance

    def values(self, arm: str, of: Callable[[Window], _T], which: str = MAIN) -> list[_T]:
        """Something of each window of an arm."""
        return [of(windows[arm]) for windows in self.sets.get(which, []) if arm in windows]

    def mpps(self, arm: str, which: str = MAIN) -> list[float]:
        """Throughput of each window of an arm."""
        return self.values(arm, lambda window: window.mpps, which)

    def is_near(self, other: "Measured") -> bool:
        """Whether the machine was in one state throughout both."""
        return steady([*self.transfers_ns, *other.transfers_ns])


def seconds_of(case: Case, extent: Extent) -> float:
    """About how long measuring it takes."""
    windows = sum(len(of) * _rounds(case, name, extent) for name, of in case.sets.items())
    slow = any(arms.RR in of for of in case.sets.values()) and not case.key.endswith(SHORT)
    return 3.6 + windows * (SETTLE_SECONDS + extent.window) + (6.0 if slow else 0.0)


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
    sets: dict[str, list[dict[str, Window]]] = {}
    threads = {function.name: function.tid for function in before.functions}
    replies: list[pb.MeasureReply] = []
    no_counters = ""
    slots = min(link.slots for link in run.plan.links)
    offered: Offered | None = None
    best: int | None = None
    for name, of in case.sets.items():
        load = offered if name == LOAD else None
        if name == TUNED:
            rounds, best = _tuned(
                run, slots, sets[MAIN], _rounds(case, name, extent), extent.window
            )
            misses: _Misses = {}
        else:
            wanted = [arms.ALL[arm].of(run.plan.scheduler, slots, load) for arm in of]
            rounds, misses, no_counters = _counted(
                run, wanted, _rounds(case, name, extent), extent.window, threads
            )
        sets[name] = [
            {arm: Window.of(reply, misses.get((at, arm), {})) for arm, reply in windows.items()}
            for at, windows in enumerate(rounds)
        ]
        replies += [reply for windows in rounds for reply in windows.values()]
        if name == MAIN and LOAD in case.sets:
            # In all but its worst windows: a machine that slows down is not to queue for ever.
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
    run: Run, slots: int, tried: Sequence[Mapping[str, Window]], rounds: int, window: float
) -> tuple[Rounds, int]:
    """Hand-over beside co-operation at its best distance, and which that is.

    The most of many distances is too much by chance alone: so the two best, by the paper's in
    windows of one round, are measured anew. Which of the two is better is judged for every second
    round by the others, so that none is chosen by what it then says.
    """
    trials = {
        every: found.median if (found := _by_paper_k(tried, arm)) else 0.0
        for every, arm in arms.K.items()
    }
    two = best_two(trials)
    wanted = [arms.ALL[name].of(run.plan.scheduler, slots) for name in (arms.HANDOVER, arms.AGAIN)]
    return cross_settled(in_turn(run, [*wanted, *two], rounds, window), two)


def _by_paper_k(tried: Sequence[Mapping[str, Window]], arm: str) -> Paired | None:
    values, base = ([windows[of].mpps for windows in tried] for of in (arm, arms.PAPER_K))
    return Paired.ratio(values, base)


def cross_settled(rounds: Rounds, two: tuple[Arm, Arm]) -> tuple[Rounds, int]:
    """Rounds where COOPERATIVE is the better of the two as the rounds say that are not among it.

    And the distance that is better over all.
    """
    halves = [rounds[at::2] for at in range(2)]
    by_other = [
        dict(zip((two[0].yield_every, two[1].yield_every), (of, exchanged(of)), strict=True))[
            settled(other, two)[1]
        ]
        for of, other in zip(halves, halves[::-1], strict=True)
    ]
    mixed = [by_other[at % 2][at // 2] for at in range(len(rounds))]
    return mixed, settled(rounds, two)[1]


# Cache misses by references of each function, by round and arm, while it settled and was measured.
_Misses = dict[tuple[int, str], dict[str, float]]


def _counted(
    run: Run, wanted: Sequence[Arm], rounds: int, window: float, threads: Mapping[str, int]
) -> tuple[Rounds, _Misses, str]:
    """The windows, what was counted beside them, and why nothing was, if so."""
    misses: _Misses = {}
    why_not = ""
    counters: Counters | None = None
    last: dict[str, tuple[int, ...]] = {}

    def look(done: Rounds, arm: Arm) -> None:
        if counters is None:
            return
        now = counters.read()
        for name, (references, missed) in now.items():
            before_references, before_missed = last.get(name, (0, 0))
            if references > before_references:
                by = (missed - before_missed) / (references - before_references)
                misses.setdefault((len(done) - 1, str(arm)), {})[name] = by
        last.update(now)

    with contextlib.ExitStack() as stack:
        try:
            counters = stack.enter_context(counting(threads, (CACHE_REFERENCES, CACHE_MISSES)))
        except CountersError as error:
            why_not = str(error)
        found = in_turn(run, wanted, rounds, window, look)
    return found, misses, why_not


def _rounds(case: Case, which: str, extent: Extent) -> int:
    of = case.sets[which]
    square = len(order.square(list(of)))
    least = _LEAST_ROUNDS if len(of) > 1 else _LEAST_ALONE
    if which in (TUNED, LOAD, FOLLOWED, HANDED):
        least = _LEAST_JUDGED * extent.sets
    if which == MAIN:
        least = max(least, case.least_rounds)
    return order.balanced_rounds(len(of), max(square * extent.sets, least))


def ratio(measured: Measured, arm: str, base: str, which: str = MAIN) -> Ratio | None:
    """The median over rounds of one arm by another, and how well it is known."""
    values, by = measured.mpps(arm, which), measured.mpps(base, which)
    return Ratio.of(Paired.ratio(values, by)) if values and len(values) == len(by) else None

"""Windows of arms in one bring-up of a chain, in turn."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from evaluation.scc import outside
from evaluation.scc.arms import SccArm
from evaluation.scc.outside import NO_TIME, SchedTimes
from unis.engine.histogram import Latency
from unis.measure import order
from unis.measure.windows import Arm, Offered, Span, measure, rr_slice
from unis.plan.contract import scheduler_settings
from unis.runtime.run import Run
from unis.v1 import common_pb2
from unis.v1 import engine_pb2 as pb

_PRIMES = Span(0.05, 0.02)  # a measurement by which an arm is in force
_REORDER = 0.02  # seconds, where the run queue is kept in reverse order
_MAX_DELAY_US = 100.0  # of functions that sleep between packets


@dataclass(frozen=True)
class SccWindow:
    """One window of one arm."""

    reply: pb.MeasureReply
    times: SchedTimes = NO_TIME  # of the functions, while it settled too
    classes: tuple[str, ...] = ()  # of the functions, as the kernel says
    order: tuple[int, int] | None = None  # switches seen, and those out of order; None: not counted
    block: int = 0  # the bring-up, among those of one step

    @property
    def kpps(self) -> float:
        """Delivered."""
        return self.reply.delivered / self.reply.window_ns * 1e6

    @property
    def offered_kpps(self) -> float:
        """By the source."""
        return self.reply.offered / self.reply.window_ns * 1e6

    @cached_property
    def latency(self) -> Latency:
        """Of the packets that came."""
        return Latency([self.reply.latency])

    def percentile_us(self, percentile: float) -> float | None:
        """None: no packet came."""
        return self.latency.percentile_us(percentile)


# rounds[r][arm.name]
SccRounds = list[dict[str, SccWindow]]


@dataclass
class Bench:
    """A chain that is up."""

    run: Run
    sockets: Sequence[socket.socket]
    _tuned: tuple[float | None, float | None, int | None] = (None, None, None)
    _threads: list[tuple[int, int]] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Functions."""
        return len(self.run.functions)

    def rounds(
        self, arms: Sequence[SccArm], count: int, window: float, pps: float | None
    ) -> SccRounds:
        """Windows of the arms in turn; `pps`: what the source sends, None: all that it can."""
        done: SccRounds = []
        for arms_in_turn in order.rounds(arms, count):
            done.append({})
            for arm in arms_in_turn:
                done[-1][arm.name] = self.window(arm, window, pps)
        return done

    def window(self, arm: SccArm, window: float, pps: float | None) -> SccWindow:
        """One window."""
        self.run.check()
        span = arm.span(self.length, window, rr_slice(self.run.plan))
        self._prepare(arm)
        asked = arm.arm
        if pps is not None:
            asked = replace(asked, offered=Offered(pps, "constant"))
        asked = asked.with_settings(self._settings(arm))
        threads = self._find_threads()
        with self._queued_up(arm, asked, threads):
            before, counted = self._times(threads), self._order()
            reply = measure(self.run.client, asked, span, self.run.plan.controller)
            now = self._order()
        return SccWindow(
            reply,
            self._times(threads) - before,
            self._classes(threads),
            (now[0] - counted[0], now[1] - counted[1]),
        )

    def most_kpps(self, arm: SccArm, window: float, rounds: int = 3) -> float:
        """What passes at most, median."""
        found = sorted(self.window(arm, window, None).kpps for _ in range(rounds))
        return found[len(found) // 2]

    # ------------------------------------------------------------------ before a window

    def _prepare(self, arm: SccArm) -> None:
        outside.let_wait(self.sockets, arm.mode == "blocking")
        rr = arm.quantum_ms if arm.policy == "rr" else None
        tuned = (None if arm.policy == "rr" else arm.quantum_ms, rr, arm.nice)
        if tuned == self._tuned:
            return
        request = self.run.deployment(self.run.plan)
        fair_ms, rr_ms, nice = tuned
        if fair_ms is not None:
            request.fair_slice_ns = round(fair_ms * 1e6)
        if rr_ms is not None:
            request.rr_timeslice_ms = round(rr_ms)
        if nice is not None:
            for function in request.functions:
                function.kernel.nice = nice
        self.run.client.apply(request)
        self._tuned = tuned

    def _settings(self, arm: SccArm) -> common_pb2.SchedulerSettings:
        part = self.run.plan.scheduler
        if arm.mode == "sleeping":
            part = part.model_copy(update={"max_delay_us": _MAX_DELAY_US})
        settings = scheduler_settings(part, self.run.plan.gamma.value)
        settings.keep_order = arm.order != "reverse"
        return settings

    def _queued_up(
        self, arm: SccArm, asked: Arm, threads: Sequence[tuple[int, int]]
    ) -> contextlib.AbstractContextManager[None]:
        """Keeps the run queue in reverse order, where the arm asks for it. The engine keeps that of
        the chain. A short measurement puts the arm in force. The window that follows has the same
        arm, so the engine leaves the threads as they are.
        """
        if arm.order is not None:
            measure(self.run.client, asked, _PRIMES, self.run.plan.controller)
        if arm.order != "reverse":
            return contextlib.nullcontext()
        return outside.kept_queued([tid for _, tid in reversed(threads)], _REORDER)

    # ------------------------------------------------------------------ around a window

    def _find_threads(self) -> list[tuple[int, int]]:
        """Process and thread of each function that polls, in the order of the chain."""
        if not self._threads:
            functions = {each.name: each for each in self.run.client.stats().functions}
            self._threads = [
                (functions[name].pid, functions[name].tid) for name in self.run.functions
            ]
        return self._threads

    def _times(self, threads: Sequence[tuple[int, int]]) -> SchedTimes:
        """So far; the time that has passed is that of the clock."""
        each = [outside.sched_ns(*thread) for thread in threads]
        run, delay = (sum(ns) / 1e9 for ns in zip(*each, strict=True))
        return SchedTimes(run, delay, time.monotonic() * len(threads))

    def _classes(self, threads: Sequence[tuple[int, int]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(outside.kernel_class(tid)) for _, tid in threads))

    def _order(self) -> tuple[int, int]:
        cores = self.run.client.stats().cores
        return sum(core.order_seen for core in cores), sum(core.out_of_order for core in cores)


@contextlib.contextmanager
def bench_of(run: Run) -> Iterator[Bench]:
    """A bench on a chain that is up."""
    pids = [child.process.pid for child in run.functions.values()]
    with outside.packet_sockets(pids) as sockets:
        yield Bench(run, sockets)


def pairs(
    rounds: SccRounds, arm: str, base: str, value: Callable[[SccWindow], float | None]
) -> list[tuple[list[float], list[float]]]:
    """The same of two arms, in the rounds where both have one, by bring-up."""
    blocks: dict[int, tuple[list[float], list[float]]] = {}
    for windows in rounds:
        if arm not in windows or base not in windows:
            continue
        one, other = value(windows[arm]), value(windows[base])
        if one is not None and other is not None:
            values, bases = blocks.setdefault(windows[arm].block, ([], []))
            values.append(one)
            bases.append(other)
    return [*blocks.values()]

"""Windows of an arm in which packets are followed."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evaluation.scc.arms import SETTLE, SccArm
from evaluation.scc.windows import Bench, SccWindow
from unis.measure.windows import functions_ns
from unis.parts.following import follow, threads_of
from unis.parts.passages import PassageLog, passage_logs
from unis.parts.result import WindowParts, typical
from unis.parts.route import Route, route
from unis.parts.tracer import ThreadWatch

_MOST_PER_SECOND = 2000.0  # packets: each program keeps some thousands of passages
_SLACK = 20.0  # seconds beyond which a tracer ends by itself


@dataclass(frozen=True)
class FollowedWindow:
    """One window: all its packets, and the parts of a typical one."""

    window: SccWindow
    parts: WindowParts
    ended_ns: int  # of CLOCK_MONOTONIC

    @property
    def began_ns(self) -> int:
        """When its settling was over."""
        return self.ended_ns - self.window.reply.window_ns

    @property
    def median_ns(self) -> float:
        """Latency of all packets."""
        return 1000 * (self.window.percentile_us(50) or 0.0)

    @property
    def cpu_ns(self) -> float:
        """CPU time of all functions together, a packet; what follows packets is in it."""
        reply = self.window.reply
        return functions_ns(reply) / reply.delivered if reply.delivered else 0.0


class Follower:
    """Of a chain that is up. Threads are watched all the time, as what is injected may make a
    packet wait for longer than `unis profile chain` watches them.
    """

    def __init__(self, bench: Bench, where: Route, logs: Mapping[str, PassageLog]) -> None:
        self._bench = bench
        self._route = where
        self._logs = logs
        self._mark = bench.run.client.stats().packet_mark

    def window(self, arm: SccArm, window: float, pps: float) -> FollowedWindow:
        """UnisError: no packet was followed from end to end."""
        if not threads_of(self._logs):  # a program tells them once it has noted a packet
            self._window(arm, window, pps)
        return self._window(arm, window, pps)

    def _window(self, arm: SccArm, window: float, pps: float) -> FollowedWindow:
        period = 1 / min(pps, _MOST_PER_SECOND)
        watch = ThreadWatch(
            threads=threads_of(self._logs),
            delay=SETTLE,
            period=period,
            open=period,
            longest=SETTLE + window + _SLACK,
        )

        def work() -> tuple[SccWindow, int]:
            return self._bench.window(arm, window, pps), time.monotonic_ns()

        (measured, ended_ns), found = follow(
            self._logs, self._route.functions, self._mark, watch, work
        )
        found.check()
        return FollowedWindow(measured, typical(found.account), ended_ns)


@contextlib.contextmanager
def follower_of(bench: Bench) -> Iterator[Follower]:
    """UnisError: the chain cannot be followed."""
    run = bench.run
    if run.unisd is None:
        raise RuntimeError("a run that is up has an engine")
    programs = {each.name: each.pid for each in run.client.stats().functions}
    where = route(run.plan, programs, run.unisd.process.pid)
    with passage_logs(where.programs) as logs:
        yield Follower(bench, where, logs)

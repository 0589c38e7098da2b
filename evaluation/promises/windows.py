"""Windows of a run with several chains, and how much other processes disturbed each window.

Latencies are microseconds, time slices are milliseconds: a process that gets 5 % of the engine's
CPU determines the p95 of a window. So only undisturbed windows count, whatever they show.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from unis.engine.histogram import Latency
from unis.errors import UnisError
from unis.measure import waiting
from unis.measure.disturbance import Disturbance
from unis.measure.windows import SETTLE_SECONDS, Arm, Span, measure
from unis.profile.windows import disturbance
from unis.runtime.run import Run
from unis.v1.common_pb2 import LatencyHistogram


@dataclass(frozen=True)
class ChainReading:
    """One chain in one window."""

    mpps: float  # delivered
    offered_mpps: float
    latency: LatencyHistogram

    @property
    def p95_us(self) -> float | None:
        """None: the chain delivered nothing."""
        return Latency([self.latency]).percentile_us(95)


@dataclass(frozen=True)
class RunWindow:
    """One window of all chains of a run."""

    chains: dict[str, ChainReading]  # by name
    disturbance: float  # by processes on the engine's CPU or by a hypervisor; at most 1 counts

    @property
    def counts(self) -> bool:
        """Whether it is undisturbed, by the limits of a profile's windows."""
        return self.disturbance <= 1


def measure_window(run: Run, arm: Arm, seconds: float) -> RunWindow:
    """Measures one window of a run at its own rate."""
    run.check()
    reply, waited = waiting.during(
        run.unisd.process.pid if run.unisd else 0,
        lambda: measure(run.client, arm, Span(SETTLE_SECONDS, seconds), run.plan.controller),
    )
    return RunWindow(
        {
            chain.name: ChainReading(
                chain.delivered / reply.window_ns * 1e3,
                chain.offered / reply.window_ns * 1e3,
                chain.latency,
            )
            for chain in reply.chains
        },
        disturbance(waited, Disturbance.of([reply]).stolen),
    )


def undisturbed(windows: Sequence[RunWindow]) -> list[RunWindow]:
    """The windows that count; all windows if fewer than half count."""
    counting = [window for window in windows if window.counts]
    return counting if 2 * len(counting) >= len(windows) else [*windows]


def pooled_p95_us(windows: Sequence[RunWindow], chain: str) -> float:
    """p95 of the packets of all windows, µs. UnisError if the chain delivered nothing."""
    p95_us = Latency([window.chains[chain].latency for window in windows]).percentile_us(95)
    if p95_us is None:
        raise UnisError(f"chain {chain} delivered nothing", bad_input=False)
    return p95_us


def p95s(windows: Sequence[RunWindow], chain: str) -> list[float]:
    """p95 of each window, µs. UnisError if the chain delivered nothing in one of them."""
    known = [us for window in windows if (us := window.chains[chain].p95_us) is not None]
    if not known or len(known) < len(windows):
        raise UnisError(f"chain {chain} delivered nothing in a window", bad_input=False)
    return known

"""Windows of a run with several chains, by chain, and how much others had the engine's CPU.

A latency is of microseconds. A process that has the engine's CPU for slices of milliseconds is in
the p95 of a window as soon as it has 5 % of it: so windows tell, and those count that were not
disturbed, whatever came of them.
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
class OfChain:
    """A chain in a window."""

    mpps: float  # delivered
    offered_mpps: float
    latency: LatencyHistogram

    @property
    def p95_us(self) -> float | None:
        """None: it delivered nothing."""
        return Latency([self.latency]).percentile_us(95)


@dataclass(frozen=True)
class Window:
    """What came of each chain, by name, at the rate of the run."""

    chains: dict[str, OfChain]
    disturbance: (
        float  # by others on the engine's CPU or by a hypervisor; 1 is the most that counts
    )

    @property
    def counts(self) -> bool:
        """Hardly disturbed, as windows behind a profile are."""
        return self.disturbance <= 1


def window(run: Run, arm: Arm, seconds: float) -> Window:
    """One of the run as it is."""
    run.check()
    reply, waited = waiting.during(
        run.unisd.process.pid if run.unisd else 0,
        lambda: measure(run.client, arm, Span(SETTLE_SECONDS, seconds), run.plan.controller),
    )
    return Window(
        {
            chain.name: OfChain(
                chain.delivered / reply.window_ns * 1e3,
                chain.offered / reply.window_ns * 1e3,
                chain.latency,
            )
            for chain in reply.chains
        },
        disturbance(waited, Disturbance.of([reply]).stolen),
    )


def calm(found: Sequence[Window]) -> list[Window]:
    """Those that count; all, where fewer than half do."""
    count = [window for window in found if window.counts]
    return count if 2 * len(count) >= len(found) else [*found]


def pooled_p95_us(found: Sequence[Window], chain: str) -> float:
    """Of all packets of the windows. UnisError where none was delivered."""
    whole = Latency([window.chains[chain].latency for window in found]).percentile_us(95)
    if whole is None:
        raise UnisError(f"chain {chain} delivered nothing", bad_input=False)
    return whole


def p95s(found: Sequence[Window], chain: str) -> list[float]:
    """Of each window, µs. UnisError where one delivered nothing."""
    each = [window.chains[chain].p95_us for window in found]
    known = [us for us in each if us is not None]
    if not known or len(known) < len(each):
        raise UnisError(f"chain {chain} delivered nothing in a window", bad_input=False)
    return known

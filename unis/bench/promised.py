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
from unis.measure.disturbance import NOTICED, Disturbance
from unis.measure.windows import SETTLE_SECONDS, Arm, Span, measure
from unis.runtime.run import Run
from unis.v1 import common_pb2 as common
from unis.v1 import engine_pb2 as pb


@dataclass(frozen=True)
class OfChain:
    """A chain in a window."""

    mpps: float  # delivered
    offered_mpps: float
    p95_us: float | None  # None: it delivered nothing


@dataclass(frozen=True)
class Window:
    """What came of each chain, by name, at the rate of the run; the settling is in it too."""

    chains: dict[str, OfChain]
    disturbed: float  # share of it, by others on the engine's CPU or by a hypervisor

    @property
    def counts(self) -> bool:
        """Hardly disturbed."""
        return self.disturbed <= NOTICED


def window(run: Run, arm: Arm, seconds: float) -> Window:
    """One of the run as it is."""
    run.check()
    pid = run.unisd.process.pid if run.unisd else 0
    ran, before = waiting.times(pid), run.client.stats(latency=True)
    reply = measure(run.client, arm, Span(SETTLE_SECONDS, seconds), run.plan.controller)
    after = run.client.stats(latency=True)
    waited = waiting.waited(ran, waiting.times(pid))
    pairs = zip(before.chains, after.chains, strict=True)
    whole = after.time_ns - before.time_ns
    return Window(
        {new.name: _between(old, new, whole) for old, new in pairs},
        max(waited, Disturbance.of([reply]).worst),
    )


def _between(old: pb.ChainStats, new: pb.ChainStats, ns: int) -> OfChain:
    counts = dict(zip(new.latency.value_ns, new.latency.count, strict=True))
    for value, count in zip(old.latency.value_ns, old.latency.count, strict=True):
        counts[value] -= count
    left = {value: count for value, count in counts.items() if count}
    latency = common.LatencyHistogram(value_ns=left.keys(), count=left.values())
    return OfChain(
        (new.delivered - old.delivered) / ns * 1e3,
        (new.offered - old.offered) / ns * 1e3,
        Latency([latency]).percentile_us(95),
    )


def calm(found: Sequence[Window]) -> list[Window]:
    """Those that count; all, where fewer than half do."""
    count = [window for window in found if window.counts]
    return count if 2 * len(count) >= len(found) else [*found]


def p95s(found: Sequence[Window], chain: str) -> list[float]:
    """Of each window, µs. UnisError where one delivered nothing."""
    each = [window.chains[chain].p95_us for window in found]
    known = [us for us in each if us is not None]
    if not known or len(known) < len(each):
        raise UnisError(f"chain {chain} delivered nothing in a window", bad_input=False)
    return known

"""Readings from short windows of a machine that drifts, and that others use as well.

A machine that others share changes its speed within seconds. So nothing is measured by itself: a
load is a part of what passes right before and after it, as fast as the first ring takes packets
(closed loop), and throughput with some ways stands beside that with all. More windows are taken
where some were disturbed, and those are used that were least, whatever their values are.
"""

import itertools
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from unis.measure.paired import interval
from unis.profile.bounds import Reading
from unis.runtime.errors import RunFailedError

# Beyond these a window is disturbed.
_WAITED = 0.03  # of the time: source, sink and scheduler were kept from their CPU
_STOLEN = 0.02  # of the CPUs' time, by a hypervisor
_BESIDE = 0.5  # a window beside it tells the load only, and is disturbed half as soon
_OFF = 0.02  # a load that turned out to be another, because the machine changed its speed
_PATIENCE = 3  # times as many windows, at most


def disturbance(waited: float, stolen: float) -> float:
    """How disturbed a window was, from shares of its time; more than 1: too much."""
    return max(waited / _WAITED, stolen / _STOLEN)


@dataclass(frozen=True)
class Window:
    """What was seen for some tenths of a second."""

    taken_mpps: float  # offered; in a closed loop what the first ring took
    p95_us: float | None  # None: no packet came out
    lost: float  # of the packets offered; functions may drop some on purpose
    waited: float = 0.0  # of the time, by source, sink and scheduler
    stolen: float = 0.0  # of the CPUs' time

    @property
    def disturbance(self) -> float:
        """More than 1 is disturbed."""
        return disturbance(self.waited, self.stolen)


class WindowSource(Protocol):
    """One window, of either kind."""

    def closed(self) -> Window:
        """As fast as the first ring takes packets."""

    def opened(self, mpps: float) -> Window:
        """At this rate, packets coming at random (Poisson), whether they are taken or not."""


@dataclass(frozen=True)
class Sample:
    """What one round says."""

    value: float
    disturbance: float  # more than 1 is disturbed
    lost: float = 0.0


def reading(samples: Iterator[Sample], rounds: int) -> Reading:
    """The median of the `rounds` samples disturbed least; takes more samples if needed."""
    seen: list[Sample] = []
    for sample in samples:
        seen.append(sample)
        clean = sum(sample.disturbance <= 1 for sample in seen)
        if clean >= rounds or len(seen) >= _PATIENCE * rounds:
            break
    used = sorted(seen, key=lambda sample: sample.disturbance)[:rounds]
    values = [sample.value for sample in used]
    if not statistics.median(values) > 0:
        raise RunFailedError("no packet came out, though some were offered")
    low, high = interval(values)
    return Reading(
        statistics.median(values),
        (high - low) / 2,
        max(0.0, statistics.median(sample.lost for sample in used)),
        sum(sample.disturbance > 1 for sample in used) / len(used),
    )


class Ways(Protocol):
    """What gives the functions' CPU a part of the last-level cache."""

    @property
    def most(self) -> int:
        """Ways that functions may have."""

    def set(self, ways: int) -> None:
        """Limits the CPU to filling `ways` cache ways."""


class OnMachine:
    """A backend of the profiler: what it is asked for it measures."""

    def __init__(
        self, windows: WindowSource, rounds: int, ways: Ways | None = None, whole: int | None = None
    ) -> None:
        """`rounds`: windows of each kind behind a reading; `ways`: None where there is no CAT.

        `whole`: ways with which capacity and latency are measured; None: all that there are.
        """
        self._windows = windows
        self._rounds = rounds
        self._ways = ways
        self._whole = whole or (ways.most if ways else 0)
        if ways is not None:
            ways.set(self._whole)

    def capacity(self) -> tuple[Reading, float]:
        """Mpps with the whole cache, and how many packets then wait in rings (Little's law).

        RunFailedError where nothing comes out.
        """
        if (p95_us := self._windows.closed().p95_us) is None:
            raise RunFailedError(
                "nothing comes out: see whether its arguments let packets of this traffic pass"
            )
        windows = (self._windows.closed() for _ in itertools.count())
        samples = (Sample(window.taken_mpps, window.disturbance) for window in windows)
        found = reading(samples, self._rounds)
        return found, found.value * p95_us

    def throughput(self, ways: int) -> Reading:
        """The share of the whole cache's throughput with `ways` cache ways."""
        if self._ways is None:
            raise RunFailedError("this machine has no cache ways to set")
        try:
            return reading(self._shares(self._ways, ways), self._rounds)
        finally:
            self._ways.set(self._whole)

    def _shares(self, cache: Ways, ways: int) -> Iterator[Sample]:
        while True:
            cache.set(self._whole)
            whole = self._windows.closed()
            cache.set(ways)
            part = self._windows.closed()
            worst = max(whole.disturbance, part.disturbance)
            passed = part.taken_mpps / whole.taken_mpps if whole.taken_mpps else 0.0
            yield Sample(passed, worst if passed else math.inf)

    def latency(self, load: float) -> Reading:
        """p95, µs, at a part of what passes meanwhile; the whole cache."""
        return reading(self._latencies(load), self._rounds)

    def _latencies(self, load: float) -> Iterator[Sample]:
        before = self._windows.closed()
        while True:
            asked = load * before.taken_mpps
            window, after = self._windows.opened(asked), self._windows.closed()
            passes = (before.taken_mpps + after.taken_mpps) / 2
            if window.p95_us is not None and passes > 0:
                off = abs(asked / passes - load) / load
                beside = _BESIDE * max(before.disturbance, after.disturbance)
                worst = max(off / _OFF, window.disturbance, beside)
                yield Sample(window.p95_us, worst, window.lost - (before.lost + after.lost) / 2)
            else:
                yield Sample(0.0, math.inf)
            before = after

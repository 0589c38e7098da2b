"""Measures what a profile still lacks, in order, and keeps each reading as soon as it is there.

First what passes with the whole cache, then throughput by ways, then latency by load; the latter
with the whole cache, for it hardly changes with it (ResQ, section 5.2).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from unis.profile.bounds import Reading, Shape
from unis.profile.curve import Axis, Curve, Method, curve_of, wanted
from unis.profile.store import StoredProfile

_LEAST_LOAD, _MOST_LOAD = 10, 100  # percent of what passes
_STEP, _CAREFUL_STEP = 5, 1  # about 20 levels, as in the paper


class StepKind(Enum):
    """What is measured."""

    CAPACITY = "capacity"
    WAYS = "ways"
    LOAD = "load"


# Readings of a curve, until its own points say more.
_USUALLY = {StepKind.WAYS: 8, StepKind.LOAD: 9}


@dataclass(frozen=True)
class Step:
    """One reading that is wanted."""

    kind: StepKind
    at: float = 0.0  # ways, or percent of the load

    def __str__(self) -> str:
        if self.kind is StepKind.CAPACITY:
            return "what passes"
        if self.kind is StepKind.WAYS:
            return f"throughput with {self.at:g} ways"
        return f"p95 latency at {self.at:g} % of it"


@dataclass(frozen=True)
class Wish:
    """What a profile is to hold."""

    ways: int | None  # throughput with 1 to so many; None: it cannot be measured here
    method: Method

    @property
    def ways_axis(self) -> Axis | None:
        """What throughput is measured by."""
        return Axis(1, self.ways) if self.ways else None

    @property
    def load_axis(self) -> Axis:
        """What latency is measured by, percent."""
        return Axis(_LEAST_LOAD, _MOST_LOAD, _CAREFUL_STEP if self.method.careful else _STEP)

    def known_shares(self, kept: StoredProfile) -> dict[float, Reading]:
        """The shares that were measured, and the share with all ways, which is 1."""
        return {**kept.shares, **({float(self.ways): Reading(1.0)} if self.ways else {})}

    def curves(self, kept: StoredProfile) -> tuple[Curve | None, Curve]:
        """The curves of what was measured: throughput, if cache ways can be set, and latency."""
        latency = curve_of(self.load_axis, Shape.CONVEX, self.method, kept.latencies)
        if self.ways_axis is None:
            return None, latency
        shares = self.known_shares(kept)
        return curve_of(self.ways_axis, Shape.CONCAVE, self.method, shares), latency


def missing(wish: Wish, kept: StoredProfile) -> list[Step]:
    """The readings that are known to be lacking; more may be once these are there."""
    steps = [] if kept.mpps else [Step(StepKind.CAPACITY)]
    if axis := wish.ways_axis:
        known = wish.known_shares(kept)
        points = wanted(axis, Shape.CONCAVE, wish.method, known)
        steps += [Step(StepKind.WAYS, x) for x in points]
    points = wanted(wish.load_axis, Shape.CONVEX, wish.method, kept.latencies)
    return steps + [Step(StepKind.LOAD, x) for x in points]


class Backend(Protocol):
    """What is measured with: this machine, or what stands for it."""

    def capacity(self) -> tuple[Reading, float]:
        """Mpps with the whole cache, and packets that then wait in rings."""

    def throughput(self, ways: int) -> Reading:
        """The share of that throughput with `ways` cache ways."""

    def latency(self, load: float) -> Reading:
        """p95, µs, at a part of it."""


def measure(
    wish: Wish,
    backend: Backend,
    kept: StoredProfile,
    keep: Callable[[StoredProfile], None],
    report: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> StoredProfile:
    """Until nothing is missing; `keep` is called with all there is after each reading."""
    progress = _ProfileProgress(report, clock)
    while steps := missing(wish, kept):
        step = steps[0]
        progress.begins(step, kept, steps)
        reading, changed = _measured(step, backend, kept)
        kept = kept.model_copy(update=changed)
        keep(kept)
        progress.done(step, reading)
    return kept


def _measured(
    step: Step, backend: Backend, kept: StoredProfile
) -> tuple[Reading, Mapping[str, object]]:
    if step.kind is StepKind.CAPACITY:
        reading, waiting = backend.capacity()
        return reading, {"mpps": reading, "waiting": waiting}
    if step.kind is StepKind.WAYS:
        reading = backend.throughput(round(step.at))
        return reading, {"shares": {**kept.shares, step.at: reading}}
    reading = backend.latency(step.at / 100)
    return reading, {"latencies": {**kept.latencies, step.at: reading}}


class _ProfileProgress:
    """Which reading of about how many, and how long the rest takes by how long the others took."""

    def __init__(self, report: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._report = report
        self._clock = clock
        self._began = clock()
        self._measured = 0
        self._told = ""

    def begins(self, step: Step, kept: StoredProfile, steps: list[Step]) -> None:
        there = bool(kept.mpps) + len(kept.shares) + len(kept.latencies)
        left = _left(kept, steps)
        self._told = f"{there + 1} of about {there + left}"
        if self._measured:
            seconds = (self._clock() - self._began) / self._measured * left
            self._told += f", {seconds:.0f} s left"
        else:
            self._report(f"{self._told}: {step}")

    def done(self, step: Step, reading: Reading) -> None:
        self._measured += 1
        value, spread = _with_unit(step.kind, reading)
        disturbed = f", {reading.disturbed:.0%} of its windows disturbed" * bool(reading.disturbed)
        self._report(f"{self._told}: {step}: {value} ± {spread}{disturbed}")


def _left(kept: StoredProfile, steps: list[Step]) -> int:
    """Readings that will be wanted yet: those that are known to be, or as many as usual."""
    left = sum(step.kind is StepKind.CAPACITY for step in steps)
    for kind, known in ((StepKind.WAYS, kept.shares), (StepKind.LOAD, kept.latencies)):
        if now := sum(step.kind is kind for step in steps):
            left += max(now, _USUALLY[kind] - len(known))
    return left


def _with_unit(kind: StepKind, reading: Reading) -> tuple[str, str]:
    if kind is StepKind.CAPACITY:
        return f"{reading.value:.3f} Mpps", f"{reading.spread:.3f}"
    if kind is StepKind.WAYS:
        return f"{reading.value:.1%}", f"{reading.spread:.1%}"
    return f"{reading.value:.1f} µs", f"{reading.spread:.1f}"

"""Whether promises hold where the profiles that they were placed by are off.

Profiles are measured and interpolated (ResQ, section 5.2: to 1 %). So what an instance truly passes
is drawn for each, within some points of throughput of what is stated, and is then held against the
traffic that the placement gives it.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from unis.slo.placement import Instance, PlacedMachine, Placement
from unis.slo.profile import Profile, Slo, Workload

POINTS = 0.015  # of what it passes alone
_DRAWS = 20
_NOISE = 1e-9

# Mpps that an instance truly passes on its machine, with the memory to itself.
Passes = Callable[[PlacedMachine, Instance], float]


@dataclass(frozen=True)
class ErrorOutcome:
    """Of a placement under errors."""

    promises: int  # that are placed
    instances: int
    # Promises of which an instance is late, or is given more than it passes; by the SLO's name.
    broken_of: Mapping[str, int]
    highest_load: float  # of any instance
    closest: float  # p95 by what is promised, the highest of any instance

    @property
    def broken(self) -> int:
        """Of all."""
        return sum(self.broken_of.values())


def stated(profile: Profile, ways: int) -> float:
    """By the profile."""
    return profile.solo_mpps * profile.share(ways)


def with_errors(
    workload: Workload,
    placement: Placement,
    *,
    points: float = POINTS,
    seed: int | None = None,
    passes: Passes | None = None,
) -> ErrorOutcome:
    """What becomes of the promises where each instance is off by up to so many points.

    `seed`: of the draws, evenly from -`points` to +`points`; None: all of them pass as many points
    less. `passes`: what is true but for the error; None: what the profiles say.
    """
    chance = None if seed is None else random.Random(seed)  # noqa: S311  no secret
    slos = {slo.name: slo for slo in workload.slos}
    given = given_mpps(workload, placement)
    loads_of: dict[tuple[str, int], list[float]] = defaultdict(list)
    for machine in placement.machines:
        for instance in machine.instances:
            profile = slos[instance.slo].profile
            error = -points if chance is None else chance.uniform(-points, points)
            true = passes(machine, instance) if passes else stated(profile, instance.ways)
            alone = max(_NOISE, true + error * profile.solo_mpps)
            promise = instance.slo, instance.at
            load = given[promise][instance.ways] / (alone * _slowed(profile, workload.memory))
            loads_of[promise].append(load)
    broken: Counter[str] = Counter()
    highest, closest = 0.0, 0.0
    for (name, _), loads in loads_of.items():
        slo = slos[name]
        late = [_p95_us(slo, load, workload.memory) / slo.p95_us for load in loads]
        highest, closest = max(highest, *loads), max(closest, *late)
        broken[name] += max(loads) > 1 + _NOISE or max(late) > 1 + _NOISE
    return ErrorOutcome(len(loads_of), sum(map(len, loads_of.values())), broken, highest, closest)


def most_broken(workload: Workload, placement: Placement, passes: Passes | None = None) -> int:
    """Promises, where all profiles are off by as much as can be, and in draws: the most of any."""
    seeds = (None, *range(_DRAWS))
    return max(with_errors(workload, placement, seed=at, passes=passes).broken for at in seeds)


def given_mpps(
    workload: Workload, placement: Placement
) -> Mapping[tuple[str, int], Mapping[int, float]]:
    """Of each promise, by the ways of an instance: its part of it, by what the profile says."""
    slos = {slo.name: slo for slo in workload.slos}
    found = {}
    for (name, at), split in placement.splits.items():
        slo = slos[name]
        each = slo.mpps / sum(stated(slo.profile, ways) for ways in split)
        found[name, at] = {ways: each * stated(slo.profile, ways) for ways in split}
    return found


def _p95_us(slo: Slo, load: float, memory: float | None) -> float:
    # Right at a load that was measured, sums of floating point numbers may lie beyond it.
    loads, latencies = zip(*slo.profile.p95_us_by_load, strict=True)
    p95_us = np.interp(load - _NOISE, loads, latencies, right=np.inf)
    return float(p95_us) / _slowed(slo.profile, memory)


def _slowed(profile: Profile, memory: float | None) -> float:
    return 1.0 if memory is None else profile.share_at(memory) or _NOISE

"""The planner's answers for two profiled functions on one core."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from evaluation.promises.result import FunctionProfile, percent
from unis.errors import UnisError
from unis.slo.cores import CoreShare, SharedPlacement, added_by_part
from unis.slo.profile import Profile, Server, Slo, Workload
from unis.slo.shared import shared
from unis.slo.verify import shared_problems

_STEPS, _STEP = 60, 1.05  # latencies tried above the model's floor, each longer by this factor
_PART_STEP = 0.05  # of the parts in the request

LoadParts = tuple[float, float]  # of what each function passes alone


@dataclass(frozen=True)
class CorePlanner:
    """Plans promises of these functions onto one core."""

    profiles: Sequence[FunctionProfile]
    yield_us: float
    p95_us: float  # the promised latency

    def slos(self, parts: Sequence[float], p95_us: Sequence[float]) -> tuple[Slo, ...]:
        """One promise per function: its part of what the function passes alone, and its latency."""
        return tuple(
            Slo(profile.name, _profile(profile), part * profile.solo_mpps, us)
            for profile, part, us in zip(self.profiles, parts, p95_us, strict=True)
        )

    def planned(self, parts: Sequence[float]) -> tuple[Workload, SharedPlacement]:
        """The placement on one core within the latency. UnisError if the planner refuses it."""
        if sum(parts) >= 1:
            raise UnisError(f"{percent(parts)} together exceed one core")
        found = self._placed(parts, [self.p95_us] * len(parts))
        if found is None:
            raise UnisError(
                f"{self.p95_us:g} µs cannot be promised at {percent(parts)} of what these "
                "functions pass alone on this machine as it is now"
            )
        return found

    def refused(self, parts: LoadParts) -> LoadParts:
        """The smallest multiple of these parts that the planner refuses, in steps of 5 %."""
        factor = 1.0
        while True:
            factor += _PART_STEP
            first, second = (factor * part for part in parts)
            bounds_us = [self.p95_us] * len(parts)
            if first + second >= 1 or self._placed((first, second), bounds_us) is None:
                return first, second

    def least_us(self, parts: Sequence[float]) -> list[float] | None:
        """The smallest latency of each function that the planner promises to both; None: none.

        Starts at the model's floor of each function, and lengthens both by the same factor up to
        the promised latency.
        """
        core_parts = [
            CoreShare(profile.name, 0, part * profile.solo_mpps, 1, part)
            for profile, part in zip(self.profiles, parts, strict=True)
        ]
        if sum(parts) >= 1:
            return None
        floor = [
            _profile(profile).p95_us_by_load[0][1] + us
            for profile, us in zip(
                self.profiles, added_by_part(core_parts, self.yield_us), strict=True
            )
        ]
        for step in range(_STEPS):
            tried = [min(_STEP**step * us, self.p95_us) for us in floor]
            if self._placed(parts, tried):
                return tried
        return None

    def _placed(
        self, parts: Sequence[float], p95_us: Sequence[float]
    ) -> tuple[Workload, SharedPlacement] | None:
        """None: the planner refuses."""
        server = Server("this machine", 1, cores=1, ways=len(parts))
        workload = Workload("measured", self.slos(parts, p95_us), (server,))
        try:
            placement = shared(workload, self.yield_us)
        except UnisError:  # both do not fit on one core
            return None
        if placement.refused:
            return None
        if problems := [*shared_problems(workload, placement, self.yield_us)]:
            raise UnisError("the plan does not hold: " + "; ".join(problems), bad_input=False)
        return workload, placement


def _profile(measured: FunctionProfile) -> Profile:
    """As the planner's profile, in which latency must not fall with load."""
    grown = accumulate(measured.p95_us_by_load.values(), max)
    curve = tuple(zip(measured.p95_us_by_load, grown, strict=True))
    return Profile(measured.name, measured.solo_mpps, (1.0,), curve, "measured in this block")

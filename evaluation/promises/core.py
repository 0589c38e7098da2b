"""What the planner says of two profiled functions on one core."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from evaluation.promises.result import FunctionProfile, percent
from unis.errors import UnisError
from unis.slo.cores import Part, SharedPlacement, added_by_part
from unis.slo.profile import Profile, Server, Slo, Workload
from unis.slo.shared import shared
from unis.slo.verify import shared_problems

_STEPS, _STEP = 60, 1.05  # longer latencies that are tried, where the least is not promised
_PART_STEP = 0.05  # of the parts that were asked for

Parts = tuple[float, float]  # of what each function passes alone


@dataclass(frozen=True)
class Core:
    """What the planner says of these functions on one core."""

    profiles: Sequence[FunctionProfile]
    yield_us: float
    p95_us: float  # that is promised

    def slos(self, parts: Sequence[float], p95_us: Sequence[float]) -> tuple[Slo, ...]:
        """Promises of these parts of what each passes alone."""
        return tuple(
            Slo(of.name, _profile(of), part * of.solo_mpps, us)
            for of, part, us in zip(self.profiles, parts, p95_us, strict=True)
        )

    def planned(self, parts: Sequence[float]) -> tuple[Workload, SharedPlacement]:
        """Onto one core, within the latency. UnisError where the planner refuses that."""
        if sum(parts) >= 1:
            raise UnisError(f"{percent(parts)} are more than a core")
        found = self._placed(parts, [self.p95_us] * len(parts))
        if found is None:
            raise UnisError(
                f"{self.p95_us:g} µs cannot be promised at {percent(parts)} of what these "
                "functions pass alone on this machine as it is now"
            )
        return found

    def refused(self, parts: Parts) -> Parts:
        """The least multiple of these parts that is refused, to a twentieth."""
        factor = 1.0
        while True:
            factor += _PART_STEP
            first, second = (factor * part for part in parts)
            late = [self.p95_us] * len(parts)
            if first + second >= 1 or self._placed((first, second), late) is None:
                return first, second

    def least_us(self, parts: Sequence[float]) -> list[float] | None:
        """For each the least latency, by the same factor from its own, that both are promised.

        No more is said than what is promised; None: nothing is.
        """
        of_core = [
            Part(of.name, 0, part * of.solo_mpps, 1, part)
            for of, part in zip(self.profiles, parts, strict=True)
        ]
        if sum(parts) >= 1:
            return None
        floor = [
            _profile(of).p95_us_by_load[0][1] + us
            for of, us in zip(self.profiles, added_by_part(of_core, self.yield_us), strict=True)
        ]
        for step in range(_STEPS):
            tried = [min(_STEP**step * us, self.p95_us) for us in floor]
            if self._placed(parts, tried):
                return tried
        return None

    def _placed(
        self, parts: Sequence[float], p95_us: Sequence[float]
    ) -> tuple[Workload, SharedPlacement] | None:
        """None: refused."""
        server = Server("this machine", 1, cores=1, ways=len(parts))
        workload = Workload("measured", self.slos(parts, p95_us), (server,))
        try:
            placement = shared(workload, self.yield_us)
        except UnisError:  # they do not fit onto the one core
            return None
        if placement.refused:
            return None
        if wrong := [*shared_problems(workload, placement, self.yield_us)]:
            raise UnisError("the plan does not hold: " + "; ".join(wrong), bad_input=False)
        return workload, placement


def _profile(of: FunctionProfile) -> Profile:
    """Latencies as the planner wants them: none falls with load."""
    grown = accumulate(of.p95_us_by_load.values(), max)
    curve = tuple(zip(of.p95_us_by_load, grown, strict=True))
    return Profile(of.name, of.solo_mpps, (1.0,), curve, "measured just before")

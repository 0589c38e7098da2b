"""Results of `python -m evaluation promises`, as in results.json, and the verdict."""

from collections.abc import Sequence
from itertools import combinations

from pydantic import BaseModel, computed_field

from unis.measure.paired import Quartiles
from unis.measure.summary import MachineSummary

_HALF = 0.5
_FALLS = 0.75  # a p95 below this part of the p95 at a lower load shows a disturbance


class FunctionProfile(BaseModel):
    """A function alone on the core."""

    name: str
    solo_mpps: float
    p95_us_by_load: dict[float, float]  # median over windows plus half of its interval
    disturbed: float  # share of the used windows

    @property
    def falls(self) -> bool:
        """Whether latency falls much with load, which only a disturbance explains."""
        p95_us = [us for _, us in sorted(self.p95_us_by_load.items())]
        return any(more < _FALLS * less for less, more in combinations(p95_us, 2))

    @property
    def quiet(self) -> bool:
        """Whether half of its windows or more were undisturbed, and latency rises with load."""
        return self.disturbed <= _HALF and not self.falls


class PromiseKept(BaseModel):
    """One promise, and what was measured."""

    chain: str
    part: float  # of what the function passes alone
    promised_mpps: float
    promised_p95_us: float
    least_p95_us: float | None  # smallest that the planner would promise; None: it refuses
    mpps: Quartiles
    offered_mpps: Quartiles
    p95_us: Quartiles  # over windows
    pooled_p95_us: float  # of the packets of all windows
    throughput_ratio: float  # delivered ÷ promised, median over windows
    p95_ratio: float  # pooled_p95_us ÷ promised_p95_us
    windows: int  # the used ones
    windows_kept: int
    kept: bool
    least_kept: bool | None  # the same for least_p95_us


class WindowReadings(BaseModel):
    """One window with both functions, by chain."""

    mpps: dict[str, float]
    p95_us: dict[str, float | None]
    disturbance: float  # above 1 the window does not count


class Together(BaseModel):
    """Both functions on the core, each offered a part of what it passes alone."""

    parts: tuple[float, float]
    promises: list[PromiseKept]
    windows: list[WindowReadings]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def disturbed(self) -> int:
        """The number of windows that do not count."""
        return sum(window.disturbance > 1 for window in self.windows)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def counts(self) -> bool:
        """Whether half of the windows or more were undisturbed."""
        return 2 * self.disturbed <= len(self.windows)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def kept(self) -> bool:
        """Whether both promises were kept."""
        return all(promise.kept for promise in self.promises)


class PromiseBlock(BaseModel):
    """The profiles, the plan, and both functions together."""

    profiles: list[FunctionProfile]
    yield_us: float  # measured: a hand-over of the core
    load: float  # of the core, as planned
    promised: Together
    refused: Together  # at the smallest parts that the planner refuses
    steady: bool  # the time of a cache-line transfer between the CPUs did not change

    @computed_field  # type: ignore[prop-decorator]
    @property
    def counts(self) -> bool:
        """Whether profiles and windows were undisturbed, and the machine stayed as it was."""
        quiet = all(profile.quiet for profile in self.profiles)
        return self.steady and quiet and self.promised.counts


class PromisesResult(BaseModel):
    """results.json."""

    schema_version: int = 1
    machine: MachineSummary
    costs: tuple[str, str]  # of macswap, cycles a packet
    parts: tuple[float, float]
    p95_us: float  # promised to both
    blocks_asked: int
    blocks: list[PromiseBlock]
    left_out: int  # repeated blocks: disturbed profiles, or the machine changed
    kept: bool | None  # in all blocks that count; None: none counts, or some are missing
    least_kept: bool | None  # the same for the smallest latency that the planner would promise

    @property
    def counting(self) -> list[PromiseBlock]:
        """The blocks that the verdict uses."""
        return [block for block in self.blocks if block.counts]

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        if len(self.blocks) < self.blocks_asked:
            return f"Incomplete: {len(self.blocks)} of {self.blocks_asked} blocks were measured."
        if self.kept is None:
            return "No verdict: other processes had the engine's CPU in most windows."
        promises = [promise for block in self.counting for promise in block.promised.promises]
        p95_ratio = max(promise.p95_ratio for promise in promises)
        highest_us = max(promise.p95_us.q3 for promise in promises)
        throughput = min(promise.throughput_ratio for promise in promises)
        return (
            f"Both promises {'hold' if self.kept else 'do not hold'}: p95 is at most "
            f"{p95_ratio:.0%} of the promise, and {highest_us:.0f} µs or more in a quarter of the "
            f"windows; throughput is at least {throughput:.1%} of the promise."
        )

    @property
    def tightness(self) -> list[str]:
        """How tight the planner's bounds are, in sentences."""
        promises = [promise for block in self.counting for promise in block.promised.promises]
        least = [promise.least_kept is True for promise in promises]
        sentences = [
            f"The smallest latency that the planner would promise held for {sum(least)} of "
            f"{len(least)} promises. It has no margin for a machine that changes its speed."
        ]
        for block in self.counting:
            parts, refused = percent(block.refused.parts), block.refused
            if refused.counts:
                held = "would have kept" if refused.kept else "would not have kept"
                p95 = " and ".join(f"{promise.pooled_p95_us:.0f}" for promise in refused.promises)
                sentences.append(
                    f"The planner refused {parts}: that load {held} the latency, p95 {p95} µs."
                )
        return sentences


def percent(parts: Sequence[float]) -> str:
    """As `30% and 40%`."""
    return " and ".join(f"{part:.0%}" for part in parts)

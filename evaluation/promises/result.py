"""What `python -m evaluation promises` found, as in results.json, and what it comes to."""

from collections.abc import Sequence
from itertools import combinations

from pydantic import BaseModel, computed_field

from unis.measure.paired import Quartiles
from unis.measure.summary import MachineSummary

_HALF = 0.5
_FALLS = 0.75  # of a p95 at less load


class FunctionProfile(BaseModel):
    """Alone on the core."""

    name: str
    solo_mpps: float
    p95_us_by_load: dict[float, float]  # the median of five windows, and half of their range
    disturbed: float  # share of the windows that count

    @property
    def falls(self) -> bool:
        """With load, and by much: something else disturbed it."""
        late = [us for _, us in sorted(self.p95_us_by_load.items())]
        return any(more < _FALLS * less for less, more in combinations(late, 2))

    @property
    def quiet(self) -> bool:
        """Half of its windows or more were not disturbed, nor anything that one sees."""
        return self.disturbed <= _HALF and not self.falls


class PromiseKept(BaseModel):
    """One promise, and what came of it."""

    chain: str
    part: float  # of what the function passes alone
    promised_mpps: float
    promised_p95_us: float
    least_p95_us: float | None  # that the planner would have promised; None: it refuses
    mpps: Quartiles
    offered_mpps: Quartiles
    p95_us: Quartiles  # of windows
    pooled_p95_us: float  # of all their packets
    throughput_ratio: float  # delivered by what was promised; median
    p95_ratio: float  # pooled, by what was promised
    windows: int  # that count
    windows_kept: int
    kept: bool
    least_kept: bool | None  # the same by the least latency


class Seen(BaseModel):
    """A window of both together, by chain."""

    mpps: dict[str, float]
    p95_us: dict[str, float | None]
    disturbance: float  # more than 1 does not count


class Together(BaseModel):
    """Both on the core, at some parts of what each passes alone."""

    parts: tuple[float, float]
    promises: list[PromiseKept]
    windows: list[Seen]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def disturbed(self) -> int:
        """Windows that do not count."""
        return sum(window.disturbance > 1 for window in self.windows)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def counts(self) -> bool:
        """Half of its windows or more were not disturbed."""
        return 2 * self.disturbed <= len(self.windows)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def kept(self) -> bool:
        """Both promises."""
        return all(of.kept for of in self.promises)


class Block(BaseModel):
    """Profiles, the plan, and both together."""

    profiles: list[FunctionProfile]
    yield_us: float  # measured: what passing the core on takes
    load: float  # of the core, as planned
    promised: Together
    refused: Together  # at the least parts that the planner refuses; no promise
    steady: bool  # the CPUs stayed as far apart as they were

    @computed_field  # type: ignore[prop-decorator]
    @property
    def counts(self) -> bool:
        """Neither the profiles nor what was promised were disturbed, and the CPUs stayed."""
        quiet = all(of.quiet for of in self.profiles)
        return self.steady and quiet and self.promised.counts


class PromisesResult(BaseModel):
    """results.json."""

    schema_version: int = 1
    machine: MachineSummary
    costs: tuple[str, str]  # of macswap, cycles a packet
    parts: tuple[float, float]
    p95_us: float  # promised to both
    blocks_asked: int
    blocks: list[Block]
    left_out: int  # blocks that were made anew: others disturbed the profiles, or CPUs moved apart
    kept: bool | None  # in all blocks that count; None: none counts, or some are not there
    least_kept: bool | None  # the same by the least latency that the planner would have promised

    @property
    def counting(self) -> list[Block]:
        """That the verdict is of."""
        return [block for block in self.blocks if block.counts]

    @property
    def verdict(self) -> str:
        """A sentence."""
        if len(self.blocks) < self.blocks_asked:
            return f"Not all was measured: {len(self.blocks)} of {self.blocks_asked} blocks."
        if self.kept is None:
            return "Too disturbed to tell: others had the engine's CPU in most windows."
        of = [one for block in self.counting for one in block.promised.promises]
        late, worst = max(one.p95_ratio for one in of), max(one.p95_us.q3 for one in of)
        short = min(one.throughput_ratio for one in of)
        return (
            f"Both promises {'hold' if self.kept else 'do not hold'}: p95 at most {late:.0%} of "
            f"what was promised, in a quarter of the windows {worst:.0f} µs or more; throughput "
            f"at least {short:.1%}."
        )

    @property
    def tightness(self) -> list[str]:
        """How near the planner's own bounds were, in sentences."""
        every = [one for block in self.counting for one in block.promised.promises]
        least = [one.least_kept is True for one in every]
        told = [
            f"The least latency that would have been promised held for {sum(least)} of "
            f"{len(least)}: it is the planner's estimate, with no room for a machine that changes."
        ]
        for block in self.counting:
            parts, at = percent(block.refused.parts), block.refused
            if at.counts:
                held = "would have held" if at.kept else "would not have held"
                p95 = " and ".join(f"{one.pooled_p95_us:.0f}" for one in at.promises)
                told.append(f"Refused were {parts}: that {held}, p95 {p95} µs.")
        return told


def percent(parts: Sequence[float]) -> str:
    """As `30% and 40%`."""
    return " and ".join(f"{part:.0%}" for part in parts)

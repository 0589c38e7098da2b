"""Results of an evaluation, as in results.json: figures, each with a verdict, and their rows."""

import statistics
from typing import Literal

from pydantic import BaseModel

from unis.measure.paired import Quartiles, Ratio
from unis.measure.summary import MachineSummary

Verdict = Literal[
    "agrees", "differs", "too close to tell", "cannot be had here",
    "holds", "fails",  # of the instrument itself
    "not in the paper",
]  # fmt: skip
Source = Literal["measured", "simulated"]


class ResultRow(BaseModel):
    """One arm in one set of windows of one case in one figure; what is not known is null.

    `experiment`, `case`, `set`, `arm`, `chain` and `source` tell it from every other.
    """

    experiment: str
    case: str  # one start of one chain or of several
    set: str  # of arms whose windows alternated
    cost: str
    length: int
    size: int | str  # bytes of a frame with FCS, or the name of a mix
    ring: int  # slots
    policy: str
    controller: str | None
    arm: str  # as the figures call it
    yield_every: int | None  # bursts, of cooperative
    x: float | None  # where the figure has it
    chain: str | None = None  # of several of the case (Table 1); null: all of them
    mpps: Quartiles  # of windows; simulated: one number
    offered_mpps: float | None = None  # where the source had a rate
    best_every: int | None = None  # bursts between yields, of co-operation at its best
    ratio_to_cooperative: Ratio | None = None  # at its best distance, in windows of one round
    ratio_to_paper_k: Ratio | None = None  # at the paper's, 8
    ratio_to_fused: Ratio | None = None  # medians of two starts, where the machine did not change
    ratio: Ratio | None = None  # that the figure judges, by the arm `ratio_to`
    ratio_to: str | None = None
    latency_us: dict[str, float | None] = {}  # medians over windows
    drops: float | None = None  # a second
    switches_per_s: float | None = None
    context_switches_per_s: float | None = None  # of a function by the kernel, the mean of all
    slowest_cpu_share: float | None = None  # of a CPU, of the function that had least
    windows: int
    source: Source
    paper: str = ""
    verdict: Verdict | None = None


class Point(BaseModel):
    """One point or bar; `low` and `high` are quartiles, or an interval where y is a ratio."""

    x: float | str
    y: float
    low: float | None = None
    high: float | None = None


class Plot(BaseModel):
    """One picture: lines over numbers, or bars over names."""

    kind: Literal["lines", "bars"]
    title: str
    x: str
    y: str
    series: dict[str, list[Point]]


class Figure(BaseModel):
    """What the paper says, what was found, and whether the two agree."""

    key: str
    name: str
    title: str
    paper: str
    ours: str
    rule: str  # when it agrees
    verdict: Verdict
    why: str  # where it does not agree
    source: list[Source]
    plots: list[Plot]


class SimulatedPoint(BaseModel):
    """An arm of UNiS ÷ co-operative (k = 8) of one chain, in the simulator and on the machine."""

    figure: str
    cost: str
    length: int
    arm: str
    measured: float
    simulated: float
    switch_us: float  # calibrated: nobody runs for so long in a switch by priority
    chain_factor: float  # calibrated: a packet's cost between other functions by that alone

    @property
    def error(self) -> float:
        """How far the two are apart."""
        return abs(self.simulated - self.measured)


class Errors(BaseModel):
    """How far the simulator is off; null: no point."""

    median_error: float | None
    worst_error: float | None
    bias: float | None  # simulated less measured, the mean

    @classmethod
    def of(cls, points: list[SimulatedPoint]) -> "Errors":
        """Of any number of points."""
        errors = [point.error for point in points]
        signed = [point.simulated - point.measured for point in points]
        return cls(
            median_error=statistics.median(errors) if errors else None,
            worst_error=max(errors, default=None),
            bias=statistics.fmean(signed) if signed else None,
        )


class Agreement(Errors):
    """All points, and how far the simulator is off."""

    points: list[SimulatedPoint]
    by_arm: dict[str, Errors]

    @classmethod
    def of(cls, points: list[SimulatedPoint]) -> "Agreement":
        """Of any number of points."""
        arms = dict.fromkeys(point.arm for point in points)
        return cls(
            **Errors.of(points).model_dump(),
            points=points,
            by_arm={arm: Errors.of([one for one in points if one.arm == arm]) for arm in arms},
        )


class Results(BaseModel):
    """results.json."""

    schema_version: int = 2
    machine: MachineSummary
    commit: str
    settings: dict[str, str | int | float | list[str]]
    figures: list[Figure]
    rows: list[ResultRow]
    simulator: Agreement
    disturbed: str | None  # what a reader of the figures must know

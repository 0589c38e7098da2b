"""The results of an evaluation, as in results.json: figures with verdicts, and their rows."""

import statistics
from typing import Literal

from pydantic import BaseModel

from unis.measure.paired import Quartiles, Ratio
from unis.measure.summary import MachineSummary

Verdict = Literal[
    "agrees", "differs", "too close to tell", "cannot be had here",
    "holds", "fails",  # of the check of the measurement itself
    "not in the paper",
]  # fmt: skip
Source = Literal["measured", "simulated"]


class ResultRow(BaseModel):
    """One arm in one window set of one case in one figure. Unknown values are null.

    `experiment`, `case`, `set`, `arm`, `chain` and `source` identify it.
    """

    experiment: str
    case: str  # one start of a chain or of several
    set: str  # of arms whose windows alternate
    cost: str
    length: int
    size: int | str  # bytes of a frame with FCS, or the name of a mix
    ring: int  # slots
    policy: str
    controller: str | None
    arm: str  # as the figures call it
    yield_every: int | None  # bursts between yields, under cooperative
    x: float | None  # the position in the figure
    chain: str | None = None  # one of the case's chains (Table 1); null: all of them
    mpps: Quartiles  # over windows; simulated: one number
    offered_mpps: float | None = None  # if the source has a rate
    best_every: int | None = None  # bursts between yields at the best distance
    ratio_to_cooperative: Ratio | None = None  # at its best distance, within rounds
    ratio_to_paper_k: Ratio | None = None  # at the paper's distance, 8
    ratio_to_fused: Ratio | None = None  # of medians of two starts on an unchanged machine
    ratio: Ratio | None = None  # to the arm `ratio_to`; the verdict uses it
    ratio_to: str | None = None
    latency_us: dict[str, float | None] = {}  # medians over windows
    drops: float | None = None  # per second
    switches_per_s: float | None = None
    context_switches_per_s: float | None = None  # by the kernel, mean over the functions
    slowest_cpu_share: float | None = None  # of the function that had the least
    windows: int
    source: Source
    paper: str = ""
    verdict: Verdict | None = None


class Point(BaseModel):
    """One point or bar. `low` and `high`: quartiles, or the interval if y is a ratio."""

    x: float | str
    y: float
    low: float | None = None
    high: float | None = None


class Plot(BaseModel):
    """One plot: lines over numbers, or bars over names."""

    kind: Literal["lines", "bars"]
    title: str
    x: str
    y: str
    series: dict[str, list[Point]]


class Figure(BaseModel):
    """The paper's statement, the result here, and the verdict."""

    key: str
    name: str
    title: str
    paper: str
    ours: str
    rule: str  # the condition of "agrees"
    verdict: Verdict
    why: str  # empty if it agrees
    source: list[Source]
    plots: list[Plot]


class SimulatedPoint(BaseModel):
    """An arm of UNiS ÷ co-operative (k = 8) for one chain, simulated and measured."""

    figure: str
    cost: str
    length: int
    arm: str
    measured: float
    simulated: float
    switch_us: float  # calibrated: time of a switch by priority, in which no function runs
    chain_factor: float  # calibrated: a packet's cost in the chain ÷ alone

    @property
    def error(self) -> float:
        """The absolute difference."""
        return abs(self.simulated - self.measured)


class Errors(BaseModel):
    """The errors of the simulator; null: no points."""

    median_error: float | None
    worst_error: float | None
    bias: float | None  # mean of simulated - measured

    @classmethod
    def of(cls, points: list[SimulatedPoint]) -> "Errors":
        """From any number of points."""
        errors = [point.error for point in points]
        signed = [point.simulated - point.measured for point in points]
        return cls(
            median_error=statistics.median(errors) if errors else None,
            worst_error=max(errors, default=None),
            bias=statistics.fmean(signed) if signed else None,
        )


class Agreement(Errors):
    """The errors of the simulator over all points and by arm, and the points."""

    points: list[SimulatedPoint]
    by_arm: dict[str, Errors]

    @classmethod
    def of(cls, points: list[SimulatedPoint]) -> "Agreement":
        """From any number of points."""
        arms = dict.fromkeys(point.arm for point in points)
        return cls(
            **Errors.of(points).model_dump(),
            points=points,
            by_arm={
                arm: Errors.of([point for point in points if point.arm == arm]) for arm in arms
            },
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
    disturbed: str | None  # a remark on disturbed windows

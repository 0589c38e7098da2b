"""Results of an evaluation, as in results.json: figures, each with a verdict, and their rows."""

import statistics
from typing import Literal

from pydantic import BaseModel

from unis.measure.paired import Quartiles, Ratio
from unis.measure.summary import MachineSummary

Verdict = Literal["agrees", "differs", "cannot be had here", "not in the paper"]
Source = Literal["measured", "simulated"]


class Row(BaseModel):
    """One arm of one case in one figure; what is not known is null."""

    experiment: str
    cost: str
    length: int
    size: int | str  # bytes of a frame with FCS, or the name of a mix
    ring: int  # slots
    policy: str
    controller: str | None
    arm: str  # as the figures call it
    yield_every: int | None  # bursts, of cooperative
    x: float | None  # where the figure has it
    mpps: Quartiles
    ratio_to_cooperative: Ratio | None  # at its best distance, in windows of one round
    ratio_to_paper_k: Ratio | None  # at the paper's, 8
    ratio_to_fused: Ratio | None  # of another start of the chain
    latency_us: dict[str, float | None]  # medians over windows
    drops: float | None  # a second
    switches_per_s: float | None
    context_switches_per_s: float | None  # of a function by the kernel, the mean of all
    slowest_cpu_share: float | None  # of a CPU, of the function that had least
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


class Agreement(BaseModel):
    """All points, and how far the simulator is off."""

    points: list[SimulatedPoint]
    median_error: float | None  # None: no point
    worst_error: float | None

    @classmethod
    def of(cls, points: list[SimulatedPoint]) -> "Agreement":
        """Of any number of points."""
        errors = [point.error for point in points]
        return cls(
            points=points,
            median_error=statistics.median(errors) if errors else None,
            worst_error=max(errors, default=None),
        )


class Results(BaseModel):
    """results.json."""

    machine: MachineSummary
    commit: str
    settings: dict[str, str | int | float]
    figures: list[Figure]
    rows: list[Row]
    simulator: Agreement
    disturbed: str | None  # what a reader of the figures must know

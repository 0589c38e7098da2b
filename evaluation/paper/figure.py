"""What a figure of the paper is computed from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evaluation.paper.case import Case
from evaluation.paper.measured import Measured
from evaluation.paper.results import Figure, Point, ResultRow
from evaluation.paper.scale import Scale
from unis.measure.paired import Quartiles, Ratio

MeasuredCase = tuple[Case, Measured]


@dataclass(frozen=True)
class Findings:
    """All measurements and simulations."""

    cases: Mapping[str, Case]
    measured: Mapping[str, Measured]
    # Simulated Mpps by configuration of Table 1, arm and chain.
    table1_mpps: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    scale: Scale | None = None
    simulated: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict
    )  # Mpps by case and arm

    def chains(self, figure: str) -> list[MeasuredCase]:
        """The measured cases of a figure by cost and length, without the fused ones."""
        return sorted(
            (
                (case, self.measured[key])
                for key, case in self.cases.items()
                if figure in case.figures and key in self.measured and not case.fused
            ),
            key=lambda chain: chain[0].sort_key,
        )

    def fused(self, case: Case) -> Measured | None:
        """The same work in one process; None: not measured."""
        return self.measured.get(f"{case.key}-fused")


FigureAndRows = tuple[Figure, list[ResultRow]]


def spread_at(x: float | str, values: Sequence[float]) -> Point:
    """The median and quartiles of windows."""
    spread = Quartiles.of(values)
    return Point(x=x, y=spread.median, low=spread.q1, high=spread.q3)


def ratio_at(x: float | str, ratio: Ratio, times: float = 1) -> Point:
    """A ratio and its interval. `times`: 100 for percent."""
    return Point(x=x, y=times * ratio.median, low=times * ratio.lo, high=times * ratio.hi)


def by_length(ratios: Iterable[tuple[int, Ratio | None]]) -> str:
    """ "0.91 [0.88–0.94] (2), …": ratios and their intervals, by length."""
    return ", ".join(
        f"{ratio.median:.2f} [{ratio.lo:.2f}–{ratio.hi:.2f}] ({length})"
        for length, ratio in ratios
        if ratio
    )

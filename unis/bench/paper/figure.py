"""What the figures of the paper are made of, and how they are judged."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from unis.bench.paper.cases import Case
from unis.bench.paper.measured import Measured
from unis.bench.paper.scale import Scale
from unis.measure.paired import Quartiles, Ratio
from unis.report.evaluation import Figure, Point, Row, Verdict


@dataclass(frozen=True)
class Found:
    """All that was measured and simulated."""

    cases: Mapping[str, Case]
    measured: Mapping[str, Measured]
    # Mpps by chain, by arm, by configuration of Table 1.
    several: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    scale: Scale | None = None

    def of(self, figure: str) -> list[tuple[Case, Measured]]:
        """The cases of a figure that were measured, in their order; not those of one process."""
        return [
            (case, self.measured[key])
            for key, case in self.cases.items()
            if figure in case.figures and key in self.measured and not case.fused
        ]

    def fused(self, case: Case) -> Measured | None:
        """The same work in one process, where it was measured."""
        return self.measured.get(f"{case.key}-fused")


FigureOf = tuple[Figure, list[Row]]


_CLEARLY = 0.03  # a median so far off contradicts, however wide the interval is


def excludes(ratio: Ratio | None, least: float) -> bool:
    """Whether a ratio is less: what chance may say is not said against the paper."""
    return ratio is not None and (ratio.hi < least or ratio.median < least - _CLEARLY)


def spread_at(x: float | str, values: Sequence[float]) -> Point:
    """The median of windows and their quartiles."""
    spread = Quartiles.of(values)
    return Point(x=x, y=spread.median, low=spread.q1, high=spread.q3)


def ratio_at(x: float | str, ratio: Ratio, times: float = 1) -> Point:
    """A ratio and its interval; `times` 100 for percent."""
    return Point(x=x, y=times * ratio.median, low=times * ratio.lo, high=times * ratio.hi)


def judged(agrees: bool) -> Verdict:
    """In a word."""
    return "agrees" if agrees else "differs"


def ratios_text(rows: Iterable[Row], *, best: bool) -> str:
    """ "0.91 (2), 0.93 (3)": the ratios of rows, by length."""
    found = [(row, row.ratio_to_cooperative if best else row.ratio_to_paper_k) for row in rows]
    return ", ".join(f"{of.median:.2f} ({row.length})" for row, of in found if of)

"""Predicted against measured: errors, the verdict, and where a prediction misses, which term is
wrong. Pure.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel

from evaluation.model.chains import CASES, ModelCase
from evaluation.model.fit import (
    PARTS,
    KnownCosts,
    LinkTerms,
    carrier_bound,
    fitted,
    is_long,
    platform_bound,
    predicted,
)
from evaluation.model.windows import ModelReading, ModelRounds
from unis.measure.paired import Paired, Ratio

MEDIAN, WORST = 0.10, 0.25  # of errors that the issue allows
MIN_ROUNDS = 6  # of an interval of 95 %
CHAINS = ": chains"  # how a step is named that measures chains of a kind of link
Verdict = Literal["holds", "does not hold", "too close to tell", "not measured"]


class ModelRow(BaseModel):
    """A chain: what the model said and what was measured."""

    link: str
    chain: str
    length: int
    size: int  # of frames, bytes with FCS
    fits: bool  # the parameters rest on it, so it tests nothing
    predicted_pps: float  # medians over the rounds
    measured_pps: float
    ratio: Ratio  # predicted ÷ measured in the same round
    bottleneck: str  # by the model
    rounds: int
    wrong: str = ""  # the term that is wrong, where the error is beyond `MEDIAN`

    @property
    def error(self) -> float:
        """How much too high."""
        return self.ratio.median - 1


class LinkParameters(BaseModel):
    """What was fitted of a kind of link, medians over the rounds; ns a packet."""

    link: str
    terms: dict[str, float]
    work_ns: dict[int, float]  # by cycles of the imitated work
    free_ns: float  # a function without work, alone
    source: str = "measured"


class ModelVerdict(BaseModel):
    """Over the chains that test."""

    chains: int
    median_error: float | None  # absolute
    worst_error: float | None
    worst_chain: str
    verdict: Verdict
    why: str


def judged(
    kind: str, rounds: ModelRounds, known: KnownCosts
) -> tuple[list[ModelRow], LinkParameters]:
    """Rows of all chains, those that fit first."""
    terms = [fitted(kind, readings, known) for readings in rounds]
    rows = [_row(kind, case, rounds, terms, known) for case in CASES]
    told = LinkParameters(
        link=kind,
        terms=vars(LinkTerms.median(terms)),
        work_ns=dict(known.work_ns),
        free_ns=known.free_ns,
    )
    return rows, told


def _row(
    kind: str, case: ModelCase, rounds: ModelRounds, terms: Sequence[LinkTerms], known: KnownCosts
) -> ModelRow:
    found = [predicted(kind, case, each, known) for each in terms]
    measured = [readings[case.name].pps for readings in rounds]
    paired = Paired.ratio([each.pps for each in found], measured)
    if paired is None:
        ratio = Ratio(median=float("inf"), lo=float("inf"), hi=float("inf"))
    else:
        ratio = Ratio(median=paired.median, lo=paired.low, hi=paired.high)
    row = ModelRow(
        link=kind,
        chain=case.shape.title,
        length=len(case.shape.cycles),
        size=case.size,
        fits=case.shape.fits,
        predicted_pps=statistics.median(each.pps for each in found),
        measured_pps=statistics.median(measured),
        ratio=ratio,
        bottleneck=statistics.mode(each.bottleneck for each in found),
        rounds=len(rounds),
    )
    if abs(row.error) > MEDIAN:
        row.wrong = wrong_term(case, [readings[case.name] for readings in rounds], terms, known)
    return row


def wrong_term(
    case: ModelCase, readings: Sequence[ModelReading], terms: Sequence[LinkTerms], known: KnownCosts
) -> str:
    """The term whose measured time differs most from what the model has, with both, ns a packet."""
    both: dict[str, list[tuple[float, float]]] = {}
    for reading, of in zip(readings, terms, strict=True):
        for name, pair in _terms_of(case, reading, of, known).items():
            both.setdefault(name, []).append(pair)
    differences = {
        name: (statistics.median(seen for seen, _ in pairs), statistics.median(p for _, p in pairs))
        for name, pairs in both.items()
    }
    name, (seen, said) = max(differences.items(), key=lambda each: abs(each[1][0] - each[1][1]))
    return f"{name}: {seen:.0f} ns measured, {said:.0f} ns in the model"


def _terms_of(
    case: ModelCase, reading: ModelReading, terms: LinkTerms, known: KnownCosts
) -> Mapping[str, tuple[float, float]]:
    """What can be measured apart, and what the model has of it."""
    platform = sum(reading.platform_ns.get(part, 0.0) for part in PARTS)
    if platform_bound(reading):
        return {"source and sink": (platform, terms.source + terms.sink)}
    shape = case.shape
    if carrier_bound(reading):
        links = len(shape.cycles) + 1
        said = terms.source + links * terms.carry + terms.long * is_long(case)
        return {"Open vSwitch": (reading.ns, said)}
    hop = terms.hop + terms.byte * case.size
    found: dict[str, tuple[float, float]] = {}
    last = len(shape.functions) - 1
    for at, (name, cycles) in enumerate(zip(shape.functions, shape.cycles, strict=True)):
        # What source and sink cost for being on another CPU the model has at the first function.
        other = terms.crossing + terms.crossing_byte * case.size if at == 0 else 0.0
        said = hop + terms.clock * known.work_ns[cycles] + other
        place = f"function {at + 1} of {last + 1} ({cycles} cycles)"
        found[place] = (reading.functions_ns[name], said)
    if last:
        idle = max(0.0, reading.ns - sum(reading.functions_ns.values()))
        found["switches"] = (idle, len(shape.cycles) * terms.switch / max(1.0, terms.turn))
    return found


def verdict_of(rows: Sequence[ModelRow], left_out: Mapping[str, str]) -> ModelVerdict:
    """Over the chains that test: the median of absolute errors, and the worst.

    `left_out`: steps that were to be made and were not; nothing holds of chains among them.
    """
    tests = [row for row in rows if not row.fits]
    if not tests:
        return ModelVerdict(
            chains=0, median_error=None, worst_error=None, worst_chain="",
            verdict="not measured", why="no chain was measured that tests the model",
        )  # fmt: skip
    middle = statistics.median(abs(row.error) for row in tests)
    worst = max(tests, key=lambda row: abs(row.error))
    verdict, why = _said(tests, middle, worst, left_out)
    return ModelVerdict(
        chains=len(tests),
        median_error=middle,
        worst_error=abs(worst.error),
        worst_chain=f"{worst.link}, {worst.chain} cycles, {worst.size} B",
        verdict=verdict,
        why=why,
    )


def _said(
    tests: Sequence[ModelRow], middle: float, worst: ModelRow, left_out: Mapping[str, str]
) -> tuple[Verdict, str]:
    if min(row.rounds for row in tests) < MIN_ROUNDS:
        return "not measured", f"too few rounds: {MIN_ROUNDS} at least"
    surely = [row for row in tests if _least_error(row) > WORST]
    if surely:
        return "does not hold", f"{len(surely)} chains are off by more than {WORST:.0%}"
    if middle >= MEDIAN:
        return "does not hold", f"the median error is not below {MEDIAN:.0%}"
    if abs(worst.error) > WORST or any(_greatest_error(row) > WORST for row in tests):
        return "too close to tell", f"an interval holds an error of {WORST:.0%}"
    if missing := [step for step in left_out if step.endswith(CHAINS)]:
        return "not measured", f"the others hold; left out: {', '.join(missing)}"
    return "holds", ""


def _least_error(row: ModelRow) -> float:
    """Of the interval."""
    if row.ratio.lo <= 1 <= row.ratio.hi:
        return 0.0
    return min(abs(row.ratio.lo - 1), abs(row.ratio.hi - 1))


def _greatest_error(row: ModelRow) -> float:
    return max(abs(row.ratio.lo - 1), abs(row.ratio.hi - 1))

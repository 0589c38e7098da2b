"""Fig. 6: how many functions fit on a CPU at a target throughput."""

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from evaluation.paper import arms
from evaluation.paper.case import MAIN, TUNED, Case
from evaluation.paper.figure import Chain, FigureFinding, FigureOf
from evaluation.paper.judging import all_of, at_least
from evaluation.paper.measured import Measured
from evaluation.paper.results import Figure, Plot, Point, ResultRow
from evaluation.paper.rows import row
from evaluation.paper.throughput import switching
from unis.measure.paired import Quartiles, Ratio

_NOTHING = 1e-9  # Mpps
_COSTS = ("light", "medium", "heavy")
_LEAST = 0.9  # of the functions that fit with k = 8
_RESAMPLES = 400
_SEED = 1  # the same windows give the same intervals
_SURE = 0.998  # of one of some twenty targets, so 95 % of all

Curve = Mapping[int, float]  # Mpps by length
# By arm: the set of windows in which it is held against the other.
_PAIRS = {(arms.PRIORITY, arms.PAPER_K): MAIN, (arms.HANDOVER, arms.BEST): TUNED}


def fig6(found: FigureFinding) -> FigureOf:
    """Whole functions, as the paper counts, and the number between two of them for intervals."""
    plots: list[Plot] = []
    rows: list[ResultRow] = []
    for cost in _COSTS:
        there = [(case, of) for case, of in found.of("fig6") if case.cost == cost]
        if len(there) < 2:
            continue
        targets = _targets(_curve(there, arms.BEST, TUNED))
        of_cost = [
            one for pair, which in _PAIRS.items() for one in _rows(there, targets, *pair, which)
        ]
        plots.append(_plot(cost, of_cost))
        rows += of_cost
    by_paper_k = [one for one in rows if one.arm == arms.PRIORITY]
    verdict = all_of(at_least(one.ratio, _LEAST) for one in by_paper_k)
    off = [one.ratio.median - 1 for one in by_paper_k if one.ratio]
    ours = (
        f"At {len(by_paper_k)} targets: UNiS as in the paper {100 * min(off):+.0f} to "
        f"{100 * max(off):+.0f} % of what fits with k = 8. Hand-over beside the best k, whole "
        f"functions: {_handed(rows)}."
    )
    measured = [
        row("fig6", case, of, arm, which=which)
        for case, of in found.of("fig6")
        for pair, which in _PAIRS.items()
        for arm in pair
        if which in of.sets
    ]
    return Figure(
        key="fig6", name="Fig. 6", title="How many functions fit on a CPU at a target",
        paper="Nearly as many as with co-operative functions, in a few cases less by up to 10 %.",
        ours=ours,
        rule=f"at every target UNiS as in the paper fits {_LEAST:g} or more of the functions that "
        "fit with k = 8, interpolated between lengths",
        verdict=verdict,
        why="" if verdict == "agrees" else switching(found, found.of("fig6")),
        source=["measured"], plots=plots,
    ), rows + measured  # fmt: skip


def _handed(rows: Sequence[ResultRow]) -> str:
    """Where fewer fit, and of those where that is no chance."""
    best = {(one.case, one.x): one for one in rows if one.arm == arms.BEST}
    handed = [one for one in rows if one.arm == arms.HANDOVER]
    fewer = [one for one in handed if one.length < best[one.case, one.x].length]
    more = sum(one.length > best[one.case, one.x].length for one in handed)
    sure = [one for one in fewer if one.ratio and one.ratio.hi < 1]
    said = f"as many at {len(handed) - len(fewer) - more} targets, more at {more}, fewer at "
    if not fewer:
        return said + "none"
    at = ", ".join(
        f"{one.cost} {one.x:g} Mpps ({one.length} for {best[one.case, one.x].length}"
        + (", beyond chance)" if one in sure else ")")
        for one in fewer
    )
    return f"{said}{len(fewer)}: {at}"


def _rows(
    there: Sequence[Chain], targets: Sequence[float], arm: str, base: str, which: str
) -> list[ResultRow]:
    """Of both arms at each target: `length` of them fit, whole."""
    case, measured = there[0]
    curves = {of: _curve(there, of, which) for of in (arm, base)}
    drawn = _drawn(there, arm, base, which)
    rows: list[ResultRow] = []
    for target in targets:
        fits = {of: density(curve, target) for of, curve in curves.items()}
        sampled = [density(one, target) / density(other, target) for one, other in drawn]
        lo, hi = np.quantile(sampled, [(1 - _SURE) / 2, (1 + _SURE) / 2])
        by = Ratio(median=fits[arm] / fits[base], lo=float(lo), hi=float(hi))
        rows += [
            _row(case, measured, of, which, target, fits[of], by if of == arm else None, base)
            for of in (arm, base)
        ]
    return rows


def _row(
    case: Case, measured: Measured, arm: str, which: str, target: float, fits: float,
    by: Ratio | None, base: str,
) -> ResultRow:  # fmt: skip
    one = row("fig6", case, measured, arms.PAPER_K if arm == arms.BEST else arm)
    return ResultRow(
        experiment="fig6", case=case.cost, set=f"density, {which}", cost=case.cost,
        length=math.floor(fits + 1e-9), size=case.size, ring=one.ring, policy=one.policy,
        controller=one.controller, arm=arm,
        yield_every=None if arm == arms.BEST else one.yield_every, x=target,
        mpps=Quartiles.of([target]), ratio=by, ratio_to=base if by else None, windows=0,
        source="measured",
    )  # fmt: skip


def _plot(cost: str, rows: Sequence[ResultRow]) -> Plot:
    names = dict.fromkeys(one.arm for one in rows)
    return Plot(
        kind="lines",
        title=f"{cost} functions",
        x="target, Mpps",
        y="functions on the CPU",
        series={
            arm: [Point(x=one.x or 0.0, y=one.length) for one in rows if one.arm == arm]
            for arm in names
        },
    )


def _windows(measured: Measured, arm: str, which: str) -> list[float]:
    """Mpps; of one function alone under all arms together, for nobody passes anything on."""
    if len(measured.costs_ns) == 1:
        return [mpps for each in arms.CHAIN for mpps in measured.mpps(each)]
    return measured.mpps(arm, which)


def _curve(there: Sequence[Chain], arm: str, which: str) -> Curve:
    return {case.length: statistics.median(_windows(of, arm, which)) for case, of in there}


def _drawn(there: Sequence[Chain], arm: str, base: str, which: str) -> list[tuple[Curve, Curve]]:
    """Both curves from rounds that are drawn anew, the same of both."""
    generator = np.random.default_rng(_SEED)
    both = {
        case.length: (np.array(_windows(of, arm, which)), np.array(_windows(of, base, which)))
        for case, of in there
    }
    curves: list[tuple[Curve, Curve]] = []
    for _ in range(_RESAMPLES):
        at = {
            length: generator.integers(len(one), size=len(one)) for length, (one, _) in both.items()
        }
        one, other = (
            {length: float(np.median(of[which][at[length]])) for length, of in both.items()}
            for which in (0, 1)
        )
        curves.append((one, other))
    return curves


def _targets(curve: Curve) -> list[float]:
    """Round numbers of Mpps between the least and the most that was measured, a few."""
    least, most = min(curve.values()), max(curve.values())
    if most <= 0:
        return []
    step = 10.0 ** math.floor(math.log10(most))
    while (most - least) / step < 4:
        step /= 2
    return [step * at for at in range(1, int(most / step) + 1) if least <= step * at <= most]


def density(curve: Curve, target: float) -> float:
    """How many functions pass `target` Mpps: time a packet grows with them, piece by piece.

    What a longer chain passed a shorter one could: so the time never falls with the length.
    """
    points: list[tuple[float, float]] = []
    for length in sorted(curve, reverse=True):
        time = 1 / max(curve[length], _NOTHING)
        if points:
            time = min(time, points[0][0])
        points.insert(0, (time, float(length)))
    wanted = 1 / target
    reached = [at for at, (time, _) in enumerate(points) if time <= wanted]
    last = reached[-1] if reached else 0
    last_time, last_length = points[last]
    if not reached or last + 1 == len(points):  # in proportion, beyond what was measured
        return last_length * wanted / last_time
    more_time, more = points[last + 1]
    share = (wanted - last_time) / (more_time - last_time)
    return last_length + (more - last_length) * share

"""Fig. 6: how many functions fit on a CPU at a target throughput."""

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from evaluation.paper import arms
from evaluation.paper.case import MAIN, TUNED, Case
from evaluation.paper.figure import FigureAndRows, Findings, MeasuredCase
from evaluation.paper.judging import at_least, combined
from evaluation.paper.measured import Measured
from evaluation.paper.results import Figure, Plot, Point, ResultRow
from evaluation.paper.rows import row
from evaluation.paper.throughput import switching
from unis.measure.paired import Quartiles, Ratio

_NOTHING = 1e-9  # Mpps; in place of 0
_COSTS = ("light", "medium", "heavy")
_LEAST = 0.9  # of the functions that fit with k = 8
_RESAMPLES = 400
_SEED = 1  # the same windows give the same intervals
_CONFIDENCE = 0.998  # of each of some twenty targets: 95 % for all

MppsByLength = Mapping[int, float]  # Mpps by length
# The window set in which two arms are compared.
_PAIRS = {(arms.PRIORITY, arms.PAPER_K): MAIN, (arms.HANDOVER, arms.BEST): TUNED}


def fig6(findings: Findings) -> FigureAndRows:
    """Rows count whole functions, as the paper does; ratios are interpolated between lengths."""
    plots: list[Plot] = []
    rows: list[ResultRow] = []
    for cost in _COSTS:
        same_cost = [
            (case, measured) for case, measured in findings.chains("fig6") if case.cost == cost
        ]
        if len(same_cost) < 2:
            continue
        targets = _targets(_curve(same_cost, arms.BEST, TUNED))
        of_cost = [
            new_row
            for pair, window_set in _PAIRS.items()
            for new_row in _rows(same_cost, targets, *pair, window_set)
        ]
        plots.append(_plot(cost, of_cost))
        rows += of_cost
    by_paper_k = [fit for fit in rows if fit.arm == arms.PRIORITY]
    verdict = combined(at_least(fit.ratio, _LEAST) for fit in by_paper_k)
    deviations = [fit.ratio.median - 1 for fit in by_paper_k if fit.ratio]
    ours = (
        f"At {len(by_paper_k)} targets: UNiS as in the paper {100 * min(deviations):+.0f} to "
        f"{100 * max(deviations):+.0f} % of what fits with k = 8. Hand-over fits, in whole "
        f"functions and compared with the best k, {_handed(rows)}."
    )
    measured = [
        row("fig6", case, measured, arm, window_set=window_set)
        for case, measured in findings.chains("fig6")
        for pair, window_set in _PAIRS.items()
        for arm in pair
        if window_set in measured.sets
    ]
    return Figure(
        key="fig6", name="Fig. 6", title="How many functions fit on a CPU at a target throughput",
        paper="Nearly as many as with co-operative functions; in a few cases up to 10 % fewer.",
        ours=ours,
        rule=f"at every target UNiS as in the paper fits {_LEAST:g} or more of the number with k = "
        "8, interpolated between lengths",
        verdict=verdict,
        why="" if verdict == "agrees" else switching(findings, findings.chains("fig6")),
        source=["measured"], plots=plots,
    ), rows + measured  # fmt: skip


def _handed(rows: Sequence[ResultRow]) -> str:
    """The targets at which fewer fit, and those among them where that is not by chance."""
    best = {(fit.case, fit.x): fit for fit in rows if fit.arm == arms.BEST}
    handed = [fit for fit in rows if fit.arm == arms.HANDOVER]
    fewer = [fit for fit in handed if fit.length < best[fit.case, fit.x].length]
    more = sum(fit.length > best[fit.case, fit.x].length for fit in handed)
    sure = [fit for fit in fewer if fit.ratio and fit.ratio.hi < 1]
    summary = f"as many at {len(handed) - len(fewer) - more} targets, more at {more}, fewer at "
    if not fewer:
        return summary + "none"
    targets = ", ".join(
        f"{fit.cost} {fit.x:g} Mpps ({fit.length} for {best[fit.case, fit.x].length}"
        + (", beyond chance)" if fit in sure else ")")
        for fit in fewer
    )
    return f"{summary}{len(fewer)}: {targets}"


def _rows(
    chains: Sequence[MeasuredCase], targets: Sequence[float], arm: str, base: str, window_set: str
) -> list[ResultRow]:
    """A row per arm and target. `length`: the whole functions that fit."""
    case, measured = chains[0]
    curves = {name: _curve(chains, name, window_set) for name in (arm, base)}
    drawn = _drawn(chains, arm, base, window_set)
    rows: list[ResultRow] = []
    for target in targets:
        fits = {name: density(curve, target) for name, curve in curves.items()}
        sampled = [
            density(curve, target) / density(base_curve, target) for curve, base_curve in drawn
        ]
        lo, hi = np.quantile(sampled, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
        ratio = Ratio(median=fits[arm] / fits[base], lo=float(lo), hi=float(hi))
        rows += [
            _row(
                case,
                measured,
                name,
                window_set,
                target,
                fits[name],
                ratio if name == arm else None,
                base,
            )
            for name in (arm, base)
        ]
    return rows


def _row(
    case: Case, measured: Measured, arm: str, window_set: str, target: float, fits: float,
    ratio: Ratio | None, base: str,
) -> ResultRow:  # fmt: skip
    template = row("fig6", case, measured, arms.PAPER_K if arm == arms.BEST else arm)
    return ResultRow(
        experiment="fig6", case=case.cost, set=f"density, {window_set}", cost=case.cost,
        length=math.floor(fits + 1e-9), size=case.size, ring=template.ring, policy=template.policy,
        controller=template.controller, arm=arm,
        yield_every=None if arm == arms.BEST else template.yield_every, x=target,
        mpps=Quartiles.of([target]), ratio=ratio, ratio_to=base if ratio else None, windows=0,
        source="measured",
    )  # fmt: skip


def _plot(cost: str, rows: Sequence[ResultRow]) -> Plot:
    names = dict.fromkeys(fit.arm for fit in rows)
    return Plot(
        kind="lines",
        title=f"{cost} functions",
        x="target, Mpps",
        y="functions on the CPU",
        series={
            arm: [Point(x=fit.x or 0.0, y=fit.length) for fit in rows if fit.arm == arm]
            for arm in names
        },
    )


def _windows(measured: Measured, arm: str, window_set: str) -> list[float]:
    """Mpps of each window; of a single function those of all arms, which are alike for it."""
    if len(measured.costs_ns) == 1:
        return [mpps for name in arms.CHAIN for mpps in measured.mpps(name)]
    return measured.mpps(arm, window_set)


def _curve(chains: Sequence[MeasuredCase], arm: str, window_set: str) -> MppsByLength:
    return {
        case.length: statistics.median(_windows(measured, arm, window_set))
        for case, measured in chains
    }


def _drawn(
    chains: Sequence[MeasuredCase], arm: str, base: str, window_set: str
) -> list[tuple[MppsByLength, MppsByLength]]:
    """Both curves from resampled rounds, the same rounds for both."""
    generator = np.random.default_rng(_SEED)
    both = {
        case.length: (
            np.array(_windows(measured, arm, window_set)),
            np.array(_windows(measured, base, window_set)),
        )
        for case, measured in chains
    }
    drawn = [
        {
            length: generator.integers(len(mpps), size=len(mpps))
            for length, (mpps, _) in both.items()
        }
        for _ in range(_RESAMPLES)
    ]
    medians = {
        length: [np.median(mpps[[draws[length] for draws in drawn]], axis=1) for mpps in pair]
        for length, pair in both.items()
    }

    def curve(draw: int, index: int) -> MppsByLength:
        return {length: float(pair[index][draw]) for length, pair in medians.items()}

    return [(curve(draw, 0), curve(draw, 1)) for draw in range(_RESAMPLES)]


def _targets(curve: MppsByLength) -> list[float]:
    """A few round numbers of Mpps within the measured range."""
    least, most = min(curve.values()), max(curve.values())
    if most <= 0:
        return []
    step = 10.0 ** math.floor(math.log10(most))
    while (most - least) / step < 4:
        step /= 2
    return [
        step * multiple
        for multiple in range(1, int(most / step) + 1)
        if least <= step * multiple <= most
    ]


def density(curve: MppsByLength, target: float) -> float:
    """The number of functions that pass `target` Mpps, interpolated on the time per packet.

    The time per packet is made to rise with the length: a shorter chain can pass what a longer one
    passed.
    """
    points: list[tuple[float, float]] = []
    for length in sorted(curve, reverse=True):
        time = 1 / max(curve[length], _NOTHING)
        if points:
            time = min(time, points[0][0])
        points.insert(0, (time, float(length)))
    time_at_target = 1 / target
    reached = [index for index, (time, _) in enumerate(points) if time <= time_at_target]
    last = reached[-1] if reached else 0
    last_time, last_length = points[last]
    if not reached or last + 1 == len(points):  # proportional outside the measured range
        return last_length * time_at_target / last_time
    more_time, more = points[last + 1]
    share = (time_at_target - last_time) / (more_time - last_time)
    return last_length + (more - last_length) * share

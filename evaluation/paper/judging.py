"""The verdict on a figure: an interval compared with a bound.

An interval that contains the bound decides nothing: "too close to tell".
"""

import statistics
from collections.abc import Iterable, Sequence

import numpy as np

from evaluation.paper.figure import MeasuredCase
from evaluation.paper.results import Verdict
from evaluation.paper.rows import ratios
from unis.measure.paired import Ratio

_CONFIDENCE = 0.95
_RESAMPLES = 10_000
_SEED = 1  # the same windows give the same interval


def at_least(ratio: Ratio | None, bound: float, slack: float = 0.0) -> Verdict:
    """Agrees if all of the interval is `bound` or more; differs if all is below `bound - slack`."""
    if ratio is None:
        return "cannot be had here"
    if ratio.lo >= bound:
        return "agrees"
    return "differs" if ratio.hi < bound - slack else "too close to tell"


def at_most(ratio: Ratio | None, bound: float) -> Verdict:
    """Agrees if all of the interval is `bound` or less; differs if all is above."""
    if ratio is None:
        return "cannot be had here"
    if ratio.hi <= bound:
        return "agrees"
    return "differs" if ratio.lo > bound else "too close to tell"


def combined(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on several claims: a figure differs if one of its claims does."""
    distinct = {*verdicts}
    if not distinct:
        return "cannot be had here"
    for verdict in ("differs", "cannot be had here", "too close to tell"):
        if verdict in distinct:
            return verdict
    return "agrees"


def mean_over_lengths(
    chains: Sequence[MeasuredCase], arm: str, base: str, window_set: str
) -> Ratio | None:
    """Throughput of `arm` ÷ `base` within rounds: the mean over the chains."""
    return pooled([ratios(measured, arm, base, window_set) for _, measured in chains])


def interval_text(ratio: Ratio | None, digits: int = 2) -> str:
    """ "0.72 [0.68–0.77]"."""
    if ratio is None:
        return "not known"
    middle, lo, hi = (f"{value:.{digits}f}" for value in (ratio.median, ratio.lo, ratio.hi))
    return f"{middle} [{lo}–{hi}]"


def pooled(groups: Sequence[Sequence[float]]) -> Ratio | None:
    """The mean over groups, as chains of several lengths, of their medians, and its 95 % interval.

    Groups are drawn, and of each its rounds: each is one start of a chain, and starts differ by
    more than the windows of one do. None if nothing is known of any.
    """
    known = [np.array(group) for group in groups if len(group)]
    if not known:
        return None
    generator = np.random.default_rng(_SEED)
    medians = np.array(
        [
            np.median(group[generator.integers(len(group), size=(_RESAMPLES, len(group)))], axis=1)
            for group in known
        ]
    )
    drawn = generator.integers(len(known), size=(len(known), _RESAMPLES))
    means = np.take_along_axis(medians, drawn, axis=0).mean(axis=0)
    tail = (1 - _CONFIDENCE) / 2
    lo, hi = np.quantile(means, [tail, 1 - tail])
    middle = statistics.fmean(float(np.median(group)) for group in known)
    return Ratio(median=middle, lo=float(lo), hi=float(hi))

"""The verdict on a figure: an interval compared with a bound.

An interval that contains the bound decides nothing: "too close to tell".
"""

from collections.abc import Iterable, Sequence

from evaluation.paper.figure import Chain
from evaluation.paper.results import Verdict
from evaluation.paper.rows import ratios
from unis.measure.paired import Ratio, pooled


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
    chains: Sequence[Chain], arm: str, base: str, window_set: str
) -> Ratio | None:
    """Throughput of `arm` ÷ `base` within rounds: the mean over the chains."""
    return pooled([ratios(measured, arm, base, window_set) for _, measured in chains])


def interval_text(ratio: Ratio | None, digits: int = 2) -> str:
    """ "0.72 [0.68–0.77]"."""
    if ratio is None:
        return "not known"
    middle, lo, hi = (f"{value:.{digits}f}" for value in (ratio.median, ratio.lo, ratio.hi))
    return f"{middle} [{lo}–{hi}]"

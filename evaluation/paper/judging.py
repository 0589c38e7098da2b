"""How a figure is judged: an interval against a bound, both of which stand beside the figure.

What chance may say is said neither for the paper nor against it.
"""

from collections.abc import Iterable, Sequence

from evaluation.paper.figure import Chain
from evaluation.paper.results import Verdict
from evaluation.paper.rows import ratios
from unis.measure.paired import Ratio, pooled


def at_least(found: Ratio | None, bound: float, slack: float = 0.0) -> Verdict:
    """Whether all of the interval is `bound` or more, or is less; by `slack` at least."""
    if found is None:
        return "cannot be had here"
    if found.lo >= bound:
        return "agrees"
    return "differs" if found.hi < bound - slack else "too close to tell"


def at_most(found: Ratio | None, bound: float) -> Verdict:
    """The same the other way round."""
    if found is None:
        return "cannot be had here"
    if found.hi <= bound:
        return "agrees"
    return "differs" if found.lo > bound else "too close to tell"


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Of several claims: what contradicts one of them contradicts the figure; of none, nothing."""
    said = {*verdicts}
    if not said:
        return "cannot be had here"
    for verdict in ("differs", "cannot be had here", "too close to tell"):
        if verdict in said:
            return verdict
    return "agrees"


def over_lengths(of: Sequence[Chain], arm: str, base: str, which: str) -> Ratio | None:
    """Throughput of `arm` by `base` in windows of one round: the mean over the chains."""
    return pooled([ratios(measured, arm, base, which) for _, measured in of])


def told(found: Ratio | None, digits: int = 2) -> str:
    """ "0.72 [0.68–0.77]"."""
    if found is None:
        return "not known"
    middle, lo, hi = (f"{of:.{digits}f}" for of in (found.median, found.lo, found.hi))
    return f"{middle} [{lo}–{hi}]"

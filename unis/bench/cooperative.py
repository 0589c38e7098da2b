"""Functions that co-operate, at their best: the baseline of every comparison.

How many bursts lie between two yields is tried first, in windows of one run beside those of unis,
by which the machine's speed is known: it may change by more than yields do.
"""

from collections.abc import Mapping

from unis.measure import order
from unis.measure.summary import ratio
from unis.measure.windows import Arm, Rounds

YIELD_EVERY = (8, 16, 24, 32, 64)  # bursts
TRIAL = (Arm("unis"), *(Arm("cooperative", yield_every=every) for every in YIELD_EVERY))
TRIAL_ROUNDS = order.balanced_rounds(len(TRIAL), 6)


def trial_ratios(rounds: Rounds) -> dict[int, float]:
    """Co-operative by unis, medians, by the bursts between yields; 0 where unis passed nothing."""
    ratios = {arm.yield_every: ratio(rounds, str(arm), str(TRIAL[0])) for arm in TRIAL[1:]}
    return {every: found.median if found else 0.0 for every, found in ratios.items()}


def best_two(trials: Mapping[int, float]) -> tuple[int, int]:
    """The best and the one behind it: which is better decide windows that are measured anew.

    A distance as long as the ring has two states, and may be fast in all of a trial.
    """
    best = best_yield_every(trials)
    return best, best_yield_every({every: of for every, of in trials.items() if every != best})


def best_yield_every(trials: Mapping[int, float]) -> int:
    """The one with the most throughput; of equals the one that yields most often."""
    return max(trials, key=lambda every: (trials[every], -every))

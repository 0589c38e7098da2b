"""Functions that co-operate, at their best: the baseline of every comparison.

How many bursts lie between two yields is tried first, in windows of one run beside those of unis,
by which the machine's speed is known: it may change by more than yields do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from unis.measure import order
from unis.measure.summary import ratio
from unis.measure.windows import Arm, Rounds

COOPERATIVE = "cooperative"
SECOND = "cooperative at the second best distance"
YIELD_EVERY = (8, 16, 24, 32, 64)  # bursts
TRIAL = (Arm("unis"), *(Arm("cooperative", yield_every=every) for every in YIELD_EVERY))
TRIAL_ROUNDS = order.balanced_rounds(len(TRIAL), 6)
_ANEW_ROUNDS = 8  # of the two best


def trial_ratios(rounds: Rounds) -> dict[int, float]:
    """Co-operative by unis, medians, by the bursts between yields; 0 where unis passed nothing."""
    ratios = {arm.yield_every: ratio(rounds, str(arm), str(TRIAL[0])) for arm in TRIAL[1:]}
    return {every: found.median if found else 0.0 for every, found in ratios.items()}


def best_two(trials: Mapping[int, float]) -> tuple[Arm, Arm]:
    """The best, COOPERATIVE, and the one behind it, SECOND, to be measured anew: see `settled`.

    A distance as long as the ring has two states, and may be fast in all of a trial.
    """
    best = best_yield_every(trials)
    second = best_yield_every({every: found for every, found in trials.items() if every != best})
    arm = Arm("cooperative", yield_every=best, name=COOPERATIVE)
    return arm, replace(arm, yield_every=second, name=SECOND)


def settled(rounds: Rounds, two: tuple[Arm, Arm]) -> tuple[Rounds, int]:
    """The same rounds where COOPERATIVE is the better of the `best_two`, and its distance."""
    found = ratio(rounds, SECOND, COOPERATIVE)
    if found and found.median <= 1:
        return rounds, two[0].yield_every
    return exchanged(rounds), two[1].yield_every


def exchanged(rounds: Rounds) -> Rounds:
    """The same rounds where COOPERATIVE and SECOND have each other's names."""
    names = {COOPERATIVE: SECOND, SECOND: COOPERATIVE}
    return [
        {names.get(name, name): window for name, window in windows.items()} for windows in rounds
    ]


def best_distance(measured: Callable[[Sequence[Arm], int], Rounds]) -> tuple[int, Rounds]:
    """The best distance, in bursts, and windows of it, called COOPERATIVE.

    `measured` measures windows of arms in a number of rounds: first of all distances that are
    tried, then of the two best ones again.
    """
    two = best_two(trial_ratios(measured(TRIAL, TRIAL_ROUNDS)))
    rounds, best = settled(measured(two, _ANEW_ROUNDS), two)
    return best, rounds


def best_yield_every(trials: Mapping[int, float]) -> int:
    """The distance with the most throughput; among equal ones, the shortest."""
    return max(trials, key=lambda every: (trials[every], -every))

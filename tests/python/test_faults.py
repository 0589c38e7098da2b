"""Which faults `python -m evaluation faults` draws."""

import random
from collections import Counter

from evaluation.faults import PARTS, SOURCE, TARGETS, draw_fault, ends_the_run


def test_faults_strike_everybody_and_two_at_once_are_two() -> None:
    dice = random.Random(7)
    drawn = [draw_fault(dice, with_source=True) for _ in range(2000)]
    targets = Counter(strike.target for fault in drawn for strike in fault)
    assert set(targets) == {*TARGETS, SOURCE, *PARTS}
    assert min(targets.values()) > 100
    assert 200 < sum(len(fault) == 2 for fault in drawn) < 600
    assert all(len({strike.target for strike in fault}) == len(fault) for fault in drawn)
    assert 400 < sum(ends_the_run(fault) for fault in drawn) < 900


def test_the_same_seed_strikes_the_same() -> None:
    first, second = (random.Random(3) for _ in range(2))
    one, other = (
        [draw_fault(dice, with_source=False) for _ in range(50)] for dice in (first, second)
    )
    assert one == other
    assert SOURCE not in {strike.target for fault in one for strike in fault}

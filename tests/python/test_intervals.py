"""Intervals hold what they promise: by simulation of blocks that differ, as starts do."""

import numpy as np
import pytest

from unis.measure.paired import Paired

_TRIALS = 3000
_EACH = 9  # rounds of a block


def coverage(blocks: int) -> float:
    """How often the interval holds the true ratio of 1, where block and round scatter."""
    random = np.random.default_rng(blocks)
    held = 0
    for _ in range(_TRIALS):
        of_block = random.normal(1.0, 0.05, size=(blocks, 1))
        ratios = (of_block + random.normal(0.0, 0.02, size=(blocks, _EACH))).ravel()
        found = Paired.ratio([*map(float, ratios)], [1.0] * ratios.size, blocks=blocks)
        assert found is not None
        held += found.low <= 1.0 <= found.high
    return held / _TRIALS


@pytest.mark.parametrize("blocks", [2, 3, 4, 6, 12])
def test_an_interval_over_blocks_holds_the_truth_as_often_as_it_says(blocks: int) -> None:
    assert 0.935 < coverage(blocks) < 0.965, "binomial deviation: 0.004"


def test_the_interval_of_a_ratio_is_that_of_its_inverse_turned_round() -> None:
    values, base = [1.0, 30.0, 12.0, 50.0], [1.0] * 4
    of, by = Paired.ratio(values, base, blocks=4), Paired.ratio(base, values, blocks=4)
    assert of is not None
    assert by is not None
    assert of.low > 0
    assert (of.low, of.high) == pytest.approx((1 / by.high, 1 / by.low))

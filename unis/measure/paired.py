"""What may be said of windows that were measured in turn.

Two arms are compared within a round, for only there did they see the same machine. Quartiles say
how much the windows differ; the interval says how well their median is known.
"""

import math
import statistics
from bisect import bisect_right
from collections.abc import Sequence

from pydantic import BaseModel

_CONFIDENCE = 0.95


class Quartiles(BaseModel):
    """The spread of windows."""

    median: float
    q1: float
    q3: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Quartiles":
        """Quartiles of at least one value."""
        if len(values) == 1:
            return cls(median=values[0], q1=values[0], q3=values[0])
        q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median=median, q1=q1, q3=q3)


class Paired(Quartiles):
    """Values of one arm by (or less) those of another in the same round."""

    low: float  # 95 % interval of the median
    high: float
    rounds: int  # that were compared
    left_out: int  # in which the other delivered nothing, so that there is no ratio

    @classmethod
    def ratio(
        cls, values: Sequence[float], base: Sequence[float], blocks: int = 1
    ) -> "Paired | None":
        """values ÷ base, round by round; None if base is 0 in every round.

        `blocks`: bring-ups that the rounds come from, as many from each. Rounds of one share what
        no other has, so the interval is over the blocks.
        """
        each = len(base) // blocks
        starts = range(0, blocks * each, each)
        return cls.of_blocks([(values[at : at + each], base[at : at + each]) for at in starts])

    @classmethod
    def of_blocks(
        cls, blocks: Sequence[tuple[Sequence[float], Sequence[float]]]
    ) -> "Paired | None":
        """The same of values and base by bring-up, which need not have as many rounds each."""
        ratios = [
            [value / by for value, by in zip(values, base, strict=True) if by]
            for values, base in blocks
        ]
        left_out = sum(len(base) for _, base in blocks) - sum(map(len, ratios))
        return cls._of([block for block in ratios if block], left_out) if any(ratios) else None

    @classmethod
    def differences(cls, values: Sequence[float], left_out: int) -> "Paired":
        """Differences that were taken within the rounds already, at least one."""
        return cls._of([values], left_out)

    @classmethod
    def _of(cls, blocks: Sequence[Sequence[float]], left_out: int) -> "Paired":
        values = [value for block in blocks for value in block]
        low, high = interval(values) if len(blocks) == 1 else interval_of_blocks(blocks)
        spread = Quartiles.of(values).model_dump()
        return cls(**spread, low=low, high=high, rounds=len(values), left_out=left_out)


class Ratio(BaseModel):
    """A ratio of windows of one round, or of rounds of one block: median and its 95 % interval."""

    median: float
    lo: float
    hi: float

    @classmethod
    def of(cls, paired: Paired | None) -> "Ratio | None":
        """None where there is no ratio."""
        return cls(median=paired.median, lo=paired.low, hi=paired.high) if paired else None


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The interval that holds the median of what was sampled, with a confidence of 95 %.

    Two of the values in order, for half of what is sampled lies on either side of its median,
    whatever its distribution. Of fewer than six the least and the greatest, which is less sure.
    """
    from scipy.special import bdtr  # takes a while to load

    ordered = sorted(values)
    count = len(ordered)
    outside = bisect_right(range(count), 1 - _CONFIDENCE, key=lambda at: 2 * bdtr(at, count, 0.5))
    at = max(0, outside - 1)
    return ordered[at], ordered[count - 1 - at]


def interval_of_blocks(blocks: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The same for two blocks or more of ratios: Student's t interval over their medians, of their
    logarithms where there are some. A ratio and its inverse then say the same, and none is below 0.

    Values of one block share what no other block has, so each block is one sample. A bootstrap of
    so few samples is too narrow: "95 %" held 47 % with two blocks and 85 % with four.
    """
    medians = [statistics.median(block) for block in blocks]
    if min(medians) > 0:
        low, high = _student([math.log(median) for median in medians])
        return math.exp(low), math.exp(high)
    return _student(medians)


def _student(values: Sequence[float]) -> tuple[float, float]:
    from scipy.special import stdtrit

    middle = statistics.fmean(values)
    error = statistics.stdev(values) / len(values) ** 0.5
    half = error * float(stdtrit(len(values) - 1, (1 + _CONFIDENCE) / 2))
    return middle - half, middle + half


def ratio_text(ratio: float) -> str:
    """A ratio with two digits that mean something: 0.93, 0.0021."""
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"

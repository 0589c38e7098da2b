"""In which order arms are measured.

What ran before a window may tell on it: warm caches, rings that are still full, a CPU that has
clocked down. If the arms merely rotate, each one has the same predecessor every time. In a Williams
square each arm follows each other arm equally often within the rounds, and takes each place equally
often.
"""

from collections.abc import Sequence
from typing import TypeVar

Arm = TypeVar("Arm")


def square(arms: Sequence[Arm]) -> list[list[Arm]]:
    """The rounds that balance the arms: as many as there are arms, twice as many if that is odd."""
    count = len(arms)
    # 0, 1, n-1, 2, n-2, …: the steps between neighbours are all different.
    zigzag = [(place + 1) // 2 if place % 2 else -place // 2 for place in range(count)]
    rows = [[(step + shift) % count for step in zigzag] for shift in range(count)]
    if count % 2 and count > 1:
        rows += [row[::-1] for row in rows]
    return [[arms[index] for index in row] for row in rows]


def balanced_rounds(arms: int, wanted: int) -> int:
    """The least number of rounds, `wanted` or more, that is a whole number of squares."""
    size = len(square(range(arms)))
    return -(-max(1, wanted) // size) * size


def rounds(arms: Sequence[Arm], count: int) -> list[list[Arm]]:
    """The order of the arms in each of `count` rounds."""
    rows = square(arms)
    return [rows[index % len(rows)] for index in range(count)]

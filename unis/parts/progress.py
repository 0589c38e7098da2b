"""Says how far a measurement is."""

import time
from collections.abc import Callable, Iterator

_APART = 2.0  # seconds between lines


def told_rounds(
    count: int, report: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> Iterator[int]:
    """0, 1 … for each round; reports which round it is, and how long those that are left take."""
    begin = clock()
    said = begin - _APART
    for at in range(count):
        now = clock()
        if now - said >= _APART or at == count - 1:
            left = f", {_duration((now - begin) / at * (count - at))} left" if at else ""
            report(f"round {at + 1} of {count}{left}")
            said = now
        yield at


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"

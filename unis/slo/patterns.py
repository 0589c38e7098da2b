"""What a machine can hold: patterns, numbers of ways of the instances on it."""

from collections.abc import Iterator
from functools import lru_cache

Pattern = tuple[int, ...]  # ways of each place, the most first


@lru_cache(maxsize=64)
def patterns(ways: int, places: int) -> tuple[Pattern, ...]:
    """Those that hold whatever any other does: all ways given away, in at most so many places."""
    return tuple(_parts(ways, places, ways))


def _parts(ways: int, places: int, most: int) -> Iterator[Pattern]:
    if ways == 0:
        yield ()
        return
    if places == 0:
        return
    for first in range(min(ways, most), 0, -1):
        if first * places < ways:
            return
        for rest in _parts(ways - first, places - 1, first):
            yield (first, *rest)

"""Ways: into which instances a promise can be split, and which a socket can hold.

A machine sees numbers of ways only. So a promise is the set of its *minimal* splits: those of which
no instance can be left out, nor have a way less.
"""

import math
from collections.abc import Iterator
from functools import lru_cache

from unis.slo.profile import Profile, Slo

Split = tuple[int, ...]  # ways of each instance, the most first
Pattern = tuple[int, ...]  # ways of each place, the most first

MOST_INSTANCES = 10  # of one promise
ENOUGH = 1e-9  # Mpps: what is lost in sums of floating point numbers


class CannotBeKeptError(ValueError):
    """No number of instances keeps a promise; the text says why.

    Or none was looked for (`tried` False): there would be too many splits.
    """

    def __init__(self, sentence: str, *, tried: bool = True) -> None:
        super().__init__(sentence)
        self.tried = tried


def pace(slo: Slo, margin: float, memory: float | None = None) -> tuple[float, float]:
    """(load, part): an instance is in time with such a load of that part of what it passes alone.

    `memory`: part of its bandwidth that is in use, which makes the function slow; None: it does
    not. Its packets then take longer by as much as it passes less. Raises CannotBeKeptError where
    no load is in time, or where it is not known how slow the function gets.
    """
    profile, part = slo.profile, 1.0
    if memory is not None:
        known = unknown_memory(profile, memory)
        if known is not None:
            raise CannotBeKeptError(f"{slo.name}: not tried: {profile.name} {known}", tried=False)
        part = profile.share_at(memory) or 1.0
    load = profile.load_within(slo.p95_us * part) - margin
    if load <= 0:
        least = profile.p95_us_by_load[0][1] / part
        raise CannotBeKeptError(
            f"{slo.name}: no load of {profile.name} keeps 95 % of packets within "
            f"{slo.p95_us:g} µs; the nearest that can be kept is {least:g} µs"
        )
    return load, part


def unknown_memory(profile: Profile, memory: float) -> str | None:
    """What is not known of a function where so much of the memory's bandwidth is in use."""
    if not profile.gbps_by_ways:
        return "has no gbps_by_ways: how much of the memory's bandwidth it uses is not known"
    if profile.share_at(memory) is None:
        last = (
            f"beyond {profile.share_by_memory[-1][0]:.0%}" if profile.share_by_memory else "at all"
        )
        return (
            f"has no percent_by_memory {last}: what it passes where {memory:.0%} of the memory's "
            "bandwidth is in use is not known"
        )
    return None


def rates(slo: Slo, margin: float, ways: int, memory: float | None = None) -> tuple[float, ...]:
    """Mpps that an instance passes in time, with 1 to `ways` ways.

    CannotBeKeptError where none passes anything in time.
    """
    load, part = pace(slo, margin, memory)
    alone = slo.profile.solo_mpps * part * load
    return tuple(alone * slo.profile.share(number) for number in range(1, ways + 1))


def draws(slo: Slo, margin: float, ways: int, memory: float) -> tuple[float, ...]:
    """GB/s that an instance moves with those rates: a packet as much as at the full rate."""
    load, part = pace(slo, margin, memory)
    return tuple(slo.profile.gbps(number) * part * load for number in range(1, ways + 1))


def splits_of(slo: Slo, margin: float, ways: int) -> tuple[Split, ...]:
    """The minimal splits on servers of at most `ways` ways, the fewest instances first."""
    by_ways = rates(slo, margin, ways)
    most = MOST_INSTANCES * by_ways[0]
    if slo.mpps > most + ENOUGH:
        raise CannotBeKeptError(
            f"{slo.name}: not tried: {slo.mpps:.3g} Mpps may take more than {MOST_INSTANCES} "
            f"instances, which are too many ways to split it; ask for promises of {most:.3g} Mpps "
            "or less",
            tried=False,
        )
    return minimal_splits(by_ways, slo.mpps)


@lru_cache(maxsize=4096)
def minimal_splits(by_ways: tuple[float, ...], mpps: float) -> tuple[Split, ...]:
    """Those of instances that pass `by_ways`, growing, together `mpps`."""
    useful = _useful(by_ways)
    fewest = math.ceil((mpps - ENOUGH) / by_ways[-1])
    most = math.ceil((mpps - ENOUGH) / by_ways[0])
    return tuple(
        split
        for count in range(fewest, most + 1)
        for split in _of_count(by_ways, useful, mpps, count, len(by_ways))
        if _is_minimal(by_ways, split, mpps)
    )


def passes(by_ways: tuple[float, ...], split: Split) -> float:
    """Mpps of all instances."""
    return sum(by_ways[ways - 1] for ways in split)


def _useful(by_ways: tuple[float, ...]) -> tuple[int, ...]:
    """Numbers of ways with which an instance passes more than with one way less."""
    return tuple(
        at + 1 for at, rate in enumerate(by_ways) if at == 0 or rate > by_ways[at - 1] + ENOUGH
    )


def _of_count(
    by_ways: tuple[float, ...], useful: tuple[int, ...], mpps: float, count: int, most: int
) -> Iterator[Split]:
    """Splits of so many instances, none with more than `most` ways, that pass enough."""
    if mpps <= ENOUGH:
        return  # one can be left out
    for ways in useful:
        if ways > most:
            return
        if count == 1:
            if by_ways[ways - 1] >= mpps - ENOUGH:
                yield (ways,)
                return  # more ways are not minimal
            continue
        # All of the others have no more ways than this one.
        if count * by_ways[ways - 1] < mpps - ENOUGH:
            continue
        for rest in _of_count(by_ways, useful, mpps - by_ways[ways - 1], count - 1, ways):
            yield (ways, *rest)


def _is_minimal(by_ways: tuple[float, ...], split: Split, mpps: float) -> bool:
    """Whether no instance can be left out, nor have a way less."""
    total = passes(by_ways, split)
    for ways in {*split}:
        rate = by_ways[ways - 1]
        less = by_ways[ways - 2] if ways > 1 else 0.0
        if total - rate + less >= mpps - ENOUGH:
            return False
    return True


@lru_cache(maxsize=64)
def patterns(ways: int, places: int) -> tuple[Pattern, ...]:
    """What a socket can hold: those that hold whatever any other does.

    All ways are given away, in at most so many places.
    """
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

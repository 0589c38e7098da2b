"""Neighbouring ways for classes of given sizes, out of those that are free. Pure."""

from collections.abc import Mapping, Sequence
from functools import cache

from unis.isolate.bitmask import is_contiguous, mask_of, runs


def lay_out(
    sizes: Mapping[str, int], free: int, there: Mapping[str, int] | None = None
) -> dict[str, int] | None:
    """A mask for each name, none of which overlap; None where there is no way to do it.

    Who is `there` with as many neighbouring ways, all free, keeps them where that leaves room
    for the others: what moves loses what it has in the cache. The order of `sizes` does not
    matter.
    """
    kept = _kept(sizes, free, there or {})
    for stay in (kept, {}):
        rest = {name: ways for name, ways in sizes.items() if name not in stay}
        left = free & ~sum(stay.values())
        if (placed := _placed(rest, left)) is not None:
            return stay | placed
        if not stay:
            break
    return None


def _kept(sizes: Mapping[str, int], free: int, there: Mapping[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    taken = 0
    for name in sorted(sizes):
        mask = there.get(name, 0)
        fits = mask & ~free == 0 and mask & taken == 0
        if mask.bit_count() == sizes[name] and is_contiguous(mask) and fits:
            found[name] = mask
            taken |= mask
    return found


def _placed(sizes: Mapping[str, int], free: int) -> dict[str, int] | None:
    names = sorted(sizes, key=lambda name: (-sizes[name], name))
    holes = list(runs(free))
    chosen = _holes(tuple(sizes[name] for name in names), tuple(length for _, length in holes))
    if chosen is None:
        return None
    nexts = [first for first, _ in holes]
    placed = {}
    for name, hole in zip(names, chosen, strict=True):
        placed[name] = mask_of(nexts[hole], sizes[name])
        nexts[hole] += sizes[name]
    return placed


def _holes(sizes: Sequence[int], lengths: tuple[int, ...]) -> list[int] | None:
    """In which hole each goes. All ways are tried, those alike once: there are few holes."""

    @cache
    def fill(at: int, left: tuple[int, ...]) -> tuple[int, ...] | None:
        if at == len(sizes):
            return ()
        if sum(left) < sum(sizes[at:]):
            return None
        tried = set()
        # The tightest hole first.
        for hole in sorted(range(len(left)), key=lambda one: (left[one], one)):
            if left[hole] < sizes[at] or left[hole] in tried:
                continue
            tried.add(left[hole])
            rest = (*left[:hole], left[hole] - sizes[at], *left[hole + 1 :])
            if (found := fill(at + 1, rest)) is not None:
                return (hole, *found)
        return None

    found = fill(0, lengths)
    return None if found is None else list(found)

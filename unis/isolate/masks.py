"""Masks of cache ways: a bit for each way, or for several, the lowest way first. Pure.

`lay_out` finds masks for classes of given sizes. `transition` orders the writes from one layout to
another.
"""

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce


def mask_of(first: int, ways: int) -> int:
    """`ways` neighbouring bits from bit `first` on."""
    return ((1 << ways) - 1) << first


def runs(mask: int) -> Iterator[tuple[int, int]]:
    """Neighbouring bits as (first, how many), from the lowest."""
    for run in re.finditer("1+", f"{mask:b}"[::-1]):
        yield run.start(), len(run[0])


def longest_run(mask: int) -> tuple[int, int]:
    """The longest of `runs`, of equal ones the lowest; (0, 0) if the mask is empty."""
    return max(runs(mask), key=lambda run: run[1], default=(0, 0))


def is_valid(mask: int, min_bits: int = 1) -> bool:
    """Whether the bits are neighbours, and at least `min_bits`."""
    lengths = [length for _, length in runs(mask)]
    return len(lengths) == 1 and lengths[0] >= min_bits


def union(masks: Iterable[int]) -> int:
    """The bits of all masks."""
    return reduce(operator.or_, masks, 0)


def row(mask: int, ways: int) -> str:
    """A character for each way, the highest first, as the mask is written."""
    return f"{mask:0{ways}b}"[-ways:].replace("0", "·").replace("1", "█")


# ---------------------------------------------------------------- layout


def lay_out(
    sizes: Mapping[str, int], free: int, previous: Mapping[str, int] | None = None
) -> dict[str, int] | None:
    """Disjoint masks of neighbouring ways by name, out of the `free` ways; None if impossible.

    A name whose `previous` mask has its size and is free keeps it, if the others find room then: a
    class that moves loses its cache contents. The order of `sizes` does not matter.
    """
    kept = _kept(sizes, free, previous or {})
    for fixed in [kept, {}] if kept else [{}]:
        rest = {name: ways for name, ways in sizes.items() if name not in fixed}
        if (placed := _placed(rest, free & ~union(fixed.values()))) is not None:
            return fixed | placed
    return None


def _kept(sizes: Mapping[str, int], free: int, previous: Mapping[str, int]) -> dict[str, int]:
    kept: dict[str, int] = {}
    for name in sorted(sizes):
        mask = previous.get(name, 0)
        is_free = not mask & ~(free & ~union(kept.values()))
        if is_free and is_valid(mask) and mask.bit_count() == sizes[name]:
            kept[name] = mask
    return kept


def _placed(sizes: Mapping[str, int], free: int) -> dict[str, int] | None:
    names = sorted(sizes, key=lambda name: (-sizes[name], name))
    starts, lengths = zip(*runs(free), strict=True) if free else ((), ())
    gaps = _gaps([sizes[name] for name in names], lengths)
    if gaps is None:
        return None
    next_way = [*starts]
    placed = {}
    for name, gap in zip(names, gaps, strict=True):
        placed[name] = mask_of(next_way[gap], sizes[name])
        next_way[gap] += sizes[name]
    return placed


def _gaps(sizes: Sequence[int], lengths: tuple[int, ...]) -> tuple[int, ...] | None:
    """The gap for each size. Tries all ways, equal gaps once: there are few gaps."""

    @cache
    def fill(at: int, left: tuple[int, ...]) -> tuple[int, ...] | None:
        if at == len(sizes):
            return ()
        if sum(left) < sum(sizes[at:]):
            return None
        # The first gap of each length, the tightest first.
        for length in sorted({length for length in left if length >= sizes[at]}):
            gap = left.index(length)
            rest = (*left[:gap], length - sizes[at], *left[gap + 1 :])
            if (found := fill(at + 1, rest)) is not None:
                return (gap, *found)
        return None

    return fill(0, lengths)


# ---------------------------------------------------------------- transition


@dataclass(frozen=True)
class MaskWrite:
    """A class gets a mask."""

    name: str
    mask: int
    overlaps: bool = False  # another class for a moment, because there is no other way


def transition(
    now: Mapping[str, int], wanted: Mapping[str, int], min_bits: int = 1, spare: int = 0
) -> list[MaskWrite]:
    """The writes from the masks `now` to those `wanted`, so that no two overlap on the way.

    Both have the same names; every mask is valid by itself. Only the ways of `now`, of `wanted`
    and the `spare` ones, which nobody has, are used. Classes that overlap in `wanted` may do so on
    the way; classes that overlap in `now` are separated first.

    First all classes give up the ways that they do not keep, then they grow. A class that keeps
    none waits until its ways are free. Classes that wait for each other shrink to `min_bits`, and
    one goes onto free ways for a moment. Two overlap for the length of a write only if all have
    `min_bits` and no run of free ways is as long.
    """
    return _Transition(now, wanted, max(1, min_bits), spare).writes()


class _Transition:
    def __init__(
        self, now: Mapping[str, int], wanted: Mapping[str, int], min_bits: int, spare: int
    ) -> None:
        self._now = dict(now)
        self._wanted = wanted
        self._min_bits = min_bits
        self._usable = union([*now.values(), *wanted.values(), spare])
        self._writes: list[MaskWrite] = []

    def writes(self) -> list[MaskWrite]:
        for name in sorted(self._now):
            stays = self._now[name] & self._wanted[name]
            if is_valid(stays, self._min_bits):
                self._write(name, stays)
        while self._unfinished():
            if not (self._finish_one() or self._enter_one() or self._make_room()):
                name = self._outside()[0]
                self._write(name, self._wanted[name], overlaps=True)
        return self._writes

    def _unfinished(self) -> list[str]:
        return [name for name in sorted(self._now) if self._now[name] != self._wanted[name]]

    def _outside(self) -> list[str]:
        """The classes that have ways which they do not keep."""
        return [name for name in self._unfinished() if self._now[name] & ~self._wanted[name]]

    def _others(self, name: str) -> int:
        """The ways of the classes that it may not overlap."""
        return union(
            mask
            for other, mask in self._now.items()
            if other != name and not self._wanted[other] & self._wanted[name]
        )

    def _finish_one(self) -> bool:
        for name in self._unfinished():
            if not self._wanted[name] & self._others(name):
                self._write(name, self._wanted[name])
                return True
        return False

    def _make_room(self) -> bool:
        """Classes shrink to the least, those outside first, until one can enter its ways."""
        for name in (*self._outside(), *sorted(self._now)):
            first, length = next(runs(self._now[name]))
            if length > self._min_bits:
                self._write(name, mask_of(first + length - self._min_bits, self._min_bits))
                if self._enter_one():
                    return True
        return False

    def _enter_one(self) -> bool:
        """One class gets a part of its ways, perhaps after another has moved aside."""
        for name in self._outside():
            if part := self._free(self._wanted[name], self._others(name)):
                self._write(name, part)
                return True
        for name in self._outside():
            for other in self._outside():
                aside = self._free(self._usable, union(self._now.values()))
                if other == name or not aside:
                    continue
                taken = self._others(name) & ~self._now[other] | aside
                if part := self._free(self._wanted[name], taken):
                    self._write(other, aside)
                    self._write(name, part)
                    return True
        return False

    def _free(self, among: int, taken: int) -> int:
        """The most neighbouring ways that are not taken; 0 if they are fewer than `min_bits`."""
        first, length = longest_run(among & ~taken)
        return mask_of(first, length) if length >= self._min_bits else 0

    def _write(self, name: str, mask: int, *, overlaps: bool = False) -> None:
        if self._now[name] != mask:
            self._now[name] = mask
            self._writes.append(MaskWrite(name, mask, overlaps))

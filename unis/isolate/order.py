"""From some masks of one cache to others, a write at a time, so that none overlap on the way.
Pure.

First all give up what they shall not keep, then they grow. Who has nothing that stays waits
until all of its place is free. Where several wait for each other they shrink to the least, and
one goes onto free ways for a moment. Where all have the least and no way is free, two overlap
for the length of a write: that is told. With masks of at least two ways, free ones that are no
neighbours are not free.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from unis.isolate.bitmask import is_valid, mask_of, runs


@dataclass(frozen=True)
class Write:
    """A class gets a mask."""

    name: str
    mask: int
    overlaps: bool = False  # with one that it shall not overlap, because there is no other way


def writes(
    now: Mapping[str, int], wanted: Mapping[str, int], min_bits: int = 1, spare: int = 0
) -> list[Write]:
    """In order. Both have the same names; every mask is valid by itself. No way is touched but
    those of `now`, of `wanted` and the `spare` ones, which are nobody's.

    Classes that overlap in `wanted` may do so on the way; those that overlap `now` come apart
    first.
    """
    return _Way(now, wanted, max(1, min_bits), spare).walk()


class _Way:
    def __init__(
        self, now: Mapping[str, int], wanted: Mapping[str, int], min_bits: int, spare: int
    ) -> None:
        self._now = dict(now)
        self._wanted = dict(wanted)
        self._min_bits = min_bits
        self._ours = _union(now) | _union(wanted) | spare
        self._done: list[Write] = []

    def walk(self) -> list[Write]:
        for name in sorted(self._now):
            stays = self._now[name] & self._wanted[name]
            if is_valid(stays, self._min_bits):
                self._put(name, stays)
        while self._waiting():
            if not (self._finish_one() or self._enter_one() or self._make_way()):
                name = self._outside()[0]
                self._put(name, self._wanted[name], overlaps=True)
        return self._done

    def _waiting(self) -> list[str]:
        return [name for name in sorted(self._now) if self._now[name] != self._wanted[name]]

    def _outside(self) -> list[str]:
        """Those whose ways are not yet among those that they shall have."""
        return [name for name in self._waiting() if self._now[name] & ~self._wanted[name]]

    def _others(self, name: str) -> int:
        """The ways of those that it may not overlap."""
        return _union(
            {
                other: mask
                for other, mask in self._now.items()
                if other != name and not self._wanted[other] & self._wanted[name]
            }
        )

    def _finish_one(self) -> bool:
        for name in self._waiting():
            if not self._wanted[name] & self._others(name):
                self._put(name, self._wanted[name])
                return True
        return False

    def _make_way(self) -> bool:
        """One after another shrinks to the least, those outside first, until one goes in."""
        for name in (*self._outside(), *sorted(self._now)):
            first, length = next(runs(self._now[name]))
            if length > self._min_bits:
                self._put(name, mask_of(first + length - self._min_bits, self._min_bits))
                if self._enter_one():
                    return True
        return False

    def _enter_one(self) -> bool:
        """One goes in, at least with a part: by itself, or after another has gone out of its
        way.
        """
        for name in self._outside():
            if part := self._room(self._wanted[name], self._others(name)):
                self._put(name, part)
                return True
        for name in self._outside():
            for other in self._outside():
                aside = self._room(self._ours, _union(self._now))
                if other == name or not aside:
                    continue
                rest = self._others(name) & ~self._now[other] | aside
                if part := self._room(self._wanted[name], rest):
                    self._put(other, aside)
                    self._put(name, part)
                    return True
        return False

    def _room(self, among: int, taken: int) -> int:
        """The most neighbouring ways that are not taken; 0: fewer than a mask has."""
        best = max(runs(among & ~taken), key=lambda run: run[1], default=(0, 0))
        return mask_of(*best) if best[1] >= self._min_bits else 0

    def _put(self, name: str, mask: int, *, overlaps: bool = False) -> None:
        if self._now[name] != mask:
            self._now[name] = mask
            self._done.append(Write(name, mask, overlaps))


def _union(masks: Mapping[str, int]) -> int:
    found = 0
    for mask in masks.values():
        found |= mask
    return found

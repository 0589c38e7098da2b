"""How functions on demand share the ways leased to them: max-min fair (ResQ, section 5.3.1).

All begin in one class with all ways. Where a promise of latency is broken, who needs less than a
fair share leaves: those whose promise is kept, or who miss little, into one class as large as what
they occupy; those who miss much, each into a class of its own of a fair share. The rest share what
is left, and are looked at again. Pure; a step at a time, for what it does must be seen first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Observation:
    """What one function did since the last step."""

    occupied: float  # ways of the cache
    broken: bool  # its promise of latency
    misses_much: bool


@dataclass(frozen=True)
class CacheClass:
    """Functions that share a number of cache ways."""

    members: tuple[str, ...]
    ways: int


@dataclass(frozen=True)
class WayShares:
    """All leased ways, divided. Every function is in one class, and every class has a way."""

    rest: CacheClass | None  # that is still looked at; None: all is divided
    settled: tuple[CacheClass, ...] = ()

    @property
    def classes(self) -> tuple[CacheClass, ...]:
        """All of them."""
        return (*self.settled, self.rest) if self.rest else self.settled

    @property
    def members(self) -> frozenset[str]:
        """All functions."""
        return frozenset(name for clos in self.classes for name in clos.members)

    @property
    def ways(self) -> int:
        """Of all classes."""
        return sum(clos.ways for clos in self.classes)


def undivided(members: Sequence[str], ways: int) -> WayShares:
    """All in one class."""
    return WayShares(CacheClass(tuple(sorted(members)), ways) if members else None)


def divided(
    shares: WayShares, observed: Mapping[str, Observation], most_classes: int
) -> WayShares | None:
    """One step further; None: there is none, or no promise is broken.

    `most_classes`: of service, for all of these functions. A function that was not observed
    occupies nothing and keeps its promise.
    """
    rest = shares.rest
    if rest is None or not any(seen.broken for seen in observed.values()):
        return None
    idle = Observation(0.0, broken=False, misses_much=False)
    seen = {name: observed.get(name, idle) for name in rest.members}
    fair = rest.ways / len(rest.members)
    below = [name for name in rest.members if seen[name].occupied < fair]
    missing = [name for name in below if seen[name].broken and seen[name].misses_much]
    together = tuple(name for name in below if name not in missing)
    # As many classes as there are ways and numbers for; who finds none stays with the rest.
    limit = min(rest.ways, most_classes - len(shares.settled))
    for count in range(len(missing), -1, -1):
        alone = missing[:count]
        left = tuple(name for name in rest.members if name not in {*together, *alone})
        if bool(together) + count + bool(left) <= limit:
            break
    else:
        return None
    if bool(together) + len(alone) + bool(left) == 1:
        return None  # the class that there is
    wanted = [CacheClass((name,), max(1, round(fair))) for name in alone]
    if together:
        occupied = sum(seen[name].occupied for name in together)
        wanted.append(CacheClass(together, max(1, round(occupied))))
    ways = rest.ways - (1 if left else 0)
    wanted = _shrunk(wanted, ways)
    spare = rest.ways - sum(clos.ways for clos in wanted)
    if left:
        return WayShares(CacheClass(left, spare), (*shares.settled, *wanted))
    return WayShares(None, (*shares.settled, *_enlarged(wanted, spare)))


def _shrunk(classes: Sequence[CacheClass], ways: int) -> list[CacheClass]:
    """A way less for the largest until they have room; one is left to each."""
    found = [*classes]
    while sum(clos.ways for clos in found) > ways:
        largest = max(found, key=lambda clos: clos.ways)
        found[found.index(largest)] = replace(largest, ways=largest.ways - 1)
    return found


def _enlarged(classes: Sequence[CacheClass], spare: int) -> list[CacheClass]:
    """A way more for the smallest for each member, until all are given."""
    found = [*classes]
    for _ in range(spare):
        smallest = min(found, key=lambda clos: clos.ways / len(clos.members))
        found[found.index(smallest)] = replace(smallest, ways=smallest.ways + 1)
    return found

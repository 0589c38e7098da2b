"""What an emulated resctrl tree is of: caches, classes, counters, CPUs, threads.

Two of these are given by whoever makes one: which threads there are, and what they do to the cache.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from unis.isolate.hardware import LastLevelCache
from unis.isolate.masks import mask_of

EVENTS = ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")
_PROC = Path("/proc")


@dataclass(frozen=True)
class EmulatedCache:
    """A level of cache with CAT; all of its domains are alike."""

    ways: int
    way_bytes: int
    domains: tuple[int, ...] = (0,)  # cache IDs
    closids: int = 16  # without CDP, which halves them
    min_bits: int = 1
    shareable: int = 0  # mask
    sparse: bool = False
    cdp: bool = False
    io_alloc: bool = False  # L3 of AMD's Zen 5 and later

    @property
    def full(self) -> int:
        """The mask of all ways."""
        return mask_of(0, self.ways)

    @property
    def num_closids(self) -> int:
        """As resctrl counts them."""
        return self.closids // 2 if self.cdp else self.closids


@dataclass(frozen=True)
class Throttle:
    """Memory bandwidth allocation."""

    least: int = 10
    step: int = 10
    most: int = 100
    linear: bool = True
    closids: int = 8
    mibps: bool = False  # mounted with mba_MBps
    domains: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class EmulatedMachine:
    """As a machine's CPUID would say."""

    l3: EmulatedCache | None = field(default_factory=lambda: EmulatedCache(20, (45 << 20) // 20))
    l2: EmulatedCache | None = None
    throttle: Throttle | None = None
    rmids: int = 0  # 0: no monitoring
    events: tuple[str, ...] = EVENTS
    max_threshold: int = 65536
    cpus: Mapping[int, tuple[int, ...]] = field(default_factory=lambda: {0: (0, 1)})  # by L3

    @property
    def caches(self) -> dict[str, EmulatedCache]:
        """By resource, as `schemata` calls them."""
        found: dict[str, EmulatedCache] = {}
        for name, cache in (("L2", self.l2), ("L3", self.l3)):
            if cache:
                halves = ("CODE", "DATA") if cache.cdp else ("",)
                found |= {name + half: cache for half in halves}
        return found

    @property
    def all_cpus(self) -> frozenset[int]:
        """Those that are online."""
        return frozenset(cpu for cpus in self.cpus.values() for cpu in cpus)

    def domain_of(self, cpu: int) -> int | None:
        """The cache ID of a CPU's L3, which is the only one if there is one; None: it has none."""
        if len(self.cpus) == 1:
            return next(iter(self.cpus))
        return next((ident for ident, cpus in self.cpus.items() if cpu in cpus), None)

    @property
    def num_closids(self) -> int:
        """Of the whole tree: the least of all resources; 0 where nothing is allocated."""
        counts = [cache.num_closids for cache in self.caches.values()]
        counts += [self.throttle.closids] if self.throttle else []
        return min(counts, default=0)

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Self:
        """What `as_dict` gave, perhaps after JSON made texts of the keys."""
        whole = dict(data)
        for name, kind in (("l3", EmulatedCache), ("l2", EmulatedCache), ("throttle", Throttle)):
            if whole[name] is not None:
                part = dict(whole[name])
                whole[name] = kind(**part | {"domains": tuple(part["domains"])})
        whole["events"] = tuple(whole["events"])
        whole["cpus"] = {int(key): tuple(cpus) for key, cpus in whole["cpus"].items()}
        return cls(**whole)


class Threads(Protocol):
    """The threads that there are."""

    def born(self, tid: int) -> int | None:
        """When it began, in any unit: of a number that is used again another. None: there is
        none.
        """

    def all(self) -> Iterable[int]:
        """Every thread."""


class ProcThreads:
    """Those of this machine."""

    def __init__(self, proc: Path = _PROC) -> None:
        self._proc = proc

    def born(self, tid: int) -> int | None:
        """Clock ticks after boot."""
        try:
            stat = (self._proc / str(tid) / "stat").read_text()
            return int(stat.rpartition(")")[2].split()[19])
        except (OSError, ValueError, IndexError):
            return None

    def all(self) -> Iterable[int]:
        """By process."""
        for process in self._proc.iterdir():
            if process.name.isdigit():
                try:
                    yield from sorted(int(one.name) for one in (process / "task").iterdir())
                except OSError:
                    continue  # it has ended


class MadeThreads:
    """Those of a set: for tests and simulations."""

    def __init__(self, tids: Iterable[int]) -> None:
        self.alive = set(tids)

    def born(self, tid: int) -> int | None:
        """All at once."""
        return 0 if tid in self.alive else None

    def all(self) -> Iterable[int]:
        """In order."""
        return sorted(self.alive)


@dataclass(frozen=True)
class Question:
    """What a counter of a group is asked."""

    event: (
        str  # llc_occupancy: bytes now; mbm_total_bytes, mbm_local_bytes: since the group was made
    )
    domain: int  # cache ID
    group: str  # path; the root's is empty
    tasks: frozenset[int]
    mask: int  # ways that they may fill; under CDP those for data


class GroupCounters(Protocol):
    """What the cache and the memory of an emulated machine count."""

    def read(self, question: Question) -> int | None:
        """Bytes; None: they cannot tell."""


def like(caches: Mapping[int, LastLevelCache]) -> EmulatedMachine:
    """One with the last-level caches of a real machine, and what CPUs with CAT usually have."""
    first = next(iter(caches.values()), None)
    if first is None:
        return EmulatedMachine(rmids=64)
    l3 = EmulatedCache(first.ways, first.way_bytes, tuple(sorted(caches)))
    cpus = {ident: tuple(sorted(cache.cpus)) for ident, cache in sorted(caches.items())}
    return EmulatedMachine(l3=l3, rmids=64, cpus=cpus)

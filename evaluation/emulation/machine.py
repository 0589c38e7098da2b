"""The machine of an emulated resctrl tree: caches, classes, counters, CPUs, threads.

The maker of a tree provides the threads, and the counters of what they do to the cache.
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
    """A cache level with CAT; its domains are alike."""

    ways: int
    way_bytes: int
    domains: tuple[int, ...] = (0,)  # cache IDs
    closids: int = 16  # without CDP, which halves the number
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
        """The number of classes, as resctrl reports it."""
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
    """The properties that CPUID would report."""

    l3: EmulatedCache | None = field(default_factory=lambda: EmulatedCache(20, (45 << 20) // 20))
    l2: EmulatedCache | None = None
    throttle: Throttle | None = None
    rmids: int = 0  # 0: no monitoring
    events: tuple[str, ...] = EVENTS
    max_threshold: int = 65536
    cpus: Mapping[int, tuple[int, ...]] = field(
        default_factory=lambda: {0: (0, 1)}
    )  # by cache ID of the L3

    @property
    def caches(self) -> dict[str, EmulatedCache]:
        """By resource name in `schemata`."""
        found: dict[str, EmulatedCache] = {}
        for name, cache in (("L2", self.l2), ("L3", self.l3)):
            if cache:
                halves = ("CODE", "DATA") if cache.cdp else ("",)
                found |= {name + half: cache for half in halves}
        return found

    @property
    def all_cpus(self) -> frozenset[int]:
        """The online CPUs."""
        return frozenset(cpu for cpus in self.cpus.values() for cpu in cpus)

    def domain_of(self, cpu: int) -> int | None:
        """The cache ID of a CPU's L3; of any CPU if there is one L3 only. None: no L3."""
        if len(self.cpus) == 1:
            return next(iter(self.cpus))
        return next((ident for ident, cpus in self.cpus.items() if cpu in cpus), None)

    @property
    def num_closids(self) -> int:
        """The classes of the tree: the minimum over resources; 0 without allocation."""
        counts = [cache.num_closids for cache in self.caches.values()]
        counts += [self.throttle.closids] if self.throttle else []
        return min(counts, default=0)

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Self:
        """Reads what `as_dict` gave, also after JSON turned its keys into texts."""
        fields = dict(data)
        for name, kind in (("l3", EmulatedCache), ("l2", EmulatedCache), ("throttle", Throttle)):
            if fields[name] is not None:
                part = dict(fields[name])
                fields[name] = kind(**part | {"domains": tuple(part["domains"])})
        fields["events"] = tuple(fields["events"])
        fields["cpus"] = {int(key): tuple(cpus) for key, cpus in fields["cpus"].items()}
        return cls(**fields)


class Threads(Protocol):
    """The threads of the machine."""

    def born(self, tid: int) -> int | None:
        """The start time in any unit: it changes if a TID is reused. None: no such thread."""

    def all(self) -> Iterable[int]:
        """The TIDs of all threads."""


class ProcThreads:
    """The threads of this machine."""

    def __init__(self, proc: Path = _PROC) -> None:
        self._proc = proc

    def born(self, tid: int) -> int | None:
        """The start in clock ticks after boot."""
        try:
            stat = (self._proc / str(tid) / "stat").read_text()
            return int(stat.rpartition(")")[2].split()[19])
        except (OSError, ValueError, IndexError):
            return None

    def all(self) -> Iterable[int]:
        """Process by process."""
        for process in self._proc.iterdir():
            if process.name.isdigit():
                try:
                    yield from sorted(int(task.name) for task in (process / "task").iterdir())
                except OSError:
                    continue  # it has ended


@dataclass(frozen=True)
class Question:
    """A request to read a counter of a group."""

    # llc_occupancy: bytes now; mbm_total_bytes, mbm_local_bytes: since the group was made
    event: str
    domain: int  # cache ID
    group: str  # path; the root's is empty
    tasks: frozenset[int]
    mask: int  # ways that the tasks may fill; under CDP those for data


class GroupCounters(Protocol):
    """Counters of the cache and the memory of an emulated machine."""

    def read(self, question: Question) -> int | None:
        """Bytes; None: unknown."""


def like(caches: Mapping[int, LastLevelCache]) -> EmulatedMachine:
    """A machine with real last-level caches, and the usual properties of CPUs with CAT."""
    first = next(iter(caches.values()), None)
    if first is None:
        return EmulatedMachine(rmids=64)
    l3 = EmulatedCache(first.ways, first.way_bytes, tuple(sorted(caches)))
    cpus = {ident: tuple(sorted(cache.cpus)) for ident, cache in sorted(caches.items())}
    return EmulatedMachine(l3=l3, rmids=64, cpus=cpus)

"""What a tree holds: to be put back later, to plan beside it, or to be shown.

Plain data, for JSON. A group of the tree is called by its path, the root by the empty text.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from unis.isolate.hardware import IoWays
from unis.isolate.info import (
    IO_ALLOC_DISABLED,
    IO_ALLOC_ENABLED,
    CacheInfo,
    CacheResource,
    read_info,
)
from unis.isolate.masks import union
from unis.isolate.schemata import Schemata, parse
from unis.isolate.tree import (
    MON_GROUPS,
    Tree,
    TreeError,
    control_groups,
    inside,
    monitor_groups,
    tasks,
)

SHAREABLE, EXCLUSIVE = "shareable", "exclusive"
OCCUPANCY = "llc_occupancy"
TRAFFIC = "mbm_total_bytes"  # to and from memory

# Bytes by cache ID; None: unavailable. Empty: not counted here.
Counts = dict[int, int | None]


@dataclass(frozen=True)
class GroupState:
    """A class as it is or shall be."""

    schemata: Schemata
    mode: str = SHAREABLE
    monitors: tuple[str, ...] = ()  # names of its MON groups

    def mask(self, resources: Iterable[CacheResource], domain: int) -> int:
        """Its ways of one cache, with CDP of both halves."""
        return union(self.schemata.get(resource.name, {}).get(domain, 0) for resource in resources)


@dataclass(frozen=True)
class TreeState:
    """Some groups of a tree, the groups of threads, and the ways of I/O."""

    groups: Mapping[str, GroupState]
    seats: Mapping[int, str] = field(default_factory=dict)  # by thread; absent: only in the root
    io_alloc: Mapping[str, Mapping[int, int] | None] = field(default_factory=dict)  # None: disabled


@dataclass(frozen=True)
class Record:
    """All that undoing needs: noted before anything is changed."""

    tree: str  # its label: what is noted of one is not put back in another
    made: tuple[str, ...] = ()  # groups that we make
    before: TreeState = field(default_factory=lambda: TreeState({}))


def read_group(tree: Tree, name: str) -> GroupState:
    """A class as it is. TreeError if it is gone."""
    return GroupState(
        schemata=parse(tree.read(inside(name, "schemata"))),
        mode=tree.read(inside(name, "mode")).strip(),
        monitors=tuple(monitor_groups(tree, name)),
    )


def foreign_groups(tree: Tree, ours: Collection[str] = ()) -> dict[str, GroupState]:
    """The groups that are not `ours`, by name."""
    return {name: read_group(tree, name) for name in control_groups(tree) if name not in ours}


def read_seats(tree: Tree, groups: Collection[str]) -> dict[int, str]:
    """The group of each thread; of the root only threads of its MON groups, as all are in it."""
    seats: dict[int, str] = {}
    for group in groups:
        if group:
            seats |= dict.fromkeys(tasks(tree, group), group)
        for monitor in monitor_groups(tree, group):
            path = inside(group, f"{MON_GROUPS}/{monitor}")
            seats |= dict.fromkeys(tasks(tree, path), path)
    return seats


def read_io_alloc(info: CacheInfo) -> dict[str, dict[int, int] | None]:
    """The ways of I/O in caches where they can be set; with CDP both halves have the same."""
    return {
        cache.name: dict(cache.io_alloc_cbm) if cache.io_alloc == IO_ALLOC_ENABLED else None
        for cache in info.caches.values()
        if cache.io_alloc in (IO_ALLOC_ENABLED, IO_ALLOC_DISABLED)
    }


def read_counts(tree: Tree, info: CacheInfo, group: str, event: str) -> Counts:
    """What is counted of an event of a group: OCCUPANCY or TRAFFIC."""
    if info.monitoring is None or event not in info.monitoring.features:
        return {}
    counts: Counts = {}
    for domain in info.monitoring.domains:
        text = tree.read(inside(group, f"mon_data/mon_L3_{domain:02}/{event}")).strip()
        counts[domain] = int(text) if text.isdigit() else None
    return counts


# ---------------------------------------------------------------- to be shown


@dataclass(frozen=True)
class MonitorUsage:
    """A MON group: some threads of a class, counted apart."""

    name: str
    threads: int
    occupancy: Counts


@dataclass(frozen=True)
class ClassUsage:
    """A group with a class of its own."""

    name: str  # the root's is empty
    mode: str
    schemata: Schemata
    threads: int
    occupancy: Counts
    parts: tuple[MonitorUsage, ...]


@dataclass(frozen=True)
class CacheUsage:
    """All of a tree."""

    label: str
    emulated: bool
    info: CacheInfo
    io: IoWays
    classes: tuple[ClassUsage, ...]  # the root's last

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "tree": self.label,
            "emulated": self.emulated,
            "io": {"source": self.io.source, "told": self.io.told, "masks": self.io.masks},
            "num_closids": self.info.num_closids,
            "caches": {
                name: {
                    "ways": cache.ways,
                    "way_bytes": cache.way_bytes,
                    "bit_usage": cache.bit_usage,
                }
                for name, cache in self.info.caches.items()
            },
            "classes": [asdict(usage) for usage in self.classes],
        }


def read_usage(tree: Tree, io: IoWays) -> CacheUsage:
    """Leaves out groups that vanish meanwhile. TreeError if there is no tree."""
    info = read_info(tree)
    classes = []
    for name in (*control_groups(tree), ""):
        try:
            classes.append(_class_usage(tree, info, name))
        except TreeError:
            if not name:
                raise
    return CacheUsage(tree.label, tree.emulated, info, io, tuple(classes))


def _class_usage(tree: Tree, info: CacheInfo, name: str) -> ClassUsage:
    if info.caches or info.bandwidth:
        state = read_group(tree, name)
    else:  # a machine that only counts has no masks
        state = GroupState({}, monitors=tuple(monitor_groups(tree, name)))
    parts = []
    for monitor in state.monitors:
        path = inside(name, f"{MON_GROUPS}/{monitor}")
        counts = read_counts(tree, info, path, OCCUPANCY)
        parts.append(MonitorUsage(monitor, len(tasks(tree, path)), counts))
    return ClassUsage(
        name=name,
        mode=state.mode,
        schemata=state.schemata,
        threads=len(tasks(tree, name)),
        occupancy=read_counts(tree, info, name, OCCUPANCY),
        parts=tuple(parts),
    )

"""A tree as one sees it: classes, their ways, who is in them and what they have in the cache."""

from dataclasses import dataclass
from typing import Any

from unis.isolate.info import CacheInfo, read_info
from unis.isolate.io_ways import IoWays
from unis.isolate.record import GroupState, read_group
from unis.isolate.schemata import Schemata
from unis.isolate.tree import (
    MON_GROUPS,
    Tree,
    TreeError,
    control_groups,
    inside,
    monitor_groups,
    tasks,
)

OCCUPANCY = "llc_occupancy"
TRAFFIC = "mbm_total_bytes"  # to and from memory


@dataclass(frozen=True)
class MonitorGroup:
    """A MON group: some threads of a class, counted apart."""

    name: str
    threads: int
    occupancy: dict[int, int | None]  # bytes by cache ID; None: nobody can tell


@dataclass(frozen=True)
class ClassSeen:
    """A group with a class of its own."""

    name: str  # the root's is empty
    mode: str
    schemata: Schemata
    threads: int
    occupancy: dict[int, int | None]
    parts: tuple[MonitorGroup, ...]


@dataclass(frozen=True)
class Sight:
    """All of a tree."""

    label: str
    emulated: bool
    info: CacheInfo
    io: IoWays
    classes: tuple[ClassSeen, ...]  # the root's last

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "tree": self.label,
            "emulated": self.emulated,
            "io": {"source": self.io.source, "told": self.io.told, "masks": dict(self.io.masks)},
            "num_closids": self.info.num_closids,
            "caches": {
                name: {
                    "ways": cache.ways,
                    "way_bytes": dict(cache.way_bytes),
                    "bit_usage": dict(cache.bit_usage),
                }
                for name, cache in self.info.caches.items()
            },
            "classes": [
                {
                    "name": one.name,
                    "mode": one.mode,
                    "schemata": {name: dict(values) for name, values in one.schemata.items()},
                    "threads": one.threads,
                    "occupancy": one.occupancy,
                    "parts": [vars(part) for part in one.parts],
                }
                for one in self.classes
            ],
        }


def see(tree: Tree, io: IoWays) -> Sight:
    """As it is now; a group that goes meanwhile is left out. TreeError where there is none."""
    info = read_info(tree)
    classes = []
    for name in (*control_groups(tree), ""):
        try:
            classes.append(_class(tree, info, name))
        except TreeError:
            if not name:
                raise
    return Sight(tree.label, tree.emulated, info, io, tuple(classes))


def _class(tree: Tree, info: CacheInfo, name: str) -> ClassSeen:
    if info.caches or info.bandwidth:
        state = read_group(tree, name)
    else:  # a machine that only counts has no masks
        state = GroupState({}, monitors=tuple(monitor_groups(tree, name)))
    paths = {one: inside(name, f"{MON_GROUPS}/{one}") for one in state.monitors}
    parts = [
        MonitorGroup(one, len(tasks(tree, path)), occupancy(tree, info, path))
        for one, path in paths.items()
    ]
    return ClassSeen(
        name=name,
        mode=state.mode,
        schemata=state.schemata,
        threads=len(tasks(tree, name)),
        occupancy=occupancy(tree, info, name),
        parts=tuple(parts),
    )


def occupancy(tree: Tree, info: CacheInfo, group: str) -> dict[int, int | None]:
    """Bytes of L3 that a group has, by cache ID; None: unavailable. Empty: nobody counts."""
    return counted(tree, info, group, OCCUPANCY)


def counted(tree: Tree, info: CacheInfo, group: str, event: str) -> dict[int, int | None]:
    """Bytes of an event of a group, by cache ID; None: unavailable. Empty: nobody counts."""
    if info.monitoring is None or event not in info.monitoring.features:
        return {}
    found: dict[int, int | None] = {}
    for domain in info.monitoring.domains:
        said = tree.read(inside(group, f"mon_data/mon_L3_{domain:02}/{event}")).strip()
        found[domain] = int(said) if said.isdigit() else None
    return found

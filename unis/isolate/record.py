"""What a tree was before it was changed: noted before anything is, so that it can be put back.

Plain data, for JSON. A group of the tree is called by its path, the root by the empty text.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from unis.isolate.info import IO_ALLOC_ENABLED, CacheInfo
from unis.isolate.schemata import Schemata, parse
from unis.isolate.tree import (
    MON_GROUPS,
    Tree,
    control_groups,
    inside,
    monitor_groups,
    tasks,
)
from unis.isolate.wants import OtherGroup

SHAREABLE, EXCLUSIVE = "shareable", "exclusive"


@dataclass(frozen=True)
class GroupState:
    """A class as it is or shall be."""

    schemata: Schemata
    mode: str = SHAREABLE
    monitors: tuple[str, ...] = ()  # names of its MON groups


@dataclass(frozen=True)
class TreeState:
    """Some groups of a tree, which threads are where, and what I/O has."""

    groups: Mapping[str, GroupState]
    seats: Mapping[int, str] = field(
        default_factory=dict
    )  # by thread; in no other than the root: absent
    io_alloc: Mapping[str, Mapping[int, int] | None] = field(default_factory=dict)  # None: disabled


@dataclass(frozen=True)
class Record:
    """All that undoing needs."""

    tree: str  # its label: what is noted of one is not put back in another
    made: tuple[str, ...] = ()  # groups that we make
    before: TreeState = field(default_factory=lambda: TreeState({}))


def read_group(tree: Tree, name: str) -> GroupState:
    """A class as it is. TreeError where it is gone."""
    return GroupState(
        schemata=parse(tree.read(inside(name, "schemata"))),
        mode=tree.read(inside(name, "mode")).strip(),
        monitors=tuple(monitor_groups(tree, name)),
    )


def read_seats(tree: Tree, groups: Collection[str]) -> dict[int, str]:
    """The threads of these groups; of the root only those of its MON groups, as all others are
    there.
    """
    seats: dict[int, str] = {}
    for group in groups:
        if group:
            seats |= dict.fromkeys(tasks(tree, group), group)
        for monitor in monitor_groups(tree, group):
            path = inside(group, f"{MON_GROUPS}/{monitor}")
            seats |= dict.fromkeys(tasks(tree, path), path)
    return seats


def read_io_alloc(info: CacheInfo) -> dict[str, dict[int, int] | None]:
    """What I/O has, of the caches where that can be set; under CDP both halves have the same."""
    return {
        cache.name: dict(cache.io_alloc_cbm) if cache.io_alloc == IO_ALLOC_ENABLED else None
        for cache in info.caches.values()
        if cache.io_alloc in (IO_ALLOC_ENABLED, "disabled")
    }


def strangers(tree: Tree, ours: Collection[str] = ()) -> list[OtherGroup]:
    """The groups that are not `ours`, for a plan beside them."""
    found = []
    for name in control_groups(tree):
        if name not in ours:
            state = read_group(tree, name)
            exclusive = state.mode == EXCLUSIVE
            found.append(OtherGroup(name, state.schemata, exclusive, len(state.monitors)))
    return found

"""Emulated resctrl trees for tests, what is in them, and requests for plans."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from evaluation.emulation.machine import EmulatedCache, EmulatedMachine, Throttle
from evaluation.emulation.tree import EmulatedTree
from unis.isolate.request import CacheRequest
from unis.isolate.state import read_seats
from unis.isolate.tree import Tree, control_groups, inside, monitor_groups

WAY = (45 << 20) // 20  # bytes: a Xeon E5-2680 v4's half, as in the paper's servers of 20 ways
THREADS = range(100, 140)


class FixedThreads:
    """A given set of threads."""

    def __init__(self, tids: Iterable[int]) -> None:
        self.alive = set(tids)

    def born(self, tid: int) -> int | None:
        return 0 if tid in self.alive else None

    def all(self) -> Iterable[int]:
        return sorted(self.alive)


# The paper's server: 20 ways, of which DDIO has the highest two.
PAPER = EmulatedMachine(l3=EmulatedCache(20, WAY, shareable=0xC0000), rmids=64)
# Two sockets, everything that resctrl knows.
RICH = EmulatedMachine(
    l3=EmulatedCache(20, WAY, (0, 1), closids=16, shareable=0xC0000),
    l2=EmulatedCache(8, 1 << 17, (0, 1, 2, 3), closids=8),
    throttle=Throttle(domains=(0, 1), closids=8),
    rmids=64,
    cpus={0: (0, 1), 1: (2, 3)},
)
AMD = EmulatedMachine(
    l3=EmulatedCache(16, 2 << 20, closids=16, min_bits=0, sparse=True, io_alloc=True)
)
CDP = EmulatedMachine(l3=EmulatedCache(16, 2 << 20, closids=16, cdp=True), rmids=32)


def tree_of(folder: Path, machine: EmulatedMachine = PAPER) -> EmulatedTree:
    return EmulatedTree(folder, machine, FixedThreads(THREADS))


def picture(tree: Tree) -> dict[str, Any]:
    """All that commands can change."""
    found: dict[str, Any] = {"threads": read_seats(tree, ["", *control_groups(tree)])}
    for name in ["", *control_groups(tree)]:
        for file in ("schemata", "mode", "cpus_list"):
            found[inside(name, file)] = tree.read(inside(name, file))
        found[inside(name, "monitors")] = monitor_groups(tree, name)
    for cache in ("L3", "L3CODE"):
        if cache in tree.folders("info"):
            found[f"{cache} usage"] = tree.read(f"info/{cache}/bit_usage")
    return found


def masks(text: str) -> Iterator[int]:
    """Of a picture's schemata."""
    for line in text.splitlines():
        name, _, values = line.strip().partition(":")
        if name != "MB":
            yield from (int(part.partition("=")[2], 16) for part in values.split(";"))


NAMES = st.sampled_from(["fw", "nat", "ids", "lpm", "vpn", "dpi"])


@st.composite
def requests(draw: st.DrawFn, *, ways: int = 15) -> dict[str, CacheRequest]:
    """Some of which no cache of so many ways is too small for."""
    found: dict[str, CacheRequest] = {}
    left = ways
    for name in draw(st.lists(NAMES, unique=True, max_size=6)):
        if left == 0:
            break
        count = draw(st.integers(1, left))
        left -= count
        share = draw(st.sampled_from([None, None, "core1", "core2"]))
        found[name] = CacheRequest(count, share)
    return found

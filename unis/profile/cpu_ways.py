"""Cache ways for all that runs on one CPU, by resctrl, for as long as a function is profiled there.

The CPU gets a class of its own, and everybody else the ways that are left, so that nobody else
fills those that are measured. Where the function has all ways but I/O's, everybody else has I/O's,
or one that it shares.
"""

import contextlib
from collections.abc import Iterator

from unis.isolate.hardware import IoWays
from unis.isolate.info import CacheResource, read_info
from unis.isolate.masks import longest_run, mask_of
from unis.isolate.schemata import format_lines, parse
from unis.isolate.tree import Tree, TreeError, control_groups, inside
from unis.runtime.errors import LaunchError

_GROUP = "unis-profile"


class CpuWays:
    """Ways of one last-level cache, the lowest that I/O does not fill."""

    def __init__(self, tree: Tree, caches: tuple[CacheResource, ...], domain: int, io: int) -> None:
        self._tree = tree
        self._caches = caches  # two under CDP
        self._domain = domain
        self._io = io | caches[0].shareable_bits
        free = caches[0].cbm_mask & ~self._io
        self._first, self.most = longest_run(free)

    def set(self, ways: int) -> None:
        """Limits the CPU to filling `ways` cache ways. TreeError where the kernel refuses that."""
        least = self._caches[0].least
        if not least <= ways <= self.most:
            raise LaunchError(f"functions may have {least} to {self.most} ways here, not {ways}")
        mask = mask_of(self._first, ways)
        rest = mask_of(self._first + ways, self.most - ways)
        if rest.bit_count() < least:
            rest = self._io or mask_of(self._first + ways - least, least)
        # Narrower first, so that both never have what one is to have alone.
        now = parse(self._tree.read(inside(_GROUP, "schemata")))[self._caches[0].name]
        grows = ways > now[self._domain].bit_count()
        order = (("", rest), (_GROUP, mask)) if grows else ((_GROUP, mask), ("", rest))
        for group, ways_mask in order:
            for cache in self._caches:
                line = format_lines({cache.name: {self._domain: ways_mask}})
                self._tree.write(inside(group, "schemata"), line)


@contextlib.contextmanager
def ways_of_cpu(tree: Tree, io: IoWays, cpu: int, domain: int) -> Iterator[CpuWays]:
    """While this lasts the CPU has a class of its own; then all is as it was.

    LaunchError where there is no cache allocation, or another profile is measured.
    """
    caches = read_info(tree).of_level("L3")
    if not caches:
        raise LaunchError(f"{tree.label} cannot allocate L3")
    if _GROUP in control_groups(tree):
        raise LaunchError(
            f"{tree.label} has a group {_GROUP}: another profile is measured, or was killed; "
            "where none is, remove it (rmdir) and give the root's `schemata` all ways again"
        )
    if others := control_groups(tree):
        raise LaunchError(
            f"{tree.label} has classes of others ({', '.join(others[:3])}), whose functions would "
            "fill the ways that are measured: end them (`unis agent … --release`)"
        )
    before = parse(tree.read("schemata"))
    tree.make(_GROUP)
    try:
        tree.write(inside(_GROUP, "cpus_list"), f"{cpu}\n")
        yield CpuWays(tree, caches, domain, io.masks.get(domain, 0))
    finally:
        for cache in caches:
            with contextlib.suppress(TreeError):
                tree.write("schemata", format_lines({cache.name: before[cache.name]}))
        with contextlib.suppress(TreeError):
            tree.remove(_GROUP)

"""resctrl as the commands see it: the kernel's, or the emulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unis.isolate.emulated_machine import Counters
    from unis.isolate.io_ways import IoWays
    from unis.isolate.tree import Tree


def tree_of_this_machine(
    *, emulated: bool, counters: Counters | None = None
) -> tuple[Tree, IoWays]:
    """And the ways that DMA fills. NoTreeError where there is no resctrl, and it says what to do.

    The emulation is as this machine's cache, or as it was when it began.
    """
    from unis.isolate.emulated import EmulatedTree, emulates
    from unis.isolate.emulated_machine import like
    from unis.isolate.info import read_info
    from unis.isolate.io_ways import io_ways
    from unis.isolate.look import look
    from unis.isolate.tree import kernel_tree
    from unis.runtime.directory import emulated_resctrl

    found = look()
    if not emulated:
        return kernel_tree(), found.io
    folder = emulated_resctrl()
    machine = None if emulates(folder) else like(found.caches)
    tree = EmulatedTree(folder, machine, counters=counters)
    return tree, io_ways(read_info(tree), {}, "")

"""What this machine has for cache isolation; nothing is changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unis.isolate.geometry import LastLevelCache, last_level_caches
from unis.isolate.info import CacheInfo, read_info
from unis.isolate.io_ways import IoWays, io_ways, vendor
from unis.isolate.tree import DEFAULT_PLACE, KernelTree, TreeError

FILE_SYSTEMS = Path("/proc/filesystems")


@dataclass(frozen=True)
class Found:
    """All that is told of it."""

    mounted: bool  # resctrl
    supported: bool  # by the kernel on this CPU, mounted or not
    trouble: str  # why resctrl cannot be read though it is mounted; else empty
    info: CacheInfo
    caches: Mapping[int, LastLevelCache]  # L3, by cache ID
    io: IoWays

    def domain_of(self, cpu: int) -> int | None:
        """The cache ID of a CPU's L3."""
        return next((ident for ident, of in self.caches.items() if cpu in of.cpus), None)


def look(place: Path = DEFAULT_PLACE, file_systems: Path = FILE_SYSTEMS) -> Found:
    """Of this machine."""
    tree = KernelTree(place)
    mounted, trouble, info = tree.is_mounted(), "", CacheInfo()
    if mounted:
        try:
            info = read_info(tree)
        except TreeError as error:
            trouble = str(error)
    caches = last_level_caches()
    try:
        supported = "resctrl" in file_systems.read_text().split()
    except OSError:
        supported = False
    io = io_ways(info, caches, vendor())
    return Found(mounted, supported or mounted, trouble, info, caches, io)

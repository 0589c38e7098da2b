"""Where a profile holds: the machine, as far as it matters to caches and cores."""

import platform
from pathlib import Path

from pydantic import BaseModel

from unis.plan.rings import last_level_cache
from unis.runtime.costs import cpu_model
from unis.runtime.doctor.software import dpdk_version

_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")


class Place(BaseModel):
    """A machine."""

    cpu: str
    cpus: int
    cache_bytes: int  # of the last level; 0 where the kernel does not tell
    ways: int  # of it; 0 likewise
    kernel: str
    dpdk: str

    def __str__(self) -> str:
        cache = (
            f"{self.cache_bytes >> 20} MiB in {self.ways} ways" if self.ways else "cache unknown"
        )
        return f"{self.cpu}, {self.cpus} CPUs, {cache}, Linux {self.kernel}, DPDK {self.dpdk}"


def this_place(cpus: int) -> Place:
    """This machine; a profile may use `cpus` of its CPUs."""
    return Place(
        cpu=cpu_model(),
        cpus=cpus,
        cache_bytes=last_level_cache() or 0,
        ways=ways_of(_CACHE),
        kernel=platform.release(),
        dpdk=dpdk_version() or "unknown",
    )


def ways_of(root: Path) -> int:
    """Of the last level of the cache of a CPU; 0 where the kernel does not tell.

    A hypervisor may tell what it likes, and some CPUs tell 0 of a cache that is not of ways.
    """
    found: list[tuple[int, int]] = []
    for index in root.glob("index*"):
        try:
            level = int((index / "level").read_text())
            found.append((level, int((index / "ways_of_associativity").read_text())))
        except (OSError, ValueError):
            continue
    return max(found, default=(0, 0))[1]

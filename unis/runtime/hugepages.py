"""Packet memory: where hugepages are mounted, and how many are still free."""

import re
from pathlib import Path

# The command that mounts them.
MOUNT = "mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages"

_UNIT_KB = {"": 1 / 1024, "k": 1, "m": 1024, "g": 1024 * 1024}
_MEMINFO = Path("/proc/meminfo")
_MOUNTS = Path("/proc/mounts")
_SYSFS = Path("/sys/kernel/mm/hugepages")


def default_page_kb() -> int:
    """The kernel's default size, which EAL uses first."""
    match = re.search(r"Hugepagesize:\s*(\d+)", _MEMINFO.read_text())
    return int(match[1]) if match else 0


def mounts() -> dict[Path, int]:
    """Where each hugetlbfs is mounted, and the kB of its pages."""
    found: dict[Path, int] = {}
    for line in _MOUNTS.read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "hugetlbfs":
            match = re.search(r"pagesize=(\d+)([kKmMgG]?)", options)
            size = int(int(match[1]) * _UNIT_KB[match[2].lower()]) if match else default_page_kb()
            found[Path(place)] = size
    return found


def directory() -> Path | None:
    """Where pages of the default size are mounted; None if they are not."""
    wanted = default_page_kb()
    return next((place for place, page_kb in mounts().items() if page_kb == wanted), None)


def free_mb() -> int:
    """Megabytes of free hugepages of the default size."""
    size = default_page_kb()
    pool = _SYSFS / f"hugepages-{size}kB"
    try:
        free = int((pool / "free_hugepages").read_text())
        reserved = int((pool / "resv_hugepages").read_text())
    except OSError:
        return 0
    return (free - reserved) * size // 1024

"""What this machine has for cache isolation: last-level caches, ways that DMA fills, resctrl.

Intel's Data Direct I/O (DDIO) puts what devices write into a few ways, by default the highest
two: register IIO_LLC_WAYS (MSR 0xC8B; Farshin et al., USENIX ATC 2020). CAT does not move it. On
AMD (Zen 5 and later) `io_alloc` gives devices a class of their own (Linux 6.19), which can be set.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from unis.isolate.info import IO_ALLOC_DISABLED, IO_ALLOC_ENABLED, CacheInfo, read_info
from unis.isolate.masks import mask_of
from unis.isolate.tree import DEFAULT_PLACE, KernelTree, TreeError

INTEL = "GenuineIntel"
IIO_LLC_WAYS = 0xC8B
_DDIO_DEFAULT_WAYS = 2
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

# What a CPU's IIO_LLC_WAYS says; None: it cannot be read.
ReadMsr = Callable[[int], int | None]


@dataclass(frozen=True)
class LastLevelCache:
    """An L3, as the kernel reports it without resctrl."""

    id: int
    size: int  # bytes
    ways: int
    cpus: frozenset[int]

    @property
    def way_bytes(self) -> int:
        """Of one way."""
        return self.size // self.ways


@dataclass(frozen=True)
class IoWays:
    """The ways that DMA fills, by cache ID; no entry: none are known."""

    source: Literal["io_alloc", "ddio", "shareable_bits", "assumed", "none"]
    told: str  # a sentence
    masks: Mapping[int, int] = field(default_factory=dict)
    way_bytes: Mapping[int, int] = field(default_factory=dict)

    @property
    def most(self) -> int:
        """Of a cache; 0 if none are known."""
        return max((mask.bit_count() for mask in self.masks.values()), default=0)

    def bytes_of(self, domain: int) -> int:
        """What fits into them."""
        return self.masks.get(domain, 0).bit_count() * self.way_bytes.get(domain, 0)


@dataclass(frozen=True)
class CacheHardware:
    """Everything that `detect` finds."""

    mounted: bool  # resctrl
    supported: bool  # resctrl, by the kernel on this CPU, mounted or not
    trouble: str  # why resctrl cannot be read though it is mounted; else empty
    info: CacheInfo
    caches: Mapping[int, LastLevelCache]  # L3, by cache ID
    io: IoWays

    def domain_of(self, cpu: int) -> int | None:
        """The cache ID of a CPU's L3."""
        return next((domain for domain, l3 in self.caches.items() if cpu in l3.cpus), None)


def detect(
    place: Path = DEFAULT_PLACE, file_systems: Path = Path("/proc/filesystems")
) -> CacheHardware:
    """This machine's caches; changes nothing."""
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
    return CacheHardware(mounted, supported or mounted, trouble, info, caches, io)


def last_level_caches(
    root: Path = Path("/sys/devices/system/cpu"),
) -> dict[int, LastLevelCache]:
    """By cache ID, as in `schemata`; leaves out caches that the kernel does not fully describe."""
    found: dict[int, LastLevelCache] = {}
    for folder in root.glob("cpu[0-9]*/cache/index[0-9]*"):
        try:
            cpu = int(folder.parents[1].name.removeprefix("cpu"))
            if (folder / "level").read_text().strip() != "3":
                continue
            size = bytes_of(folder / "size")
            ways = int((folder / "ways_of_associativity").read_text())
            domain = int((folder / "id").read_text())
        except (OSError, ValueError):
            continue
        if size and ways:
            cpus = found[domain].cpus if domain in found else frozenset()
            found[domain] = LastLevelCache(domain, size, ways, cpus | {cpu})
    return found


def bytes_of(file: Path) -> int:
    """A size as sysfs writes it, such as 33792K. OSError, ValueError."""
    text = file.read_text().strip()
    return int(text.rstrip("KMG")) * _UNITS.get(text[-1:], 1)


def vendor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Of the CPU, as `GenuineIntel`; empty if unknown."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return ""
    values = (line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id"))
    return next(values, "")


def read_msr(cpu: int, devices: Path = Path("/dev/cpu")) -> int | None:
    """IIO_LLC_WAYS through /dev/cpu/N/msr (module `msr`, root); None if it cannot be read."""
    try:
        handle = os.open(devices / str(cpu) / "msr", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(handle, 8, IIO_LLC_WAYS)
        finally:
            os.close(handle)
    except OSError:
        return None
    return int.from_bytes(data, "little") if len(data) == 8 else None


def io_ways(
    info: CacheInfo,
    caches: Mapping[int, LastLevelCache],
    maker: str,
    msr: ReadMsr = read_msr,
) -> IoWays:
    """From the best source: what the kernel allots, what the CPU says, what is usual."""
    l3 = next(iter(info.of_level("L3")), None)
    if l3:
        ways = dict.fromkeys(l3.domains, l3.ways)
        way_bytes = dict(l3.way_bytes)
    else:
        ways = {domain: cache.ways for domain, cache in caches.items()}
        way_bytes = {domain: cache.way_bytes for domain, cache in caches.items()}
    if l3 and l3.io_alloc == IO_ALLOC_ENABLED:
        told = "DMA fills the ways of io_alloc"
        return IoWays("io_alloc", told, dict(l3.io_alloc_cbm), way_bytes)
    if maker == INTEL and (masks := _ddio_masks(ways, caches, msr)):
        told = f"DMA fills the ways of DDIO, as register {IIO_LLC_WAYS:#x} says"
        return IoWays("ddio", told, masks, way_bytes)
    if l3 and l3.shareable_bits:
        told = "DMA fills the ways that resctrl calls shareable_bits"
        return IoWays("shareable_bits", told, dict.fromkeys(ways, l3.shareable_bits), way_bytes)
    if maker == INTEL and ways:
        masks = {}
        for domain, count in ways.items():
            few = min(count, _DDIO_DEFAULT_WAYS)
            masks[domain] = mask_of(count - few, few)
        told = (
            f"DMA is assumed to fill the highest {_DDIO_DEFAULT_WAYS} ways, DDIO's default: "
            f"register {IIO_LLC_WAYS:#x} cannot be read (`modprobe msr`, as root)"
        )
        return IoWays("assumed", told, masks, way_bytes)
    if not ways:
        return IoWays("none", "the kernel tells no last-level cache")
    which = f"a CPU of {maker}" if maker else "this CPU"
    disabled = l3 and l3.io_alloc == IO_ALLOC_DISABLED
    why = "io_alloc is there and not enabled" if disabled else "none is told"
    return IoWays("none", f"no ways for DMA are known on {which}: {why}", {}, way_bytes)


def _ddio_masks(
    ways: Mapping[int, int], caches: Mapping[int, LastLevelCache], msr: ReadMsr
) -> dict[int, int] | None:
    """None if the register of one socket cannot be read, or is no mask of its cache."""
    masks = {}
    for domain, count in ways.items():
        cpus = caches[domain].cpus if domain in caches else frozenset()
        mask = msr(min(cpus)) if cpus else None
        if not mask or mask.bit_length() > count:
            return None
        masks[domain] = mask
    return masks or None

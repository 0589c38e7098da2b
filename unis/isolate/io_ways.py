"""The ways of the last-level cache that DMA fills, which are kept free of functions.

Intel's Data Direct I/O (DDIO) puts what devices write into a few ways, by default the highest
two: register IIO_LLC_WAYS (MSR 0xC8B; Farshin et al., USENIX ATC 2020). CAT does not move it. On
AMD (Zen 5 and later) `io_alloc` gives what devices inject a class of its own (Linux 6.19); that
is the one that can be set here.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from unis.isolate.bitmask import mask_of
from unis.isolate.geometry import LastLevelCache
from unis.isolate.info import IO_ALLOC_ENABLED, CacheInfo

Source = Literal["io_alloc", "ddio", "shareable_bits", "assumed", "none"]

INTEL = "GenuineIntel"
IIO_LLC_WAYS = 0xC8B
_DEFAULT_WAYS = 2  # of DDIO
_CPU_DEVICES = Path("/dev/cpu")
_CPUINFO = Path("/proc/cpuinfo")

# What a CPU's IIO_LLC_WAYS says; None: it cannot be read.
ReadMsr = Callable[[int], int | None]


@dataclass(frozen=True)
class IoWays:
    """By cache ID; where there is none, DMA fills no way that is known."""

    source: Source
    told: str  # a sentence
    masks: Mapping[int, int] = field(default_factory=dict)
    way_bytes: Mapping[int, int] = field(default_factory=dict)

    @property
    def most(self) -> int:
        """Of a cache; 0 where none is known."""
        return max((mask.bit_count() for mask in self.masks.values()), default=0)

    def bytes_of(self, domain: int) -> int:
        """What fits into them."""
        return self.masks.get(domain, 0).bit_count() * self.way_bytes.get(domain, 0)


def vendor(cpuinfo: Path = _CPUINFO) -> str:
    """Of the CPU, as `GenuineIntel`; empty where that is not told."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "vendor_id":
            return value.strip()
    return ""


def read_msr(cpu: int, devices: Path = _CPU_DEVICES) -> int | None:
    """IIO_LLC_WAYS through /dev/cpu/N/msr (module `msr`, root); None where it cannot be had."""
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
    """The best that is known: what the kernel allots, what the CPU says, what is usual."""
    l3 = next(iter(info.of_level("L3")), None)
    if l3:
        ways = dict.fromkeys(l3.domains, l3.ways)
        way_bytes = dict(l3.way_bytes)
    else:
        ways = {ident: cache.ways for ident, cache in caches.items()}
        way_bytes = {ident: cache.way_bytes for ident, cache in caches.items()}
    if l3 and l3.io_alloc == IO_ALLOC_ENABLED:
        told = "DMA fills the ways of io_alloc"
        return IoWays("io_alloc", told, dict(l3.io_alloc_cbm), way_bytes)
    if maker == INTEL and (read := _ddio(ways, caches, msr)):
        told = f"DMA fills the ways of DDIO, as register {IIO_LLC_WAYS:#x} says"
        return IoWays("ddio", told, read, way_bytes)
    if l3 and l3.shareable_bits:
        told = "DMA fills the ways that resctrl calls shareable_bits"
        return IoWays("shareable_bits", told, dict.fromkeys(ways, l3.shareable_bits), way_bytes)
    if maker == INTEL and ways:
        highest = {at: mask_of(max(0, of - _DEFAULT_WAYS), min(of, _DEFAULT_WAYS))
                   for at, of in ways.items()}  # fmt: skip
        told = (
            f"DMA is assumed to fill the highest {_DEFAULT_WAYS} ways, DDIO's default: register "
            f"{IIO_LLC_WAYS:#x} cannot be read (`modprobe msr`, as root)"
        )
        return IoWays("assumed", told, highest, way_bytes)
    if not ways:
        return IoWays("none", "the kernel tells no last-level cache")
    which = f"a CPU of {maker}" if maker else "this CPU"
    why = (
        "io_alloc is there and not enabled" if l3 and l3.io_alloc == "disabled" else "none is told"
    )
    return IoWays("none", f"no ways for DMA are known on {which}: {why}", {}, way_bytes)


def _ddio(
    ways: Mapping[int, int], caches: Mapping[int, LastLevelCache], msr: ReadMsr
) -> dict[int, int] | None:
    """None as soon as one socket's cannot be read, or is no mask of its cache."""
    found = {}
    for domain, count in ways.items():
        cpus = caches[domain].cpus if domain in caches else frozenset()
        mask = msr(min(cpus)) if cpus else None
        if not mask or mask.bit_length() > count:
            return None
        found[domain] = mask
    return found or None

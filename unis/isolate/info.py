"""What a resctrl tree says that the machine has: the folder `info`, domains and sizes.

The files and their meaning: Documentation/filesystems/resctrl.rst of Linux, "Info directory".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from unis.isolate.schemata import BANDWIDTH, CACHES, level, parse, parse_hex, parse_values
from unis.isolate.tree import Tree, TreeError

PERCENT, MIBPS, EIGHTHS = "%", "MiB/s", "GB/s / 8"
IO_ALLOC_ENABLED, IO_ALLOC_DISABLED = "enabled", "disabled"
_MONITORED = "mon_L3_"  # and a cache ID: a folder


@dataclass(frozen=True)
class CacheResource:
    """A kind of cache that can be allocated: L2 or L3, under CDP its code or data half."""

    name: str
    cbm_mask: int  # all that there is
    min_cbm_bits: int
    num_closids: int  # as the resource has them; the tree allows the least of all
    domains: tuple[int, ...]  # cache IDs
    shareable_bits: int = 0  # that hardware other than CPUs, mostly I/O, fills too
    bit_usage: Mapping[int, str] = field(default_factory=dict)  # the highest way first
    io_alloc: str = ""  # enabled, disabled, not supported; empty: the kernel knows none
    io_alloc_cbm: Mapping[int, int] = field(default_factory=dict)  # where that is enabled
    way_bytes: Mapping[int, int] = field(default_factory=dict)  # of a bit of the mask, by cache ID

    @property
    def ways(self) -> int:
        """Bits of a mask."""
        return self.cbm_mask.bit_length()

    @property
    def least(self) -> int:
        """Bits of the smallest mask that is of use; AMD takes empty ones too."""
        return max(1, self.min_cbm_bits)


@dataclass(frozen=True)
class Bandwidth:
    """Limits on memory bandwidth (MBA)."""

    num_closids: int
    min_bandwidth: int
    bandwidth_gran: int
    unit: str = PERCENT


@dataclass(frozen=True)
class Monitoring:
    """What is counted for each group."""

    num_rmids: int  # groups of both kinds, the root among them
    features: tuple[str, ...]  # llc_occupancy, mbm_total_bytes, mbm_local_bytes
    domains: tuple[int, ...] = ()  # cache IDs


@dataclass(frozen=True)
class CacheInfo:
    """All of it; what the machine has not is absent."""

    caches: Mapping[str, CacheResource] = field(default_factory=dict)
    bandwidth: Bandwidth | None = None
    monitoring: Monitoring | None = None

    @property
    def num_closids(self) -> int:
        """Classes that can be, the root's among them, and I/O's where `io_alloc` is enabled."""
        counts = [cache.num_closids for cache in self.caches.values()]
        if self.bandwidth:
            counts.append(self.bandwidth.num_closids)
        return min(counts, default=0)

    def of_level(self, name: str) -> tuple[CacheResource, ...]:
        """The resources behind `L2` or `L3`: one, under CDP two, none where it has no CAT."""
        return tuple(cache for cache in self.caches.values() if level(cache.name) == name)


def read_info(tree: Tree) -> CacheInfo:
    """What `tree` says. TreeError if it cannot be read, or is not resctrl's."""
    try:
        resources = tree.folders("info")
        allocates = any(name in resources for name in (*CACHES, BANDWIDTH))
        schemata = parse(tree.read("schemata")) if allocates else {}
        way_bytes = _way_bytes(tree, schemata)
        caches = {
            name: _cache(tree, name, schemata.get(name, {}), way_bytes.get(name, {}))
            for name in CACHES
            if name in resources
        }
        bandwidth = _bandwidth(tree, schemata[BANDWIDTH]) if BANDWIDTH in schemata else None
        return CacheInfo(caches, bandwidth, _monitoring(tree) if "L3_MON" in resources else None)
    except ValueError as error:
        raise TreeError(tree.label, f"understand it ({error})", 22, "") from None


def _way_bytes(tree: Tree, schemata: Mapping[str, Mapping[int, int]]) -> dict[str, dict[int, int]]:
    """Bytes of a bit of the root's masks: `size` tells those of the masks."""
    found: dict[str, dict[int, int]] = {}
    for line in _read(tree, "size", "").splitlines() if schemata else ():
        name, _, values = line.partition(":")
        masks = schemata.get(name.strip(), {})
        if name.strip() in CACHES:
            found[name.strip()] = {
                domain: size // masks[domain].bit_count()
                for domain, size in parse_values(values, masks=False).items()
                if masks.get(domain)
            }
    return found


def _cache(
    tree: Tree, name: str, masks: Mapping[int, int], way_bytes: Mapping[int, int]
) -> CacheResource:
    folder = f"info/{name}"
    io_alloc = _read(tree, f"{folder}/io_alloc", "")
    is_enabled = io_alloc == IO_ALLOC_ENABLED
    io_alloc_cbm = _read(tree, f"{folder}/io_alloc_cbm", "") if is_enabled else ""
    usage = (part.partition("=") for part in _read(tree, f"{folder}/bit_usage", "").split(";"))
    return CacheResource(
        name=name,
        cbm_mask=parse_hex(tree.read(f"{folder}/cbm_mask")),
        min_cbm_bits=int(tree.read(f"{folder}/min_cbm_bits")),
        num_closids=int(tree.read(f"{folder}/num_closids")),
        domains=tuple(sorted(masks)),
        shareable_bits=parse_hex(_read(tree, f"{folder}/shareable_bits", "0")),
        bit_usage={int(domain): ways for domain, equals, ways in usage if equals},
        io_alloc=io_alloc,
        io_alloc_cbm=parse_values(io_alloc_cbm, masks=True),
        way_bytes=way_bytes,
    )


def _bandwidth(tree: Tree, now: Mapping[int, int]) -> Bandwidth:
    unit = PERCENT
    if "mba_MBps" in tree.options():
        unit = MIBPS
    elif max(now.values(), default=0) > 100:  # AMD's, of which the default is the most
        unit = EIGHTHS
    return Bandwidth(
        num_closids=int(tree.read("info/MB/num_closids")),
        min_bandwidth=int(tree.read("info/MB/min_bandwidth")),
        bandwidth_gran=max(1, int(tree.read("info/MB/bandwidth_gran"))),
        unit=unit,
    )


def _monitoring(tree: Tree) -> Monitoring:
    features = tree.read("info/L3_MON/mon_features").split()
    folders = tree.folders("mon_data")
    return Monitoring(
        num_rmids=int(tree.read("info/L3_MON/num_rmids")),
        features=tuple(name for name in features if not name.endswith("_config")),
        domains=tuple(
            int(name.removeprefix(_MONITORED)) for name in folders if name.startswith(_MONITORED)
        ),
    )


def _read(tree: Tree, path: str, absent: str) -> str:
    """A file that older kernels do not have."""
    try:
        return tree.read(path).strip()
    except TreeError:
        return absent

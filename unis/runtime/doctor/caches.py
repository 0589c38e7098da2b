"""What of the caches can be divided, and which part DMA has?"""

from collections.abc import Iterator

from unis.isolate.hardware import CacheHardware
from unis.isolate.info import CacheInfo
from unis.isolate.masks import row
from unis.isolate.tree import DEFAULT_PLACE
from unis.runtime.doctor.finding import Finding, fine, note
from unis.runtime.errors import as_root

_ISOLATION, _DMA = "cache isolation", "DMA ways"
_MEANING = "functions push each other's data out of the last-level cache; classes of ways keep it"


def isolation(found: CacheHardware) -> Finding:
    """Can classes of service be had (CAT, CDP, MBA, monitoring, io_alloc)?"""
    if found.trouble:
        return note(_ISOLATION, found.trouble, _MEANING, as_root())
    if not found.supported:
        return note(
            _ISOLATION,
            "neither CAT nor MBA nor monitoring",
            f"{_MEANING}; this CPU, hypervisor or kernel (CONFIG_X86_CPU_RESCTRL) has none",
        )
    if not found.mounted:
        return note(
            _ISOLATION,
            "resctrl is there and not mounted",
            _MEANING,
            f"mount -t resctrl resctrl {DEFAULT_PLACE}",
        )
    has = "; ".join(_parts(found.info)) or "nothing"
    if not found.info.caches:
        return note(_ISOLATION, f"{has}, and no CAT", f"{_MEANING}; this machine has none")
    return fine(_ISOLATION, has)


def dma(found: CacheHardware) -> Finding:
    """Which ways do devices fill?"""
    io = found.io
    if not io.masks:
        return fine(_DMA, io.told)
    ways = {ident: cache.ways for ident, cache in found.caches.items()}
    ways |= {domain: cache.ways for cache in found.info.of_level("L3") for domain in cache.domains}
    masks = ", ".join(
        f"{mask.bit_count()} of {of} ways of L3 cache {domain} ({row(mask, of)})"
        for domain, mask in io.masks.items()
        for of in [ways.get(domain, mask.bit_length())]
    )
    if io.source != "assumed":
        return fine(_DMA, f"{io.told}: {masks}")
    meaning = (
        "what NICs write goes through these ways; whoever shares them loses its data to packets"
    )
    return note(_DMA, f"{io.told}: {masks}", meaning, "modprobe msr")


def _parts(info: CacheInfo) -> Iterator[str]:
    for level in ("L3", "L2"):
        if resources := info.of_level(level):
            resource = resources[0]
            caches = "cache" if len(resource.domains) == 1 else "caches"
            cdp = ", CDP on" if len(resources) == 2 else ""
            yield (
                f"{level} CAT: {len(resource.domains)} {caches} of {resource.ways} ways, at least "
                f"{resource.least} a class{cdp}"
            )
            if resource.io_alloc:
                yield f"{level} io_alloc {resource.io_alloc}"
    if info.num_closids:
        yield f"{info.num_closids} classes of service"
    if info.bandwidth:
        unit, least = info.bandwidth.unit, info.bandwidth.min_bandwidth
        yield f"MBA: from {least} {unit} in steps of {info.bandwidth.bandwidth_gran}"
    if info.monitoring:
        features = ", ".join(info.monitoring.features)
        yield f"monitoring: {features} of {info.monitoring.num_rmids} groups"

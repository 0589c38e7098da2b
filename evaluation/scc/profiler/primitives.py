"""Table 2 and Fig. 3, from the calibration of this machine. Pure, but for `calibrated`."""

from collections.abc import Callable, Iterable

from evaluation.caches.geometry import Caches
from evaluation.scc import paper
from evaluation.scc.profiler.found import LevelRow, MemoryPoint, PrimitiveRow
from unis.calibrate.machine import measure_primitives
from unis.errors import UnisError
from unis.measure.primitives import Primitive, Primitives, kept
from unis.plan.machine import Machine

_SMALL = 4096  # bytes of a page
_CLASSES = ("other", "batch", "rr", "fifo")
_CALLS = ("empty recv", "empty recvmmsg", "poll, nothing there")


def calibrated(machine: Machine, report: Callable[[str], None]) -> tuple[Primitives, str]:
    """What is kept of this machine; else measured now, in short. And what to say of it."""
    try:
        found = kept()
    except UnisError as error:
        report(f"{error}; measured in short instead")
        found = measure_primitives(machine, report, quick=True)
        told = (
            "measured in short by this command, arrays up to 4 MiB; `unis calibrate --only machine`"
            " keeps a longer measurement"
        )
    else:
        told = f"kept by `unis calibrate`, {found.measured}"
    if remark := found.disturbed():
        told = f"{told}. {remark}"
    return found, told


def primitive_rows(found: Primitives) -> list[PrimitiveRow]:
    """Switches by class, and calls that find no packet."""
    switches = [
        (f"context switch, {name}", found.find("switch", name, by="yield", between="processes"),
         paper.primitive(name))
        for name in _CLASSES
    ]  # fmt: skip
    calls = [
        (f"I/O call, {name}", found.find("packet", name), paper.primitive("call"))
        for name in _CALLS
    ]
    return [
        PrimitiveRow(what=what, ns=row.ns, missing=row.missing, paper=value)
        for what, row, value in [*switches, *calls]
        if row is not None
    ]


def memory_points(found: Primitives) -> list[MemoryPoint]:
    """Of every array and stride, without what is a difference of two."""
    return [
        MemoryPoint(
            order=row.name,
            array_bytes=int(row.labels["array_bytes"]),
            stride_bytes=int(row.labels["stride_bytes"]),
            page_bytes=int(row.labels["page_bytes"]),
            ns=row.ns,
        )
        for row in found.rows
        if row.ns is not None and _is_access(row)
    ]


def _is_access(row: Primitive) -> bool:
    return row.group == "memory" and "page_bytes" in row.labels


def level_rows(points: Iterable[MemoryPoint], caches: Caches) -> list[LevelRow]:
    """The fastest and the slowest access by the smallest memory that the array fits into, with
    pages of 4 KiB.
    """
    levels = {"L1": caches.l1, "L2": caches.l2, "L3": caches.llc}
    sizes = {name: level.ways * level.way_bytes for name, level in levels.items()}
    found: dict[str, list[float]] = {}
    for point in points:
        if point.page_bytes == _SMALL:
            level = next(
                (name for name, size in sizes.items() if point.array_bytes <= size), "DRAM"
            )
            found.setdefault(level, []).append(point.ns.median_ns)
    return [
        LevelRow(
            level=name, low_ns=min(found[name]), high_ns=max(found[name]), paper=paper.memory(name)
        )
        for name in (*sizes, "DRAM")
        if name in found
    ]

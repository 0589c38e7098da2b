"""Whether the packets that NICs have under way stay in the cache ways that DMA fills.

A NIC fills the buffers of its receive queue, and its send queue holds on to more (ResQ, section
4.4). The engine's queues have a fixed length, which `unis config` holds against what the ways take.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from unis.isolate.dma import descriptors, size_buffers

# Each of the two queues of a port, as engine/platform/eth_port.cc opens them.
QUEUE_DESCRIPTORS = 1024


@dataclass(frozen=True)
class IoCache:
    """The ways of one last-level cache that DMA fills."""

    bytes: int  # 0: it is not known which those are
    told: str  # a sentence: which, and how that is known


@dataclass(frozen=True)
class DmaChoice:
    """Buffers that NICs hold, of those that stay in the cache."""

    ports: tuple[str, ...]
    descriptors: int  # of each queue, of which a port has two
    fits: int | None  # buffers of the largest frame; None: the ways are not known
    best: int | None  # descriptors of each queue with which all fit
    leaky: bool
    why: str


def choice(ports: Sequence[str], ring_slots: int, io: IoCache | None) -> DmaChoice | None:
    """For the NICs of a run, behind which rings of so many slots wait; None: it has none."""
    if not ports:
        return None
    asked = {f"{port} {way}": QUEUE_DESCRIPTORS for port in ports for way in ("rx", "tx")}
    if io is None or io.bytes == 0:
        why = f"{io.told if io else 'the last-level cache is not known'}: not bounded"
        return DmaChoice(tuple(ports), QUEUE_DESCRIPTORS, None, None, False, why)
    of = size_buffers(io.bytes, asked)
    best = min(descriptors(count) for count in of.granted.values())
    why = f"{io.told}; {of.told}"
    if of.leaky:
        why += f"; queues of {best} descriptors would fit, not of {QUEUE_DESCRIPTORS}"
    if sum(asked.values()) + ring_slots > of.fits:
        why += f"; with full rings {ring_slots} packets more wait outside of these ways"
    return DmaChoice(tuple(ports), QUEUE_DESCRIPTORS, of.fits, best, of.leaky, why)

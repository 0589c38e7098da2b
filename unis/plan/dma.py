"""Queues of NICs so short that the packets under way stay in the cache ways that DMA fills.

A NIC fills the buffers that wait in its receive queue, and holds in its send queue what it has sent
and not freed (ResQ, section 4.4): as many as the two have descriptors, whatever the size of the
packet memory behind them and whenever a driver frees (DPDK's tx_free_thresh). Packets in rings are
out of the NIC's reach till they are freed. With more buffers in flight than the ways for I/O hold,
what a NIC wrote is pushed out to memory before a function has read it, and brought in again to be
sent: the leaky DMA problem. Each buffer is as large as the largest frame.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from unis.chain.model import HostInterface, InterfaceSource, PortSink, PortSource, Traffic
from unis.engine.limits import limit
from unis.nics.sysfs import full_address
from unis.nics.usable import VFIO

LINE = 64  # bytes of a cache line
# Beside the frame: with one line more a frame of 64 bytes spans the 2 lines that the paper counts,
# and one of 1518 its 25.
_HEADROOM = LINE
LARGEST_FRAME = 1518  # bytes with FCS
_LEAST = 32  # buffers with which a queue still works in bursts
# Of a queue of which nothing says how long it should be, as engine/platform/eth_port.h has it.
QUEUE_DESCRIPTORS = 1024
LEAST_DESCRIPTORS = int(limit("PortTraffic.descriptors").min or 1)


@dataclass(frozen=True)
class BufferPlan:
    """Buffers of one socket."""

    io_bytes: int
    frame: int
    fits: int  # buffers
    asked: Mapping[str, int]  # by function: what it wants
    granted: Mapping[str, int]  # what it should have

    @property
    def leaky(self) -> bool:
        """Whether what is asked for does not fit."""
        return sum(self.asked.values()) > self.fits

    @property
    def told(self) -> str:
        """A sentence."""
        room = (
            f"{self.io_bytes / (1 << 20):.3g} MB for I/O hold {self.fits} frames of {self.frame} B"
        )
        wanted = sum(self.asked.values())
        if not self.leaky:
            return f"{room}; {wanted} can be under way"
        return (
            f"{room}, and {wanted} can be under way: with large frames packets leave the cache "
            "before they are read (leaky DMA)"
        )


def lines_of(frame: int) -> int:
    """Cache lines that a buffer spans."""
    return -(-(frame + _HEADROOM) // LINE)


def fitting(io_bytes: int, frame: int) -> int:
    """Buffers that fit into `io_bytes` of cache."""
    return io_bytes // (lines_of(frame) * LINE)


def size_buffers(io_bytes: int, asked: Mapping[str, int], frame: int = LARGEST_FRAME) -> BufferPlan:
    """The buffers of each function, max–min fair: a function that asks for little gets all of it.
    No function gets fewer than a burst, so the sum may be more than what fits. ValueError where
    `frame` or a number in `asked` is not above 0.
    """
    if frame <= 0 or any(count <= 0 for count in asked.values()):
        raise ValueError("frames and wishes are above 0")
    fits = fitting(io_bytes, frame)
    granted: dict[str, int] = {}
    left = fits
    waiting = sorted(asked, key=lambda name: (asked[name], name))
    for at, name in enumerate(waiting):
        share = min(asked[name], left // (len(waiting) - at))
        left -= share
        granted[name] = max(share, min(_LEAST, asked[name]))
    return BufferPlan(io_bytes, frame, fits, dict(asked), granted)


def power_of_two_below(number: int) -> int:
    """The largest power of two, as rings and queues have, that is no more; at least 1."""
    return 1 << (max(1, number).bit_length() - 1)


@dataclass(frozen=True)
class IoCache:
    """The ways of one last-level cache that DMA fills."""

    bytes: int  # 0: it is not known which those are
    told: str  # a sentence: which, and how that is known
    taken: int = 0  # buffers that NICs of other runs can have in them


@dataclass(frozen=True)
class DmaChoice:
    """Descriptors of NICs' queues, and whether what they hold stays in the cache."""

    ports: tuple[str, ...]
    rx: int | None  # of the queue from which the source receives; None: that is no NIC
    tx: int | None  # of the queue into which the sink sends; None: likewise
    fits: int | None  # buffers of the largest frame; None: the ways are not known
    best: int | None  # descriptors of each queue with which all fit
    leaky: bool
    why: str

    @property
    def buffers(self) -> int:
        """Packets that can be under way."""
        return (self.rx or 0) + (self.tx or 0)

    def of(self, way: str) -> int | None:
        """Descriptors of the queue `rx` or `tx`."""
        return self.rx if way == "rx" else self.tx


def choice(
    ports: Sequence[str],
    stated: Mapping[str, int | None],
    ring_slots: int,
    io: IoCache | None,
    there: DmaChoice | None = None,
) -> DmaChoice | None:
    """The choice for the NICs of a run, whose packets go into rings of `slots` slots; None: no NIC.

    `stated` has an entry for each queue in use, `rx` or `tx`: what the file says, which is obeyed,
    or None. A run that is `there` keeps its queues.
    """
    if not stated:
        return None
    fixed = dict(_fixed(stated, there))
    wanted = dict.fromkeys(stated, QUEUE_DESCRIPTORS) | fixed
    if io is None or io.bytes == 0:
        why = f"{io.told if io else 'the last-level cache is not known'}: not bounded"
        return DmaChoice(tuple(ports), wanted.get("rx"), wanted.get("tx"), None, None, False, why)
    fits = fitting(io.bytes, LARGEST_FRAME)
    best = min(_shared(fits - io.taken, list(stated)).values())
    lengths = fixed | _shared(
        fits - io.taken - sum(fixed.values()), [way for way in stated if way not in fixed]
    )
    others = {"other runs": io.taken} if io.taken else {}
    buffers = size_buffers(io.bytes, {**lengths, **others})
    why = "; ".join([io.told, buffers.told, *_more(lengths, fixed, best, io, fits)])
    if sum(buffers.asked.values()) + ring_slots > fits:
        why += f"; with full rings {ring_slots} packets more wait outside of these ways"
    return DmaChoice(
        tuple(ports), lengths.get("rx"), lengths.get("tx"), fits, best, buffers.leaky, why
    )


def _fixed(stated: Mapping[str, int | None], there: DmaChoice | None) -> Iterator[tuple[str, int]]:
    """What is not ours to choose."""
    for way, length in stated.items():
        if found := length or (there.of(way) if there else None):
            yield way, found


def _shared(buffers: int, ways: Sequence[str]) -> dict[str, int]:
    """Descriptors of each, so that all together are no more than so many, or as few as can be."""
    asked = dict.fromkeys(ways, QUEUE_DESCRIPTORS)
    granted = size_buffers(max(0, buffers) * lines_of(LARGEST_FRAME) * LINE, asked).granted
    return {
        way: max(LEAST_DESCRIPTORS, power_of_two_below(count)) for way, count in granted.items()
    }


def _more(
    lengths: Mapping[str, int], fixed: Mapping[str, int], best: int, io: IoCache, fits: int
) -> Iterator[str]:
    if io.taken:
        yield f"{io.taken} of these are of other runs' NICs"
    if sum(lengths.values()) + io.taken > fits:
        if best * len(lengths) + io.taken > fits:
            yield f"not even queues of {best} descriptors, the shortest, would fit"
        else:
            told = " and ".join(str(length) for length in dict.fromkeys(lengths.values()))
            yield f"queues of {best} descriptors would fit, not of {told}"
    elif shorter := [n for way, n in lengths.items() if way not in fixed and n < QUEUE_DESCRIPTORS]:
        yield f"so that they fit, queues have {min(shorter)} descriptors, not {QUEUE_DESCRIPTORS}"


def queues(
    traffic: Traffic, ring_slots: int, io: IoCache | None, there: DmaChoice | None
) -> DmaChoice | None:
    """Queues of the NICs of a run, whose packets go into rings of `ring_slots`; None: no NIC."""
    stated = {
        "rx" if isinstance(end, PortSource | InterfaceSource) else "tx": end.descriptors
        for end in traffic_ports(traffic)
        if nic(end)
    }
    return choice(pci_addresses(traffic), stated, ring_slots, io, there)


_Port = PortSource | PortSink | HostInterface


def traffic_ports(traffic: Traffic) -> list[_Port]:
    """The source and the sink, if they are ports."""
    return [end for end in (traffic.source, traffic.sink) if isinstance(end, _Port)]


def port_packets(traffic: Traffic) -> int:
    """What queues of source and sink hold at most, with the short ones of ways not used."""
    lengths = [end.descriptors or QUEUE_DESCRIPTORS for end in traffic_ports(traffic)]
    return sum(length + LEAST_DESCRIPTORS for length in lengths)


def nic(end: _Port) -> str:
    """Its PCI address; empty for devices of other kinds, which have no DMA of their own."""
    return full_address(end.device.partition(",")[0])


def pci_addresses(traffic: Traffic) -> tuple[str, ...]:
    """The NICs among source and sink, which DPDK must be let probe."""
    return tuple(pci_drivers(traffic))


def pci_drivers(traffic: Traffic) -> dict[str, str]:
    """By the addresses of NICs among source and sink the driver that each is given; empty: it keeps
    its own.
    """
    ports = [end for end in traffic_ports(traffic) if isinstance(end, PortSource | PortSink)]
    return {nic(end): "" if end.driver == "kernel" else VFIO for end in ports if nic(end)}

"""Queues of NICs so short that the packets under way stay in the cache ways that DMA fills.

A NIC fills the buffers that wait in its receive queue, and holds in its send queue what it has sent
and not freed (ResQ, section 4.4): as many as the two have descriptors, whatever the size of the
packet memory behind them and whenever a driver frees (DPDK's tx_free_thresh). Packets in rings are
out of the NIC's reach till they are freed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from unis.engine.limits import limit
from unis.isolate.dma import LARGEST_FRAME, LINE, descriptors, fitting, lines_of, size_buffers

# Of a queue of which nothing says how long it should be, as engine/platform/eth_port.h has it.
QUEUE_DESCRIPTORS = 1024
LEAST_DESCRIPTORS = int(limit("PortTraffic.descriptors").min or 1)
_BUFFER_BYTES = lines_of(LARGEST_FRAME) * LINE


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
    """For the NICs of a run, behind which rings of so many slots wait; None: it has none.

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
    of = size_buffers(io.bytes, {**lengths, **others})
    why = "; ".join([io.told, of.told, *_more(lengths, fixed, best, io, fits)])
    if sum(of.asked.values()) + ring_slots > fits:
        why += f"; with full rings {ring_slots} packets more wait outside of these ways"
    return DmaChoice(tuple(ports), lengths.get("rx"), lengths.get("tx"), fits, best, of.leaky, why)


def _fixed(stated: Mapping[str, int | None], there: DmaChoice | None) -> Iterator[tuple[str, int]]:
    """What is not ours to choose."""
    for way, length in stated.items():
        if found := length or (there.of(way) if there else None):
            yield way, found


def _shared(buffers: int, ways: Sequence[str]) -> dict[str, int]:
    """Descriptors of each, so that all together are no more than so many, or as few as can be."""
    asked = dict.fromkeys(ways, QUEUE_DESCRIPTORS)
    granted = size_buffers(max(0, buffers) * _BUFFER_BYTES, asked).granted
    return {way: max(LEAST_DESCRIPTORS, descriptors(count)) for way, count in granted.items()}


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

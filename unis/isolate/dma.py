"""How many packet buffers stay in the ways that DMA fills (ResQ, sections 4.3 and 4.4). Pure.

With more buffers in flight than the ways for I/O hold, what a NIC wrote is pushed out to memory
before a function has read it, and brought in again to be sent: the leaky DMA problem. So those of
all functions of a socket together are kept below what fits, each as large as the largest frame.
"""

from collections.abc import Mapping
from dataclasses import dataclass

LINE = 64  # bytes of a cache line
# Beside the frame: with one line more a frame of 64 bytes spans the 2 lines that the paper counts,
# and one of 1518 its 25.
HEADROOM = LINE
LARGEST_FRAME = 1518  # bytes with FCS
_LEAST = 32  # buffers with which a queue still works in bursts


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


def lines_of(frame: int, headroom: int = HEADROOM) -> int:
    """Cache lines that a buffer spans."""
    return -(-(frame + headroom) // LINE)


def fitting(io_bytes: int, frame: int, headroom: int = HEADROOM) -> int:
    """Buffers that stay in so many bytes of cache."""
    return io_bytes // (lines_of(frame, headroom) * LINE)


def size_buffers(
    io_bytes: int,
    asked: Mapping[str, int],
    frame: int = LARGEST_FRAME,
    headroom: int = HEADROOM,
) -> BufferPlan:
    """What each function should have of those that fit: max–min fair, so that who asks for little
    gets it, and nobody fewer than a burst, which may be more than fits. ValueError where frames or
    wishes are not above 0.
    """
    if frame <= 0 or headroom < 0 or any(count <= 0 for count in asked.values()):
        raise ValueError("frames and wishes are above 0")
    fits = fitting(io_bytes, frame, headroom)
    granted: dict[str, int] = {}
    left = fits
    waiting = sorted(asked, key=lambda name: (asked[name], name))
    for at, name in enumerate(waiting):
        share = min(asked[name], left // (len(waiting) - at))
        left -= share
        granted[name] = max(share, min(_LEAST, asked[name]))
    return BufferPlan(io_bytes, frame, fits, dict(asked), granted)


def descriptors(buffers: int) -> int:
    """The largest power of two, as queues have, that needs no more buffers."""
    return 1 << (max(1, buffers).bit_length() - 1)

"""What `unis-packet-trace` writes: a line of JSON, then events. They are as in
ports/packet_trace/packet_event.h.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from unis.errors import UnisError

_EVENT = struct.Struct("=QQIIIIQQQ")


class Kind(IntEnum):
    """What happened."""

    ARRIVED = 1  # a packet, on a device
    TAKEN = 2  # a packet, by a receive call
    RUNS = 3  # a thread got its CPU
    WAITS = 4  # a thread lost its CPU, and wants it
    SLEEPS = 5  # a thread gave its CPU up
    WOKEN = 6
    CAME = 7  # a packet, to the sink


@dataclass(frozen=True)
class PacketPlace:
    """A network device, wherever it is."""

    namespace: int  # inode
    index: int


@dataclass(frozen=True)
class Event:
    """What happened when, ns of CLOCK_MONOTONIC."""

    ns: int
    packet: int  # its stamp, cycles; 0: it is of a thread
    kind: Kind
    thread: int  # in whose call a packet was; 0: in none of a function
    device: PacketPlace
    # Of the thread, when last: it entered a call, a sampled packet was copied to it, and the call
    # that did so returned.
    entered: int = 0  # of CAME: when, cycles
    copied: int = 0
    returned: int = 0


@dataclass(frozen=True)
class Clock:
    """Turns stamps into times."""

    begin: tuple[int, int]  # cycles, ns
    end: tuple[int, int]

    def ns(self, cycles: int) -> int:
        """The time of a stamp, ns."""
        (first, first_ns), (last, last_ns) = self.begin, self.end
        # In whole numbers: a double has not as many digits.
        return first_ns + (cycles - first) * (last_ns - first_ns) // (last - first)


@dataclass(frozen=True)
class Recording:
    """The events of a time, in order."""

    events: Sequence[Event]
    clock: Clock
    lost: int = 0  # events for which there was no room


def read_recording(data: bytes) -> Recording:
    """UnisError: this is no recording, or not all of one."""
    head, _, rest = data.partition(b"\n")
    try:
        told = json.loads(head)
        begin, end = (tuple(map(int, pair)) for pair in told["clocks"])
        count, size, lost = (int(told[key]) for key in ("events", "bytes", "lost"))
    except (ValueError, KeyError, TypeError) as error:
        raise UnisError(f"unis-packet-trace wrote no recording: {error}", bad_input=False) from None
    if size != _EVENT.size or len(rest) != count * size:
        raise UnisError(
            f"unis-packet-trace wrote {len(rest)} bytes for {count} events; both must be of one "
            "build: run `make build`",
            bad_input=False,
        )
    events = sorted((_event(*fields) for fields in _EVENT.iter_unpack(rest)), key=lambda e: e.ns)
    return Recording(events, Clock((begin[0], begin[1]), (end[0], end[1])), lost)


def _event(
    ns: int, packet: int, kind: int, thread: int, device: int, space: int, *of_thread: int
) -> Event:
    return Event(ns, packet, Kind(kind), thread, PacketPlace(space, device), *of_thread)

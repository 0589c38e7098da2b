"""What threads did: each ran, waited for its CPU, or slept. `unis-thread-trace` writes it: a line
of JSON and then events (ports/thread_trace/thread_event.h).
"""

import json
import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from unis.errors import UnisError

_EVENT = struct.Struct("=QII")


class Kind(IntEnum):
    """What happened to a thread."""

    RUNS = 1  # it got its CPU
    WAITS = 2  # it lost its CPU, and wants it
    SLEEPS = 3  # it gave its CPU up
    WOKEN = 4


@dataclass(frozen=True)
class Event:
    """What happened when, ns of CLOCK_MONOTONIC."""

    ns: int
    kind: Kind
    thread: int  # TID


@dataclass(frozen=True)
class Clock:
    """Turns TSC cycles into ns of CLOCK_MONOTONIC."""

    begin: tuple[int, int]  # cycles, ns
    end: tuple[int, int]

    def ns(self, cycles: int) -> int:
        """The time of a stamp, ns."""
        (first, first_ns), (last, last_ns) = self.begin, self.end
        # In whole numbers: a double has not as many digits.
        return first_ns + (cycles - first) * (last_ns - first_ns) // (last - first)


@dataclass(frozen=True)
class Copies:
    """By the kernel, of packets to a thread."""

    packets: int
    ns: int  # in all


@dataclass(frozen=True)
class Recording:
    """What was told of a time, the events in order."""

    events: Sequence[Event]
    clock: Clock
    lost: int = 0  # events for which there was no room
    copies: Mapping[int, Copies] = field(default_factory=dict)  # by TID


def read_recording(data: bytes) -> Recording:
    """UnisError: this is no recording, or not all of one."""
    head, _, rest = data.partition(b"\n")
    try:
        told = json.loads(head)
        begin, end = (tuple(map(int, pair)) for pair in told["clocks"])
        count, size, lost = (int(told[key]) for key in ("events", "bytes", "lost"))
        copies = {int(tid): Copies(int(packets), int(ns)) for tid, packets, ns in told["copies"]}
    except (ValueError, KeyError, TypeError) as error:
        raise UnisError(f"unis-thread-trace wrote no recording: {error}", bad_input=False) from None
    if size != _EVENT.size or len(rest) != count * size:
        raise UnisError(
            f"unis-thread-trace wrote {len(rest)} bytes for {count} events; both must be of one "
            "build: run `make build`",
            bad_input=False,
        )
    events = [Event(ns, Kind(kind), thread) for ns, kind, thread in _EVENT.iter_unpack(rest)]
    events.sort(key=lambda event: event.ns)
    return Recording(events, Clock((begin[0], begin[1]), (end[0], end[1])), lost, copies)


class State(Enum):
    """Of a thread."""

    RUNNING = "running"
    WAITING = "waiting"
    SLEEPING = "sleeping"


_BEFORE = {Kind.WAITS: State.RUNNING, Kind.SLEEPS: State.RUNNING, Kind.RUNS: State.WAITING}
_AFTER = {Kind.WAITS: State.WAITING, Kind.SLEEPS: State.SLEEPING, Kind.RUNS: State.RUNNING}


class ThreadStates:
    """The changes of all threads."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._events: dict[int, list[Event]] = defaultdict(list)
        for event in events:
            self._events[event.thread].append(event)
        self._when = {tid: [event.ns for event in all_] for tid, all_ in self._events.items()}

    def between(
        self, tid: int, begin: int, end: int, *, runs_at_end: bool = True
    ) -> list[tuple[State, int, int]] | None:
        """What it did from `begin` until `end`: states, each with its begin and end, ns. None: the
        events do not say. Where it changed nothing it ran: at one of the two it must have run.
        """
        when = self._when.get(tid, [])
        changes = self._events.get(tid, [])[bisect_left(when, begin) : bisect_right(when, end)]
        state = _first(changes)
        found: list[tuple[State, int, int]] = []
        at = begin
        for change in changes:
            if change.ns > at:
                found.append((state, at, change.ns))
            at = change.ns
            if change.kind is Kind.WOKEN:
                # One that is about to sleep may be woken before it does.
                state = State.WAITING if state is State.SLEEPING else state
            elif state is not _BEFORE[change.kind]:
                return None  # a change was lost
            else:
                state = _AFTER[change.kind]
        if runs_at_end and state is not State.RUNNING:
            return None
        return [*found, (state, at, end)]


def _first(changes: Sequence[Event]) -> State:
    """The state before all of them; without one it runs all the time."""
    woken = False
    for change in changes:
        if change.kind is Kind.WOKEN:
            woken = True
        elif woken and change.kind is Kind.RUNS:
            return State.SLEEPING
        else:
            return _BEFORE[change.kind]
    return State.RUNNING

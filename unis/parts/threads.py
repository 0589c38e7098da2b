"""What a thread did in a time: it ran, waited for its CPU, or slept."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from unis.parts.events import Event, Kind


class State(Enum):
    """Of a thread."""

    RUNNING = "running"
    WAITING = "waiting"
    SLEEPING = "sleeping"


_BEFORE = {Kind.WAITS: State.RUNNING, Kind.SLEEPS: State.RUNNING, Kind.RUNS: State.WAITING}
_AFTER = {Kind.WAITS: State.WAITING, Kind.SLEEPS: State.SLEEPING, Kind.RUNS: State.RUNNING}


@dataclass(frozen=True)
class Times:
    """Of one thread in a time, ns."""

    running: int = 0
    waiting: int = 0
    sleeping: int = 0


class ThreadStates:
    """The changes of all threads."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._events: dict[int, list[Event]] = defaultdict(list)
        for event in events:
            if not event.packet:
                self._events[event.thread].append(event)
        self._when = {tid: [event.ns for event in all_] for tid, all_ in self._events.items()}

    def times(self, tid: int, begin: int, end: int) -> Times | None:
        """What it did from `begin` until `end`, when it runs; None: the events do not say."""
        when = self._when.get(tid, [])
        changes = self._events.get(tid, [])[bisect_left(when, begin) : bisect_right(when, end)]
        state = _first(changes)
        sums = dict.fromkeys(State, 0)
        at = begin
        for change in changes:
            sums[state] += change.ns - at
            at = change.ns
            if change.kind is Kind.WOKEN:
                # One that is about to sleep may be woken before it does.
                state = State.WAITING if state is State.SLEEPING else state
            elif state is not _BEFORE[change.kind]:
                return None  # a change was lost
            else:
                state = _AFTER[change.kind]
        if state is not State.RUNNING:
            return None
        sums[state] += end - at
        return Times(sums[State.RUNNING], sums[State.WAITING], sums[State.SLEEPING])


def _first(changes: Sequence[Event]) -> State:
    """The state before all of them: without one it runs all the time, as it does at the end."""
    woken = False
    for change in changes:
        if change.kind is Kind.WOKEN:
            woken = True
        elif woken and change.kind is Kind.RUNS:
            return State.SLEEPING
        else:
            return _BEFORE[change.kind]
    return State.RUNNING

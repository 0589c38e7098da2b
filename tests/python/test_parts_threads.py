"""What `unis-thread-trace` writes, and clocks."""

import json
import random
import threading
import time

import pytest

from tests.needs import need_root
from unis.errors import UnisError
from unis.parts.threads import _EVENT, Clock, Copies, Event, Kind, Recording, read_recording
from unis.parts.tracer import ThreadWatch, tracing

EVENTS = [Event(ns, kind, 100 + ns) for ns, kind in enumerate(Kind)]


def written(events: list[Event]) -> bytes:
    head = {
        "events": len(events), "bytes": _EVENT.size, "lost": 3, "clocks": [[1, 2], [3, 4]],
        "copies": [[7, 10, 2500]],
    }  # fmt: skip
    rows = [_EVENT.pack(event.ns, event.kind, event.thread) for event in events]
    random.Random(1).shuffle(rows)
    return json.dumps(head).encode() + b"\n" + b"".join(rows)


def test_a_recording_is_read_in_order() -> None:
    expected = Recording(EVENTS, Clock((1, 2), (3, 4)), 3, {7: Copies(10, 2500)})
    assert read_recording(written(EVENTS)) == expected


@pytest.mark.parametrize("data", [b"", b"nothing\n", b'{"events": 1}\n'])
def test_what_is_no_recording_is_told(data: bytes) -> None:
    with pytest.raises(UnisError, match="wrote no recording"):
        read_recording(data)


def test_a_part_of_a_recording_is_told() -> None:
    with pytest.raises(UnisError, match="both must be of one build"):
        read_recording(written(EVENTS)[:-1])


def test_stamps_keep_their_last_digit() -> None:
    clock = Clock((1 << 62, 1 << 61), ((1 << 62) + 3_000_000_000, (1 << 61) + 1_000_000_000))
    assert clock.ns((1 << 62) + 9) == (1 << 61) + 3


@pytest.mark.system
@pytest.mark.parametrize("others", [(), (1, 2)])
def test_threads_whose_low_bits_are_the_same_are_all_watched(others: tuple[int, ...]) -> None:
    need_root()
    thread = threading.get_native_id()
    same = [thread + (other << 16) for other in others]
    watch = ThreadWatch((*same[:1], thread, *same[1:]), 0, 0.01, 0.01, 10)
    with tracing(watch) as traced:
        for _ in range(20):
            time.sleep(0.005)
    seen = {event.kind for event in traced.recording().events if event.thread == thread}
    assert {Kind.SLEEPS, Kind.WOKEN, Kind.RUNS} <= seen

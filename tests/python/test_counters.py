"""Counters of threads: real ones, by software, for those of the hardware may not be there."""

import os
import threading
import time
from pathlib import Path

import pytest

from tests.needs import need
from unis.measure.counters import TASK_CLOCK, CountersError, PerfEvent, counting


@pytest.mark.system
def test_each_thread_is_counted_for_itself() -> None:
    need(os.geteuid() == 0, "needs root")
    go, numbers, done = threading.Event(), [], threading.Event()

    def sleep() -> None:
        numbers.append(threading.get_native_id())
        go.set()
        done.wait()

    other = threading.Thread(target=sleep)
    other.start()
    go.wait()
    threads = {"works": threading.get_native_id(), "sleeps": numbers[0]}
    with counting(threads, [TASK_CLOCK, TASK_CLOCK]) as counters:
        before = counters.read()
        end = time.thread_time_ns() + 20_000_000
        while time.thread_time_ns() < end:
            pass
        after = counters.read()
    done.set()
    other.join()
    grown = {name: after[name][0] - before[name][0] for name in threads}
    assert grown["works"] > 10_000_000 > grown["sleeps"]
    assert len(after["works"]) == 2


def test_an_event_that_is_not_there_is_told() -> None:
    open_before = len([*Path("/proc/self/fd").iterdir()])
    bad = PerfEvent(type=1, config=10_000)
    with (
        pytest.raises(CountersError, match="no counters for it"),
        counting({"me": 0}, [TASK_CLOCK, bad]),
    ):
        pass
    assert len([*Path("/proc/self/fd").iterdir()]) == open_before

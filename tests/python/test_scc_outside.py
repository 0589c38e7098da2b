"""What `unis bench scc` does to running functions from outside."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.scc import outside
from evaluation.scc.outside import schedstat


@given(st.integers(0, 2**60), st.integers(0, 2**60), st.integers(0, 2**60))
def test_schedstat_is_read_as_the_kernel_writes_it(run: int, delay: int, turns: int) -> None:
    assert schedstat(f"{run} {delay} {turns}\n") == (run, delay)


@pytest.fixture
def packet_socket() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as one:
        yield one


@pytest.mark.system
def test_sockets_of_others_are_told_to_wait(packet_socket: socket.socket) -> None:
    with outside.packet_sockets([os.getpid()]) as sockets:
        mine = [each for each in sockets if _inode(each) == _inode(packet_socket)]
        assert mine
        outside.let_wait(mine, waits=False)
        assert not os.get_blocking(packet_socket.fileno())
        outside.let_wait(mine, waits=True)
        assert os.get_blocking(packet_socket.fileno())
    assert packet_socket.fileno() >= 0  # only the duplicates are closed


def _inode(one: socket.socket) -> int:
    return os.fstat(one.fileno()).st_ino


@pytest.mark.system
def test_the_kernel_says_how_it_runs_a_thread() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            os.sched_setscheduler(process.pid, os.SCHED_BATCH, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, process.pid, 5)
            told = outside.kernel_class(process.pid)
            assert (told.policy, told.nice, told.priority) == ("batch", 5, 0)
            os.sched_setscheduler(process.pid, os.SCHED_RR, os.sched_param(3))
            told = outside.kernel_class(process.pid)
            assert (told.policy, told.priority) == ("rr", 3)
            assert str(told).startswith("rr, priority 3, slice ")
            assert outside.sched_ns(process.pid, process.pid)[0] > 0
        finally:
            process.kill()


_YIELDS = """
import mmap, os, sys
at, cpu, log = int(sys.argv[1]), int(sys.argv[2]), open(sys.argv[3], "r+b")
turns = mmap.mmap(log.fileno(), 0)
os.sched_setaffinity(0, {cpu})
os.kill(os.getpid(), 19)
for _ in range(400_000):
    count = int.from_bytes(turns[:8], "little")
    turns[8 + count % 8] = at
    turns[:8] = (count + 1).to_bytes(8, "little")
    os.sched_yield()
"""


@pytest.mark.system
def test_real_time_threads_queue_up_in_the_order_that_is_asked(tmp_path: Path) -> None:
    """Four take turns on a CPU; the last eight turns are written down."""
    log = tmp_path / "turns"
    log.write_bytes(bytes(16))
    cpu = max(os.sched_getaffinity(0))
    words = [sys.executable, "-c", _YIELDS]
    processes = [subprocess.Popen([*words, str(at), str(cpu), str(log)]) for at in range(4)]
    try:
        for process in processes:
            os.waitpid(process.pid, os.WUNTRACED)
            os.sched_setscheduler(process.pid, os.SCHED_FIFO, os.sched_param(2))
        for process in processes:
            os.kill(process.pid, 18)
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, before - {cpu} or before)
        try:
            with outside.kept_queued([process.pid for process in processes[::-1]], 0.001):
                time.sleep(0.003)
            time.sleep(0.002)
            seen = log.read_bytes()
        finally:
            os.sched_setaffinity(0, before)
        count = int.from_bytes(seen[:8], "little")
        last = [seen[8 + (count - back) % 8] for back in range(1, 9)]
        steps = [(one - other) % 4 for one, other in zip(last[1:], last[:-1], strict=True)]
        assert steps.count(1) >= 5  # backwards in time the numbers grow: the order is reverse
    finally:
        for process in processes:
            process.kill()
            process.wait()

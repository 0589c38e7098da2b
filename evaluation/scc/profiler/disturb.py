"""What is done to a running chain, for a known time, so that a part of a packet's time grows."""

import contextlib
import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from evaluation.scc.windows import Bench
from unis.errors import UnisError
from unis.links.veth import details_of

Intervals = Sequence[tuple[int, int]]  # begin and end, ns of CLOCK_MONOTONIC
_HOG = Path(__file__).with_name("hog.py")
_HOG_SECONDS = 20.0  # after which it ends by itself
_STOPPED, _PERIOD = 0.005, 0.006  # seconds
_ALL = 3  # ETH_P_ALL
_ATTACH_FILTER = 26  # SO_ATTACH_FILTER
_LOAD, _DIVIDE, _OR, _RETURN = 0x00, 0x34, 0x44, 0x06  # of classic BPF
# As long as the kernel has room for by default (optmem_max).
INSTRUCTIONS, FILTERS = 2000, 12
_SAMPLES = 20_000


class Log:
    """Times for which somebody was kept from work; whole once the block has ended."""

    def __init__(self) -> None:
        self.intervals: Intervals = ()


@contextlib.contextmanager
def hogged(cpu: int) -> Iterator[Log]:
    """A process of a higher class has the CPU, most of the time."""
    log = Log()
    pipe = subprocess.PIPE
    command = [sys.executable, str(_HOG), str(cpu), str(_HOG_SECONDS)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as hog:
        try:
            if hog.stdout is None or hog.stdout.readline() != "ready\n":
                raise UnisError("the process that is to compete does not start", bad_input=False)
            yield log
            told, _ = hog.communicate(timeout=_HOG_SECONDS)
            log.intervals = [(begin, end) for begin, end in json.loads(told)]
        finally:
            hog.kill()


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[Log]:
    """A process is stopped by a signal, most of the time."""
    log, done = Log(), threading.Event()
    found: list[tuple[int, int]] = []

    def stop() -> None:
        with contextlib.suppress(PermissionError):  # so that it is not late
            os.sched_setscheduler(threading.get_native_id(), os.SCHED_FIFO, os.sched_param(1))
        while not done.is_set():
            os.kill(pid, signal.SIGSTOP)
            begin = time.monotonic_ns()
            time.sleep(_STOPPED)
            os.kill(pid, signal.SIGCONT)
            found.append((begin, time.monotonic_ns()))
            time.sleep(_PERIOD - _STOPPED)

    thread = threading.Thread(target=stop, name="stop")
    thread.start()
    try:
        yield log
    finally:
        done.set()
        thread.join()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    log.intervals = found


def typical_wait_ns(intervals: Intervals) -> float:
    """How long somebody waits until the interval ends, who comes at any time between the first and
    the last of them: the mean of the middle fifth, as the profiler has it of packets.
    """
    if not intervals:
        return 0.0
    begin, end = intervals[0][0], intervals[-1][1]
    at, waits = 0, []
    for number in range(_SAMPLES):
        now = begin + (end - begin) * (number + 0.5) / _SAMPLES
        while intervals[at][1] <= now:
            at += 1
        waits.append(intervals[at][1] - now if now >= intervals[at][0] else 0.0)
    waits.sort()
    left_out = 2 * len(waits) // 5
    middle = waits[left_out : len(waits) - left_out]
    return sum(middle) / len(middle)


class SlowDevice:
    """Packet sockets on the device that a function sends to. Their filters, which take no packet,
    run within the send call, and are short or long.
    """

    def __init__(self, device: str) -> None:
        with contextlib.ExitStack() as stack:
            self._sockets = [
                stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
                for _ in range(FILTERS)
            ]
            self.slow(is_slow=False)
            for each in self._sockets:
                each.bind((device, _ALL))
            self._stack = stack.pop_all()

    def slow(self, *, is_slow: bool) -> None:
        """From now on."""
        body = slow_filter() if is_slow else [(_RETURN, 0)]
        code = b"".join(struct.pack("HBBI", op, 0, 0, value) for op, value in body)
        data = ctypes.create_string_buffer(code, len(code))
        program = struct.pack("HL", len(body), ctypes.addressof(data))
        for each in self._sockets:
            each.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)

    def close(self) -> None:
        """They are gone."""
        self._stack.close()


def slow_filter() -> list[tuple[int, int]]:
    """Divisions, each of which needs the result of the one before."""
    steps = [(_DIVIDE, 7), (_OR, 0xFFFF0000)] * (INSTRUCTIONS // 2)
    return [(_LOAD, 0xFFFFFFFF), *steps, (_RETURN, 0)]


def device_before(bench: Bench, at: int) -> str:
    """On which the packets of a function of the chain arrive."""
    plan = bench.run.plan
    hop = plan.chains[0].hops[at]
    port = plan.function(hop.function).ports[hop.in_port]
    (link,) = (link for link in plan.links if link.name == port.rx)
    return details_of(link).devices[port.end]

"""What is done to running functions from outside: none of it needs the engine.

Times are of /proc/PID/task/TID/schedstat. Sockets are reached by duplicates (`pidfd_getfd`), whose
file is the function's own: a flag that is set here is set there.
"""

import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_PIDFD_GETFD, _SCHED_GETATTR = 438, 315  # system calls of x86-64; the former's number is the same
_ATTR = struct.Struct("IIQiIQQQ")  # struct sched_attr of Linux 3.14, to which later ones add
_NAMES = {0: "other", 1: "fifo", 2: "rr", 3: "batch", 5: "idle"}
_MOST_PRIORITY = 49  # the kernel's own threads have 50
_libc = ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    found: int = _libc.syscall(number, *arguments)
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found


# ------------------------------------------------------------------ waiting for packets


@contextmanager
def packet_sockets(pids: Iterable[int]) -> Iterator[list[socket.socket]]:
    """Duplicates of the packet sockets of processes."""
    found: list[socket.socket] = []
    try:
        for pid in pids:
            found += _sockets_of(pid)
        yield found
    finally:
        for each in found:
            each.close()


def _sockets_of(pid: int) -> Iterator[socket.socket]:
    process = os.pidfd_open(pid)
    try:
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                if not str(file.readlink()).startswith("socket:"):
                    continue
                each = socket.socket(fileno=_call(_PIDFD_GETFD, process, int(file.name), 0))
                if each.family == socket.AF_PACKET:
                    yield each
                else:
                    each.close()
    finally:
        os.close(process)


def let_wait(sockets: Iterable[socket.socket], waits: bool) -> None:
    """Whether a receive call of a function that may wait does so, or returns at once."""
    for each in sockets:
        before = fcntl.fcntl(each, fcntl.F_GETFL)
        after = before & ~os.O_NONBLOCK if waits else before | os.O_NONBLOCK
        if after != before:
            fcntl.fcntl(each, fcntl.F_SETFL, after)


# ------------------------------------------------------------------ what the kernel schedules


@dataclass(frozen=True)
class KernelClass:
    """How the kernel runs a thread, as it says itself."""

    policy: str
    nice: int
    priority: int
    slice_ms: float | None  # of rr its timeslice; None: not told, or the class has none

    def __str__(self) -> str:
        told = [self.policy]
        if self.priority:
            told.append(f"priority {self.priority}")
        if self.nice:
            told.append(f"nice {self.nice}")
        if self.slice_ms is not None:
            told.append(f"slice {self.slice_ms:g} ms")
        return ", ".join(told)


def kernel_class(tid: int) -> KernelClass:
    """Of a thread. OSError: it has ended."""
    buffer = ctypes.create_string_buffer(_ATTR.size)
    _call(_SCHED_GETATTR, tid, buffer, _ATTR.size, 0)
    _, policy, _, nice, priority, runtime, _, _ = _ATTR.unpack(buffer.raw)
    name = _NAMES.get(policy, str(policy))
    slice_ms = None
    if name == "rr":
        slice_ms = os.sched_rr_get_interval(tid) * 1000
    elif name in ("other", "batch") and runtime:
        slice_ms = runtime / 1e6
    return KernelClass(name, nice, priority, slice_ms)


@dataclass(frozen=True)
class SchedTimes:
    """Of threads together, in a time that was watched, seconds."""

    run: float
    delay: float  # wanted the CPU, and another had it
    elapsed: float  # threads times the time

    @property
    def contention(self) -> float | None:
        """Run delay ÷ run time; None: they did not run."""
        return self.delay / self.run if self.run else None

    @property
    def wait(self) -> float | None:
        """Time in which they did not run ÷ run time, whatever the reason."""
        return (self.elapsed - self.run) / self.run if self.run else None

    def __sub__(self, other: "SchedTimes") -> "SchedTimes":
        return self + SchedTimes(-other.run, -other.delay, -other.elapsed)

    def __add__(self, other: "SchedTimes") -> "SchedTimes":
        return SchedTimes(
            self.run + other.run, self.delay + other.delay, self.elapsed + other.elapsed
        )


NO_TIME = SchedTimes(0, 0, 0)


def schedstat(text: str) -> tuple[int, int]:
    """Run time and run delay, ns, of what the file says."""
    run, delay, _ = map(int, text.split())
    return run, delay


def sched_ns(pid: int, tid: int) -> tuple[int, int]:
    """Run time and run delay of a thread so far, ns."""
    return schedstat(Path(f"/proc/{pid}/task/{tid}/schedstat").read_text())


# ------------------------------------------------------------------ order of the run queue


def queue_up(tids: Sequence[int]) -> None:
    """Puts real-time threads of one priority, which share a CPU and yield it to one another, into
    this order.

    A thread whose priority rises goes behind those that have it, one whose priority falls before
    them. The first is raised above the others meanwhile, or they would take turns in between.
    """
    try:
        first, *others = tids
        policy = os.sched_getscheduler(first)
        priority = os.sched_getparam(first).sched_priority
        if not 1 < priority < _MOST_PRIORITY:
            return
        for tid, other in [
            (first, 1),
            *((tid, by) for tid in others for by in (-1, 0)),
            (first, 0),
        ]:
            os.sched_setscheduler(tid, policy, os.sched_param(priority + other))
    except ProcessLookupError:
        return  # it ends


@contextmanager
def kept_queued(tids: Sequence[int], every: float) -> Iterator[None]:
    """Queues them up now and again, `every` seconds, till the end: whoever loses the CPU in the
    middle of its turn comes back in front of the others.
    """
    done = threading.Event()

    def keep() -> None:
        while True:
            queue_up(tids)
            if done.wait(every):
                return

    keeper = threading.Thread(target=keep, name="queue-up")
    keeper.start()
    try:
        yield
    finally:
        done.set()
        keeper.join()

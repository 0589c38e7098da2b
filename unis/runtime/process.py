"""Processes that we started, told from others that got their number later.

The kernel's start time, not psutil's: that is a time of day, which another process, after the clock
was set, reads differently; and a pidfd hits the very process that was looked at.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

GENTLE_SECONDS = 2.0  # for a process that is asked to end
_KILLED_SECONDS = 3.0
_EXEC_SECONDS = 1.0  # for a process that starts a program, if others keep the CPU from it
_LOOK_SECONDS = 0.001
_LOOKS = 3  # that find an environment empty, until it is taken to be so
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD


@dataclass(frozen=True)
class ProcessId:
    """A process for good: a number that is used again has another start time."""

    pid: int
    start_time: int  # clock ticks since boot, field 22 of /proc/PID/stat

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        """The process that now has this number; None if there is none."""
        stat = _stat(Path(f"/proc/{pid}/stat"))
        return cls(pid=pid, start_time=stat.start_time) if stat else None

    @classmethod
    def me(cls) -> "ProcessId":
        """The process that asks."""
        found = cls.of(os.getpid())
        if found is None:
            raise RuntimeError("/proc is not mounted")
        return found

    def alive(self) -> bool:
        """Whether it still runs; one that only waits to be reaped does not."""
        return (stat := self._stat()) is not None and stat.state not in "ZX"

    def threads(self) -> list[int]:
        """The ids of its threads."""
        if not self.alive():
            return []
        with contextlib.suppress(OSError):
            return [int(entry.name) for entry in Path(f"/proc/{self.pid}/task").iterdir()]
        return []

    def send(self, number: signal.Signals) -> None:
        """Sends a signal, if it still runs."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return
        try:
            if self.alive():
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)

    def _stat(self) -> "_Stat | None":
        stat = _stat(self._stat_file())
        return stat if stat and stat.start_time == self.start_time else None

    def _stat_file(self) -> Path:
        return Path(f"/proc/{self.pid}/stat")


@dataclass(frozen=True)
class ThreadId(ProcessId):
    """A thread for good, whose start time it is; a signal goes to its process."""

    tid: int

    def stopped(self) -> bool:
        """Whether a signal has stopped it."""
        return (stat := self._stat()) is not None and stat.state == "T"

    def _stat_file(self) -> Path:
        return Path(f"/proc/{self.pid}/task/{self.tid}/stat")


@dataclass(frozen=True)
class _Stat:
    state: str
    parent: int
    start_time: int
    flags: int  # PF_
    environment: tuple[int, int]  # addresses of its begin and end; 0: not there, or not yet

    @property
    def never_has_one(self) -> bool:
        """Whether it has no environment, whenever one looks."""
        return self.state in "ZX" or bool(self.flags & _KERNEL_THREAD)

    @property
    def looks_empty(self) -> bool:
        """Whether it has an empty environment, or is in execve(2), where it is so for a moment."""
        begin, end = self.environment
        return begin == end != 0


def _stat(path: Path) -> _Stat | None:
    try:
        # The name in brackets may hold anything, brackets too.
        fields = path.read_text(errors="replace").rpartition(")")[2].split()
        return _Stat(
            state=fields[0],
            parent=int(fields[1]),
            start_time=int(fields[19]),
            flags=int(fields[6]),
            environment=(int(fields[47]), int(fields[48])),
        )
    except (OSError, IndexError, ValueError):
        return None


def unblock(processes: Iterable[ProcessId]) -> list[str]:
    """Gives every thread back to the kernel's default scheduler and lets it go on, so that the
    processes can react to a signal; what failed, as sentences.
    """
    problems: list[str] = []
    for process in processes:
        for tid in process.threads():
            try:
                os.sched_setscheduler(tid, os.SCHED_OTHER, os.sched_param(0))
                os.setpriority(os.PRIO_PROCESS, tid, 0)
            except ProcessLookupError:
                continue
            except OSError as error:
                problems.append(f"cannot demote thread {tid} of {process.pid}: {error.strerror}")
        process.send(signal.SIGCONT)
    return problems


def end(
    processes: Sequence[ProcessId],
    what: str,
    *,
    gentle_seconds: float = GENTLE_SECONDS,
    hurry: Callable[[], bool] = lambda: False,
    also: Callable[[], list[str]] = list,
) -> list[str]:
    """Asks them to end, then makes them; `also` is done before that. What does not die."""
    for process in processes:
        process.send(signal.SIGTERM)
    left = wait_gone(processes, gentle_seconds, hurry)
    problems = also()
    for process in left:
        process.send(signal.SIGKILL)
    stuck = wait_gone(left, _KILLED_SECONDS)
    return problems + [
        f"{what} {process.pid} does not die; look at it with `ps -fp {process.pid}`"
        for process in stuck
    ]


def marked(key: str, value: str) -> list[ProcessId]:
    """The processes whose environment has `key`=`value`, which they inherited from a launcher."""
    found: list[ProcessId] = []
    for pid in all_pids():
        if pid != os.getpid() and _is_marked(pid, key, value):
            process = ProcessId.of(pid)
            if process and process.alive():
                found.append(process)
    return found


def children(parent: int, key: str | None = None, value: str = "") -> list[ProcessId]:
    """The living children of a process; with a `key` those that are `marked` so."""
    found: list[ProcessId] = []
    for pid in all_pids():
        stat = _stat(Path(f"/proc/{pid}/stat"))
        if stat is None or stat.parent != parent or stat.state in "ZX":
            continue
        # Only of these: it waits for whoever is changing its own memory.
        if key is None or _is_marked(pid, key, value):
            found.append(ProcessId(pid, stat.start_time))
    return found


def all_pids() -> Iterator[int]:
    """Every process of the machine."""
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _is_marked(pid: int, key: str, value: str) -> bool:
    until = time.monotonic() + _EXEC_SECONDS
    empty: list[tuple[int, int]] = []  # looks in a row that found it empty, at these addresses
    with contextlib.suppress(OSError):
        while time.monotonic() < until:
            if text := Path(f"/proc/{pid}/environ").read_bytes():
                return f"{key}={value}".encode() in text.split(b"\0")
            stat = _stat(Path(f"/proc/{pid}/stat"))
            if stat is None or stat.never_has_one:
                break
            empty = [*empty, stat.environment] if stat.looks_empty else []
            if len(empty) >= _LOOKS and {*empty[-_LOOKS:]} == {stat.environment}:
                break
            time.sleep(_LOOK_SECONDS)
    return False


def wait_gone(
    processes: Iterable[ProcessId], seconds: float, hurry: Callable[[], bool] = lambda: False
) -> list[ProcessId]:
    """Waits until they are gone or `hurry()` is true; returns the ones that are still there."""
    end = time.monotonic() + seconds
    left = [process for process in processes if process.alive()]
    while left and time.monotonic() < end and not hurry():
        time.sleep(0.01)
        left = [process for process in left if process.alive()]
    return left


def keep_off(cpus: Iterable[int]) -> None:
    """Keeps us and our children off CPUs where real-time functions would starve them."""
    unwanted = set(cpus)
    for thread in ProcessId.me().threads():
        with contextlib.suppress(OSError):
            if rest := os.sched_getaffinity(thread) - unwanted:
                os.sched_setaffinity(thread, rest)


def keep_to(cpus: Iterable[int]) -> None:
    """Lets every thread of ours have these CPUs, once nobody has to be kept off any more."""
    wanted = set(cpus)
    for thread in ProcessId.me().threads():
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, wanted)

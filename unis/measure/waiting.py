"""How long the threads of a process could run and were not let: others had their CPU."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

_BUSY = 0.1  # of the busiest: what runs less does not carry packets

T = TypeVar("T")
Times = Mapping[str, tuple[int, int]]  # by thread: ns that it ran, ns that it waited for a CPU


def times(pid: int, proc: Path = Path("/proc")) -> Times:
    """Of every thread of it; empty where the kernel does not tell (/proc/PID/task/*/schedstat)."""
    found: dict[str, tuple[int, int]] = {}
    for file in (proc / str(pid) / "task").glob("*/schedstat"):
        try:
            ran, waited, *_ = file.read_text().split()
            found[file.parent.name] = int(ran), int(waited)
        except (OSError, ValueError):  # it has ended meanwhile
            continue
    return found


def waited(before: Times, after: Times) -> float:
    """The part of its time that a busy thread waited between two looks: the most of any."""
    grown = [
        (ran - before[thread][0], waiting - before[thread][1])
        for thread, (ran, waiting) in after.items()
        if thread in before
    ]
    most = max((ran for ran, _ in grown), default=0)
    busy = [(ran, waiting) for ran, waiting in grown if ran and ran >= _BUSY * most]
    return max((waiting / (ran + waiting) for ran, waiting in busy), default=0.0)


def during(pid: int, call: Callable[[], T]) -> tuple[T, float]:
    """What a call says, and the part of its time that a busy thread waited meanwhile."""
    before = times(pid)
    reply = call()
    return reply, waited(before, times(pid))

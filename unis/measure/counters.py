"""Counters of threads, as perf_event_open(2) has them, of the hardware where there are any."""

import contextlib
import ctypes
import os
import platform
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_CALLS = {"x86_64": 298, "aarch64": 241}  # perf_event_open
_CLOSE_ON_EXEC = 8
_NO_KERNEL = 1 << 5 | 1 << 6  # nor a hypervisor: the function's own
# linux/perf_event.h, the first version of the structure: it is all that is needed.
_ATTRIBUTES = struct.Struct("=IIQQQQQIIQ")
_TIMES = 3  # read_format: with how long the event was enabled, and how long it was counted
_READING = struct.Struct("=QQQ")


@dataclass(frozen=True)
class PerfEvent:
    """What is counted, by the numbers of linux/perf_event.h."""

    type: int
    config: int


CACHE_REFERENCES, CACHE_MISSES = PerfEvent(0, 2), PerfEvent(0, 3)
TASK_CLOCK = PerfEvent(1, 1)  # ns, by software: everywhere


class CountersError(Exception):
    """Events that cannot be counted here; the text says why."""

    def __init__(self, sentence: str, number: int = 0) -> None:
        super().__init__(sentence)
        self.number = number  # errno


@dataclass(frozen=True)
class EventReading:
    """An event that may have shared its counter with others: then it was counted now and then."""

    value: int
    enabled_ns: int
    counted_ns: int

    @property
    def share(self) -> float:
        """Of the time in which it was enabled, that in which it was counted."""
        return self.counted_ns / self.enabled_ns if self.enabled_ns else 1.0

    @property
    def scaled(self) -> float | None:
        """What it would have been, had it been counted all the time; None: it never was."""
        return self.value / self.share if self.share else None


class Counters:
    """Events of some threads, counted since they were opened."""

    def __init__(self, descriptors: Mapping[str, Sequence[int]]) -> None:
        self._descriptors = descriptors

    def read(self) -> dict[str, tuple[int, ...]]:
        """By thread, the events in the order in which they were asked for, as they were counted."""
        return {
            name: tuple(reading(descriptor).value for descriptor in descriptors)
            for name, descriptors in self._descriptors.items()
        }


@contextlib.contextmanager
def counting(threads: Mapping[str, int], events: Sequence[PerfEvent]) -> Iterator[Counters]:
    """Counts `events` of `threads` (numbers, by name), in user mode. CountersError if one cannot be
    had.
    """
    with contextlib.ExitStack() as stack:
        descriptors: dict[str, list[int]] = {}
        for name, thread in threads.items():
            for event in events:
                descriptor = open_event(event, thread, kernel=False)
                stack.callback(os.close, descriptor)
                descriptors.setdefault(name, []).append(descriptor)
        yield Counters(descriptors)


def open_event(event: PerfEvent, thread: int, cpu: int = -1, *, kernel: bool = True) -> int:
    """A descriptor that counts from now on. `thread`: -1 for all of `cpu`, which is -1 for any.
    `kernel`: whether what the kernel does for the thread counts too. CountersError: it cannot be.
    """
    call = _CALLS.get(platform.machine())
    if call is None:
        raise CountersError(f"counters are not known on {platform.machine()}")
    attributes = _ATTRIBUTES.pack(
        event.type, _ATTRIBUTES.size, event.config, 0, 0, _TIMES, 0 if kernel else _NO_KERNEL,
        0, 0, 0,
    )  # fmt: skip
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    found = int(syscall(call, attributes, thread, cpu, -1, _CLOSE_ON_EXEC))
    if found < 0:
        number = ctypes.get_errno()
        raise CountersError(
            f"this machine has no counters for it (perf_event_open: {os.strerror(number)})", number
        )
    return found


def reading(descriptor: int) -> EventReading:
    """What an event came to since it was opened."""
    return EventReading(*_READING.unpack(os.read(descriptor, _READING.size)))

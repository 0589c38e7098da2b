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


@dataclass(frozen=True)
class PerfEvent:
    """What is counted, by the numbers of linux/perf_event.h."""

    type: int
    config: int


CACHE_REFERENCES, CACHE_MISSES = PerfEvent(0, 2), PerfEvent(0, 3)
TASK_CLOCK = PerfEvent(1, 1)  # ns, by software: everywhere


class CountersError(Exception):
    """Events that cannot be counted here; the text says why."""


class Counters:
    """Events of some threads, counted since they were opened."""

    def __init__(self, descriptors: Mapping[str, Sequence[int]]) -> None:
        self._descriptors = descriptors

    def read(self) -> dict[str, tuple[int, ...]]:
        """By thread, the events in the order in which they were asked for."""
        return {
            name: tuple(
                int.from_bytes(os.read(descriptor, 8), "little") for descriptor in descriptors
            )
            for name, descriptors in self._descriptors.items()
        }


@contextlib.contextmanager
def counting(threads: Mapping[str, int], events: Sequence[PerfEvent]) -> Iterator[Counters]:
    """Counts `events` of `threads` (numbers, by name). CountersError if one cannot be had."""
    with contextlib.ExitStack() as stack:
        descriptors: dict[str, list[int]] = {}
        for name, thread in threads.items():
            for event in events:
                descriptor = _open(event, thread)
                stack.callback(os.close, descriptor)
                descriptors.setdefault(name, []).append(descriptor)
        yield Counters(descriptors)


def _open(event: PerfEvent, thread: int) -> int:
    call = _CALLS.get(platform.machine())
    if call is None:
        raise CountersError(f"counters are not known on {platform.machine()}")
    attributes = _ATTRIBUTES.pack(
        event.type, _ATTRIBUTES.size, event.config, 0, 0, 0, _NO_KERNEL, 0, 0, 0
    )
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    found = int(syscall(call, attributes, thread, -1, -1, _CLOSE_ON_EXEC))
    if found < 0:
        error = os.strerror(ctypes.get_errno())
        raise CountersError(f"this machine has no counters for it (perf_event_open: {error})")
    return found

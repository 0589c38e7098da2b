"""Hardware counters and software events of the kernel, by perf_event_open(2).

They count, and sample nothing. Each thread of a function is counted for itself, in user mode and in
the kernel; what interrupts it counts too. A CPU is counted with all that runs there.
"""

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping, Sequence

from unis.counted.provider import CHAIN, CountedChain, Counts, Key, cpu_place
from unis.measure.counters import CountersError, EventReading, PerfEvent, open_event, reading

_HARDWARE, _SOFTWARE, _CACHE = 0, 1, 3  # types of linux/perf_event.h
_L1D, _LLC, _DTLB = 0, 2, 3
_MISS = 1 << 16

HARDWARE_EVENTS = {
    "cycles": PerfEvent(_HARDWARE, 0),
    "instructions": PerfEvent(_HARDWARE, 1),
    "L1D loads": PerfEvent(_CACHE, _L1D),
    "L1D load misses": PerfEvent(_CACHE, _L1D | _MISS),
    "LLC loads": PerfEvent(_CACHE, _LLC),
    "LLC load misses": PerfEvent(_CACHE, _LLC | _MISS),
    "dTLB loads": PerfEvent(_CACHE, _DTLB),
    "dTLB load misses": PerfEvent(_CACHE, _DTLB | _MISS),
}
SOFTWARE_EVENTS = {
    "task clock": PerfEvent(_SOFTWARE, 1),
    "page faults": PerfEvent(_SOFTWARE, 2),
    "context switches": PerfEvent(_SOFTWARE, 3),
    "CPU migrations": PerfEvent(_SOFTWARE, 4),
}
_UNITS = {"cycles": "cycles", "instructions": "instructions", "task clock": "ns"}
_FORBIDDEN = "the kernel forbids it: run as root, or lower kernel.perf_event_paranoid"
_WHY = {
    errno.EPERM: _FORBIDDEN,
    errno.EACCES: _FORBIDDEN,
    errno.EMFILE: "too few files may be open: raise the limit (ulimit -n)",
}
_LITTLE = 0.01  # of the time of all threads of a function
SHARED = "counter share"  # the least of all events: of the time, that in which it had a counter


class PerfEvents:
    """Events of one kind."""

    def __init__(
        self, name: str, chain: CountedChain, events: Mapping[str, PerfEvent], *, cpus: bool
    ) -> None:
        """`cpus`: whether those of the chain are counted too."""
        self.name = name
        self.units = {event: _UNITS.get(event, "events") for event in events}
        self._chain = chain
        self._cpus = chain.cpus if cpus else ()
        self._there: dict[str, PerfEvent] = {}
        self._missing: dict[str, CountersError] = {}
        for what, event in events.items():
            try:
                os.close(open_event(event, 0))
                self._there[what] = event
            except CountersError as error:
                self._missing[what] = error
        self._open: list[tuple[Key, int]] = []
        self._stack = contextlib.ExitStack()

    def missing(self) -> Sequence[str]:
        """One sentence."""
        if not self._missing:
            return ()
        without = ", ".join(self._missing)
        first = next(iter(self._missing.values()))
        if first.number in _WHY:
            why = _WHY[first.number]
        elif self._there:
            why = "the processor has no counters for them"
        else:
            why = f"{first}, as on most virtual machines"
        return (f"{self.name}: {why}; not known: {without}",)

    def begin(self) -> None:
        """Opens the events, which count at once."""
        self._stack.close()
        self._open = []
        for place, thread, cpu in self._targets():
            for what, event in self._there.items():
                try:
                    descriptor = open_event(event, thread, cpu)
                except CountersError as error:
                    if error.number != errno.ESRCH:  # else the thread has ended meanwhile
                        self._missing[what] = error
                    continue
                self._stack.callback(os.close, descriptor)
                self._open.append(((place, what), descriptor))

    def end(self) -> Counts:
        """Closes them."""
        with self._stack:
            return counts_of(
                (key, reading(descriptor))
                for key, descriptor in self._open
                if key[1] not in self._missing
            )

    def _targets(self) -> Iterator[tuple[str, int, int]]:
        for function in self._chain.functions:
            for thread in function.threads.values():
                yield function.name, thread, -1
        for cpu in self._cpus:
            yield cpu_place(cpu), -1, cpu


def counts_of(readings: Iterator[tuple[Key, EventReading]]) -> Counts:
    """Sums, scaled where events shared counters. What never had one is left out; but threads that
    hardly ran, which is too short for an event to have its turn, do not matter.
    """
    by_key: dict[Key, list[EventReading]] = {}
    for key, each in readings:
        by_key.setdefault(key, []).append(each)
    found: dict[Key, float] = {}
    for key, seen in by_key.items():
        never = sum(each.enabled_ns for each in seen if each.scaled is None)
        if never <= _LITTLE * sum(each.enabled_ns for each in seen):
            found[key] = sum(each.scaled or 0.0 for each in seen)
    shares = [each.share for seen in by_key.values() for each in seen if each.scaled is not None]
    return {**found, (CHAIN, SHARED): min(shares)} if min(shares, default=1.0) < 1 else found


def hardware(chain: CountedChain) -> PerfEvents:
    """Cycles, instructions, references to caches and TLB."""
    return PerfEvents("hardware counters", chain, HARDWARE_EVENTS, cpus=True)


def software(chain: CountedChain) -> PerfEvents:
    """What the kernel counts of threads."""
    return PerfEvents("software events", chain, SOFTWARE_EVENTS, cpus=False)

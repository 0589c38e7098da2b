"""How long threads ran, waited for a CPU, and slept, as the scheduler of the kernel has it."""

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from unis.counted.provider import CountedChain, CountedFunction, Counts, Key

RAN, WAITED, ELAPSED = "run", "run delay", "elapsed"
_TIMES = (RAN, WAITED, ELAPSED)
_BUSY = 0.1  # of its busiest thread: one that runs less carries no packets
_SWITCHES = re.compile(r"^(voluntary|nonvoluntary)_ctxt_switches:\s*(\d+)$", re.MULTILINE)
_KINDS = {"voluntary": "voluntary switches", "nonvoluntary": "involuntary switches"}
_SLICES = "slices"

Thread = Mapping[str, int]


def parse_schedstat(text: str) -> Thread:
    """Of /proc/PID/task/TID/schedstat: ns it ran, ns it could run and did not, times it ran.
    ValueError: it has another form.
    """
    ran, waited, slices = map(int, text.split())
    return {RAN: ran, WAITED: waited, _SLICES: slices}


def parse_switches(text: str) -> Thread:
    """Of /proc/PID/task/TID/status."""
    return {_KINDS[kind]: int(count) for kind, count in _SWITCHES.findall(text)}


class Schedstat:
    """Of all threads of each function."""

    name = "schedstat"
    units: Mapping[str, str] = {
        RAN: "ns",
        WAITED: "ns",
        _SLICES: "slices",
        **dict.fromkeys(_KINDS.values(), "switches"),
    }

    def __init__(self, chain: CountedChain, own: Path = Path("/proc/self/schedstat")) -> None:
        self._chain = chain
        self._there = own.is_file()
        self._before: dict[str, dict[int, Thread]] = {}

    def missing(self) -> Sequence[str]:
        """Where the kernel was built without it."""
        if self._there:
            return ()
        return (
            "schedstat: this kernel has no /proc/PID/schedstat (CONFIG_SCHED_INFO); not known: "
            "how long functions ran and waited, Wait/Run, Contention/Run",
        )

    def begin(self) -> None:
        """Notes all threads."""
        self._before = self._read()

    def end(self) -> Counts:
        """Times of the threads that carry packets, and `elapsed` of as many; the rest of all."""
        found: dict[Key, float] = {}
        for name, after in self._read().items():
            before = self._before.get(name, {})
            grown = [_grown(before[tid], now) for tid, now in after.items() if tid in before]
            found |= {(name, what): value for what, value in of_threads(grown).items()}
        return found

    def _read(self) -> dict[str, dict[int, Thread]]:
        return {each.name: _threads(each) for each in self._chain.functions}


def of_threads(grown: Sequence[Thread]) -> dict[str, int]:
    """Of one function."""
    most = max((each.get(RAN, 0) for each in grown), default=0)
    found: dict[str, int] = {}
    for each in grown:
        busy = most and each.get(RAN, 0) >= _BUSY * most
        for what, value in each.items():
            if busy or what not in _TIMES:
                found[what] = found.get(what, 0) + value
    return found


def _grown(before: Thread, after: Thread) -> Thread:
    return {what: value - before[what] for what, value in after.items() if what in before}


def _threads(function: CountedFunction) -> dict[int, Thread]:
    found: dict[int, Thread] = {}
    for tid in function.threads.values():
        folder = function.proc / "task" / str(tid)
        try:
            times = parse_schedstat((folder / "schedstat").read_text())
            switches = parse_switches((folder / "status").read_text())
        except (OSError, ValueError):  # it has ended meanwhile
            continue
        found[tid] = {ELAPSED: time.monotonic_ns(), **times, **switches}
    return found

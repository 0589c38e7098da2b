"""Whether a process that computes can use what sleeping functions leave of their CPU, and whether
their packets suffer from that process.
"""

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pydantic import BaseModel

from unis.measure.disturbance import Disturbance
from unis.measure.summary import summarise_arm
from unis.measure.windows import Arm, functions_share, in_turn
from unis.runtime.run import Run

ALONE, NICE_0, IDLE_CLASS = "no process", "nice 0", "SCHED_IDLE"
_KINDS = (ALONE, NICE_0, IDLE_CLASS)
_ROUNDS = 12
_WINDOW = 0.5  # seconds
# Ctrl-C is ours to handle. A stopped process ends too if we are killed.
_COMPUTE = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    sum(range(100_000))
"""
_ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")


class BesideRow(BaseModel):
    """A chain at one load, with a process that computes on the functions' CPU or without."""

    chain: str
    beside: str
    load: float
    cpu_functions: float  # share of the CPU, median over the windows
    cpu_beside: float | None  # share that the process got, median; None: there was no process
    latency_us: dict[str, float | None]
    lost: float
    windows: int
    window: float  # seconds
    disturbed: Disturbance


def beside_rows(run: Run, chain: str, arm: Arm, load: float, cpu: int) -> list[BesideRow]:
    """Windows of `arm` in turn: the process of each kind runs in its own."""
    with contextlib.ExitStack() as stack:
        processes = {kind: stack.enter_context(_computing(kind, cpu)) for kind in _KINDS[1:]}
        turns = _Turns(processes)
        arms = [replace(arm, name=kind, prepare=partial(turns.begin, kind)) for kind in _KINDS]
        rounds = in_turn(run, arms, _ROUNDS, _WINDOW)
        turns.end()
    rows = []
    for kind in _KINDS:
        windows = [windows[kind] for windows in rounds]
        summary = summarise_arm(rounds, kind)
        got = turns.shares.get(kind)
        rows.append(
            BesideRow(
                chain=chain,
                beside=kind,
                load=load,
                cpu_functions=statistics.median(map(functions_share, windows)),
                cpu_beside=statistics.median(got) if got else None,
                latency_us=summary.latency_us,
                lost=summary.drops.share,
                windows=len(windows),
                window=_WINDOW,
                disturbed=summary.disturbed,
            )
        )
    return rows


@contextlib.contextmanager
def _computing(kind: str, cpu: int) -> Iterator[int]:
    """A process on `cpu` that is stopped at first: its id."""
    with subprocess.Popen([*_ENDS_WITH_US, sys.executable, "-c", _COMPUTE]) as process:
        try:
            process.send_signal(signal.SIGSTOP)
            os.sched_setaffinity(process.pid, {cpu})
            if kind == IDLE_CLASS:
                os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
            yield process.pid
        finally:
            process.kill()


@dataclass
class _Turns:
    """Lets one process at a time run, and notes which share of the CPU it got."""

    processes: dict[str, int]  # kind → id
    shares: dict[str, list[float]] = field(default_factory=dict)
    running: tuple[str, float, int] | None = None  # kind, since when (s), what it had had (ns)

    def begin(self, kind: str) -> None:
        """The process of that kind, if it has one, runs from now on."""
        self.end()
        if kind in self.processes:
            pid = self.processes[kind]
            os.kill(pid, signal.SIGCONT)
            self.running = kind, time.monotonic(), _run_ns(pid)

    def end(self) -> None:
        """None runs."""
        if self.running is None:
            return
        kind, since, before = self.running
        pid = self.processes[kind]
        share = (_run_ns(pid) - before) / 1e9 / (time.monotonic() - since)
        os.kill(pid, signal.SIGSTOP)
        self.shares.setdefault(kind, []).append(share)
        self.running = None


def _run_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])

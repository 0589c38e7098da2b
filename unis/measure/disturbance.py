"""What disturbed a measurement: time of its CPUs that others had."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import monotonic

from pydantic import BaseModel

from unis.v1 import engine_pb2 as pb

# Of the time of all CPUs of a run. The kernel counts in ticks of 10 ms.
NOTICED = 0.02  # in a window
TOLD = 0.005  # over all windows
_STAT = Path("/proc/stat")


class Disturbance(BaseModel):
    """How much was stolen from the CPUs of a run over some windows."""

    windows: int
    disturbed: int  # of those, in which it was more than 2 %
    stolen: float  # share of the CPUs' time, over all windows
    worst: float  # in one window
    cpu_seconds: float = 0.0  # time of the CPUs, over all windows

    @classmethod
    def of(cls, windows: Sequence[pb.MeasureReply]) -> "Disturbance":
        """0 where nothing tells."""
        shares = [_share(window) for window in windows]
        time = sum(window.window_ns * len(window.stolen_ns) for window in windows)
        stolen = sum(sum(window.stolen_ns.values()) for window in windows)
        return cls(
            windows=len(shares),
            disturbed=sum(share > NOTICED for share in shares),
            stolen=stolen / time if time else 0.0,
            worst=max(shares, default=0.0),
            cpu_seconds=time / 1e9,
        )

    def __add__(self, other: "Disturbance") -> "Disturbance":
        seconds = self.cpu_seconds + other.cpu_seconds
        stolen = self.stolen * self.cpu_seconds + other.stolen * other.cpu_seconds
        return Disturbance(
            windows=self.windows + other.windows,
            disturbed=self.disturbed + other.disturbed,
            stolen=stolen / seconds if seconds else 0.0,
            worst=max(self.worst, other.worst),
            cpu_seconds=seconds,
        )


def remark(parts: Iterable[Disturbance]) -> str | None:
    """What a reader of the figures must know; None: they were hardly disturbed."""
    whole = sum(parts, Disturbance.of([]))
    if whole.stolen < TOLD:
        return None
    return (
        f"Disturbed: a hypervisor gave {whole.stolen:.1%} of the CPUs' time to others, in "
        f"{whole.disturbed} of {whole.windows} windows more than {NOTICED:.0%}, up to "
        f"{whole.worst:.0%}."
    )


def others_busy() -> Callable[[], float]:
    """Watches all CPUs from now on. The function says how many of them others have kept busy since:
    programs but us and those that we have started and waited for, and a hypervisor's other guests.
    """
    began = _others()

    def busy() -> float:
        seconds, used, stolen = (now - then for then, now in zip(began, _others(), strict=True))
        return (max(0.0, used) + stolen) / seconds if seconds else 0.0

    return busy


def _others() -> tuple[float, float, float]:
    """Seconds of the clock, of CPUs that others used, and of CPUs that were stolen. What interrupts
    take is not there: some kernels count it among the time of the program that they meet.
    """
    words = _STAT.read_text().split(maxsplit=9)[1:9]
    user, nice, system, *_, steal = (int(word) / os.sysconf("SC_CLK_TCK") for word in words)
    return monotonic(), user + nice + system - sum(os.times()[:4]), steal


def _share(window: pb.MeasureReply) -> float:
    time = window.window_ns * len(window.stolen_ns)
    return sum(window.stolen_ns.values()) / time if time else 0.0

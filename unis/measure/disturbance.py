"""What disturbed the windows of a run: time of its CPUs that a hypervisor gave to others."""

from collections.abc import Iterable, Sequence

from pydantic import BaseModel

from unis.v1 import engine_pb2 as pb

# Of the time of all CPUs of a run. The kernel counts in ticks of 10 ms.
NOTICED = 0.02  # in a window
TOLD = 0.005  # over all windows


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


def _share(window: pb.MeasureReply) -> float:
    time = window.window_ns * len(window.stolen_ns)
    return sum(window.stolen_ns.values()) / time if time else 0.0

"""Arms: how the functions of one chain are scheduled in a window."""

from dataclasses import dataclass
from typing import Literal

from unis.measure.windows import Arm, Span, span_of_cycles

Mode = Literal["polling", "blocking", "sleeping"]
HANDOVER = "hand-over"
SETTLE = 0.15  # seconds, for arms without a slice
_TICK_SLICE_MS = 4.0  # what threads that spin have of the fair class at 250 Hz


@dataclass(frozen=True)
class SccArm:
    """A policy, what functions do without packets, and the quantum."""

    policy: str  # of the kernel, or HANDOVER
    mode: Mode
    quantum_ms: float | None = None  # slice of other and batch, or timeslice of rr; None: as it is
    nice: int | None = None
    order: Literal["chain", "reverse"] | None = None  # of the run queue; None: as it comes

    @property
    def name(self) -> str:
        """Of windows, and for people."""
        told = [f"{self.policy}, {self.mode}"]
        if self.quantum_ms is not None:
            told.append(f"{self.quantum_ms:g} ms")
        if self.nice is not None:
            told.append(f"nice {self.nice}")
        if self.order is not None:
            told.append(f"{self.order} order")
        return ", ".join(told)

    @property
    def arm(self) -> Arm:
        """As the engine has it."""
        if self.policy == HANDOVER:
            return Arm("unis", "handover", name=self.name)
        return Arm(self.policy, name=self.name)

    def span(self, length: int, window: float, rr_slice: float) -> Span:
        """Long enough that each function has had its slice several times. `rr_slice`: seconds, that
        of this machine.
        """
        if self.mode != "polling" or self.policy == HANDOVER or length == 1:
            return Span(SETTLE, window)
        slice_s = max(self.quantum_ms or 0.0, _TICK_SLICE_MS) / 1000
        if self.policy == "rr" and self.quantum_ms is None:
            slice_s = rr_slice
        cycle = length * slice_s
        return Span(max(SETTLE, 2 * cycle), span_of_cycles(cycle, window).window)


DEFAULT = SccArm("other", "polling")
BLOCKING = SccArm("other", "blocking")
HAND_OVER = SccArm(HANDOVER, "polling")
SLEEPING = SccArm(HANDOVER, "sleeping")
# The paper's, whose nice values are to give 420 and 800 ms.
BATCH_420, BATCH_800 = SccArm("batch", "polling", None, -1), SccArm("batch", "polling", None, -19)
# FIFO and polling is left out: the first function would keep the CPU for ever.
FIFO_POLLING = (
    "fifo, polling: not measured, because the first function that polls keeps the CPU and nothing "
    "passes"
)
_QUICK = (
    DEFAULT,
    BLOCKING,
    HAND_OVER,
    SLEEPING,
    SccArm("other", "polling", 20),
    BATCH_800,
    SccArm("batch", "blocking"),
    SccArm("rr", "polling", 1),
    SccArm("fifo", "blocking"),
)
_FULL = (
    *_QUICK,
    SccArm("other", "polling", 0.1),
    SccArm("other", "blocking", 0.1),
    SccArm("other", "blocking", 20),
    SccArm("batch", "polling"),
    SccArm("batch", "polling", 100),
    SccArm("batch", "blocking", None, -19),
    SccArm("rr", "polling", 100),
    SccArm("rr", "blocking", 1),
    SccArm("rr", "blocking", 100),
)


def policy_arms(*, quick: bool, may_wait: bool) -> tuple[SccArm, ...]:
    """Those of Figs. 9 and 10 and of Table 6."""
    return tuple(arm for arm in (_QUICK if quick else _FULL) if may_wait or arm.mode != "blocking")


LIGHT = (DEFAULT, BLOCKING, HAND_OVER, SLEEPING)  # at the load that polling passes


ORDERS = (
    SccArm(HANDOVER, "polling", order="chain"),
    SccArm(HANDOVER, "polling", order="reverse"),
)

"""Progress: the next step, and an estimate of the remaining time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass
class _Steps:
    """Steps of one kind. The error of past estimates corrects those of the remaining steps."""

    count: int
    left: float  # seconds, as estimated
    at: int = 0
    done: float = 0.0  # as estimated
    took: float = 0.0

    def expected(self) -> float:
        """Expected seconds of the remaining steps."""
        return self.left * (self.took / self.done if self.done else 1.0)


class Progress:
    """All measurements come first, then all simulations."""

    def __init__(
        self,
        report: Callable[[str], None],
        measured: Sequence[float],
        simulated: Sequence[float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`measured`, `simulated`: the estimated seconds of each step."""
        self._report = report
        self._clock = clock
        self._measured = _Steps(len(measured), sum(measured))
        self._simulated = _Steps(len(simulated), sum(simulated))
        self._running: tuple[_Steps, float, float] | None = (
            None  # the step that runs: its estimate and start
        )

    def measuring(self, title: str, seconds: float) -> None:
        """Starts a measurement with this estimate."""
        self._next(self._measured, "", title, seconds)

    def simulating(self, title: str, seconds: float) -> None:
        """Starts a simulation with this estimate."""
        self._next(self._simulated, "simulating ", title, seconds)

    def _end(self) -> None:
        if self._running is None:
            return
        steps, estimated, began = self._running
        steps.left = max(0.0, steps.left - estimated)
        steps.done += estimated
        steps.took += self._clock() - began

    def _next(self, steps: _Steps, kind: str, title: str, seconds: float) -> None:
        self._end()
        steps.at += 1
        self._running = (steps, seconds, self._clock())
        left = self._measured.expected() + self._simulated.expected()
        duration = f"{left / 60:.0f} min" if left > 90 else f"{left:.0f} s"
        self._report(f"{kind}{steps.at} of {steps.count}, about {duration} left: {title}")

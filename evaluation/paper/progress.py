"""What is next, and how long all that is left will take, by how long the rest took."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass
class _Steps:
    """Of one kind, which are as much slower or faster than was thought as those before."""

    count: int
    left: float  # seconds, as estimated
    at: int = 0
    done: float = 0.0  # as estimated
    took: float = 0.0

    def expected(self) -> float:
        """Seconds for what is left."""
        return self.left * (self.took / self.done if self.done else 1.0)


class Progress:
    """First all is measured that is to be measured, then simulated."""

    def __init__(
        self,
        report: Callable[[str], None],
        measured: Sequence[float],
        simulated: Sequence[float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`measured`, `simulated`: about how many seconds each step takes."""
        self._report = report
        self._clock = clock
        self._measured = _Steps(len(measured), sum(measured))
        self._simulated = _Steps(len(simulated), sum(simulated))
        self._running: tuple[_Steps, float, float] | None = None  # estimated; began

    def measuring(self, title: str, seconds: float) -> None:
        """A step begins that takes about so long."""
        self._next(self._measured, "", title, seconds)

    def simulating(self, title: str, seconds: float) -> None:
        """Likewise."""
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
        told = f"{left / 60:.0f} min" if left > 90 else f"{left:.0f} s"
        self._report(f"{kind}{steps.at} of {steps.count}, about {told} left: {title}")

"""Measures on this machine: a run of the real engine, in short windows."""

from typing import Protocol

from unis.engine.histogram import Latency
from unis.measure import waiting
from unis.measure.disturbance import Disturbance
from unis.measure.windows import Arm, Offered, Span, measure
from unis.profile import windows
from unis.profile.bounds import Reading
from unis.profile.windows import Window
from unis.runtime.errors import RunFailedError
from unis.runtime.run import Run

SETTLE = 0.05  # seconds: rings are full or empty within a fraction of a millisecond
ARRIVALS = "poisson"


class Ways(Protocol):
    """What gives the functions' CPU a part of the last-level cache."""

    @property
    def most(self) -> int:
        """Ways that functions may have."""

    def set(self, ways: int) -> None:
        """From now on its CPU fills no others than so many."""


class EngineLook:
    """Windows of a run, whose source the engine paces."""

    def __init__(self, run: Run, window: float) -> None:
        """`window` in seconds."""
        self._run = run
        self._span = Span(SETTLE, window)

    def closed(self) -> Window:
        """As fast as the first ring takes packets."""
        return self._look(None)

    def opened(self, mpps: float) -> Window:
        """Packets at random at that rate, and latency from when each was due."""
        return self._look(Offered(mpps * 1e6, ARRIVALS))

    def _look(self, offered: Offered | None) -> Window:
        run, pid = self._run, self._run.unisd.process.pid if self._run.unisd else 0
        arm = Arm(run.plan.policy, offered=offered)
        reply, kept_off = waiting.during(
            pid, lambda: measure(run.client, arm, self._span, run.plan.controller)
        )
        run.check()
        return Window(
            taken_mpps=reply.offered / reply.window_ns * 1e3,
            p95_us=Latency([reply.latency]).percentile_us(95),
            lost=reply.dropped / reply.offered if reply.offered else 0.0,
            waited=kept_off,
            stolen=Disturbance.of([reply]).stolen,
        )


class OnMachine:
    """A backend of the profiler: what it is asked for it measures."""

    def __init__(
        self, look: windows.Look, rounds: int, ways: Ways | None = None, whole: int | None = None
    ) -> None:
        """`rounds`: windows of each kind behind a reading; `ways`: None where there is no CAT.

        `whole`: ways with which capacity and latency are measured; None: all that there are.
        """
        self._look = look
        self._rounds = rounds
        self._ways = ways
        self._whole = whole or (ways.most if ways else 0)
        if ways is not None:
            ways.set(self._whole)

    def capacity(self) -> tuple[Reading, float]:
        """Mpps with the whole cache, and how many packets then wait in rings (Little's law).

        RunFailedError where nothing comes out.
        """
        window = self._look.closed()
        if window.p95_us is None:
            raise RunFailedError(
                "nothing comes out: see whether its arguments let packets of this traffic pass"
            )
        found = windows.capacity(self._look, self._rounds)
        return found, found.value * window.p95_us

    def throughput(self, ways: int) -> Reading:
        """Of that, with so many ways."""
        if self._ways is None:
            raise RunFailedError("this machine has no cache ways to set")
        return windows.share(self._look, self._ways.set, ways, self._whole, self._rounds)

    def latency(self, load: float) -> Reading:
        """p95, µs, at a part of what passes meanwhile; the whole cache."""
        return windows.latency(self._look, load, self._rounds)

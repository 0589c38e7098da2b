"""Short windows of a run of the real engine."""

from unis.engine.histogram import Latency
from unis.measure import waiting
from unis.measure.disturbance import Disturbance
from unis.measure.windows import Arm, Offered, Span, measure
from unis.profile.windows import Window
from unis.runtime.run import Run

SETTLE = 0.05  # seconds: rings are full or empty within a fraction of a millisecond
ARRIVALS = "poisson"


class EngineWindows:
    """Windows of a run, whose source the engine paces."""

    def __init__(self, run: Run, window: float) -> None:
        """`window` in seconds."""
        self._run = run
        self._span = Span(SETTLE, window)

    def closed(self) -> Window:
        """As fast as the first ring takes packets."""
        return self._window(None)

    def opened(self, mpps: float) -> Window:
        """Packets at random at that rate, and latency from when each was due."""
        return self._window(Offered(mpps * 1e6, ARRIVALS))

    def _window(self, offered: Offered | None) -> Window:
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

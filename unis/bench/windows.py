"""Short alternating windows inside one run: machines drift by a factor of two within seconds, and
only windows of one round see the same machine.
"""

import statistics
from collections.abc import Callable, Sequence

from pydantic import BaseModel

from unis.engine import names
from unis.engine.client import EngineClient
from unis.v1 import engine_pb2 as pb

SETTLE_SECONDS = 0.1
WINDOW_SECONDS = 0.2

# What was measured: rounds[r][policy].
Rounds = list[dict[str, pb.MeasureReply]]


class Quartiles(BaseModel):
    """The spread of windows."""

    median: float
    q1: float
    q3: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Quartiles":
        """Quartiles of at least one value."""
        if len(values) == 1:
            return cls(median=values[0], q1=values[0], q3=values[0])
        q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median=median, q1=q1, q3=q3)


def mpps(reply: pb.MeasureReply) -> float:
    """Delivered packets, millions per second."""
    return reply.delivered / reply.window_ns * 1e3


def ratio_text(ratio: float) -> str:
    """A ratio with two digits that mean something: 0.93, 0.0021."""
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def ratios(rounds: Rounds, policy: str, base: str) -> list[float]:
    """Throughput of `policy` by that of `base`, round by round."""
    return [
        mpps(windows[policy]) / mpps(windows[base])
        for windows in rounds
        if policy in windows and base in windows and windows[base].delivered
    ]


def alternate(
    client: EngineClient,
    policies: Sequence[str],
    rounds: int,
    window: float,
    on_window: Callable[[Rounds, str], None],
    before_round: Callable[[], None] = lambda: None,
) -> Rounds:
    """Measures every policy once a round, in an order that rotates from round to round.

    `on_window` is called after each window with what there is and the policy just measured.
    """
    done: Rounds = []
    for index in range(rounds):
        before_round()
        shift = index % len(policies)
        done.append({})
        for policy in [*policies[shift:], *policies[:shift]]:
            done[-1][policy] = client.measure(names.policy(policy), SETTLE_SECONDS, window)
            on_window(done, policy)
    return done

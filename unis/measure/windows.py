"""Short alternating windows inside one run: machines drift by a factor of two within seconds, and
only windows of one round see the same machine.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from unis.engine import names
from unis.engine.limits import limit
from unis.v1 import common_pb2 as common
from unis.v1 import engine_pb2 as pb
from unis.v1 import traffic_pb2 as traffic

SETTLE_SECONDS = 0.1
_RR_CYCLES = 3  # that a window of rr holds: each function has had its slice so often


@dataclass(frozen=True)
class Offered:
    """What the source sends meanwhile, whether the chain takes it or not."""

    pps: float
    arrivals: str  # constant, poisson


@dataclass(frozen=True)
class Arm:
    """What is compared: a policy and, where it matters, how tasks are switched."""

    policy: str
    controller: str | None = None  # that of the run
    yield_every: int = 0  # bursts, under policy cooperative; 0: each function has its own
    name: str = ""  # in results; empty: as one writes it
    offered: Offered | None = None  # None: as the run has it
    scheduler: bytes = b""  # SchedulerSettings of its own, serialised; empty: the run's

    @classmethod
    def parse(cls, text: str) -> "Arm":
        """From "unis", "unis/signal" or just "signal", or "cooperative/16".

        ValueError if there is none such.
        """
        if text in names.controllers():
            return cls("unis", text)
        policy, slash, controller = text.partition("/")
        if policy == "cooperative" and controller.isdecimal():
            most = int(limit("MeasureRequest.yield_every").max or 0)
            if not 1 <= int(controller) <= most:
                raise ValueError(f"`{text}`: write 1 to {most} bursts, as cooperative/16")
            return cls(policy, yield_every=int(controller))
        if policy not in names.policies():
            raise ValueError(
                f"invalid policy `{policy}`; expected one of {', '.join(names.policies())}"
            )
        if slash and controller not in names.controllers():
            raise ValueError(
                f"invalid controller `{controller}`; expected one of "
                f"{', '.join(names.controllers())}"
            )
        return cls(policy, controller or None)

    def __str__(self) -> str:
        if self.name:
            return self.name
        if self.yield_every:
            return f"{self.policy}/{self.yield_every}"
        return f"{self.policy}/{self.controller}" if self.controller else self.policy


@dataclass(frozen=True)
class Span:
    """How long an arm settles and is then measured, seconds."""

    settle: float
    window: float


class Measurer(Protocol):
    """What measures: the engine's client."""

    def measure(
        self,
        policy: common.Policy,
        settle: float,
        window: float,
        controller: pb.ControllerKind,
        yield_every: int,
        *,
        pps: float | None,
        arrivals: traffic.Arrivals | None,
        scheduler: common.SchedulerSettings | None,
    ) -> pb.MeasureReply:
        """Changes to `policy` and `controller`, lets it settle, and measures over a window.

        `yield_every`: bursts between yields under policy cooperative; 0: each has its own. `pps`
        and `arrivals`: of the source; None: as the run has them. `scheduler`: likewise.

        Raises where something else was measured than was asked for.
        """


# What was measured: rounds[r][str(arm)].
Rounds = list[dict[str, pb.MeasureReply]]


def span_of(arm: Arm, window: float, functions_per_cpu: int, rr_slice: float) -> Span:
    """Long enough for the arm: under rr each function runs for `rr_slice` seconds in a cycle.

    A window of rr is a whole number of cycles, three at least, after one to settle.
    """
    if arm.policy != "rr":
        return Span(SETTLE_SECONDS, window)
    cycle = functions_per_cpu * rr_slice
    cycles = max(_RR_CYCLES, math.ceil(window / cycle))
    return Span(max(SETTLE_SECONDS, cycle), cycles * cycle)


def mpps(reply: pb.MeasureReply) -> float:
    """Delivered packets, millions per second."""
    return reply.delivered / reply.window_ns * 1e3


def measure(client: Measurer, arm: Arm, span: Span, controller: str) -> pb.MeasureReply:
    """One window of one arm; `controller` is that of an arm that names none."""
    # Always told, or it would be whichever the arm before had.
    kind = names.controller(arm.controller or controller)
    offered = arm.offered
    return client.measure(
        names.policy(arm.policy),
        span.settle,
        span.window,
        kind,
        arm.yield_every,
        pps=offered.pps if offered else None,
        arrivals=names.arrivals_kind(offered.arrivals) if offered else None,
        scheduler=common.SchedulerSettings.FromString(arm.scheduler) if arm.scheduler else None,
    )


def alternate(
    client: Measurer,
    order: Sequence[Sequence[Arm]],
    spans: Mapping[Arm, Span],
    controller: str,
    on_window: Callable[[Rounds, Arm], None],
    before_round: Callable[[], None] = lambda: None,
) -> Rounds:
    """Measures the arms of each round in the order given, under `controller` where one names none.

    `on_window` is called after each window with what there is and the arm just measured.
    """
    done: Rounds = []
    for arms in order:
        before_round()
        done.append({})
        for arm in arms:
            done[-1][str(arm)] = measure(client, arm, spans[arm], controller)
            on_window(done, arm)
    return done


def throughput(rounds: Rounds, arm: str) -> list[float]:
    """Mpps of each window of an arm, in the rounds that have one."""
    return [mpps(windows[arm]) for windows in rounds if arm in windows]

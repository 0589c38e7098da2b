"""Short alternating windows inside one run: machines drift by a factor of two within seconds, and
only windows of one round see the same machine.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from unis.engine import names
from unis.engine.limits import limit
from unis.measure import order
from unis.plan.machine import rr_timeslice_ms
from unis.plan.model import Plan
from unis.runtime.run import Run
from unis.v1 import common_pb2
from unis.v1 import engine_pb2 as pb

SETTLE_SECONDS = 0.1
_CYCLES = 3  # that a window holds where functions have slices: so often each has had its own


@dataclass(frozen=True)
class Offered:
    """What the source sends meanwhile, whether the chain takes it or not."""

    pps: float  # 0: as fast as the first links take packets
    arrivals: str  # constant, poisson


PACED_OVERLOAD_PPS = 50e6  # more than a source that keeps distances sends, or a device takes


def overload(plan: Plan) -> Offered:
    """More than passes. A link in memory says when it is full, and a source that keeps distances
    may be slower than the chain.
    """
    in_memory = all(link.kind in ("ring", "memif", "vhost") for link in plan.links)
    return Offered(0 if in_memory else PACED_OVERLOAD_PPS, "constant")


@dataclass(frozen=True)
class Arm:
    """What is compared: a policy and, where it matters, how tasks are switched."""

    policy: str
    controller: str | None = None  # that of the run
    yield_every: int = 0  # bursts, under policy cooperative; 0: each function has its own
    name: str = ""  # in results; empty: as one writes it
    offered: Offered | None = None  # None: as the run has it
    scheduler: bytes = b""  # SchedulerSettings of its own, serialised; empty: the run's
    # Called before each window.
    prepare: Callable[[], None] = field(default=lambda: None, compare=False)

    def with_settings(self, settings: common_pb2.SchedulerSettings) -> "Arm":
        """The same with settings of its own."""
        return replace(self, scheduler=settings.SerializeToString(deterministic=True))

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

    def measure(self, request: pb.MeasureRequest) -> pb.MeasureReply:
        """One window. Raises where something else was measured than was asked for."""


# What was measured: rounds[r][str(arm)].
Rounds = list[dict[str, pb.MeasureReply]]


def span_of(arm: Arm, window: float, functions_per_cpu: int, rr_slice: float) -> Span:
    """Long enough for the arm: under rr each function runs for `rr_slice` seconds in a cycle.

    Any other arm settles for SETTLE_SECONDS, but for no longer than the window.
    """
    if arm.policy != "rr":
        return Span(min(SETTLE_SECONDS, window), window)
    return span_of_cycles(functions_per_cpu * rr_slice, window)


def span_of_cycles(cycle: float, window: float) -> Span:
    """A whole number of cycles, three at least, after one to settle; seconds."""
    cycles = max(_CYCLES, math.ceil(window / cycle))
    return Span(max(SETTLE_SECONDS, cycle), cycles * cycle)


def mpps(reply: pb.MeasureReply) -> float:
    """Delivered packets, millions per second."""
    return reply.delivered / reply.window_ns * 1e3


def functions_ns(reply: pb.MeasureReply) -> int:
    """CPU time of all functions together."""
    return sum(reply.function_cpu_ns.values())


def functions_share(reply: pb.MeasureReply) -> float:
    """The same as a share of one CPU."""
    return functions_ns(reply) / reply.window_ns


def measure(client: Measurer, arm: Arm, span: Span, controller: str) -> pb.MeasureReply:
    """One window of one arm; `controller` is that of an arm that names none."""
    request = pb.MeasureRequest(
        policy=names.policy(arm.policy),
        # Always told, or it would be whichever the arm before had.
        controller=names.controller(arm.controller or controller),
        yield_every=arm.yield_every,
        settle_ns=round(span.settle * 1e9),
        window_ns=round(span.window * 1e9),
    )
    if arm.offered:
        request.pps = arm.offered.pps
        request.arrivals = names.arrivals_kind(arm.offered.arrivals)
    if arm.scheduler:
        request.scheduler.ParseFromString(arm.scheduler)
    return client.measure(request)


def alternate(
    client: Measurer,
    rounds: Sequence[Sequence[Arm]],
    spans: Mapping[Arm, Span],
    controller: str,
    on_window: Callable[[Rounds, Arm], None],
) -> Rounds:
    """Measures the arms of each round in the order given, under `controller` where one names none.

    `on_window` is called after each window with what there is and the arm just measured.
    """
    done: Rounds = []
    for arms in rounds:
        done.append({})
        for arm in arms:
            arm.prepare()
            done[-1][str(arm)] = measure(client, arm, spans[arm], controller)
            on_window(done, arm)
    return done


def throughput(rounds: Rounds, arm: str) -> list[float]:
    """Mpps of each window of an arm, in the rounds that have one."""
    return [mpps(windows[arm]) for windows in rounds if arm in windows]


def spans(arms: Sequence[Arm], plan: Plan, window: float) -> dict[Arm, Span]:
    """The span of each arm; `window` is in seconds."""
    sharing = max(Counter(function.cpu for function in plan.functions).values())
    return {arm: span_of(arm, window, sharing, rr_slice(plan)) for arm in arms}


def rr_slice(plan: Plan) -> float:
    """The kernel's SCHED_RR time slice while the chain runs, seconds."""
    return (plan.scheduler.rr_timeslice_ms or rr_timeslice_ms()) / 1000


def in_turn(
    run: Run,
    arms: Sequence[Arm],
    rounds: int,
    window: float,
    look: Callable[[Rounds, Arm], None] = lambda *_: None,
) -> Rounds:
    """Windows of the arms in balanced rounds, as long as the run lives; `window` in seconds.

    `look` is called after each window, as by `alternate`.
    """

    def on_window(done: Rounds, arm: Arm) -> None:
        run.check()
        look(done, arm)

    return alternate(
        run.client, order.rounds(arms, rounds), spans(arms, run.plan, window),
        run.plan.controller, on_window,
    )  # fmt: skip

"""Throughput past saturation: what a chain passes of more packets than it can take.

Links drop in software here: whoever drops a packet has spent CPU time on it. What links pass that
drop in hardware is the model's: a packet that the NIC drops costs no CPU anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from evaluation.model.chains import THREE, ModelCase
from evaluation.model.windows import SPAN, ModelBench
from unis.capacity.resources import PacketDemand, Resource, solve
from unis.measure import order
from unis.measure.paired import Paired, Ratio
from unis.measure.windows import Arm, Offered, Span
from unis.v1 import engine_pb2 as pb

LINKS = ("ring", "memif", "veth")
LOADS = (0.5, 0.8, 1.0, 1.25, 1.5, 2.0)  # times what the chain passes at most
HAND_OVER, KERNEL = "hand-over", "other"
ARMS = {HAND_OVER: Arm("unis", "handover"), KERNEL: Arm("other")}
MOST = 0.0
_LEAST_PPS = 100.0
_SPAN = Span(SPAN.settle, 0.15)  # under `other` each function has its slice of 4 ms ten times


class OverloadPoint(BaseModel):
    """One load under one policy: shares of what it passes at most, in the same round."""

    link: str
    policy: str
    load: float  # that was asked for
    offered: Ratio
    passed: Ratio
    most: Ratio  # what the policy passes at most ÷ what hand-over does
    rounds: int


@dataclass(frozen=True)
class _LoadTurn:
    policy: str
    load: float


@dataclass(frozen=True)
class OverloadWindow:
    """What was offered and what passed, a second."""

    offered: float
    passed: float


# rounds[r][policy, load]; load MOST: all that the first link takes
OverloadRounds = list[dict[tuple[str, float], OverloadWindow]]


def overload_rounds(
    bench: ModelBench, count: int, report: Callable[[int], None] = lambda _: None
) -> OverloadRounds:
    """Windows of all loads and policies in each round, and one that says what passes at most."""
    bench.send(ModelCase(THREE, THREE.sizes[0]))
    turns = [_LoadTurn(policy, load) for policy in ARMS for load in LOADS]

    def measured(policy: str, pps: float) -> OverloadWindow:
        return _window(bench.measured(ARMS[policy], Offered(pps, "constant"), _SPAN))

    done: OverloadRounds = []
    for number, turn in enumerate(order.rounds(turns, count), 1):
        report(number)
        done.append({(policy, MOST): measured(policy, 0) for policy in ARMS})
        for each in turn:
            pps = each.load * done[-1][each.policy, MOST].passed
            done[-1][each.policy, each.load] = measured(each.policy, max(_LEAST_PPS, pps))
    return done


def _window(reply: pb.MeasureReply) -> OverloadWindow:
    seconds = reply.window_ns / 1e9
    return OverloadWindow(reply.offered / seconds, reply.delivered / seconds)


def points(link: str, rounds: OverloadRounds) -> list[OverloadPoint]:
    """By policy and load, relative to what the policy passes at most in the same round."""
    found = []
    for policy in ARMS:
        best = [each[HAND_OVER, MOST].passed for each in rounds]
        share = Ratio.of(Paired.ratio([each[policy, MOST].passed for each in rounds], best))
        for load in LOADS:
            both = [(each[policy, load], each[policy, MOST]) for each in rounds]
            most = [top.passed for _, top in both]
            offered = Ratio.of(Paired.ratio([one.offered for one, _ in both], most))
            passed = Ratio.of(Paired.ratio([one.passed for one, _ in both], most))
            if offered and passed and share:
                found.append(
                    OverloadPoint(
                        link=link, policy=policy, load=load, offered=offered, passed=passed,
                        most=share, rounds=len(both),
                    )
                )  # fmt: skip
    return found


def in_hardware(loads: Sequence[float]) -> list[float]:
    """The model: what a chain passes that takes 1 at most, where the NIC drops the rest."""
    return [_passed(load) for load in loads]


def _passed(load: float) -> float:
    resources = [Resource("offered load", load, "packets/s"), Resource("CPU", 1.0, "s/s")]
    demands = [PacketDemand("chain", resource.name, 1.0) for resource in resources]
    return solve(resources, demands, "total").throughput["chain"]

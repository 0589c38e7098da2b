"""Replies as the engine would give them, made from plausible numbers, for the report's tests."""

import random

from unis.engine import names
from unis.measure.windows import Rounds
from unis.v1 import common_pb2 as common
from unis.v1 import engine_pb2 as pb

# policy: Mpps, median latency µs, spread, length of a run µs
SHAPES = {
    "unis": (4.6, 420.0, 1.5, 130.0),
    "cooperative": (4.9, 300.0, 1.3, 60.0),
    "rr": (0.012, 210_000.0, 1.8, 100_000.0),
    "other": (0.21, 9_000.0, 1.6, 3_000.0),
}
POLICIES = list(SHAPES)
FUNCTIONS = ["firewall", "nat", "monitor"]
WINDOW_NS = 200_000_000


def histogram(chance: random.Random, median_us: float, spread: float) -> common.LatencyHistogram:
    buckets: dict[int, int] = {}
    for _ in range(2000):
        value = round(median_us * spread ** chance.gauss(0, 1) * 1000)
        value -= value % max(1, value // 256)
        buckets[value] = buckets.get(value, 0) + 1
    values = sorted(buckets)
    return common.LatencyHistogram(value_ns=values, count=[buckets[value] for value in values])


def window(policy: str, chance: random.Random, drift: float) -> pb.MeasureReply:
    mpps, median, spread, run_us = SHAPES[policy]
    delivered = round(mpps * drift * chance.uniform(0.95, 1.05) * WINDOW_NS / 1e3)
    return pb.MeasureReply(
        window_ns=WINDOW_NS,
        policy=names.policy(policy),
        offered=delivered + 1000,
        delivered=delivered,
        delivered_bytes=delivered * 60,
        dropped=1000,
        switches=round(WINDOW_NS / 1000 / run_us),
        latency=histogram(chance, median, spread),
    )


def rounds(count: int = 6, seed: int = 1) -> Rounds:
    chance = random.Random(seed)
    result: Rounds = []
    for _ in range(count):
        drift = chance.uniform(0.8, 1.2)
        result.append({policy: window(policy, chance, drift) for policy in POLICIES})
    return result


def trace(policy: str, duration_ms: float = 20.0, cpus: tuple[int, ...] = (1,)) -> pb.TraceReply:
    chance = random.Random(policy)
    run_us = SHAPES[policy][3]
    end = round(duration_ms * 1e6)
    reply = pb.TraceReply(policy=names.policy(policy), begin_ns=1_000_000, end_ns=1_000_000 + end)
    for cpu in cpus:
        now, index = 0, 0
        while now < end:
            length = min(round(run_us * chance.uniform(0.7, 1.3) * 1000), end - now)
            begin = 1_000_000 + now
            reply.runs.add(
                cpu=cpu,
                function=FUNCTIONS[index % 3],
                begin_ns=begin,
                end_ns=begin + length,
                packets=512,
            )
            if policy == "unis":
                event = reply.switches.add(
                    time_ns=begin, cpu=cpu, to=FUNCTIONS[index % 3],
                    reason=common.SWITCH_REASON_INGRESS_LOW, from_ingress=40, from_egress=1500,
                    to_ingress=1500, to_egress=0, slice_ns=90_000,
                )  # fmt: skip
                setattr(event, "from", FUNCTIONS[(index - 1) % 3])
            now, index = now + length, index + 1
    return reply


def account(unaccounted: int = 0, *, exact: bool = True) -> pb.Account:
    return pb.Account(
        offered=1_000_000, delivered=900_000, dropped_ingress_full=60_000,
        dropped_egress_full=40_000 - unaccounted, unaccounted=unaccounted, exact=exact,
    )  # fmt: skip

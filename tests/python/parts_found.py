"""What a profile of a chain could have found, made up."""

from collections.abc import Callable

from unis.measure.disturbance import Disturbance
from unis.measure.summary import MachineSummary
from unis.parts.accounting import PARTS, QUEUEING, SEND, SINK, SOURCE
from unis.parts.result import ChainParts, PartTime, PlaceParts, TracingCost, WaySpan


def part_time(ns: float) -> PartTime:
    return PartTime(ns_per_packet=ns, interval=(ns - 100, ns + 100), provider="passages")


def found_parts(
    functions: int = 2,
    ns: Callable[[str, str], float] = lambda _place, _part: 1234.0,
    *,
    residual: float = 0.05,
    name: Callable[[int], str] = "f{}".format,
) -> ChainParts:
    """A chain whose places have the parts that `ns` says; its way has each part once."""
    named = [(SOURCE, (SEND,)), *((name(at), PARTS) for at in range(functions)),
             (SINK, (QUEUEING,))]  # fmt: skip
    places = [
        PlaceParts(name=each, parts={part: part_time(ns(each, part)) for part in parts})
        for each, parts in named
    ]
    explained = sum(place.ns for place in places)
    spans = [(place.name, part) for place in places for part in place.parts]
    return ChainParts(
        machine=MachineSummary(cpu_model="A <fast> CPU", cpus=2, kernel="6", dpdk="22"),
        chain="edge", policy="unis", load_kpps=10, most_kpps=20, per_second=900, rounds=2,
        window=0.5,
        functions=places[1:-1], edges=[places[0], places[-1]],
        median_latency_ns=explained / (1 - residual), traced_latency_ns=9900,
        explained_ns=explained, traced_explained_ns=9800,
        residual=residual, residual_interval=(residual - 0.1, residual + 0.1),
        tracing_cost=TracingCost(
            latency=1.1, throughput=0.9, throughput_interval=(0.8, 1.0), ns_per_packet=900
        ),
        packets=1000, left_out={"did not come to the sink": 3}, lost_events=0,
        disturbed=Disturbance.of([]),
        way=[
            WaySpan(place=place, part=part, begin_ns=1000.0 * at, end_ns=1000.0 * (at + 1))
            for at, (place, part) in enumerate(spans)
        ],
    )  # fmt: skip

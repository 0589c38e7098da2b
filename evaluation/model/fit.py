"""Fits the parameters of the model to windows of few chains, and predicts others by the model.

Each round has its own fit: only windows of one round saw the same machine. A packet of a chain of n
functions takes so much of their CPU, in ns:

    n · (hop + byte · size) + crossing + crossing_byte · size + clock · work + n · switch ÷ turn

`work` is what the Cycle Estimator measured of each function, less that of one without work. Over
Open vSwitch it takes so much of the CPU of source and sink, where that process runs too:

    source + (n + 1) · carry, and long where frames are longer than 64 bytes
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.optimize import nnls

from evaluation.model.chains import CARRIED, CASES, IDLE, OF_ENGINE, ModelCase, ModelShape
from evaluation.model.windows import ModelReading
from unis.capacity.chain import FunctionCost, ModelChain, ModelFunction
from unis.capacity.demands import Setting, load_of
from unis.capacity.machine import Cpus, LinkCost, MachineFile, PlatformCosts
from unis.capacity.parameter import Parameter
from unis.capacity.resources import solve

PLATFORM_CPU, FUNCTIONS_CPU = 0, 1  # of the model
BUSY = 0.85  # share of its CPU in which the platform moves packets: it may be the limit
_SHORT_TURN = 8  # packets
_ENDS = 2  # of a hop: a packet is received and sent
_CPUS = Cpus(
    count=Parameter(value=2, unit="CPUs", source="measured"),
    frequency=Parameter(value=1e9, unit="Hz", source="assumed", note="all costs are in ns"),
)
_TOLD = "fitted to chains of other lengths and costs, in the same round"
PARTS = ("source", "sink")  # of the platform


@dataclass(frozen=True)
class KnownCosts:
    """What is measured before, or not by these windows."""

    work_ns: Mapping[int, float]  # of a function by its cycles, by the Cycle Estimator
    switch_ns: float  # from a function to the next, by the engine
    free_ns: float = 0.0  # of a function without work, by the Cycle Estimator


@dataclass(frozen=True)
class LinkTerms:
    """Parameters of one kind of link, ns a packet."""

    hop: float  # a function receives and sends
    byte: float  # a byte of that
    crossing: float  # source and sink, on another CPU
    crossing_byte: float  # a byte of that
    clock: float  # times the estimated work
    switch: float  # a turn
    turn: float  # packets
    source: float  # also sends into the first link
    sink: float  # also receives from the last one
    carry: float  # Open vSwitch, a link; with what it waits for the CPU that it shares
    long: float  # Open vSwitch, a packet longer than 64 bytes, once

    @classmethod
    def median(cls, of: Sequence["LinkTerms"]) -> "LinkTerms":
        """Of each parameter."""
        return cls(
            **{
                each.name: statistics.median(getattr(terms, each.name) for terms in of)
                for each in fields(cls)
            }
        )


@dataclass(frozen=True)
class PredictedRate:
    """What the model says of a chain."""

    pps: float
    bottleneck: str


def fitted(kind: str, readings: Mapping[str, ModelReading], known: KnownCosts) -> LinkTerms:
    """From the readings of one round: only those of chains that fit are looked at."""
    used = [case for case in CASES if case.shape.fits]
    turn = statistics.median(
        readings[case.name].packets_per_turn for case in used if len(case.shape.cycles) > 1
    )
    idle = readings[ModelCase(IDLE, IDLE.sizes[0]).name]
    carried = [case for case in used if carrier_bound(readings[case.name])]
    bound = [
        case for case in used if case not in carried and not platform_bound(readings[case.name])
    ]
    costs = _functions(kind, bound, readings, known, turn)
    source, sink = (idle.platform_ns.get(part, 0.0) for part in PARTS)
    if platform_bound(idle):
        # With what it polls in vain between two packets.
        share = idle.ns / (source + sink)
        source, sink = source * share, sink * share
    carry = long = 0.0
    if carried:
        # Once a packet too: it looks at the ports of all links.
        source, carry, long = _carried(carried, readings)
        sink = 0.0
    hop, byte, crossing, crossing_byte, clock = costs
    return LinkTerms(
        hop, byte, crossing, crossing_byte, clock, known.switch_ns, turn, source, sink, carry,
        long,
    )  # fmt: skip


def platform_bound(reading: ModelReading) -> bool:
    """Whether the CPU of source and sink has hardly time left."""
    return sum(reading.platform_busy.get(part, 0.0) for part in PARTS) >= BUSY


def carrier_bound(reading: ModelReading) -> bool:
    """Whether functions wait for Open vSwitch: most of their turns are over at once."""
    return reading.switch_ns is not None and reading.packets_per_turn < _SHORT_TURN


def work_of(shape: ModelShape, known: KnownCosts) -> float:
    """Of all its functions, ns a packet."""
    return sum(known.work_ns[cycles] for cycles in shape.cycles)


def _functions(
    kind: str,
    cases: Sequence[ModelCase],
    readings: Mapping[str, ModelReading],
    known: KnownCosts,
    turn: float,
) -> list[float]:
    """hop, byte, crossing, crossing_byte and clock, by least squares of relative errors; none is
    below 0.
    """
    rows, times = [], []
    for case in cases:
        count = len(case.shape.cycles)
        switches = count * known.switch_ns / turn if count > 1 else 0.0
        size = 0.0 if kind in OF_ENGINE else float(case.size)
        rows.append([float(count), count * size, 1.0, size, work_of(case.shape, known)])
        times.append(readings[case.name].ns - switches)
    return _least_squares(rows, times) if rows else [0.0, 0.0, 0.0, 0.0, 1.0]


def _carried(
    cases: Sequence[ModelCase], readings: Mapping[str, ModelReading]
) -> tuple[float, float, float]:
    """Of a packet, of each of its links, and of a long packet. The last is not linear in bytes: at
    256 bytes it was as much as at 1500.
    """
    rows = [[1.0, len(case.shape.cycles) + 1.0, float(is_long(case))] for case in cases]
    once, carry, long = _least_squares(rows, [readings[case.name].ns for case in cases])
    return once, carry, long


def is_long(case: ModelCase) -> bool:
    """Whether its frames are longer than the shortest."""
    return case.size > min(IDLE.sizes)


def _least_squares(rows: Sequence[Sequence[float]], times: Sequence[float]) -> list[float]:
    weights = 1 / np.array(times)
    found, _ = nnls(np.array(rows) * weights[:, None], np.ones(len(rows)))
    return [float(each) for each in found]


# ------------------------------------------------------------------ the product's model


def machine_of(kind: str, terms: LinkTerms, cpus: Cpus = _CPUS) -> MachineFile:
    """As `unis model --machine` reads it. Costs of functions are without what links take."""
    receive = min(terms.hop / _ENDS, terms.sink)
    send = min(terms.hop - receive, terms.source)
    receive = terms.hop - send
    link = LinkCost(
        receive=_ns(receive),
        send=_ns(send),
        per_byte=_ns(terms.byte / _ENDS),
        carry=_ns(terms.carry) if kind in CARRIED else None,
    )
    platform = PlatformCosts(
        source=_ns(terms.source - send),
        sink=_ns(max(0.0, terms.sink - receive)),
        bridge=_ns(0.0),
        decision=_ns(0.0),
    )
    return MachineFile(
        api_version="unis/machine/v1",
        name="here",
        description=f"Links of kind {kind}, measured by `unis bench model`.",
        cpus=cpus,
        links={kind: link},
        platform=platform,
        switch=_ns(terms.switch),
        crossing=_ns(terms.crossing),
        crossing_per_byte=_ns(terms.crossing_byte),
    )


def machine_file(kind: str, terms: LinkTerms, free_ns: float, cpus: Cpus) -> str:
    """The same for chains whose costs `unis estimate` measured: those hold a function's rings."""
    beside = replace(terms, hop=max(0.0, terms.hop - free_ns))
    machine = machine_of(kind, beside, cpus)
    return machine.model_dump_json(by_alias=True, exclude_none=True, indent=2) + "\n"


def predicted(kind: str, case: ModelCase, terms: LinkTerms, known: KnownCosts) -> PredictedRate:
    """By the model."""
    shape = case.shape
    functions = tuple(
        ModelFunction(
            name,
            FUNCTIONS_CPU,
            FunctionCost(terms.clock * known.work_ns[cycles], "ns", "measured", _TOLD),
        )
        for name, cycles in zip(shape.functions, shape.cycles, strict=True)
    )
    chain = ModelChain.path(shape.name, functions, kind, sizes={case.size: 1})
    setting = Setting(
        source_cpu=PLATFORM_CPU, sink_cpu=PLATFORM_CPU, scheduler_cpu=PLATFORM_CPU,
        turn=max(1.0, terms.turn),
    )  # fmt: skip
    if is_long(case):
        terms = replace(terms, source=terms.source + terms.long)
    load = load_of([chain], machine_of(kind, terms), setting)
    found = solve(load.resources, load.demands, "total")
    return PredictedRate(found.throughput[shape.name], ", ".join(found.bottlenecks))


def _ns(value: float) -> Parameter:
    return Parameter(value=value, unit="ns", source="measured", note=_TOLD)

"""Simulates planned shared cores under the real scheduler, on virtual time.

A promise is for the long run. A short run has few packets of expensive functions, so its p95 is
known to 10 % only. A core that seems to break a promise is simulated again for longer, and only
that counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from unis.engine.histogram import Latency
from unis.simulate.run import simulate
from unis.slo.cores import Core, SharedPlacement
from unis.slo.polling import SWITCH_US
from unis.slo.profile import Slo, Workload
from unis.v1 import common_pb2 as common
from unis.v1 import simulator_pb2 as pb

_SECONDS, _LONG_SECONDS = 0.2, 5.0  # of virtual time
_RING = 2047  # packets
_NS = 1e3  # per µs; also ns per packet at 1 Mpps
_CORES_PER_RUN = 64
_SHORT = 0.02  # of the rate: packets in flight at the end of a short run


@dataclass(frozen=True)
class SharedCheck:
    """The simulated part of a core that one promise has."""

    slo: str
    at: int
    mpps: float  # delivered
    p95_us: float  # at a low load, plus the simulated queueing
    promised_us: float
    wanted_mpps: float
    seconds: float  # of virtual time

    @property
    def holds(self) -> bool:
        """Whether throughput and latency are as promised."""
        return self.mpps >= self.wanted_mpps * (1 - _SHORT) and self.p95_us <= self.promised_us


def simulated(workload: Workload, placement: SharedPlacement) -> list[SharedCheck]:
    """All cores with Poisson arrivals at the promised rates, under hand-over."""
    slos = {slo.name: slo for slo in workload.slos}
    cores = [core for machine in placement.machines for core in machine.cores]
    found = _by_core(cores, slos, _SECONDS)
    repeated = [index for index, kept in enumerate(found) if not all(check.holds for check in kept)]
    again = _by_core([cores[index] for index in repeated], slos, _LONG_SECONDS)
    for index, kept in zip(repeated, again, strict=True):
        found[index] = kept
    return [check for kept in found for check in kept]


def _by_core(
    cores: Sequence[Core], slos: Mapping[str, Slo], seconds: float
) -> list[list[SharedCheck]]:
    """The checks of each core, in the order of its parts."""
    found: list[SharedCheck] = []
    for begin in range(0, len(cores), _CORES_PER_RUN):
        found += _simulated(cores[begin : begin + _CORES_PER_RUN], slos, seconds)
    each = iter(found)
    return [[next(each) for _ in core.parts] for core in cores]


def _simulated(
    cores: Sequence[Core], slos: Mapping[str, Slo], seconds: float
) -> Iterator[SharedCheck]:
    scenario = pb.Scenario(
        policy=common.POLICY_UNIS,
        handover=True,
        duration_ns=round(seconds * 1e9),
        warmup_ns=round(_SECONDS * 1e9 / 10),
        seed=1,
        machine=pb.SimMachine(yield_ns=SWITCH_US * _NS),
    )
    parts = [(core, part) for core, planned in enumerate(cores) for part in planned.parts]
    for number, (core, part) in enumerate(parts):
        profile = slos[part.slo].profile
        cost = _NS / (profile.solo_mpps * profile.share(part.ways))
        scenario.functions.add(name=f"f{number}", cpu=core, cost_ns=cost)
        arrivals = pb.SimArrivals(kind=pb.ARRIVAL_POISSON, pps=part.mpps * 1e6, size=64, burst=1)
        scenario.chains.add(
            name=f"c{number}", path=[f"f{number}"], capacity=[_RING], arrivals=arrivals
        )
    result = simulate(scenario)
    measured = result.duration_ns / 1e9
    for (_, part), chain in zip(parts, result.chains, strict=True):
        slo = slos[part.slo]
        offered = chain.offered / measured / 1e6
        added = Latency([chain.latency]).percentile_us(95) or 0.0  # includes the work on a packet
        work_us = 1 / (slo.profile.solo_mpps * slo.profile.share(part.ways))
        own_us = slo.profile.p95_us_by_load[0][1] - work_us
        yield SharedCheck(
            part.slo, part.at, chain.delivered / measured / 1e6, max(0.0, own_us) + added,
            slo.p95_us, min(part.mpps, offered), seconds,
        )  # fmt: skip

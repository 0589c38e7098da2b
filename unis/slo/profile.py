"""What a function passes by the cache that it has, and how late by its load (ResQ, section 5.2)."""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

# Of a memory's bandwidth: access gets slower in a straight line up to there, then faster than that
# (ResQ, Fig. 3).
MOST_MEMORY = 0.9


class ImpossibleProfileError(ValueError):
    """The text says what cannot be so."""


@dataclass(frozen=True)
class Profile:
    """One function, or a chain of them on its cores, with one configuration and one traffic.

    Raises ImpossibleProfileError where it is none.
    """

    name: str
    solo_mpps: float  # with the whole cache to itself
    # Of that, with 1, 2, … ways of the last-level cache; at most 1.
    share_by_ways: tuple[float, ...]
    # (of the load that it can bear, p95 in µs), both growing.
    p95_us_by_load: tuple[tuple[float, float], ...]
    source: str = ""  # where the numbers are from
    cores: int = 1  # of one socket
    # GB/s that it moves from and to memory at the full rate that it has with 1, 2, … ways. Empty:
    # not known.
    gbps_by_ways: tuple[float, ...] = ()
    # (part of the memory's bandwidth that all functions of a socket use, what it then passes of
    # what it passes alone): the former grow, the latter do not. Empty: not known.
    share_by_memory: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        for told in self._wrong():
            raise ImpossibleProfileError(told)

    def _wrong(self) -> Iterator[str]:
        if not self.share_by_ways:
            yield "it has no throughput by ways"
        if not self.p95_us_by_load:
            yield "it has no latency by load"
        if not 0 < self.solo_mpps < math.inf:
            yield f"it passes {self.solo_mpps:g} Mpps alone"
        less = 0.0
        for ways, share in enumerate(self.share_by_ways, 1):
            told = f"with {ways} ways it passes {share:.3g} of what it passes alone"
            if not 0 < share <= 1:
                yield f"{told}, which is not above 0 and at most 1"
            if share < less:
                yield (
                    f"it passes less with {ways} ways ({share:.3g}) than with one less ({less:.3g})"
                )
            less = share
        for (load, us), (next_load, next_us) in pairwise(self.p95_us_by_load):
            if next_load <= load or next_us < us:
                yield (
                    f"its latency falls from {us:g} µs at {load:.0%} of its load to {next_us:g} µs "
                    f"at {next_load:.0%}, or the loads are in no order"
                )
        if min(*self.p95_us_by_load[0]) <= 0 or self.p95_us_by_load[-1][0] > 1:
            yield "loads are parts of 1, and latencies above 0 µs"
        if self.cores < 1:
            yield f"it has {self.cores} cores"
        for ways, gbps in enumerate(self.gbps_by_ways, 1):
            if not 0 <= gbps < math.inf:
                yield f"with {ways} ways it moves {gbps:g} GB/s"
        used_before, before = -math.inf, 1.0
        for used, share in self.share_by_memory:
            if not (0 <= used <= 1 and used > used_before):
                yield (
                    "parts of the memory's bandwidth are from 0 to 1 and grow; "
                    f"{used:.3g} does not follow {max(0.0, used_before):.3g}"
                )
            if not 0 < share <= before:
                yield (
                    f"where {used:.0%} of the memory's bandwidth is used it passes {share:.3g} of "
                    f"what it passes alone, which is not above 0 and at most {before:.3g}"
                )
            used_before, before = used, share

    def share(self, ways: int) -> float:
        """Of what it passes alone; beyond what was measured as with the most."""
        return _with_ways(self.share_by_ways, ways)

    def gbps(self, ways: int) -> float:
        """GB/s at its full rate; beyond what was measured as with the most."""
        return _with_ways(self.gbps_by_ways, ways)

    def share_at(self, used: float) -> float | None:
        """What it passes where so much of the memory's bandwidth is used, of what it passes alone.

        In a straight line between what was measured, from all of it where nothing is used; None
        beyond that.
        """
        points, shares = zip((0.0, 1.0), *self.share_by_memory, strict=True)
        return None if used > points[-1] else float(np.interp(used, points, shares))

    def load_within(self, p95_us: float) -> float:
        """The highest part of its load with which 95 % of packets take no longer.

        In a straight line between what was measured; 0 where no load keeps to it.
        """
        loads, latencies = zip(*self.p95_us_by_load, strict=True)
        at = bisect_right(latencies, p95_us)  # so many points keep to it
        if at == len(latencies):
            return float(loads[-1])
        if at == 0:
            return 0.0
        part = (p95_us - latencies[at - 1]) / (latencies[at] - latencies[at - 1])
        return float(loads[at - 1] + part * (loads[at] - loads[at - 1]))


def _with_ways(by_ways: Sequence[float], ways: int) -> float:
    if ways < 1:
        raise ValueError("a function has at least one way")
    return by_ways[min(ways, len(by_ways)) - 1]


PcieReading = Literal["paper", "padded", "tlp"]  # by unis/capacity/pcie.py


@dataclass(frozen=True)
class PacketForm:
    """The packets of a promise, as NICs see them."""

    size: int = 64  # bytes with FCS
    # Functions of its chain, if these have virtual functions of the NIC: packets pass PCIe at each.
    # 0: links are software's, and packets pass PCIe once each way.
    on_nic: int = 0


@dataclass(frozen=True)
class Flow:
    """What packets take of a socket all the time: memory bandwidth, a line, PCIe."""

    name: str
    unit: str
    scale: float  # thousand units/s in one of `unit`


MEMORY = Flow("memory bandwidth for functions", "GB/s", 1e6)


@dataclass(frozen=True)
class NicRates:
    """What the NIC of each socket bears, and what packets take of that."""

    flows: tuple[Flow, ...]
    capacities: Mapping[str, tuple[float, ...]]  # by server, units/s of each flow
    takes: Mapping[PacketForm, tuple[float, ...]]  # units a packet


@dataclass(frozen=True)
class Slo:
    """A reserved promise, `count` times: so much throughput, and 95 % of packets within a time."""

    name: str
    profile: Profile
    mpps: float
    p95_us: float
    count: int = 1
    packet: PacketForm = PacketForm()

    def __post_init__(self) -> None:
        if not self.mpps > 0 or not self.p95_us > 0:
            raise ValueError(f"{self.name}: a promise is above 0 Mpps and 0 µs")
        if self.count < 1:
            raise ValueError(f"{self.name}: there is at least one")


@dataclass(frozen=True)
class Server:
    """Servers of one kind. What a function needs it has on one socket, whose cache is its own."""

    name: str
    count: int
    cores: int  # for functions, of a socket
    ways: int  # of the last-level cache, for functions, of a socket
    classes: int = 16  # of service, of a socket, of which one is everybody else's
    sockets: int = 1
    memory_gbps: float | None = None  # bandwidth of a socket's memory; None: not known
    machine: str | None = None  # the file that says what the NIC of each socket bears

    @property
    def places(self) -> int:
        """Functions of one core that can have it and a class of their own, on a socket."""
        return min(self.cores, self.classes - 1)


@dataclass(frozen=True)
class Workload:
    """What is asked for, and the servers that there are."""

    name: str
    slos: tuple[Slo, ...]
    servers: tuple[Server, ...]
    margin: float = 0.03  # of a load: what isolation leaves uncertain (ResQ, appendix A)
    # Of the memory's bandwidth on each socket: functions use no more, and are taken to be as slow
    # as if they used all of that. None: memory is not looked at.
    memory: float | None = None
    pcie: PcieReading = "paper"  # how the load of the PCIe bus is reckoned
    nics: NicRates | None = None  # None: NICs are not looked at

    @property
    def flows(self) -> tuple[Flow, ...]:
        """What is looked at beside cores and ways."""
        memory = () if self.memory is None else (MEMORY,)
        return memory + (self.nics.flows if self.nics else ())

    def __post_init__(self) -> None:
        if self.memory is None:
            return
        if not 0 < self.memory <= MOST_MEMORY:
            told = f"{self.memory:.0%} of a memory's bandwidth is not above 0 and at most"
            raise ValueError(f"{told} {MOST_MEMORY:.0%}")
        for server in self.servers:
            if server.memory_gbps is None:
                raise ValueError(f"{server.name}: the bandwidth of its memory is not known")


def most_ways(servers: Sequence[Server]) -> int:
    """Of any server."""
    return max(server.ways for server in servers)


def only_ways(workload: Workload) -> bool:
    """Whether machines need to see numbers of ways only: what `exact` is quick at."""
    return not workload.flows and all(slo.profile.cores == 1 for slo in workload.slos)


def only_ways_and_cores(workload: Workload) -> str | None:
    """None: functions of one core, servers of one socket; else what there is beside."""
    for slo in workload.slos:
        if slo.profile.cores > 1:
            return f"{slo.profile.name} has {slo.profile.cores} cores"
    for server in workload.servers:
        if server.sockets > 1:
            return f"servers {server.name} have {server.sockets} sockets"
    if workload.nics or any(server.machine for server in workload.servers):
        return "NICs are limited"
    return None if workload.memory is None else "memory bandwidth is limited"

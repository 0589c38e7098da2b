"""What a function passes by the cache that it has, and how late by its load (ResQ, section 5.2)."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self


class ImpossibleProfileError(ValueError):
    """The text says what cannot be so."""


@dataclass(frozen=True)
class Profile:
    """One function, or a chain of them on one core, with one configuration and one traffic.

    Raises ImpossibleProfileError where it is none.
    """

    name: str
    solo_mpps: float  # with the whole cache to itself
    by_ways: tuple[float, ...]  # of that, with 1, 2, … ways of the last-level cache; at most 1
    # (of the load that it can bear, p95 in µs), both growing.
    latency_us: tuple[tuple[float, float], ...]
    source: str = ""  # where the numbers are from

    def __post_init__(self) -> None:
        if not self.by_ways:
            raise ImpossibleProfileError("it has no throughput by ways")
        if not self.latency_us:
            raise ImpossibleProfileError("it has no latency by load")
        if not 0 < self.solo_mpps < float("inf"):
            raise ImpossibleProfileError(f"it passes {self.solo_mpps:g} Mpps alone")
        for ways, share in enumerate(self.by_ways, 1):
            if not 0 < share <= 1:
                raise ImpossibleProfileError(
                    f"with {ways} ways it passes {share:.3g} of what it passes alone, which is not "
                    "above 0 and at most 1"
                )
        for ways, (less, more) in enumerate(pairwise(self.by_ways), 2):
            if more < less:
                raise ImpossibleProfileError(
                    f"it passes less with {ways} ways ({more:.3g}) than with one less ({less:.3g})"
                )
        for (load, us), (next_load, next_us) in pairwise(self.latency_us):
            if next_load <= load or next_us < us:
                raise ImpossibleProfileError(
                    f"its latency falls from {us:g} µs at {load:.0%} of its load to {next_us:g} µs "
                    f"at {next_load:.0%}, or the loads are in no order"
                )
        first_load, first_us = self.latency_us[0]
        if not (first_load > 0 and first_us > 0 and self.latency_us[-1][0] <= 1):
            raise ImpossibleProfileError("loads are parts of 1, and latencies above 0 µs")

    def share(self, ways: int) -> float:
        """Of what it passes alone; beyond what was measured as with the most."""
        if ways < 1:
            raise ValueError("a function has at least one way")
        return self.by_ways[min(ways, len(self.by_ways)) - 1]

    def load_within(self, p95_us: float) -> float:
        """The highest part of its load with which 95 % of packets take no longer.

        In a straight line between what was measured; 0 where no load keeps to it.
        """
        loads, latencies = zip(*self.latency_us, strict=True)
        at = bisect_right(latencies, p95_us)  # so many points keep to it
        if at == len(latencies):
            return float(loads[-1])
        if at == 0:
            return 0.0
        part = (p95_us - latencies[at - 1]) / (latencies[at] - latencies[at - 1])
        return float(loads[at - 1] + part * (loads[at] - loads[at - 1]))

    def lowered(self, points: float) -> Self:
        """The same with so much less of its throughput at each number of ways: an error."""
        return type(self)(
            self.name, self.solo_mpps, tuple(max(1e-6, of - points) for of in self.by_ways),
            self.latency_us, self.source,
        )  # fmt: skip


@dataclass(frozen=True)
class Slo:
    """A reserved promise, `count` times: so much throughput, and 95 % of packets within a time."""

    name: str
    profile: Profile
    mpps: float
    p95_us: float
    count: int = 1

    def __post_init__(self) -> None:
        if not self.mpps > 0 or not self.p95_us > 0:
            raise ValueError(f"{self.name}: a promise is above 0 Mpps and 0 µs")
        if self.count < 1:
            raise ValueError(f"{self.name}: there is at least one")


@dataclass(frozen=True)
class Server:
    """Servers of one kind."""

    name: str
    count: int
    cores: int  # for functions
    ways: int  # of the last-level cache, for functions
    classes: int = 16  # of service, of which one is everybody else's

    @property
    def places(self) -> int:
        """Functions that can have a core and a class of their own."""
        return min(self.cores, self.classes - 1)


@dataclass(frozen=True)
class Workload:
    """What is asked for, and the servers that there are."""

    name: str
    slos: tuple[Slo, ...]
    servers: tuple[Server, ...]
    margin: float = 0.03  # of a load: what isolation leaves uncertain (ResQ, appendix A)


def most_ways(servers: Sequence[Server]) -> int:
    """Of any server."""
    return max(server.ways for server in servers)

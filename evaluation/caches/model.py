"""Throughput by ways of the last-level cache, for machines that cannot partition theirs.

Everything here is MODELLED, and says so: recorded references (`references.py`) run through
caches with LRU replacement (`unis-cache`), and a cost for each hit and miss. docs/cache-model.md
tells what is left out.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.caches.geometry import LINE, Caches
from evaluation.caches.references import Recorded
from unis import built
from unis.errors import UnisError

IO_WAYS = 2  # that devices write packets into: DDIO's default
_SECONDS = 600


class CacheModelError(UnisError):
    """The model has no answer; the text says why."""


@dataclass(frozen=True)
class CacheProfile:
    """What a packet costs a function in hits and misses, with 1, 2, … ways to itself: a model."""

    name: str
    caches: Caches
    packets: int  # that were counted
    instructions: float  # a packet, as are all below
    references: float
    l2_hits: float
    llc_references: float  # what neither L1 nor L2 had
    io_hits: float  # of those: frames that the device wrote into its ways
    misses: tuple[float, ...]  # by ways, to memory; never more with more ways
    port_misses: tuple[float, ...]  # of mbufs that the port writes: 0 but with very few ways
    written_back: tuple[float, ...]  # lines, to memory
    device_spills: float  # lines that the device wrote and memory got
    occupancy_lines: tuple[int, ...]

    @property
    def ways(self) -> int:
        """Of the last-level cache."""
        return len(self.misses)

    def misses_per_packet(self, ways: int) -> float:
        """Loads and stores that go to memory. ValueError where there are no such ways."""
        return self.misses[self._at(ways)]

    def occupancy(self, ways: int) -> int:
        """Bytes of the cache that it fills with so many ways."""
        return self.occupancy_lines[self._at(ways)] * LINE

    def memory_bytes_per_packet(self, ways: int) -> float:
        """Read from and written to memory: the second thing that neighbours contend for."""
        at = self._at(ways)
        read = self.misses[at] + self.port_misses[at]
        return LINE * (read + self.written_back[at] + self.device_spills)

    def _at(self, ways: int) -> int:
        if not 1 <= ways <= self.ways:
            raise ValueError(f"{ways} ways; the cache of {self.caches.name} has {self.ways}")
        return ways - 1


@dataclass(frozen=True)
class ContendedCosts:
    """What a packet costs a function in hits and misses beside its neighbours: a model."""

    packets: int  # that were counted
    instructions: float  # a packet, as are all below
    llc_references: float  # what neither L1 nor L2 had
    misses: float  # of those, to memory
    port_misses: float  # of mbufs that the port writes
    written_back: float  # lines, to memory, whoever pushed them out
    device_spills: float  # lines that the device wrote and memory got
    occupancy_lines: int  # that its core brought in, at the end: what the device wrote is not

    def occupancy(self) -> int:
        """Bytes of the cache that it has."""
        return self.occupancy_lines * LINE

    def memory_bytes_per_packet(self) -> float:
        """Read from and written to memory."""
        read = self.misses + self.port_misses
        return LINE * (read + self.written_back + self.device_spills)


@dataclass(frozen=True)
class PacketCost:
    """What a packet takes: base_ns, or instructions at ipc and ghz, and port_ns; and for each hit
    and miss of the last level its latency, of which an out-of-order core that prefetches a burst
    bears one part in `overlap`.

    Defaults are assumed: ipc is that of code that hits L1 and L2; ghz and latencies are of the
    order of the paper's Xeon. overlap: with one way Stats takes 266 ns more for 10.2 references of
    the last level a packet, LPM 78 for 3.9, MazuNAT 312 for 12.1 (ResQ, Table 1 and Fig. 6): 20 to
    26 ns each if all of them miss, a quarter to a third of the latency.
    """

    base_ns: float | None = None  # measured; None: from instructions
    ipc: float = 2.0
    ghz: float = 2.1
    port_ns: float = 0.0  # what the port takes besides, if base_ns has it not
    llc_ns: float = 20.0
    memory_ns: float = 85.0
    overlap: float = 3.5

    def __post_init__(self) -> None:
        if min(self.ipc, self.ghz) <= 0 or not 0 <= self.llc_ns <= self.memory_ns:
            raise ValueError("ipc and ghz are above 0, and memory is no faster than the cache")
        if self.overlap < 1 or self.port_ns < 0 or (self.base_ns is not None and self.base_ns <= 0):
            raise ValueError("overlap is at least 1, and a packet takes some time")

    def ns(self, profile: CacheProfile, ways: int) -> float:
        """Of one packet of `profile`."""
        misses, port_misses = profile.misses_per_packet(ways), profile.port_misses[ways - 1]
        return self._ns(profile.instructions, profile.llc_references, misses, port_misses)

    def ns_beside(self, function: ContendedCosts) -> float:
        """Of one packet of a function among its neighbours."""
        return self._ns(
            function.instructions, function.llc_references, function.misses, function.port_misses
        )

    def _ns(
        self, instructions: float, llc_references: float, misses: float, port_misses: float
    ) -> float:
        base = self.base_ns
        if base is None:
            base = instructions / (self.ipc * self.ghz)
        hits = max(0.0, llc_references - misses)
        waiting = hits * self.llc_ns + (misses + port_misses) * self.memory_ns
        return base + self.port_ns + waiting / self.overlap


def share_by_ways(profile: CacheProfile, cost: PacketCost | None = None) -> tuple[float, ...]:
    """Throughput with 1, 2, … ways as a part of that with all: it never falls, and ends at 1."""
    times = ns_by_ways(profile, cost)
    return tuple(min(1.0, times[-1] / time) for time in times)


def ns_by_ways(profile: CacheProfile, cost: PacketCost | None = None) -> tuple[float, ...]:
    """Of one packet with 1, 2, … ways."""
    cost_model = cost or PacketCost()
    return tuple(cost_model.ns(profile, ways) for ways in range(1, profile.ways + 1))


def cache_profile(
    recorded: Recorded, caches: Caches, *, io_ways: int = IO_WAYS, warm_up: int | None = None
) -> CacheProfile:
    """Runs a recording through caches. The first `warm_up` packets fill them and are not counted:
    by default those that fill the function's tables, and half of the rest.
    """
    skipped = recorded.warm_up if warm_up is None else warm_up
    arguments = [*_geometry(caches, io_ways), "--warm-up", str(skipped), str(recorded.file)]
    told = _run("ways", *arguments)
    packets = told["packets"]

    def by_ways(key: str) -> tuple[float, ...]:
        return tuple(count / packets for count in told[key])

    return CacheProfile(
        name=recorded.name, caches=caches, packets=packets,
        instructions=told["instructions"] / packets, references=told["references"] / packets,
        l2_hits=told["l2_hits"] / packets, llc_references=told["llc_references"] / packets,
        io_hits=told["io_hits"] / packets, misses=by_ways("misses"),
        port_misses=by_ways("driver_misses"), written_back=by_ways("written_back"),
        device_spills=told["device_spills"] / packets,
        occupancy_lines=tuple(told["occupancy"]),
    )  # fmt: skip


@dataclass(frozen=True)
class Neighbour:
    """A function on a core of its own, at a rate, that fills the ways of its mask."""

    recorded: Recorded
    mpps: float
    mask: int


def beside(
    neighbours: Sequence[Neighbour],
    caches: Caches,
    *,
    io_ways: int = IO_WAYS,
    packets: int = 100_000,
) -> tuple[ContendedCosts, ...]:
    """Each of them, all side by side, over `packets` at least: a model, of LRU and masks as CAT's.

    Rates are given; that misses slow some of them down is not in it.
    """
    if not neighbours:
        return ()
    warm_ups = ",".join(str(neighbour.recorded.warm_up) for neighbour in neighbours)
    words = [
        f"{neighbour.recorded.file},{neighbour.mpps!r},{neighbour.mask:x}"
        for neighbour in neighbours
    ]
    told = _run(
        "neighbours", *_geometry(caches, io_ways), "--warm-up", warm_ups,
        "--packets", str(packets), *words,
    )  # fmt: skip
    return tuple(map(_beside, told["neighbours"]))


def _beside(told: Mapping[str, int]) -> ContendedCosts:
    packets = told["packets"]
    return ContendedCosts(
        packets=packets, instructions=told["instructions"] / packets,
        llc_references=told["llc_references"] / packets, misses=told["misses"] / packets,
        port_misses=told["driver_misses"] / packets, written_back=told["written_back"] / packets,
        device_spills=told["device_spills"] / packets, occupancy_lines=told["occupancy"],
    )  # fmt: skip


def measured_latency_ns(bytes_in_use: int) -> float:
    """Of one load that waits for the one before, in so many bytes, on this machine: measured."""
    (told,) = _run("latency", str(bytes_in_use))["latency_ns"]
    return float(told["ns"])


def _geometry(caches: Caches, io_ways: int) -> list[str]:
    return [
        "--l1", str(caches.l1), "--l2", str(caches.l2), "--llc", str(caches.llc),
        "--io-ways", str(io_ways),
    ]  # fmt: skip


def _run(*arguments: str) -> dict[str, Any]:
    program = built.find("models", "cache", "unis-cache")
    try:
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise CacheModelError(f"unis-cache has not ended after {_SECONDS} s") from None
    if done.returncode != 0:
        raise CacheModelError(done.stderr.strip() or "unis-cache failed")
    told: dict[str, Any] = json.loads(done.stdout)
    return told

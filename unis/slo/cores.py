"""Cores that functions share: what is on one, and whether all on it keep their promises."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from unis.slo.placement import Refusal
from unis.slo.polling import SWITCH_US, added_us
from unis.slo.profile import Server, Slo, Workload

FULL = 0.98  # of a core: the most that is given away
_MORE_PARTS = 8  # than the load asks for, where packets come too late
_EPSILON = 1e-9


@dataclass(frozen=True)
class CoreShare:
    """An instance on a shared core."""

    slo: str
    at: int  # which of the promises of that name, from 0
    mpps: float
    ways: int  # that its throughput counts on
    load: float  # of its core
    mask: int = 0  # of its class of service; 0: not placed yet

    @property
    def work_us(self) -> float:
        """On a packet."""
        return self.load / self.mpps


@dataclass
class Core:
    """Functions in turn."""

    parts: list[CoreShare]

    @property
    def ways(self) -> int:
        """Of all its classes."""
        return sum(part.ways for part in self.parts)

    @property
    def load(self) -> float:
        """Of the core."""
        return sum(part.load for part in self.parts)

    @property
    def classes(self) -> int:
        """Of service that it needs at least: functions with one way each may share one."""
        more = sum(part.ways > 1 for part in self.parts)
        return more + (more < len(self.parts))


@dataclass
class SharedMachine:
    """A server and its cores."""

    server: str
    cores: list[Core]

    @property
    def ways(self) -> int:
        """That are given away."""
        return sum(core.ways for core in self.cores)


@dataclass(frozen=True)
class SharedPlacement:
    """All machines that are used."""

    machines: Sequence[SharedMachine]
    refused: Sequence[Refusal]
    bound: int | None  # no placement uses fewer, by its model. None: not known.
    seconds: float


def load_limit(slo: Slo, margin: float) -> float:
    """Of a core that this promise has to itself."""
    return min(FULL, slo.profile.load_within(slo.p95_us) - margin)


def budget_us(slo: Slo) -> float:
    """That a shared core may add to a packet; its work is in what was measured at low load."""
    return slo.p95_us - slo.profile.p95_us_by_load[0][1] + 1 / slo.profile.solo_mpps


def load_of(slo: Slo, mpps: float, ways: int) -> float:
    """Of a core, by so many packets."""
    return mpps / (slo.profile.solo_mpps * slo.profile.share(ways))


def added_by_part(parts: Sequence[CoreShare], switch_us: float = SWITCH_US) -> list[float]:
    """µs that 95 % of the packets of each wait and are worked on, at most."""
    load = sum(part.load for part in parts)
    if load >= 1:
        return [float("inf")] * len(parts)
    squares = sum(part.load * part.load for part in parts)
    work = sum(part.load * part.work_us for part in parts)
    longest = max(part.work_us for part in parts)
    return [
        added_us(part.load, part.work_us, load, squares, work, longest, len(parts), switch_us)
        for part in parts
    ]


@dataclass(frozen=True)
class CoreModel:
    """What a core can hold: the promises by name, the margin of a load, the time of a switch."""

    slos: Mapping[str, Slo]
    margin: float
    switch_us: float = SWITCH_US

    def holds(self, parts: Sequence[CoreShare]) -> bool:
        """Whether these functions keep their promises on one core."""
        # Each takes what would fill a core of its own.
        taken = sum(part.load / load_limit(self.slos[part.slo], self.margin) for part in parts)
        if taken > 1 + _EPSILON:
            return False
        added = added_by_part(parts, self.switch_us)
        budgets = [budget_us(self.slos[part.slo]) for part in parts]
        return all(us <= budget for us, budget in zip(added, budgets, strict=True))

    def trimmed(self, parts: Iterable[CoreShare]) -> list[CoreShare]:
        """Without the ways that the core can do without, those first that bring it least."""
        left = list(parts)
        while True:
            fewer = [
                (less.load - part.load, at, less)
                for at, part in enumerate(left)
                if part.ways > 1
                and (less := self._with_a_way_less(part))
                and self.holds([*left[:at], less, *left[at + 1 :]])
            ]
            if not fewer:
                return left
            _, at, less = min(fewer, key=lambda choice: choice[:2])
            left[at] = less

    def _with_a_way_less(self, part: CoreShare) -> CoreShare:
        ways = part.ways - 1
        return replace(part, ways=ways, load=load_of(self.slos[part.slo], part.mpps, ways))


@dataclass(frozen=True)
class CoreDemand:
    """A promise, or one of the equal parts of one that needs more than a core."""

    slo: Slo
    at: int
    mpps: float
    limit: float  # of the load of a core of its own
    shares: tuple[float, ...]  # of a core, with 1, 2, … ways

    def part(self, ways: int, mpps: float | None = None) -> CoreShare:
        """All of it, or so much."""
        mpps = self.mpps if mpps is None else mpps
        return CoreShare(self.slo.name, self.at, mpps, ways, load_of(self.slo, mpps, ways))


def core_demands(
    workload: Workload, server: Server, switch_us: float
) -> tuple[list[CoreDemand], list[Refusal]]:
    """As few parts for a promise as cores that it needs with all ways; and what cannot be kept."""
    found: list[CoreDemand] = []
    refused: list[Refusal] = []
    for slo in workload.slos:
        limit = load_limit(slo, workload.margin)
        if limit <= 0:
            least = slo.profile.p95_us_by_load[0][1]
            told = f"{slo.name}: nothing keeps {slo.p95_us:g} µs; {least:g} µs is the nearest"
            refused.append(Refusal(slo.name, told))
            continue
        each = _of_a_core(
            slo, limit, server, CoreModel({slo.name: slo}, workload.margin, switch_us)
        )
        if each is None:
            told = "even alone on a core its packets, which come at random, are late"
            refused.append(Refusal(slo.name, f"{slo.name}: {told}"))
            continue
        parts = round(slo.mpps / each.mpps)
        found += [replace(each, at=at) for at in range(slo.count) for _ in range(parts)]
    return found, refused


def _of_a_core(slo: Slo, limit: float, server: Server, model: CoreModel) -> CoreDemand | None:
    """The largest equal part that a core keeps; None: no part is in time."""
    most = slo.profile.solo_mpps * slo.profile.share(server.ways) * limit
    least = math.ceil(slo.mpps / most - _EPSILON)
    ways = range(1, min(server.ways, len(slo.profile.share_by_ways)) + 1)
    for count in range(least, least + _MORE_PARTS + 1):
        mpps = slo.mpps / count
        shares = tuple(load_of(slo, mpps, width) / limit for width in ways)
        demand = CoreDemand(slo, 0, mpps, limit, shares)
        if model.holds([demand.part(len(ways))]):
            return demand
    return None

"""Promises as they come in, cut into instances, and which of them are broken."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from unis.errors import UnisError
from unis.slo.profile import Server, Slo, Workload

_ERROR = 0.05  # of a promise: the paper counts those that are missed by more (Fig. 8)
_EPSILON = 1e-9


@dataclass(frozen=True)
class Promise:
    """One of `count` promises."""

    slo: Slo
    at: int  # which of those of its name, from 0

    @property
    def part(self) -> float:
        """What is promised, by the solo throughput of its function."""
        return self.slo.mpps / self.slo.profile.solo_mpps

    @property
    def instances(self) -> int:
        """That pass as much, each with a cache to itself."""
        return max(1, math.ceil(self.part - _EPSILON))


@dataclass(frozen=True)
class Served:
    """An instance as it runs."""

    promise: Promise
    load: float  # offered to it, by its solo throughput
    capacity: float  # what it can pass where it is, by that


def in_turn(workload: Workload) -> list[Promise]:
    """One of each name, then the next of each, as the paper's workloads are listed."""
    most = max((slo.count for slo in workload.slos), default=0)
    return [Promise(slo, at) for at in range(most) for slo in workload.slos if at < slo.count]


def only_server(workload: Workload) -> Server:
    """The baselines know servers of one kind. Raises UnisError where there are more."""
    if len(workload.servers) > 1:
        raise UnisError("the baselines place on servers of one kind only: name one in the workload")
    return workload.servers[0]


def broken(
    served: Iterable[Served], untimed: Collection[str] = (), error: float = _ERROR
) -> list[Promise]:
    """Promises that are missed by more than `error`, in throughput or in latency.

    `untimed`: functions whose latency is not looked at.
    """
    of: dict[Promise, list[Served]] = defaultdict(list)
    for one in served:
        of[one.promise].append(one)
    return [
        promise
        for promise, instances in of.items()
        if _short(promise, instances, error)
        or (promise.slo.profile.name not in untimed and _late(promise.slo, instances, error))
    ]


def passed(instances: Iterable[Served]) -> float:
    """By the solo throughput of their function."""
    return sum(min(one.load, one.capacity) for one in instances)


def _short(promise: Promise, instances: Sequence[Served], error: float) -> bool:
    return passed(instances) < promise.part * (1 - error)


def _late(slo: Slo, instances: Sequence[Served], error: float) -> bool:
    """Latency by load is that of the profile, of the load that the instance can bear here."""
    highest = slo.profile.load_within(slo.p95_us * (1 + error))
    return any(one.load > one.capacity * highest + _EPSILON for one in instances)

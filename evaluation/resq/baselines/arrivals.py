"""Promises in the order of arrival, split into instances, and the broken ones."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from unis.errors import UnisError
from unis.slo.profile import Server, Slo, Workload

_ERROR = 0.05  # share of a promise: the paper counts promises missed by more (Fig. 8)
_EPSILON = 1e-9


@dataclass(frozen=True)
class Promise:
    """One of an SLO's `count` promises."""

    slo: Slo
    at: int  # from 0

    @property
    def part(self) -> float:
        """Promised throughput ÷ the solo throughput of the function."""
        return self.slo.mpps / self.slo.profile.solo_mpps

    @property
    def instances(self) -> int:
        """The number of instances that it needs, each with a cache of its own."""
        return max(1, math.ceil(self.part - _EPSILON))


@dataclass(frozen=True)
class Served:
    """An instance on a server."""

    promise: Promise
    load: float  # offered throughput ÷ solo throughput
    capacity: float  # possible throughput on this server ÷ solo throughput


def in_turn(workload: Workload) -> list[Promise]:
    """Promises in round-robin order of the SLOs, as the paper lists its workloads."""
    most = max((slo.count for slo in workload.slos), default=0)
    return [
        Promise(slo, number)
        for number in range(most)
        for slo in workload.slos
        if number < slo.count
    ]


def only_server(workload: Workload) -> Server:
    """The kind of server. UnisError if there are several: the baselines know one only."""
    if len(workload.servers) > 1:
        raise UnisError("the baselines place on servers of one kind only: name one in the workload")
    return workload.servers[0]


def broken(
    served: Iterable[Served], untimed: Collection[str] = (), error: float = _ERROR
) -> list[Promise]:
    """Promises that are missed by more than `error`, in throughput or in latency.

    `untimed`: functions whose latency does not count.
    """
    by_promise: dict[Promise, list[Served]] = defaultdict(list)
    for instance in served:
        by_promise[instance.promise].append(instance)
    return [
        promise
        for promise, instances in by_promise.items()
        if _short(promise, instances, error)
        or (promise.slo.profile.name not in untimed and _late(promise.slo, instances, error))
    ]


def passed(instances: Iterable[Served]) -> float:
    """Throughput of the instances ÷ the solo throughput of their function."""
    return sum(min(instance.load, instance.capacity) for instance in instances)


def _short(promise: Promise, instances: Sequence[Served], error: float) -> bool:
    return passed(instances) < promise.part * (1 - error)


def _late(slo: Slo, instances: Sequence[Served], error: float) -> bool:
    """Whether latency is too high: the profile's, at the load relative to the capacity here."""
    highest = slo.profile.load_within(slo.p95_us * (1 + error))
    return any(instance.load > instance.capacity * highest + _EPSILON for instance in instances)

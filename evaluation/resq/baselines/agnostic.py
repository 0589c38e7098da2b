"""Packing that knows of no contention: by solo throughput, on the first server with a free core.

ResQ, section 6.1: each function is run on a server of its own; by what it passed there instances
are packed; and promises are counted that then are broken by more than 5 %. Once functions share the
cache as they like, and once each has an equal part of it, a core's.
"""

from collections.abc import Collection, Sequence

from evaluation.resq.baselines.arrivals import Promise, Served, broken, in_turn, only_server
from evaluation.resq.baselines.contention import Tenant, shares
from unis.slo.profile import Workload

Servers = Sequence[Sequence[Promise]]


def packed(workload: Workload) -> list[list[Promise]]:
    """A promise for each instance on each server. UnisError: several kinds of servers."""
    cores = only_server(workload).cores
    instances = [
        promise for promise in in_turn(workload) for _ in range(promise.instances)
    ]  # the first server with a free core is the last
    return [instances[begin : begin + cores] for begin in range(0, len(instances), cores)]


def broken_when_shared(
    workload: Workload, servers: Servers, untimed: Collection[str] = ()
) -> list[Promise]:
    """With all ways for whoever comes."""
    ways = only_server(workload).ways
    served: list[Served] = []
    for on in servers:
        loads = [promise.part / promise.instances for promise in on]
        tenants = [
            Tenant(promise.slo.profile, load) for promise, load in zip(on, loads, strict=True)
        ]
        served += map(Served, on, loads, shares(tenants, ways))
    return broken(served, untimed)


def broken_when_split(
    workload: Workload, servers: Servers, untimed: Collection[str] = ()
) -> list[Promise]:
    """With equal parts, one for each core, whether it is used or not; at least a way."""
    server = only_server(workload)
    ways = max(1, server.ways // server.cores)
    served = [
        Served(promise, promise.part / promise.instances, promise.slo.profile.share(ways))
        for on in servers
        for promise in on
    ]
    return broken(served, untimed)

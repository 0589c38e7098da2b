"""Packing that ignores contention: by solo throughput, on the first server with a free core.

ResQ, section 6.1, counts the promises that such a packing breaks by more than 5 %: with a cache
that all functions share, and with a cache in equal parts, one per core.
"""

from collections.abc import Collection, Sequence

from evaluation.resq.baselines.arrivals import Promise, Served, broken, in_turn, only_server
from evaluation.resq.baselines.contention import served_together
from unis.slo.profile import Workload

Servers = Sequence[Sequence[Promise]]


def packed(workload: Workload) -> list[list[Promise]]:
    """A promise for each instance on each server. UnisError: several kinds of servers."""
    cores = only_server(workload).cores
    instances = [
        promise for promise in in_turn(workload) for _ in range(promise.instances)
    ]  # only the last server has a free core
    return [instances[begin : begin + cores] for begin in range(0, len(instances), cores)]


def broken_when_shared(
    workload: Workload, servers: Servers, untimed: Collection[str] = ()
) -> list[Promise]:
    """The broken promises if all functions of a server share all ways."""
    ways = only_server(workload).ways
    served: list[Served] = []
    for server in servers:
        loads = [promise.part / promise.instances for promise in server]
        served += served_together(server, loads, ways)
    return broken(served, untimed)


def broken_when_split(
    workload: Workload, servers: Servers, untimed: Collection[str] = ()
) -> list[Promise]:
    """The broken promises with an equal part of at least one way per core, used or not."""
    server = only_server(workload)
    ways = max(1, server.ways // server.cores)
    served = [
        Served(promise, promise.part / promise.instances, promise.slo.profile.share(ways))
        for placed in servers
        for promise in placed
    ]
    return broken(served, untimed)

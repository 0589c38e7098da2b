"""Elastic scaling as in E2: where demand is not met, an instance is added; nothing is isolated.

ResQ, section 6.2, says no more of it than that. Assumed here: promises come in turn and begin with
as many instances as pass them alone; each goes to the first server with a free core and stays
there; a promise's traffic is spread evenly over its instances; the cache is shared as
`contention` has it, by what is then offered. In each round all servers are looked at, and every
promise whose instances do not pass what is demanded gets one more; until there is none. Latency is
not looked at: it cannot be promised so.
"""

from collections import defaultdict
from dataclasses import dataclass

from evaluation.resq.baselines.arrivals import Promise, Served, in_turn, only_server, passed
from evaluation.resq.baselines.contention import Tenant, shares
from unis.slo.profile import Workload

_CLOSE = 1e-3  # of the solo throughput: less is no shortfall
_ROUNDS = 100


class DoesNotSettleError(RuntimeError):
    """Each instance that is added takes away from the others what it brings."""


@dataclass(frozen=True)
class Scaled:
    """What it comes to."""

    servers: list[list[Promise]]  # a promise for each instance
    served: list[Served]

    @property
    def instances(self) -> int:
        """On all servers."""
        return len(self.served)


def scaled(workload: Workload, headroom: float = 0.0) -> Scaled:
    """Rounds until demand is met.

    `headroom`: of what it could pass an instance is not asked for so much; one that is counts as
    short. UnisError: several kinds of servers. DoesNotSettleError: no end after 100 rounds.
    """
    server = only_server(workload)
    promises = in_turn(workload)
    counts = {promise: promise.instances for promise in promises}
    instances = [promise for promise in promises for _ in range(counts[promise])]
    for _ in range(_ROUNDS):
        servers = [
            instances[begin : begin + server.cores]
            for begin in range(0, len(instances), server.cores)
        ]
        served = [one for on in servers for one in _running(on, counts, server.ways)]
        short = _short(served, headroom)
        if not short:
            return Scaled(servers, served)
        for promise in short:
            counts[promise] += 1
        instances += short
    raise DoesNotSettleError(f"{workload.name}: demand is not met after {_ROUNDS} rounds")


def _running(on: list[Promise], counts: dict[Promise, int], ways: int) -> list[Served]:
    loads = [promise.part / counts[promise] for promise in on]
    tenants = [Tenant(promise.slo.profile, load) for promise, load in zip(on, loads, strict=True)]
    return list(map(Served, on, loads, shares(tenants, ways)))


def _short(served: list[Served], headroom: float) -> list[Promise]:
    of: dict[Promise, list[Served]] = defaultdict(list)
    for one in served:
        usable = one.capacity * (1 - headroom)
        of[one.promise].append(Served(one.promise, one.load, usable))
    return [promise for promise, all_of in of.items() if passed(all_of) < promise.part - _CLOSE]

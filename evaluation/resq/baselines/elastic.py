"""Elastic scaling as in E2: unmet demand adds an instance, and nothing is isolated.

ResQ, section 6.2, says no more. Assumed here: a promise starts with as many instances as it needs
without contention. Each instance goes to the first server with a free core and stays there. Traffic
is spread evenly over the instances of a promise. The cache is shared as in `contention`. In each
round every promise with too little throughput gets one more instance, until there is none. Latency
is not considered: this method cannot promise it.
"""

from collections import defaultdict
from dataclasses import dataclass

from evaluation.resq.baselines.arrivals import Promise, Served, in_turn, only_server, passed
from evaluation.resq.baselines.contention import served_together
from unis.slo.profile import Workload

_CLOSE = 1e-3  # of the solo throughput: a smaller shortfall does not count
_ROUNDS = 100


class DoesNotSettleError(RuntimeError):
    """Each added instance takes from the others what it brings."""


@dataclass(frozen=True)
class Scaled:
    """The servers after the last round."""

    servers: list[list[Promise]]  # the promise of each instance
    served: list[Served]

    @property
    def instances(self) -> int:
        """The number of instances on all servers."""
        return len(self.served)


def scaled(workload: Workload, headroom: float = 0.0) -> Scaled:
    """Adds instances until demand is met.

    `headroom`: share of its capacity that an instance keeps free. UnisError: several kinds of
    servers. DoesNotSettleError: demand is not met after 100 rounds.
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
        served: list[Served] = []
        for placed in servers:
            loads = [promise.part / counts[promise] for promise in placed]
            served += served_together(placed, loads, server.ways)
        short = _short(served, headroom)
        if not short:
            return Scaled(servers, served)
        for promise in short:
            counts[promise] += 1
        instances += short
    raise DoesNotSettleError(f"{workload.name}: demand is not met after {_ROUNDS} rounds")


def _short(served: list[Served], headroom: float) -> list[Promise]:
    by_promise: dict[Promise, list[Served]] = defaultdict(list)
    for instance in served:
        usable = instance.capacity * (1 - headroom)
        by_promise[instance.promise].append(Served(instance.promise, instance.load, usable))
    return [
        promise for promise, all_of in by_promise.items() if passed(all_of) < promise.part - _CLOSE
    ]

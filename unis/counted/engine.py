"""What the engine and the DPDK ports of a chain count."""

from collections.abc import Iterator, Mapping

from unis.counted.provider import CHAIN, CountedChain, Counts, Growing, Key, summed
from unis.v1 import engine_pb2 as pb

RECEIVED, SENT, DELIVERED = "received", "sent", "delivered"
_DROPS = {
    "dropped_ingress_full": "dropped, first link full",
    "dropped_egress_full": "dropped, link full",
    "dropped_by_function": "dropped by a function",
    "dropped_on_links": "dropped by links",
    "lost_unseen": "lost unseen",
    "dropped_sink": "dropped by the sink",
    "dropped_source": "dropped by the source's port",
    "dropped_down": "dropped, function down",
}
_UNITS = {"polls": "polls", "turns": "turns", "switches": "switches"}


class EngineStatistics(Growing):
    """By function, and of the chain."""

    name = "engine"
    units: Mapping[str, str] = {
        **dict.fromkeys((RECEIVED, SENT, DELIVERED, "offered", *_DROPS.values()), "packets"),
        **_UNITS,
    }

    def __init__(self, chain: CountedChain) -> None:
        super().__init__()
        self._client = chain.client

    def read(self) -> Counts:
        """One snapshot."""
        return counts_of(self._client.stats())


def counts_of(stats: pb.Stats) -> Counts:
    """Of a snapshot. What the engine does not know is left out."""
    return summed([*_of_functions(stats), *_of_chain(stats)])


def _of_functions(stats: pb.Stats) -> Iterator[tuple[Key, float]]:
    for function in stats.functions:
        for path in function.paths:
            if path.received_known:
                yield (function.name, RECEIVED), path.rx_packets
            if path.sent_known:
                yield (function.name, SENT), path.tx_packets
            if path.counted:
                yield (function.name, "dropped, link full"), path.dropped_egress_full
        # Without the plug-in, or under a policy that has none, there are none.
        if function.polls:
            yield (function.name, "polls"), function.polls
        if function.switched_in:
            yield (function.name, "turns"), function.switched_in


def _of_chain(stats: pb.Stats) -> Iterator[tuple[Key, float]]:
    yield (CHAIN, "offered"), stats.account.offered
    yield (CHAIN, DELIVERED), stats.account.delivered
    yield (CHAIN, "switches"), sum(core.switches for core in stats.cores)
    for field, what in _DROPS.items():
        yield (CHAIN, what), getattr(stats.account, field)

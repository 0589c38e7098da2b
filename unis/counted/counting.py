"""Counts windows of a chain, by every provider that works here."""

from collections.abc import Mapping, Sequence

from unis.counted import events
from unis.counted.engine import DELIVERED, RECEIVED, EngineStatistics
from unis.counted.kernel import KernelStatistics
from unis.counted.provider import (
    CHAIN,
    CountedChain,
    CountedFunction,
    Counts,
    Provider,
    ProviderMaker,
)
from unis.counted.result import WindowCounts
from unis.counted.schedstat import Schedstat
from unis.engine.client import EngineClient
from unis.links.veth import VethPlan
from unis.plan.model import FunctionPlan, Plan
from unis.v1 import engine_pb2 as pb

# These only read what the kernel and the engine count anyway.
FREE: Sequence[ProviderMaker] = (Schedstat, KernelStatistics, EngineStatistics)
# Events of a thread are set aside and taken up again whenever it is switched: that made the latency
# of a chain 7 % longer (docs/providers.md). So they have windows of their own.
COSTLY: Sequence[ProviderMaker] = (events.hardware, events.software)


def counted_chain(plan: Plan, client: EngineClient, stats: pb.Stats | None = None) -> CountedChain:
    """The run of a plan."""
    pids = {each.name: each.pid for each in (stats or client.stats()).functions if each.pid > 0}
    functions = [
        CountedFunction(each.name, pids[each.name], _devices(each, plan))
        for each in plan.functions
        if each.name in pids
    ]
    return CountedChain(client, functions, sorted({*plan.cpus, *plan.packet_cpus}))


def _devices(function: FunctionPlan, plan: Plan) -> frozenset[str]:
    links = {link.name: link.details for link in plan.links}
    found = set()
    for port in function.ports:
        details = links.get(port.rx or port.tx)
        if isinstance(details, VethPlan):
            found.add(details.devices[port.end])
    return frozenset(found)


class Counting:
    """Counts what happens between `begin` and `end`, as often as they are called."""

    def __init__(self, chain: CountedChain, makers: Sequence[ProviderMaker]) -> None:
        self._providers: list[Provider] = [make(chain) for make in makers]
        self._packets = EngineStatistics(chain)  # by which counts are divided
        self.windows: list[WindowCounts] = []

    @property
    def missing(self) -> list[str]:
        """What cannot be counted here, and what is not known for it."""
        return [sentence for provider in self._providers for sentence in provider.missing()]

    @property
    def units(self) -> dict[str, Mapping[str, str]]:
        """Of what is counted, by provider."""
        return {each.name: each.units for each in self._providers}

    def begin(self) -> None:
        """Before a window."""
        for provider in (*self._providers, self._packets):
            provider.begin()

    def end(self) -> None:
        """After it."""
        packets = packets_of(self._packets.end())
        found = {each.name: dict(each.end()) for each in self._providers}
        self.windows.append(WindowCounts(packets=packets, by_provider=found))


def packets_of(engine: Counts) -> dict[str, float]:
    """By which the counts of each place are divided."""
    received = {place: count for (place, what), count in engine.items() if what == RECEIVED}
    return {**received, CHAIN: engine.get((CHAIN, DELIVERED), 0.0)}

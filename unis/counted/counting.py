"""Counts windows of a chain, by every provider that works here."""

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

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
from unis.signals import blocked
from unis.v1 import engine_pb2 as pb

# These only read what the kernel and the engine count anyway.
FREE: Sequence[ProviderMaker] = (Schedstat, KernelStatistics)
# Events of a thread are set aside and taken up again whenever it is switched: that made the latency
# of a chain 7 % longer (docs/providers.md). So they have windows of their own.
COSTLY: Sequence[ProviderMaker] = (events.hardware, events.software)
_BEFORE_END = 0.03  # seconds


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
    """Counts windows."""

    def __init__(
        self, chain: CountedChain, makers: Sequence[ProviderMaker], *, of_engine: bool = False
    ) -> None:
        """`of_engine`: whether its own counts are told too. It is asked in any case."""
        self._providers: list[Provider] = [make(chain) for make in makers]
        self._engine = EngineStatistics(chain)
        self._of_engine = of_engine
        self.windows: list[WindowCounts] = []

    @property
    def missing(self) -> list[str]:
        """What cannot be counted here, and what is not known for it."""
        return [sentence for provider in self._providers for sentence in provider.missing()]

    @property
    def units(self) -> dict[str, Mapping[str, str]]:
        """Of what is counted, by provider."""
        told = [*self._providers, *[self._engine] * self._of_engine]
        return {each.name: each.units for each in told}

    @contextlib.contextmanager
    def during(self, settle: float, window: float) -> Iterator[None]:
        """Counts while a window settles and lasts, seconds: until shortly before its end, for then
        other traffic comes. It needs a thread, for who measures waits for the engine.
        """
        over = threading.Event()

        def count() -> None:
            if not over.wait(settle / 2):
                self.begin()
                over.wait(settle / 2 + window - min(_BEFORE_END, window / 2))
                self.end()

        with blocked():  # no thread but the main one takes signals
            pool = ThreadPoolExecutor(1)
            counted = pool.submit(count)
        try:
            yield
        finally:
            over.set()
            pool.shutdown()
        counted.result()

    def begin(self) -> None:
        """Counts from now on."""
        for provider in (*self._providers, self._engine):
            provider.begin()

    def end(self) -> None:
        """Until now."""
        engine = dict(self._engine.end())
        found = {each.name: dict(each.end()) for each in self._providers}
        if self._of_engine:
            found[self._engine.name] = engine
        self.windows.append(WindowCounts(packets=packets_of(engine), by_provider=found))


def packets_of(engine: Counts) -> dict[str, float]:
    """By which the counts of each place are divided."""
    received = {place: count for (place, what), count in engine.items() if what == RECEIVED}
    return {**received, CHAIN: engine.get((CHAIN, DELIVERED), 0.0)}

"""What one server has to keep: its part of a cluster's book."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from unis.slo.book import Book
from unis.slo.cluster import MORE


@dataclass(frozen=True)
class ReservedDuty:
    """An instance of a promise of throughput."""

    ways: int
    p95_us: float
    mpps: float | None  # None: one of several instances, of which each passes a part
    first: int | None = None  # of its ways, the lowest, as was told when it was admitted


@dataclass(frozen=True)
class Duties:
    """By name of the promise; a second instance of one on the server is `NAME..2`, and so on."""

    reserved: Mapping[str, ReservedDuty] = field(default_factory=dict)
    on_demand: Mapping[str, float] = field(default_factory=dict)  # p95, µs
    leased_ways: int = 0  # for those on demand

    @property
    def chains(self) -> dict[str, str]:
        """`RUN.CHAIN` of a run here that keeps each: a second on this server is of run `RUN-2`."""
        found = {name: name.partition(MORE)[0] for name in self.on_demand}
        for name in self.reserved:
            chain, _, number = name.partition(MORE)
            run, dot, rest = chain.partition(".")
            found[name] = f"{run}-{number}{dot}{rest}" if number else chain
        return found

    @property
    def p95_us(self) -> dict[str, float]:
        """The latency that each promises."""
        return {name: duty.p95_us for name, duty in self.reserved.items()} | dict(self.on_demand)


def duties(book: Book, server: str, number: int, leased_ways: int) -> Duties:
    """The duties of the `number`-th server of a kind."""
    reserved: dict[str, ReservedDuty] = {}
    seen: Counter[str] = Counter()
    for name, entry in book.reserved.items():
        whole = entry.mpps if len(entry.instances) == 1 else None
        for instance in entry.instances:
            if (instance.server, instance.number) == (server, number):
                seen[name] += 1
                called = f"{name}{MORE}{seen[name]}" if seen[name] > 1 else name
                reserved[called] = ReservedDuty(instance.ways, entry.p95_us, whole, instance.first)
    on_demand = {
        name: entry.p95_us
        for name, entry in book.on_demand.items()
        if (entry.server, entry.number) == (server, number)
    }
    return Duties(reserved, on_demand, leased_ways)

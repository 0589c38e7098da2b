"""What is promised in a cluster, as a file: read and written whole, by one at a time."""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from unis.slo.bid_prices import prices_of
from unis.slo.cluster import MORE, Cluster, OnDemand
from unis.slo.online import Key, Learned
from unis.slo.placement import Instance
from unis.slo.profile import Slo, most_ways
from unis.slo.splits import CannotBeKeptError, Split

T = TypeVar("T")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class InstanceEntry(_Part):
    """An instance, and the machine that it is on."""

    server: str
    number: Annotated[int, Field(ge=0)]  # of servers of that kind
    ways: Annotated[int, Field(ge=1)]
    first: Annotated[int, Field(ge=0)]  # of its ways, the lowest


class ReservedEntry(_Part):
    """A promise of throughput."""

    function: str  # whose profile
    mpps: Annotated[float, Field(gt=0)]
    p95_us: Annotated[float, Field(gt=0)]
    instances: tuple[InstanceEntry, ...]


class OnDemandEntry(_Part):
    """A promise of latency alone."""

    function: str
    p95_us: Annotated[float, Field(gt=0)]
    server: str
    number: Annotated[int, Field(ge=0)]


class LearnedEntry(_Part):
    """Prices (`bid_prices.py`), and how promises were split since they were made."""

    of_ways: tuple[float, ...] = ()
    shares: tuple[tuple[tuple[Split, ...], tuple[tuple[Split, float], ...]], ...] = ()
    since: tuple[tuple[tuple[Split, ...], tuple[tuple[Split, int], ...]], ...] = ()
    changes: int = 0


class Book(_Part):
    """All of it."""

    apiVersion: Literal["unis/cluster/v1"] = "unis/cluster/v1"  # noqa: N815  as in other files
    reserved: dict[str, ReservedEntry] = Field(default={})
    on_demand: dict[str, OnDemandEntry] = Field(default={})
    learned: LearnedEntry = LearnedEntry()
    # By server and promise, seconds since 1970: what its agent told until then was acted on.
    heeded: dict[str, float] = Field(default={})

    @property
    def names(self) -> set[str]:
        """Of all that is promised."""
        return {*self.reserved, *self.on_demand}

    def without(self, names: Collection[str]) -> Self:
        """Also without further instances of these."""

        def left(entries: Mapping[str, T]) -> dict[str, T]:
            return {
                name: of
                for name, of in entries.items()
                if name not in names and name.partition(MORE)[0] not in names
            }

        return self.model_copy(
            update={"reserved": left(self.reserved), "on_demand": left(self.on_demand)}
        )


def booked(cluster: Cluster) -> Book:
    """What is promised now."""
    reserved = {
        slo.name: ReservedEntry(
            function=slo.profile.name, mpps=slo.mpps, p95_us=slo.p95_us,
            instances=tuple(
                InstanceEntry(
                    server=of.server, number=of.number, ways=of.instance.ways,
                    first=of.instance.first,
                )
                for of in cluster.online.where(slo.name)
            ),
        )
        for slo in cluster.online.slos
    }  # fmt: skip
    on_demand = {
        of.name: OnDemandEntry(
            function=of.function, p95_us=of.p95_us, server=of.server, number=of.number
        )
        for of in cluster.on_demand.values()
    }
    learned = cluster.online.learned
    return Book(
        reserved=reserved,
        on_demand=on_demand,
        learned=LearnedEntry(
            of_ways=learned.prices.of_ways,
            shares=tuple(
                (kind, tuple(shares.items())) for kind, shares in learned.prices.shares.items()
            ),
            since=tuple((kind, tuple(counts.items())) for kind, counts in learned.since.items()),
            changes=learned.changes,
        ),
        heeded=dict(cluster.heeded),
    )


def opened(book: Book, cluster: Cluster) -> None:
    """Gives an empty cluster what was promised before. ValueError where the servers are others."""
    try:
        cluster.online.restore(_kept(book, cluster))
    except CannotBeKeptError as error:
        raise ValueError(f"what is promised cannot be kept any more: {error}") from None
    counts = {server.name: server.count for server in cluster.servers}
    for name, of in book.on_demand.items():
        count = counts.get(of.server, 0)
        if of.number >= count or of.server not in cluster.leases:
            raise ValueError(f"{name} is on {of.server} {of.number}, where nothing is leased")
        cluster.on_demand[name] = OnDemand(name, of.function, of.p95_us, of.server, of.number)
    cluster.heeded = dict(book.heeded)
    learned = book.learned
    if len(learned.of_ways) != most_ways(cluster.online.servers):
        return  # of other servers
    most = max(server.places for server in cluster.online.servers)
    cluster.online.learned = Learned(
        prices_of(
            learned.of_ways,
            {kind: dict(shares) for kind, shares in learned.shares},
            most,
        ),
        {kind: dict(counts) for kind, counts in learned.since},
        learned.changes,
    )


def _kept(book: Book, cluster: Cluster) -> Iterator[tuple[Slo, list[tuple[Key, Instance]]]]:
    for name, of in book.reserved.items():
        if of.function not in cluster.profiles:
            raise ValueError(f"{name} is promised, and the profile of {of.function} is gone")
        slo = Slo(name, cluster.profiles[of.function], of.mpps, of.p95_us)
        yield (
            slo,
            [
                ((one.server, one.number), Instance(name, 0, one.ways, one.first))
                for one in of.instances
            ],
        )

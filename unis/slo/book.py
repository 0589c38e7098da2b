"""What is promised in a cluster, as a file: read and written whole, by one at a time."""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from unis.slo.bid_prices import prices_of
from unis.slo.cluster import MORE, Cluster, OnDemandPromise
from unis.slo.online import Learned, MachineKey
from unis.slo.placement import Instance
from unis.slo.profile import Slo, most_ways
from unis.slo.splits import CannotBeKeptError, Split

T = TypeVar("T")


class _BookPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class InstanceEntry(_BookPart):
    """An instance, and the machine that it is on."""

    server: str
    number: Annotated[int, Field(ge=0)]  # of servers of that kind
    ways: Annotated[int, Field(ge=1)]
    first: Annotated[int, Field(ge=0)]  # of its ways, the lowest


class ReservedEntry(_BookPart):
    """A promise of throughput."""

    function: str  # whose profile
    mpps: Annotated[float, Field(gt=0)]
    p95_us: Annotated[float, Field(gt=0)]
    instances: tuple[InstanceEntry, ...]


class OnDemandEntry(_BookPart):
    """A promise of latency alone."""

    function: str
    p95_us: Annotated[float, Field(gt=0)]
    server: str
    number: Annotated[int, Field(ge=0)]


class LearnedEntry(_BookPart):
    """Prices (`bid_prices.py`), and how promises were split since they were made."""

    of_ways: tuple[float, ...] = ()
    shares: tuple[tuple[tuple[Split, ...], tuple[tuple[Split, float], ...]], ...] = ()
    since: tuple[tuple[tuple[Split, ...], tuple[tuple[Split, int], ...]], ...] = ()
    changes: int = 0


class Book(_BookPart):
    """All of it."""

    apiVersion: Literal["unis/cluster/v1"] = "unis/cluster/v1"  # noqa: N815  as in other files
    reserved: dict[str, ReservedEntry] = Field(default={})
    on_demand: dict[str, OnDemandEntry] = Field(default={})
    learned: LearnedEntry = LearnedEntry()
    # By server and promise, seconds since 1970: requests of its agent up to then are done.
    reconciled: dict[str, float] = Field(
        default={}, validation_alias="heeded", serialization_alias="heeded"
    )

    @property
    def names(self) -> set[str]:
        """Of all that is promised."""
        return {*self.reserved, *self.on_demand}

    def without(self, names: Collection[str]) -> Self:
        """Also without further instances of these."""

        def left(entries: Mapping[str, T]) -> dict[str, T]:
            return {
                name: entry
                for name, entry in entries.items()
                if name not in names and name.partition(MORE)[0] not in names
            }

        return self.model_copy(
            update={"reserved": left(self.reserved), "on_demand": left(self.on_demand)}
        )


def booked(cluster: Cluster) -> Book:
    """What is promised now."""
    online, learned = cluster.online, cluster.online.learned
    reserved = {
        slo.name: ReservedEntry(
            function=slo.profile.name, mpps=slo.mpps, p95_us=slo.p95_us,
            instances=tuple(
                InstanceEntry(
                    server=where.server, number=where.number, ways=where.instance.ways,
                    first=where.instance.first,
                )
                for where in online.where(slo.name)
            ),
        )
        for slo in online.slos
    }  # fmt: skip
    on_demand = {
        name: OnDemandEntry.model_validate(promise, from_attributes=True)
        for name, promise in cluster.on_demand.items()
    }
    shares = learned.prices.shares.items()
    prices = LearnedEntry(
        of_ways=learned.prices.of_ways,
        shares=tuple((kind, tuple(of_kind.items())) for kind, of_kind in shares),
        since=tuple((kind, tuple(of_kind.items())) for kind, of_kind in learned.since.items()),
        changes=learned.changes,
    )
    return Book(
        reserved=reserved, on_demand=on_demand, learned=prices, reconciled=cluster.reconciled
    )


def opened(book: Book, cluster: Cluster) -> None:
    """Gives an empty cluster what was promised before. ValueError where the servers are others."""
    online, learned = cluster.online, book.learned
    try:
        online.restore(_kept(book, cluster))
    except CannotBeKeptError as error:
        raise ValueError(f"what is promised cannot be kept any more: {error}") from None
    counts = {server.name: server.count for server in cluster.servers}
    for name, entry in book.on_demand.items():
        if entry.number >= counts.get(entry.server, 0) or entry.server not in cluster.leases:
            raise ValueError(f"{name} is on {entry.server} {entry.number}, where nothing is leased")
        cluster.on_demand[name] = OnDemandPromise(name, **entry.model_dump())
    cluster.reconciled = dict(book.reconciled)
    if len(learned.of_ways) == most_ways(online.servers):  # else they are of other servers
        places = max(server.places for server in online.servers)
        shares = {kind: dict(of_kind) for kind, of_kind in learned.shares}
        online.learned = Learned(
            prices_of(learned.of_ways, shares, places),
            {kind: dict(of_kind) for kind, of_kind in learned.since},
            learned.changes,
        )


def _kept(book: Book, cluster: Cluster) -> Iterator[tuple[Slo, list[tuple[MachineKey, Instance]]]]:
    for name, entry in book.reserved.items():
        if entry.function not in cluster.profiles:
            raise ValueError(f"{name} is promised, and the profile of {entry.function} is gone")
        instances = [
            ((instance.server, instance.number), Instance(name, 0, instance.ways, instance.first))
            for instance in entry.instances
        ]
        yield Slo(name, cluster.profiles[entry.function], entry.mpps, entry.p95_us), instances

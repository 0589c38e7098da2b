"""Goals of a chain: its service level objective, SLO (ResQ, section 5.1)."""

from typing import Annotated

from pydantic import Field

from unis.chain.values import Duration, PacketRate, Part, in_ns, rate_in


class Reserved(Part):
    """A promise of throughput and latency, for which a server reserves resources."""

    throughput: PacketRate
    """Packets per second that the chain forwards, such as 2.5Mpps."""
    p95_latency: Duration
    """95th percentile of their latency, such as 100us or 1.5ms."""
    maximum_rate: PacketRate | None = None
    """Rate to which the traffic is policed. Default: the throughput."""
    profile: Annotated[str, Field(min_length=1)] | None = None
    """Profile in the cluster file of this chain, its configuration and traffic. Default: the
    program of a chain with one function, else the name of the chain."""

    @property
    def most_pps(self) -> float:
        """Packets a second that may come."""
        return rate_in(self.maximum_rate or self.throughput, "pps")


class OnDemand(Part):
    """A promise of latency at any load, from the resources that are not reserved."""

    p95_latency: Duration
    """95th percentile of the latency, such as 100us or 1.5ms."""


class Goals(Part):
    """Goals of a chain (its service level objective, SLO), in one of three forms."""

    p95_latency: Duration | None = None
    """On demand: 95th percentile of the latency from source to sink."""
    on_demand: OnDemand | None = Field(default=None, alias="on-demand")
    """The same, written out."""
    reserved: Reserved | None = None
    """Throughput and latency: `unis admit` reserves the resources."""

    @property
    def latency(self) -> str:
        """The latency, as the file has it."""
        part = self.reserved or self.on_demand or self
        return part.p95_latency or ""

    @property
    def key(self) -> tuple[str, ...]:
        """Where that stands, below `slo`."""
        part = "reserved" if self.reserved else "on-demand" if self.on_demand else ""
        return (part, "p95_latency") if part else ("p95_latency",)

    @property
    def p95_ns(self) -> float:
        """The same, ns."""
        return in_ns(self.latency)

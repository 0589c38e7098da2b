"""What a chain shall keep: its service level objective (ResQ, section 5.1)."""

from typing import Annotated

from pydantic import Field

from unis.chain.part import Part
from unis.chain.values import Duration, PacketRate, in_ns, rate_in


class Reserved(Part):
    """A promise of throughput within a latency, for which a server sets resources aside."""

    throughput: PacketRate
    """Packets a second that the chain passes, as 2.5Mpps."""
    p95_latency: Duration
    """That 95 of 100 of them stay within, as 100us or 1.5ms."""
    maximum_rate: PacketRate | None = None
    """What may come at most, and is policed to; as much as the throughput where it is absent."""
    profile: Annotated[str, Field(min_length=1)] | None = None
    """The profile of the chain with this configuration and traffic, as the cluster file names it;
    absent: the program of a chain with one function, or else the chain's name."""

    @property
    def most_pps(self) -> float:
        """Packets a second that may come."""
        return rate_in(self.maximum_rate or self.throughput, "pps")


class OnDemand(Part):
    """A promise of latency, whatever comes: from what a server has beside reserved ones."""

    p95_latency: Duration
    """That 95 of 100 packets stay within, as 100us or 1.5ms."""


class Goals(Part):
    """What a chain shall keep (its service level objective, SLO), in one of three ways."""

    p95_latency: Duration | None = None
    """On demand: that 95 of 100 packets stay within, from the source to the sink."""
    on_demand: OnDemand | None = Field(default=None, alias="on-demand")
    """The same, written out."""
    reserved: Reserved | None = None
    """Throughput too: `unis admit` sets aside what it needs."""

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

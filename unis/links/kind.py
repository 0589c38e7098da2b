"""What there is to know about a kind of link, outside the engine."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from unis.engine import names
from unis.v1 import engine_pb2 as pb

_LIBRARIES = Path("/usr/lib")
BATCH = 64  # packets a burst, of everything that UNiS brings


@dataclass(frozen=True)
class LinkDetails:
    """What a kind has to say of one link beside its slots; a kind without such has None."""

    id: int  # that no other link of its kind has in this run, nor had before
    # A file that the end which is started first makes, and the other end needs.
    socket: Path | None

    def fill(self, config: pb.LinkConfig) -> None:
        """Adds it to what the engine is told."""


@dataclass(frozen=True)
class Wanted:
    """A link that is to be, for its kind to say the details of."""

    run: str
    name: str
    slots: int
    engine: bool  # whether the engine has one of the ends; else two functions have them
    folder: Path  # where its files may be
    queues_to_server: int = 1  # by which the client sends, the end that is there later
    queues_to_client: int = 1  # as many where queues may not differ


@dataclass(frozen=True)
class LinkPlan:
    """What carries packets: one way, or both ways if its kind is duplex."""

    name: str
    kind: str  # one of `unis.links.KINDS`
    slots: int
    details: LinkDetails | None = None
    # Where it is: of which chain, from where to where, and its number there if there are two, one
    # behind the other. One that several edges share has no name at the other end, and the port as
    # its number. By it a link is known again in another plan of the run.
    edge: tuple[str, str, str] = ("", "", "")
    part: int = 0

    @property
    def socket(self) -> Path | None:
        """A file that the end which is started first makes, and the other end needs."""
        return self.details.socket if self.details else None

    def message(self) -> pb.LinkConfig:
        """As the engine wants it."""
        config = pb.LinkConfig(name=self.name, kind=names.link(self.kind), slots=self.slots)
        if self.details:
            self.details.fill(config)
        return config


@dataclass(frozen=True)
class PortEnds:
    """What a port of a function is made of."""

    name: str
    number: int  # of the device among those of its kind in the DPDK group
    rx: LinkPlan | None  # None: nothing is received here
    tx: LinkPlan | None  # of a duplex kind the same as rx
    # Of a duplex link: 0 for the end that is there first, 1 for the one that is there later. The
    # engine is there before functions.
    end: int = 0


@dataclass(frozen=True)
class EalDevice:
    """A device that EAL gives a program as a port."""

    name: str  # `net_unis0,rx=…` of a virtual one, the address of one on a bus
    virtual: bool = True

    @property
    def argument(self) -> str:
        """Of EAL."""
        return f"--vdev={self.name}" if self.virtual else f"--allow={self.name}"


class LinkKind(Protocol):
    """A kind of link. To add one: a module with this, and its line in `unis.links`.

    All but `make` and `remove` is pure.
    """

    name: str  # as the contract has it, and the chain file
    driver: str  # DPDK's, or ours, of ports on it
    of_group: bool  # links are memory of the engine's DPDK group: only programs in it have ports
    for_traffic: bool  # source and sink can have an end; else the engine carries packets to a ring
    one_user: bool  # functions at both ends run as the same user, whose file the link is
    queues_may_differ: bool  # a port on it may receive by others than it sends by
    drops: bool  # by itself, where its receiver is slow; else what is full holds the sender up
    duplex: bool  # a link carries packets both ways, and a port sends and receives on the same one
    most_slots: int
    default_slots: int | None  # None: as many as the rings of the chain
    capabilities: Collection[str]  # that a program needs to open a port on it, without CAP_

    def capacity(self, slots: int) -> int:
        """Packets that it holds, one way."""

    def details(self, wanted: Wanted, number: int) -> LinkDetails | None:
        """Of a link; `number` is no other's of its kind."""

    def stays(self, there: LinkPlan, wanted: Wanted) -> bool:
        """Whether a link with as many slots, which is there, is what is wanted but for its name."""

    def device(self, port: PortEnds) -> EalDevice:
        """What makes EAL open a port on links of this kind."""

    def lacks(self) -> str:
        """What this machine lacks for it, and what mends that; empty: nothing. For the doctor."""

    def packets(self, link: LinkPlan) -> int:
        """Of the engine's packet buffers, how many may be under way in it."""

    def memory_bytes(self, link: LinkPlan) -> int:
        """Of the engine's hugepages, beside those."""

    def made(self, link: LinkPlan) -> str:
        """What is made on the machine for it, by a name that is enough to remove it; or nothing."""

    def make(self, link: LinkPlan) -> None:
        """Makes that, before the engine and the functions start. UnisError if it cannot be: then
        nothing of it is left.
        """

    def remove(self, name: str) -> list[str]:
        """Removes what `made` names, if it is there; sentences of what could not be."""


def driver_missing(driver: str) -> str:
    """What to say where DPDK came without one of its drivers; empty: it is there."""
    if any(_LIBRARIES.glob(f"*/dpdk/pmds-*/librte_{driver}.so*")):
        return ""
    # Debian's packages end with the number of DPDK's ABI.
    found = [file.name.split(".so.")[1] for file in _LIBRARIES.glob("*/librte_eal.so.*")]
    abi = min(found, key=len, default="")
    package = f"librte-{driver.replace('_', '-')}{abi.partition('.')[0]}"
    return f"DPDK has no driver {driver} here; install {package}"


class Copying:
    """Of kinds that copy packets from one DPDK group into another, by a driver of DPDK's."""

    driver: str

    def lacks(self) -> str:
        """Its driver may be a package of its own."""
        return driver_missing(self.driver)

    def packets(self, link: LinkPlan) -> int:  # noqa: ARG002
        """Two bursts of those who carry them in and out, for packets are copied."""
        return 2 * BATCH

    def memory_bytes(self, link: LinkPlan) -> int:  # noqa: ARG002
        """None: what waits is in ordinary pages."""
        return 0


class NothingMade:
    """Of kinds whose links are made by the programs at their ends, and go with them."""

    def made(self, link: LinkPlan) -> str:  # noqa: ARG002
        """Nothing."""
        return ""

    def make(self, link: LinkPlan) -> None:
        """Nothing to do."""

    def remove(self, name: str) -> list[str]:  # noqa: ARG002
        """Nothing to do."""
        return []

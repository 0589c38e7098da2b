"""What there is to know about a kind of link, outside the engine."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from unis.engine import names
from unis.nics.layout import VfChoice
from unis.v1 import engine_pb2 as pb

_LIBRARIES = Path("/usr/lib")
BATCH = 64  # packets a burst, of everything that UNiS brings


@dataclass(frozen=True)
class LinkDetails:
    """What a kind adds to the slots of a link."""

    id: int  # that no other link of its kind has in this run, nor had before
    # A file that the end which is started first makes, and the other end needs.
    socket: Path | None

    @property
    def ids(self) -> Collection[int]:
        """All that no other can have beside it."""
        return (self.id,)

    @property
    def folder(self) -> Path | None:
        """Where its files are, if it has some that programs open."""
        return self.socket.parent if self.socket else None

    def fill(self, config: pb.LinkConfig) -> None:
        """Adds it to the engine's message."""


@dataclass(frozen=True)
class LinkSpec:
    """What is asked of a link."""

    run: str
    name: str
    slots: int
    engine: bool  # whether the engine has one of the ends; else two functions have them
    folder: Path  # where files of its functions may be
    wire: bool = False  # one end is outside the run, the other a function's end 0
    directory: Path = Path()  # where those of the run are
    loaded: Path = Path()  # where the files are that programs load, which are the run's
    queues_to_server: int = 1  # by which the client sends, the end that is there later
    queues_to_client: int = 1  # as many where queues may not differ
    driver: str | None = None  # of functions' ports, where the kind has several
    batch: int | None = None  # packets a burst of that driver
    options: tuple[tuple[str, str | int], ...] = ()  # further arguments of it
    nic: VfChoice | None = None  # of a kind whose links are on NICs
    receiver: int = 1  # the end that receives, on the way there


@dataclass(frozen=True)
class LinkPlan:
    """What carries packets: one way, or both ways if its kind is duplex."""

    name: str
    kind: str  # one of `unis.links.KINDS`
    slots: int
    details: LinkDetails | None = None
    # Where it is: of which chain, from where to where, and its number there if there are two, one
    # behind the other. One that several edges share has no name at the other end, and the port as
    # its number. Another plan of the run recognises the link by this.
    edge: tuple[str, str, str] = ("", "", "")
    part: int = 0

    @property
    def socket(self) -> Path | None:
        """A file that the end which is started first makes, and the other end needs."""
        return self.details.socket if self.details else None

    def message(self) -> pb.LinkConfig:
        """Its message of the contract."""
        config = pb.LinkConfig(name=self.name, kind=names.link(self.kind), slots=self.slots)
        if self.details:
            self.details.fill(config)
        return config


@dataclass(frozen=True)
class PortEnds:
    """The links of a port of a function."""

    name: str
    number: int  # of the device among those of its kind in the DPDK group
    rx: LinkPlan | None  # None: nothing is received here
    tx: LinkPlan | None  # of a duplex kind the same as rx
    # Of a duplex link: 0 for the end that is there first, 1 for the one that is there later. The
    # engine is there before functions.
    end: int = 0

    @property
    def link(self) -> LinkPlan:
        """Its link, of a duplex kind."""
        if self.rx is None:
            raise ValueError(f"port {self.name} is on no link")
        return self.rx


class LinkKind(ABC):
    """A kind of link. To add one: a module with a subclass, and its line in `unis.links`.

    All but `make` and `remove` is pure. The defaults are those of a kind that copies packets from
    one DPDK group to another, and whose links the programs at their ends make and remove.
    """

    name: str  # as the contract has it, and the chain file
    driver: str  # DPDK's, or ours, of ports on it
    most_slots: int
    default_slots: int | None = 1024  # None: as many as the rings of the chain
    of_group = False  # links are memory of the engine's DPDK group: only its programs have ports
    one_user = False  # functions at both ends run as the same user, whose file the link is
    in_namespaces = True  # programs at its ends may be in network namespaces of their own
    in_containers = True  # so may they be in containers, if the kind is not `of_group`
    sockets_told = False  # the engine is told which sockets its functions' ports have
    most_queues = 16  # each way
    queues_may_differ = False  # a port on it may have other numbers of receive and send queues
    on_nics = False  # a link is between virtual functions of a NIC, whose switch carries packets
    drops = False  # it drops packets if its receiver is slow; else a full link stops the sender
    duplex = True  # a link carries packets both ways, and a port sends and receives on the same one
    chooses_driver = False  # its links may state that of functions' ports
    capabilities: Collection[str] = ()  # that a program needs to open a port on it, without CAP_
    eal: Collection[str] = ()  # further arguments of EAL's that such a program needs

    def capacity(self, slots: int) -> int:
        """Packets that it holds, one way."""
        return slots

    def numbers(self, spec: LinkSpec) -> Iterable[int]:  # noqa: ARG002
        """Those that a link may have, the best first."""
        return itertools.count()

    @abstractmethod
    def details(self, spec: LinkSpec, number: int) -> LinkDetails | None:
        """Of a link; `number` is no other's of its kind."""

    def matches(self, link: LinkPlan, spec: LinkSpec) -> bool:
        """Whether a link with as many slots is what is asked for but for its name."""
        if link.details is None:
            return True
        return self.details(replace(spec, name=link.name), link.details.id) == link.details

    @abstractmethod
    def device_arguments(self, port: PortEnds) -> dict[str, object]:
        """Of the device by which a program has a port on links of this kind."""

    def driver_of(self, port: PortEnds) -> str:  # noqa: ARG002
        """That of a port."""
        return self.driver

    def driver_stated(self, link: LinkPlan) -> str:  # noqa: ARG002
        """That of functions' ports on a link, if it is not the usual one, as it is told."""
        return ""

    def device(self, port: PortEnds) -> str:
        """EAL's --vdev: `net_memif0,role=server,…`; of a PCI device its -a: `0000:01:10.0,…`."""
        arguments = [f"{key}={value}" for key, value in self.device_arguments(port).items()]
        return ",".join([f"{self.driver_of(port)}{port.number}", *arguments])

    def lacks(self) -> str:
        """What this machine lacks for it, and what mends that; empty: nothing. For the doctor."""
        return driver_missing(self.driver) or self.hindrance()

    def hindrance(self) -> str:
        """Of that, what keeps links from being made here, whatever DPDK the functions have."""
        return ""

    def room(self, slots: int, driver: str | None) -> int:  # noqa: ARG002
        """Packets of 64 bytes that may wait for a function; `driver`: what the file states."""
        return slots

    def waiting_room(self, link: LinkPlan) -> int:
        """The same, of a link that is planned."""
        return self.room(link.slots, None)

    def packets(self, link: LinkPlan) -> int:  # noqa: ARG002
        """How many of the engine's packet buffers the link may hold: a burst in, a burst out."""
        return 2 * BATCH

    def memory_bytes(self, link: LinkPlan) -> int:  # noqa: ARG002
        """How much of the engine's hugepages the link takes, apart from packet buffers."""
        return 0

    def made(self, link: LinkPlan) -> str:  # noqa: ARG002
        """What is made on the machine for it, by a name that is enough to remove it; or nothing."""
        return ""

    def make(self, link: LinkPlan) -> None:  # noqa: B027  a kind may make nothing
        """Makes that, before the engine and the functions start. UnisError if it cannot be: then
        nothing of it is left.
        """

    def is_left(self, name: str) -> bool:  # noqa: ARG002
        """Whether `make` failed and something is left all the same, for `remove` to try again."""
        return False

    def remarks(self, link: LinkPlan) -> Iterable[str]:  # noqa: ARG002
        """Sentences for the user on what was made."""
        return ()

    def devices(self, link: LinkPlan) -> tuple[str, ...]:  # noqa: ARG002
        """Of what it makes the kernel devices that programs at end 0 and end 1 open: each is in the
        network namespace of its program.
        """
        return ()

    def binds(self, link: LinkPlan) -> tuple[tuple[str, str], ...]:  # noqa: ARG002
        """PCI devices that its ends have, by address, and the driver that each is given once `make`
        has made the link: that is put back before `remove`. An empty driver: it keeps its own.
        """
        return ()

    def settle(self, link: LinkPlan) -> None:  # noqa: B027  what is made may carry at once
        """Waits till it carries packets, once both devices are where they belong. UnisError if it
        does not.
        """

    def clear(self, link: LinkPlan, end: int, namespace: str) -> None:  # noqa: B027  most leave none
        """Removes what a program that was killed has left at its end, which is in this namespace:
        before each that starts there. UnisError if that fails.
        """

    def remove(self, name: str) -> list[str]:  # noqa: ARG002
        """Removes what `made` names, if it is there; sentences of what could not be."""
        return []


def driver_missing(driver: str) -> str:
    """What to say where DPDK came without one of its drivers; empty: it is there."""
    if any(_LIBRARIES.glob(f"*/dpdk/pmds-*/librte_{driver}.so*")):
        return ""
    # Debian's packages end with the number of DPDK's ABI.
    found = [file.name.split(".so.")[1] for file in _LIBRARIES.glob("*/librte_eal.so.*")]
    abi = min(found, key=len, default="")
    package = f"librte-{driver.replace('_', '-')}{abi.partition('.')[0]}"
    return f"DPDK has no driver {driver} here; install {package}"

"""What there is to know about a kind of link, outside the engine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from unis.engine import names
from unis.v1 import engine_pb2 as pb

EndName = Literal["none", "server"]

_ENDS = {"none": pb.MEMIF_END_NONE, "server": pb.MEMIF_END_SERVER}


@dataclass(frozen=True)
class MemifPlan:
    """How the two ends of a memif find each other, and its memory is told from others'."""

    socket: Path
    id: int
    buffer_bytes: int  # distinct for each memif of a run
    engine_end: EndName
    queues: int = 1  # each way


@dataclass(frozen=True)
class LinkPlan:
    """What carries packets: a ring one way, a memif both ways."""

    name: str
    kind: str  # one of `unis.links.KINDS`
    slots: int
    memif: MemifPlan | None = None
    # Where it is: of which chain, from where to where, and its number there if there are two, one
    # behind the other. By it a link is known again in another plan of the run.
    stretch: tuple[str, str, str] = ("", "", "")
    part: int = 0

    def message(self) -> pb.LinkConfig:
        """As the engine wants it."""
        config = pb.LinkConfig(name=self.name, kind=names.link(self.kind), slots=self.slots)
        if self.memif:
            config.memif.socket = str(self.memif.socket)
            config.memif.id = self.memif.id
            config.memif.buffer_bytes = self.memif.buffer_bytes
            config.memif.engine_end = _ENDS[self.memif.engine_end]
            config.memif.queues = self.memif.queues
        return config


@dataclass(frozen=True)
class PortEnds:
    """What a port of a function is made of."""

    name: str
    number: int  # of the device among those of its kind in the DPDK group
    rx: LinkPlan | None  # None: nothing is received here
    tx: LinkPlan | None
    client: bool = False  # of a memif


class LinkKind(Protocol):
    """A kind of link; its module decides nothing about a run, only how the kind is put in words."""

    name: str
    most_slots: int

    def capacity(self, slots: int) -> int:
        """Packets that it holds, one way."""

    def device(self, port: PortEnds) -> str:
        """The value of EAL's --vdev for a port on links of this kind."""

    def packets(self, link: LinkPlan) -> int:
        """Of the engine's packet buffers, how many may be under way in it."""

    def memory_bytes(self, link: LinkPlan) -> int:
        """Of the engine's hugepages, beside those."""

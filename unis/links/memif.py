"""memif: shared memory between two DPDK groups, both ways, packets are copied."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unis.links.kind import (
    Copying,
    EalDevice,
    LinkDetails,
    LinkPlan,
    NothingMade,
    PortEnds,
    Wanted,
)
from unis.v1 import engine_pb2 as pb

_LOG2_MOST = 14  # of DPDK's net_memif, ETH_MEMIF_MAX_LOG2_RING_SIZE
# Bytes. Each memif has its own, by which it is known; an odd number of cache lines, so that the
# buffers of a ring begin in every set of a cache and not in a few.
_LEAST_BUFFER, _BUFFER_STEP = 2112, 128
_ENDS = {"none": pb.MEMIF_END_NONE, "server": pb.MEMIF_END_SERVER}


@dataclass(frozen=True)
class MemifPlan(LinkDetails):
    """How the two ends of a memif find each other, and its memory is told from others'. The socket
    is the server's, to which the client connects.
    """

    buffer_bytes: int  # distinct for each memif of a run
    engine_end: Literal["none", "server"]
    queues_to_server: int = 1  # by which the client sends
    queues_to_client: int = 1

    def fill(self, config: pb.LinkConfig) -> None:
        """Adds it to what the engine is told."""
        config.memif.socket = str(self.socket)
        config.memif.id = self.id
        config.memif.buffer_bytes = self.buffer_bytes
        config.memif.engine_end = _ENDS[self.engine_end]
        config.memif.queues_to_server = self.queues_to_server
        config.memif.queues_to_client = self.queues_to_client


class Memif(Copying, NothingMade):
    """Ports on it are DPDK's own net_memif. Its memory is a memfd, which needs no hugepages and
    goes with its processes; only the control socket is a file.
    """

    name = "memif"
    driver = "net_memif"
    of_group = False
    for_traffic = True
    one_user = True
    queues_may_differ = True
    drops = False
    duplex = True
    most_slots = 1 << _LOG2_MOST
    default_slots: int | None = 1024
    capabilities: Collection[str] = ()

    def capacity(self, slots: int) -> int:
        """Head and tail are free-running: every slot can be used."""
        return slots

    def details(self, wanted: Wanted, number: int) -> MemifPlan:
        """A socket of its own, and buffers of a size of their own."""
        return MemifPlan(
            id=number,
            socket=wanted.folder / f"{wanted.name}.sock",
            buffer_bytes=_LEAST_BUFFER + _BUFFER_STEP * number,
            engine_end="server" if wanted.engine else "none",
            queues_to_server=wanted.queues_to_server,
            queues_to_client=wanted.queues_to_client,
        )

    def stays(self, there: LinkPlan, wanted: Wanted) -> bool:
        """The socket's folder is that of a user, and the ends have agreed on the queues."""
        memif = _details(there)
        queues = memif.queues_to_server, memif.queues_to_client
        return (memif.engine_end == "server", _folder(memif), *queues) == (
            wanted.engine,
            wanted.folder,
            wanted.queues_to_server,
            wanted.queues_to_client,
        )

    def device(self, port: PortEnds) -> EalDevice:
        """`net_memif0,role=…,socket=…`: both ends state the same size."""
        link = port.rx or port.tx
        if link is None:
            raise ValueError(f"port {port.name} is on no memif")
        memif = _details(link)
        parts = {
            "role": "client" if port.end else "server",
            "id": memif.id,
            "socket": memif.socket,
            "socket-abstract": "no",
            "rsize": link.slots.bit_length() - 1,
            "bsize": memif.buffer_bytes,
        }
        words = [f"{self.driver}{port.number}", *(f"{k}={v}" for k, v in parts.items())]
        return EalDevice(",".join(words))


def _details(link: LinkPlan) -> MemifPlan:
    if not isinstance(link.details, MemifPlan):
        raise ValueError(f"link {link.name} is no memif")
    return link.details


def _folder(memif: MemifPlan) -> Path | None:
    return memif.socket.parent if memif.socket else None

"""memif: shared memory between two DPDK groups, both ways, packets are copied."""

from dataclasses import dataclass
from typing import Literal

from unis.links.kind import LinkDetails, LinkKind, LinkPlan, LinkSpec, PortEnds
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
        """Adds it to the engine's message."""
        config.memif.socket = str(self.socket)
        config.memif.id = self.id
        config.memif.buffer_bytes = self.buffer_bytes
        config.memif.engine_end = _ENDS[self.engine_end]
        config.memif.queues_to_server = self.queues_to_server
        config.memif.queues_to_client = self.queues_to_client


class Memif(LinkKind):
    """Ports on it are DPDK's own net_memif. Its memory is a memfd, which needs no hugepages and
    goes with its processes; only the control socket is a file. Head and tail are free-running:
    every slot can be used.
    """

    name = "memif"
    driver = "net_memif"
    one_user = True
    queues_may_differ = True
    most_slots = 1 << _LOG2_MOST

    def details(self, spec: LinkSpec, number: int) -> MemifPlan:
        """A socket of its own, and buffers of a size of their own."""
        return MemifPlan(
            id=number,
            socket=spec.folder / f"{spec.name}.sock",
            buffer_bytes=_LEAST_BUFFER + _BUFFER_STEP * number,
            engine_end="server" if spec.engine else "none",
            queues_to_server=spec.queues_to_server,
            queues_to_client=spec.queues_to_client,
        )

    def device_arguments(self, port: PortEnds) -> dict[str, object]:
        """Both ends state the same size."""
        memif = _details(port.link)
        return {
            "role": "client" if port.end else "server",
            "id": memif.id,
            "socket": memif.socket,
            "socket-abstract": "no",
            "rsize": port.link.slots.bit_length() - 1,
            "bsize": memif.buffer_bytes,
        }


def _details(link: LinkPlan) -> MemifPlan:
    if not isinstance(link.details, MemifPlan):
        raise ValueError(f"link {link.name} is no memif")
    return link.details

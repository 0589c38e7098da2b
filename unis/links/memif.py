"""memif: shared memory between two DPDK groups, both ways, packets are copied."""

from unis.chain.defaults import BATCH
from unis.links.kind import LinkPlan, PortEnds

_LOG2_MOST = 14  # of DPDK's net_memif, ETH_MEMIF_MAX_LOG2_RING_SIZE


class Memif:
    """Ports on it are DPDK's own net_memif. Its memory is a memfd, which needs no hugepages and
    goes with its processes; only the control socket is a file.
    """

    name = "memif"
    most_slots = 1 << _LOG2_MOST

    def capacity(self, slots: int) -> int:
        """Head and tail are free-running: every slot can be used."""
        return slots

    def device(self, port: PortEnds) -> str:
        """`net_memif0,role=…,socket=…`: both ends state the same size."""
        link = port.rx or port.tx
        if link is None or link.memif is None:
            raise ValueError(f"port {port.name} is on no memif")
        parts = {
            "role": "client" if port.client else "server",
            "id": link.memif.id,
            "socket": link.memif.socket,
            "socket-abstract": "no",
            "rsize": link.slots.bit_length() - 1,
            "bsize": link.memif.buffer_bytes,
        }
        return f"net_memif{port.number}," + ",".join(f"{k}={v}" for k, v in parts.items())

    def packets(self, link: LinkPlan) -> int:  # noqa: ARG002
        """Two bursts of those who carry them in and out, for packets are copied."""
        return 2 * BATCH

    def memory_bytes(self, link: LinkPlan) -> int:  # noqa: ARG002
        """None: it is a memfd of ordinary pages."""
        return 0

"""vhost: vhost-user, virtqueues in the memory of a function, both ways, packets are copied."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from unis.links.kind import LinkDetails, LinkKind, LinkPlan, LinkSpec, PortEnds, driver_missing
from unis.v1 import engine_pb2 as pb

_DRIVER, _DEVICE = "net_virtio_user", "net_vhost"


@dataclass(frozen=True)
class VhostPlan(LinkDetails):
    """Where the two functions find the engine: it listens at both sockets before they start."""

    driver_socket: Path  # of the function that has the virtqueues in its memory
    device_socket: Path | None  # of the one that works on them; None: the engine does

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.driver_socket.parent

    def fill(self, config: pb.LinkConfig) -> None:
        """Adds it to the engine's message."""
        config.vhost.driver_socket = str(self.driver_socket)
        config.vhost.device_socket = str(self.device_socket or "")


class Vhost(LinkKind):
    """Ports on it are DPDK's own net_virtio_user; of two functions the first has a net_vhost. The
    engine has only told the two of each other then: they outlive each other's death.
    """

    name = "vhost"
    driver = _DRIVER
    one_user = True
    most_queues = 1
    most_slots = 1 << 14
    # A virtio driver hands over its memory in at most eight files: else each hugepage has its own.
    eal = ("--single-file-segments",)

    def details(self, spec: LinkSpec, number: int) -> VhostPlan:
        """Sockets of its own."""
        return VhostPlan(
            id=number,
            socket=None,
            driver_socket=spec.folder / f"{spec.name}.sock",
            device_socket=None if spec.engine else spec.folder / f"{spec.name}.device.sock",
        )

    def driver_of(self, port: PortEnds) -> str:
        """That of the device at the end that is there first, if the engine is not."""
        return _DRIVER if self._drives(port) else _DEVICE

    def _drives(self, port: PortEnds) -> bool:
        return port.end == 1 or _details(port.link).device_socket is None

    def device_arguments(self, port: PortEnds) -> dict[str, object]:
        """A driver with an address, which otherwise is another one at each start. A device that
        connects again when it was sent away.
        """
        details = _details(port.link)
        if not self._drives(port):
            return {"iface": details.device_socket, "queues": 1, "client": 1}
        scattered = hashlib.sha256(bytes(details.driver_socket)).digest()[:5]
        return {
            "path": details.driver_socket,
            "queues": 1,
            "cq": 1,  # else it refuses promiscuous mode, on which programs insist
            "queue_size": port.link.slots,
            "mac": f"02:{scattered.hex(':')}",
        }

    def lacks(self) -> str:
        """Either of DPDK's drivers."""
        return driver_missing("net_virtio") or driver_missing("net_vhost")


def _details(link: LinkPlan) -> VhostPlan:
    if not isinstance(link.details, VhostPlan):
        raise ValueError(f"link {link.name} is no vhost")
    return link.details

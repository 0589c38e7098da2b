"""veth: a pair of kernel devices, both ways, packets are copied by the kernel."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from unis.links import devices
from unis.links.kind import LinkDetails, LinkKind, LinkPlan, LinkSpec, PortEnds
from unis.v1 import engine_pb2 as pb

# As the engine maps them (engine/platform/links/veth_ring.h).
_FRAME_BYTES, _BLOCK_BYTES = 2048, 4096
_BATCH = 32  # frames a burst of net_mmsg, where none is stated
_MMSG = "net_mmsg"  # our driver (ports/net_mmsg)
_BUFFER = Path("/proc/sys/net/core/rmem_default")  # bytes, of a socket
_USUAL_BUFFER = 212_992
_LEAST_BYTES = 832  # of a buffer, that a frame of 64 bytes takes (packet_socket.h)


@dataclass(frozen=True)
class VethPlan(LinkDetails):
    """The names of both devices, and who has them."""

    devices: tuple[str, str]  # of end 0 and of end 1
    engine_end: bool  # whether the engine has end 0
    queues: int = 1  # packet sockets on a device
    batch: int | None = None  # of net_mmsg; None: functions have net_af_packet
    options: tuple[tuple[str, str | int], ...] = ()  # further arguments of net_mmsg
    ports: tuple[str, str] = ("", "")  # of a bridge, that send to these devices

    def fill(self, config: pb.LinkConfig) -> None:
        """Adds it to the engine's message."""
        config.veth.device0, config.veth.device1 = self.devices
        config.veth.engine_end = self.engine_end
        config.veth.queues = self.queues
        config.veth.without_rings = self.batch is not None
        config.veth.port0, config.veth.port1 = self.ports


class Veth(LinkKind):
    """Ports on it are DPDK's own net_af_packet, or our net_mmsg. The devices have no
    address. A slot says itself whether a packet waits in
    it: every slot can be used.
    """

    name = "veth"
    driver = "net_af_packet"
    drops = True  # at the full socket buffer of the receiver
    most_slots = 1 << 14
    chooses_driver = True
    capabilities: Collection[str] = ("net_raw",)

    def details(self, spec: LinkSpec, number: int) -> VethPlan:  # noqa: D102
        base = devices.base_name(f"{spec.folder}/{spec.run}/{spec.name}")
        return VethPlan(
            id=number,
            socket=None,
            devices=(f"{base}a", f"{base}b"),
            engine_end=spec.engine,
            queues=spec.queues_to_server,
            batch=_batch(spec),
            options=spec.options,
        )

    def matches(self, link: LinkPlan, spec: LinkSpec) -> bool:
        """The folder is only part of the device's name; root makes the devices of any user."""
        veth = details_of(link)
        wanted = (spec.engine, spec.queues_to_server, _batch(spec), spec.options)
        return (veth.engine_end, veth.queues, veth.batch, veth.options) == wanted

    def driver_of(self, port: PortEnds) -> str:
        """As the link states it."""
        return self.driver if details_of(port.link).batch is None else _MMSG

    def driver_stated(self, link: LinkPlan) -> str:
        """With its batch."""
        batch = details_of(link).batch
        return f", driver mmsg, batch {batch}" if batch else ""

    def device_arguments(self, port: PortEnds) -> dict[str, object]:
        """Both ends state the same size."""
        veth = details_of(port.link)
        sockets = {"iface": veth.devices[port.end], "qpairs": veth.queues}
        if veth.batch is not None:
            return {**sockets, "batch": veth.batch, **dict(veth.options)}
        return {
            **sockets,
            "blocksz": _BLOCK_BYTES,
            "framesz": _FRAME_BYTES,
            "framecnt": port.link.slots,
        }

    def room(self, slots: int, driver: str | None) -> int:
        """On net_mmsg the default buffer of a socket has: the slots are the engine's."""
        return -(-_buffer() // _LEAST_BYTES) if driver == "mmsg" else slots

    def waiting_room(self, link: LinkPlan) -> int:
        """By the driver that it has."""
        return self.room(link.slots, "mmsg" if details_of(link).batch else None)

    def made(self, link: LinkPlan) -> str:
        """The device of end 0: with it the other goes."""
        return details_of(link).devices[0]

    def devices(self, link: LinkPlan) -> tuple[str, ...]:  # noqa: D102
        return details_of(link).devices

    def make(self, link: LinkPlan) -> None:
        """Makes the pair and has it carry packets."""
        near, far = details_of(link).devices
        with devices.making(link.name, near, far) as maker:
            maker.add_pair(near, far)
            for device in (near, far):
                maker.start(device)

    def remove(self, name: str) -> list[str]:
        """Both devices."""
        return devices.remove([("veth", name)])


def _buffer() -> int:
    with suppress(FileNotFoundError):  # old kernels show it in the first network namespace alone
        return int(_BUFFER.read_text())
    return _USUAL_BUFFER


def _batch(spec: LinkSpec) -> int | None:
    return (spec.batch or _BATCH) if spec.driver == "mmsg" else None


def details_of(link: LinkPlan) -> VethPlan:
    """What a veth, or what is made of them, adds to the slots."""
    if not isinstance(link.details, VethPlan):
        raise ValueError(f"link {link.name} is no veth")
    return link.details

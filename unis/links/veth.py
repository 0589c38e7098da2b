"""veth: a pair of kernel devices, both ways, packets are copied by the kernel."""

import errno
import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from unis.errors import UnisError
from unis.links.kind import LinkDetails, LinkKind, LinkPlan, LinkSpec, PortEnds
from unis.v1 import engine_pb2 as pb

# As the engine maps them (engine/platform/links/veth_ring.h).
_FRAME_BYTES, _BLOCK_BYTES = 2048, 4096
_MTU = 1504  # bytes: frames of 1518, with a VLAN tag too
_SETTINGS = Path("/proc/sys/net")
# Nothing but what the two programs send is on the pair: the kernel neither greets nor answers nor
# passes on.
_SILENT = {
    "ipv6/conf/{}/disable_ipv6": "1",
    "ipv4/conf/{}/forwarding": "0",
    "ipv4/conf/{}/drop_unicast_in_l2_multicast": "1",
}
_BATCH = 32  # frames a burst of net_mmsg, where none is stated
_MMSG = "net_mmsg"  # our driver (ports/net_mmsg)
_UP, _NOARP, _MULTICAST = 0x1, 0x80, 0x1000  # IFF_ of the kernel


@dataclass(frozen=True)
class VethPlan(LinkDetails):
    """The names of both devices, and who has them."""

    devices: tuple[str, str]  # of end 0 and of end 1
    engine_end: bool  # whether the engine has end 0
    queues: int = 1  # packet sockets on a device
    batch: int | None = None  # of net_mmsg; None: functions have net_af_packet

    def fill(self, config: pb.LinkConfig) -> None:
        """Adds it to the engine's message."""
        config.veth.device0, config.veth.device1 = self.devices
        config.veth.engine_end = self.engine_end
        config.veth.queues = self.queues
        config.veth.without_rings = self.batch is not None


class Veth(LinkKind):
    """Ports on it are DPDK's own net_af_packet, or our net_mmsg. The devices have no address, and
    are in the network namespace in which UNiS runs. A slot says itself whether a packet waits in
    it: every slot can be used.
    """

    name = "veth"
    driver = "net_af_packet"
    drops = True  # at the full socket buffer of the receiver
    most_slots = 1 << 14
    capabilities = ("net_raw",)

    def details(self, spec: LinkSpec, number: int) -> VethPlan:
        """Device names have 15 bytes, too few for those of the run and the link."""
        words = f"{spec.folder}/{spec.run}/{spec.name}"
        base = f"unis{hashlib.sha256(words.encode()).hexdigest()[:8]}"
        return VethPlan(
            id=number,
            socket=None,
            devices=(f"{base}a", f"{base}b"),
            engine_end=spec.engine,
            queues=spec.queues_to_server,
            batch=_batch(spec),
        )

    def matches(self, link: LinkPlan, spec: LinkSpec) -> bool:
        """The folder is only part of the device's name; root makes the devices of any user."""
        veth = _details(link)
        wanted = (spec.engine, spec.queues_to_server, _batch(spec))
        return (veth.engine_end, veth.queues, veth.batch) == wanted

    def driver_of(self, port: PortEnds) -> str:
        """As the link states it."""
        return self.driver if _details(port.link).batch is None else _MMSG

    def device_arguments(self, port: PortEnds) -> dict[str, object]:
        """Both ends state the same size."""
        veth = _details(port.link)
        sockets = {"iface": veth.devices[port.end], "qpairs": veth.queues}
        if veth.batch is not None:
            return {**sockets, "batch": veth.batch}
        return {
            **sockets,
            "blocksz": _BLOCK_BYTES,
            "framesz": _FRAME_BYTES,
            "framecnt": port.link.slots,
        }

    def made(self, link: LinkPlan) -> str:
        """The device of end 0: with it the other goes."""
        return _details(link).devices[0]

    def make(self, link: LinkPlan) -> None:
        """Makes the pair and has it carry packets."""
        from pyroute2 import IPRoute, NetlinkError

        near, far = _details(link).devices
        made = False
        try:
            with IPRoute() as kernel:
                peer = {"index": _index(far), "attrs": [("IFLA_IFNAME", far)]}
                pair = {"attrs": [("VETH_INFO_PEER", peer)]}
                info = {"attrs": [("IFLA_INFO_KIND", self.name), ("IFLA_INFO_DATA", pair)]}
                kernel.link("add", ifname=near, index=_index(near), linkinfo=info)
                made = True
                for device in (near, far):
                    _silence(device)
                    kernel.link(
                        "set",
                        index=_index(device),
                        mtu=_MTU,
                        ifalias=f"unis link {link.name}",
                        flags=_UP | _NOARP,
                        change=_UP | _NOARP | _MULTICAST,
                    )
        except (NetlinkError, OSError) as error:
            left = self.remove(near) if made else []
            number = error.code if isinstance(error, NetlinkError) else error.errno
            advice = f"; `ip link show {near}` tells whose it is" if number == errno.EEXIST else ""
            sentence = (
                f"link {link.name}: cannot make the kernel devices {near} and {far}: "
                f"{os.strerror(number or 0)}{advice}"
            )
            raise UnisError("; ".join([sentence, *left]), bad_input=False) from None

    def remove(self, name: str) -> list[str]:
        """Both devices, if they are there, and ours: a launcher that was killed may have noted a
        name which it then would have found taken.
        """
        from pyroute2 import IPRoute, NetlinkError

        try:
            with IPRoute() as kernel:
                # It has its number from the moment when it is made; an alias it gets later.
                ours = kernel.link_lookup(ifname=name, kind=self.name, index=_index(name))
                for index in ours:
                    kernel.link("del", index=index)
        except (NetlinkError, OSError) as error:
            return [f"cannot remove the kernel device {name}: {error}; `ip link delete {name}`"]
        return []


def _batch(spec: LinkSpec) -> int | None:
    return (spec.batch or _BATCH) if spec.driver == "mmsg" else None


def _index(device: str) -> int:
    """The number of a device. net_af_packet tells its groups of sockets (PACKET_FANOUT) apart by 16
    bits of this number and the process's: those of devices and processes that were made one after
    the other are often the same, and then it opens no port. So numbers are scattered. By its number
    a device is also known to be ours.
    """
    return (1 << 24) + int.from_bytes(hashlib.sha256(device.encode()).digest()[:3])


def _silence(device: str) -> None:
    for setting, value in _SILENT.items():
        with suppress(FileNotFoundError):  # a kernel without IPv6
            (_SETTINGS / setting.format(device)).write_text(value)


def _details(link: LinkPlan) -> VethPlan:
    if not isinstance(link.details, VethPlan):
        raise ValueError(f"link {link.name} is no veth")
    return link.details

"""tap: a device whose other side is a program, which reads and writes packets: DPDK's net_tap."""

import errno
import fcntl
import hashlib
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from unis.links import devices, modules
from unis.links.kind import LinkPlan, LinkSpec, PortEnds
from unis.links.veth import Veth, VethPlan, details_of

_TUN = Path("/dev/net/tun")
# By which two devices pass to each other what their programs send.
_MODULES = {
    "sch_ingress": "CONFIG_NET_SCH_INGRESS",
    "cls_u32": "CONFIG_NET_CLS_U32",
    "act_mirred": "CONFIG_NET_ACT_MIRRED",
}
# Of linux/if_tun.h and linux/pkt_sched.h.
_TUNSETIFF, _TUNSETPERSIST, _TUNSETIFINDEX = 0x400454CA, 0x400454CB, 0x400454DA
_TAP, _NO_PI, _MULTI_QUEUE = 0x2, 0x1000, 0x100
_INGRESS = 0xFFFFFFF2  # what comes from the program, of a clsact
_ALL_FRAMES = 0x0003  # ETH_P_ALL
_ANY_CLASS = 0x10000
_PASS_ON = {"kind": "mirred", "direction": "egress", "action": "redirect"}


@dataclass(frozen=True)
class TapPlan(VethPlan):
    """With the engine at end 0 both ends are of one device: it has the kernel's side."""


class Tap(Veth):
    """Ports on it are DPDK's own net_tap, on devices that are there before the program and stay
    behind it. What waits for a program does so in the device's queue, of as many packets as the
    link has slots.
    """

    name = "tap"
    driver = "net_tap"
    in_namespaces = False  # the engine's socket is on the device, which would be there
    in_containers = False  # which have no /dev/net/tun
    most_queues = 1
    chooses_driver = False
    most_slots = 4096  # for each that waits a signal of net_tap's may be pending
    capabilities = ("net_admin",)  # net_tap sets MTU and address when it opens a device

    def capacity(self, slots: int) -> int:
        """The kernel frees what was taken by 16 at once."""
        return slots - 16

    def details(self, spec: LinkSpec, number: int) -> TapPlan:
        """Other devices than those of other kinds by this name."""
        base = devices.base_name(f"{spec.folder}/{spec.run}/{spec.name}/tap")
        return TapPlan(
            id=number,
            socket=None,
            devices=(f"{base}{'b' if spec.engine else 'a'}", f"{base}b"),
            engine_end=spec.engine,
        )

    def device_arguments(self, port: PortEnds) -> dict[str, object]:
        """With an address, which otherwise is another one at each start."""
        device = details_of(port.link).devices[port.end]
        scattered = hashlib.sha256(device.encode()).digest()[:5]
        return {"iface": device, "mac": f"02:{scattered.hex(':')}"}

    def made(self, link: LinkPlan) -> str:
        """With what the names of its devices begin."""
        return details_of(link).devices[1].removesuffix("b")

    def make(self, link: LinkPlan) -> None:
        """Makes the device, or two that pass to each other what their programs send."""
        ends = dict.fromkeys(details_of(link).devices)
        with devices.making(link.name, *ends) as maker:
            for device in ends:
                _add(maker, device)
                # Without a queue in front of the device's own: net_tap makes one otherwise.
                maker.kernel.tc("add", "noqueue", devices.index_of(device))
                maker.start(device, txqlen=link.slots)
            for device, other in zip(ends, reversed(ends), strict=True):
                if device != other:
                    _join(maker, device, other)

    def remove(self, name: str) -> list[str]:
        """Those that are there."""
        return devices.remove([("tun", f"{name}{end}") for end in "ab"])

    def hindrance(self) -> str:
        """What the kernel lacks, or a container that sees no devices."""
        if not _TUN.exists():
            return f"there is no {_TUN}; `modprobe tun`, or a kernel with CONFIG_TUN"
        lacking = modules.missing(*_MODULES)
        options = ", ".join(_MODULES[name] for name in lacking)
        has_no = f"this kernel has no module {' or '.join(lacking)}"
        return f"{has_no}; use one with {options}" if lacking else ""


def _add(maker: devices.Maker, device: str) -> None:
    """As net_tap asks for it, which may have several queues; it stays when nobody has it open."""
    if device in (name for _, name in socket.if_nameindex()):  # else it would be opened
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    asked = struct.pack("16sH22x", device.encode(), _TAP | _NO_PI | _MULTI_QUEUE)
    with _TUN.open("r+b", buffering=0) as file:
        fcntl.ioctl(file, _TUNSETIFINDEX, struct.pack("I", devices.index_of(device)))
        fcntl.ioctl(file, _TUNSETIFF, asked)
        maker.made.append(("tun", device))
        _keep(file)


def _keep(file: BinaryIO) -> None:
    fcntl.ioctl(file, _TUNSETPERSIST, 1)


def _join(maker: devices.Maker, device: str, other: str) -> None:
    """What the program of a device sends goes to that of the other, whatever the frame. A bridge
    would keep frames to the address of a device, which is that of its program's port.
    """
    index = devices.index_of(device)
    maker.kernel.tc("add", "clsact", index)
    maker.kernel.tc(
        "add-filter",
        "u32",
        index,
        parent=_INGRESS,
        protocol=_ALL_FRAMES,
        target=_ANY_CLASS,
        keys=[],  # all match
        action={**_PASS_ON, "ifindex": devices.index_of(other)},
    )

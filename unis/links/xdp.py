"""xdp: a pair of kernel devices, on which functions have AF_XDP sockets."""

import platform
import re
from dataclasses import dataclass
from pathlib import Path

from unis.links import devices
from unis.links.kind import LinkPlan, LinkSpec, PortEnds
from unis.links.veth import Veth, VethPlan, details_of

PROGRAM = "unis_xdp.bpf.o"  # what net_af_xdp loads into the kernel (ports/xdp)
_SOCKETS = Path("/proc/net/protocols")
_LEAST_KERNEL = (6, 4)  # maps a ring of a socket that is bound


@dataclass(frozen=True)
class XdpPlan(VethPlan):
    """And what brings the packets."""

    program: Path = Path(PROGRAM)


class Xdp(Veth):
    """As a veth, but for the functions' ports, which are DPDK's own net_af_xdp. Their rings are as
    long as the program asks for; the slots are those of the engine's end.
    """

    name = "xdp"
    driver = "net_af_xdp"
    sockets_told = True
    most_queues = 1
    chooses_driver = False
    most_slots = 2048  # buffers that net_af_xdp offers to the kernel
    # To bind a socket, to attach and to load what brings the packets, to pin what they are in.
    capabilities = ("net_raw", "net_admin", "bpf", "ipc_lock")

    def details(self, spec: LinkSpec, number: int) -> XdpPlan:
        """Other devices than those of a veth of this name."""
        base = devices.base_name(f"{spec.folder}/{spec.run}/{spec.name}/xdp")
        return XdpPlan(
            id=number,
            socket=None,
            devices=(f"{base}a", f"{base}b"),
            engine_end=spec.engine,
            program=spec.loaded / PROGRAM,
        )

    def device_arguments(self, port: PortEnds) -> dict[str, object]:
        """With a program of ours: to attach libxdp's needs sys_admin."""
        details = details_of(port.link)
        program = details.program if isinstance(details, XdpPlan) else PROGRAM
        return {"iface": details.devices[port.end], "xdp_prog": program}

    def clear(self, link: LinkPlan, end: int, namespace: str) -> None:
        """What brings packets stays on the device of a program that was killed, and keeps the next
        one from attaching its own.
        """
        devices.detach_xdp(link.name, details_of(link).devices[end], namespace)

    def hindrance(self) -> str:
        """What the kernel lacks of AF_XDP."""
        release = re.match(r"(\d+)\.(\d+)", platform.release())
        old = release and tuple(map(int, release.groups())) < _LEAST_KERNEL
        there = any(line.startswith("XDP ") for line in _SOCKETS.read_text().splitlines())
        if not there:
            return "this kernel has no AF_XDP; use one with CONFIG_XDP_SOCKETS"
        return f"Linux {platform.release()} is too old; use 6.4 or later" if old else ""

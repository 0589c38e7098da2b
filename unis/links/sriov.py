"""sriov: two virtual functions (VFs) of a port of a NIC, whose own switch carries packets from one
to the other, by destination MAC address.
"""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass

from unis.links import devices, physical
from unis.links.kind import BATCH, LinkPlan, LinkSpec, PortEnds
from unis.links.veth import Veth, VethPlan, details_of
from unis.nics.layout import VirtualLink, mac_of, number_of
from unis.nics.usable import VFIO
from unis.v1 import common_pb2
from unis.v1 import engine_pb2 as pb


@dataclass(frozen=True)
class SriovPlan(VethPlan):
    """With the kernel's driver on its VFs it is a veth to the engine. Else `devices` are empty."""

    _: KW_ONLY
    nic: VirtualLink
    vfio: bool
    wire: bool = False  # end 1 is outside

    @property
    def ids(self) -> tuple[int, ...]:
        """Of each of its VFs: those of another link may begin with its second one."""
        return tuple(map(number_of, self.nic.addresses))

    def fill(self, config: pb.LinkConfig) -> None:
        """Adds it to the engine's message. Of a wire it knows the device alone."""
        if self.wire:
            config.sriov.address0 = self.nic.addresses[0] if self.vfio else self.devices[0]
            return
        next_mac = bytes.fromhex(self.nic.macs[1].replace(":", "")) if self.engine_end else b""
        if self.vfio:
            config.sriov.address0, config.sriov.address1 = self.nic.addresses
            config.sriov.engine_end = self.engine_end
            config.sriov.next_mac = next_mac
        else:
            super().fill(config)
            config.kind = common_pb2.LINK_VETH
            config.veth.next_mac = next_mac
            config.veth.by_nic = True


class Sriov(Veth):
    """Ports on it are those of DPDK's driver for the VF, by vfio; or, on VFs that keep the kernel's
    driver, as those on a veth. What does not go to the address of the other end goes to another
    VF or out of the NIC, so each function writes that address into what it sends.
    """

    name = "sriov"
    driver = "bus_pci"
    on_nics = True
    in_containers = False  # which have no /dev/vfio
    most_queues = 1
    most_slots = 4096

    def hindrance(self) -> str:
        """A machine without such a NIC."""
        return super().hindrance() or physical.missing()

    def numbers(self, spec: LinkSpec) -> Iterable[int]:
        """Those of the VFs that it may have."""
        return [room.id for room in spec.nic.rooms] if spec.nic else []

    def details(self, spec: LinkSpec, number: int) -> SriovPlan:
        """The VF at the end that receives has the lower address, so that the ports of a function
        are in the order of their addresses.
        """
        if spec.nic is None:
            raise ValueError(f"link {spec.name} is on no NIC")
        room = next(room for room in spec.nic.rooms if room.id == number)
        vfs, addresses = room.vfs, room.addresses
        if spec.receiver:  # whose is the first of the pair
            vfs, addresses = vfs[::-1], addresses[::-1]
        macs = tuple(mac_of(f"{spec.run}/{spec.name}/{end}") for end in range(room.count))
        base = devices.base_name(f"{spec.folder}/{spec.run}/{spec.name}/sriov")
        vfio = spec.driver in (None, "vfio")
        return SriovPlan(
            **vars(super().details(spec, number))
            | {"devices": ("" if vfio else f"{base}a", "" if vfio or spec.wire else f"{base}b")},
            vfio=vfio,
            wire=spec.wire,
            nic=VirtualLink(
                run=spec.run,
                port=room.port.address,
                interface=room.port.interface,
                vfs=vfs,
                addresses=addresses,
                macs=macs,
                port_vfs=spec.nic.port_vfs[room.port.address],
                vlan=spec.nic.vlan,
                rate_mbps=spec.nic.rate_mbps,
                spoof_check=spec.nic.spoof_check,
            ),
        )

    def matches(self, link: LinkPlan, spec: LinkSpec) -> bool:
        """Any VFs that it may have will do."""
        there, nic = nic_of(link), spec.nic
        if nic is None or not super().matches(link, spec):
            return False
        has = (there.vlan, there.rate_mbps, there.spoof_check, sriov_of(link).vfio)
        wanted = (nic.vlan, nic.rate_mbps, nic.spoof_check, spec.driver in (None, "vfio"))
        return has == wanted and there.port in {room.port.address for room in nic.rooms}

    def device(self, port: PortEnds) -> str:
        """A PCI device by its address."""
        if sriov_of(port.link).vfio:
            return nic_of(port.link).addresses[port.end]
        return super().device(port)

    def driver_stated(self, link: LinkPlan) -> str:
        """That, whose VFs they are, and what the NIC keeps them to."""
        sriov, nic = sriov_of(link), nic_of(link)
        several = " and ".join(map(str, nic.vfs))
        words = [f", VF{'s' if len(nic.vfs) > 1 else ''} {several} of {nic.interface}"]
        words += [f", MAC {nic.macs[0]}"] if sriov.wire else []
        words += [f", VLAN {nic.vlan}"] if nic.vlan else []
        words += [f", {nic.rate_mbps} Mbps"] if nic.rate_mbps else []
        driver = "" if sriov.vfio else super().driver_stated(link) or ", driver af_packet"
        return "".join([*words, driver])

    def packets(self, link: LinkPlan) -> int:
        """The queues of its end hold as many as the link has slots."""
        sriov = sriov_of(link)
        return 2 * (BATCH + (link.slots if sriov.vfio and sriov.engine_end else 0))

    def made(self, link: LinkPlan) -> str:
        """By this name its VFs are noted."""
        return f"{nic_of(link).run}.{link.name}"

    def make(self, link: LinkPlan) -> None:
        """Makes the VFs, on a port that gets all of them with its first link."""
        sriov = sriov_of(link)
        kernel = None if sriov.vfio else self.devices(link)
        physical.make(self.made(link), sriov.nic, kernel=kernel)

    def is_left(self, name: str) -> bool:
        """Where the kernel did not let it be undone."""
        return physical.is_noted(name)

    def remarks(self, link: LinkPlan) -> Iterable[str]:
        """What the NIC has not taken, as it says."""
        return physical.not_taken(nic_of(link))

    def binds(self, link: LinkPlan) -> tuple[tuple[str, str], ...]:
        """By vfio; drivers of the kernel are there with the VFs."""
        sriov = sriov_of(link)
        return tuple((address, VFIO) for address in sriov.nic.addresses) if sriov.vfio else ()

    def devices(self, link: LinkPlan) -> tuple[str, ...]:
        """None by vfio."""
        return tuple(filter(None, details_of(link).devices))

    def remove(self, name: str) -> list[str]:
        """The VFs; with the last the port is as it was."""
        return physical.release(name)


def sriov_of(link: LinkPlan) -> SriovPlan:
    """What such a link adds to the slots."""
    if not isinstance(link.details, SriovPlan):
        raise ValueError(f"link {link.name} is no sriov")
    return link.details


def nic_of(link: LinkPlan) -> VirtualLink:
    """What it is on the NIC."""
    return sriov_of(link).nic

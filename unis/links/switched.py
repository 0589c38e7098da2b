"""Kinds of links that are two pairs of kernel devices, and something between them."""

from dataclasses import replace

from unis.links import devices
from unis.links.devices import Maker
from unis.links.kind import LinkPlan, LinkSpec
from unis.links.veth import Veth, VethPlan, details_of


class Switched(Veth):
    """As a veth, but for what is between the devices of the two ends."""

    middle_is_device = False  # of the kernel

    def details(self, spec: LinkSpec, number: int) -> VethPlan:
        """Other devices than those of other kinds by this name."""
        base = devices.base_name(f"{spec.folder}/{spec.run}/{spec.name}/{self.name}")
        ends, ports = ((f"{base}{a}", f"{base}{b}") for a, b in ("ab", "cd"))
        return replace(super().details(spec, number), devices=ends, ports=ports)

    def made(self, link: LinkPlan) -> str:
        """What is between: the names of the devices begin with its own."""
        return details_of(link).devices[0].removesuffix("a")

    def make(self, link: LinkPlan) -> None:
        """Makes the devices, and has them carry packets."""
        veth, middle = details_of(link), self.made(link)
        named = [middle] * self.middle_is_device + [*veth.devices]
        with devices.making(link.name, *named) as maker:
            self.add_middle(maker, middle)
            for end, port in zip(veth.devices, veth.ports, strict=True):
                maker.add_pair(end, port)
                maker.start(end)
                self.start_port(maker, port, middle)

    def add_middle(self, maker: Maker, middle: str) -> None:
        """Makes it, if it is a device."""

    def start_port(self, maker: Maker, port: str, middle: str) -> None:  # noqa: ARG002
        """Has a port carry packets, to and from what is between."""
        maker.start(port)

    def remove(self, name: str) -> list[str]:
        """The pairs that are there."""
        return devices.remove([("veth", f"{name}{end}") for end in "ab"])

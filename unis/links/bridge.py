"""bridge: two pairs of kernel devices, whose inner ends are ports of a bridge of the link's own."""

import time
from pathlib import Path

from unis.errors import UnisError
from unis.links import devices, modules
from unis.links.kind import LinkPlan
from unis.links.switched import Switched
from unis.links.veth import details_of

_DEVICES = Path("/sys/class/net")
_SECONDS = 5.0  # until a port forwards
_FORWARDING = "3"  # BR_STATE_FORWARDING
# It floods, for it knows no address: one that learns drops what goes to an address that it has
# seen at the same port.
_SILENT = {
    "IFLA_BR_AGEING_TIME": 0,
    "IFLA_BR_STP_STATE": 0,
    "IFLA_BR_MCAST_SNOOPING": 0,
}
# LLDP and such pass too: 01:80:c2:00:00:0x, but for pause frames, which the kernel never forwards.
_PORT = {
    "IFLA_BRPORT_LEARNING": 0,
    "IFLA_BRPORT_UNICAST_FLOOD": 1,
    "IFLA_BRPORT_GROUP_FWD_MASK": 0xFFFD,
}


class Bridge(Switched):
    """The bridge is a kernel device too."""

    name = "bridge"
    middle_is_device = True
    chooses_driver = False

    def hindrance(self) -> str:
        """A kernel without the module, where that is known."""
        lacking = modules.missing("bridge")
        return "this kernel has no module bridge; use one with CONFIG_BRIDGE" if lacking else ""

    def add_middle(self, maker: devices.Maker, middle: str) -> None:
        """The bridge."""
        maker.add("bridge", middle, *_SILENT.items())
        maker.start(middle)

    def start_port(self, maker: devices.Maker, port: str, middle: str) -> None:
        """Makes it one of the bridge."""
        maker.start(port, master=devices.index_of(middle))
        maker.kernel.brport("set", index=devices.index_of(port), **dict(_PORT))

    def settle(self, link: LinkPlan) -> None:
        """Till both ports forward: before that the bridge drops what comes, and counts nothing."""
        until = time.monotonic() + _SECONDS
        while any(_state(port) != _FORWARDING for port in details_of(link).ports):
            if time.monotonic() > until:
                sentence = f"link {link.name}: the ports of bridge {self.made(link)} do not forward"
                raise UnisError(f"{sentence} after {_SECONDS:g} s", bad_input=False)
            time.sleep(0.001)

    def remove(self, name: str) -> list[str]:
        """All of the five that are there."""
        return [*super().remove(name), *devices.remove([("bridge", name)])]


def _state(port: str) -> str:
    return (_DEVICES / port / "brport/state").read_text().strip()

"""A network card and its virtual functions, by the kernel's files and by netlink alone: what tests
compare UNiS with must not be UNiS.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute

from tests.machine.machine import card_address, card_mac

DEVICES = Path("/sys/bus/pci/devices")
MOST = 7  # virtual functions of a card
_SECONDS = 15.0  # until a device must be there: a bound, not an expectation
_MORE = 1  # RTEXT_FILTER_VF: asks for virtual functions too


def wait_for(condition: Callable[[], bool], complaint: str, seconds: float = _SECONDS) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, complaint
        time.sleep(0.05)


@dataclass(frozen=True)
class Function:
    """A virtual function."""

    address: str
    mac: str

    @property
    def device(self) -> Path:
        return DEVICES / self.address

    @property
    def driver(self) -> str | None:
        return driver_of(self.device)

    @property
    def interface(self) -> str:
        """The kernel's, where its driver is igbvf."""
        return interface_of(self.device)

    def bind(self, driver: str) -> None:
        """Has that driver alone take it; what had it lets it go first."""
        if self.driver:
            (self.device / "driver" / "unbind").write_text(self.address)
        (self.device / "driver_override").write_text(driver)
        Path("/sys/bus/pci/drivers_probe").write_text(self.address)
        assert self.driver == driver


class Card:
    """A card, by its place."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.address = card_address(number)
        self.device = DEVICES / self.address
        self.mac = card_mac(number)
        self.interface = interface_of(self.device)

    def up(self) -> None:
        bring_up(self.interface)

    def make(self, count: int, driver: str) -> list[Function]:
        """Virtual functions with addresses of ours, at a driver. Those that are there go."""
        self.restore()
        (self.device / "sriov_drivers_autoprobe").write_text("0")
        (self.device / "sriov_numvfs").write_text(str(count))
        functions = []
        for number in range(count):
            mac = f"02:00:00:00:{self.number + 1:02x}:{number:02x}"
            self.set(number, mac=mac)
            address = (self.device / f"virtfn{number}").resolve().name
            functions.append(Function(address, mac))
        for function in functions:
            function.bind(driver)
        if driver == "igbvf":
            bring_up(*(function.interface for function in functions))
        return functions

    def set(self, number: int, **what: Any) -> None:
        """`ip link set … vf NUMBER …`."""
        with IPRoute() as kernel:
            kernel.link("set", index=self._index(kernel), vf={"vf": number, **what})

    def get(self, number: int, what: str) -> dict[str, Any]:
        """What the driver of the card says of a virtual function: an attribute IFLA_VF_…"""
        with IPRoute() as kernel:
            (link,) = kernel.link("get", index=self._index(kernel), ext_mask=_MORE)
            info = link.get_attr("IFLA_VFINFO_LIST").get_attrs("IFLA_VF_INFO")[number]
            return dict(info.get_attr(what))

    def _index(self, kernel: IPRoute) -> int:
        (index,) = kernel.link_lookup(ifname=self.interface)
        return int(index)

    def restore(self) -> None:
        """No virtual function is left. Who uses them must have ended."""
        (self.device / "sriov_numvfs").write_text("0")
        (self.device / "sriov_drivers_autoprobe").write_text("1")


def driver_of(device: Path) -> str | None:
    driver = device / "driver"
    return driver.resolve().name if driver.exists() else None


def interface_of(device: Path) -> str:
    found: list[str] = []

    def is_there() -> bool:
        with suppress(FileNotFoundError):
            found[:] = [path.name for path in (device / "net").iterdir()]
        return bool(found)

    wait_for(is_there, f"{device.name} has no interface")
    return found[0]


def bring_up(*interfaces: str) -> None:
    """Up, and with a carrier."""
    with IPRoute() as kernel:
        for interface in interfaces:
            (index,) = kernel.link_lookup(ifname=interface)
            kernel.link("set", index=index, state="up")
    for interface in interfaces:
        wait_for(partial(_has_carrier, interface), f"{interface} has no carrier")


def _has_carrier(interface: str) -> bool:
    return (Path("/sys/class/net") / interface / "carrier").read_text().strip() == "1"

"""An emulation of a NIC with virtual functions: a folder like sysfs, and what answers like netlink.
No device is behind it: it shows the order in which the kernel is asked, not what hardware does.
"""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyroute2 import NetlinkError

from unis.nics.layout import NicPort

PF, INTERFACE = "0000:01:00.0", "enp1s0f0"


class Message(dict[str, Any]):
    """As pyroute2 has them."""

    def get_attr(self, name: str) -> Any:
        return self.get(name)

    def get_attrs(self, name: str) -> list[Any]:
        return list(self.get(name, []))


@dataclass
class FakeNic:
    """One port; `log` is what it was asked for, in order."""

    root: Path
    total: int = 7
    grouped: bool = False  # whether its VFs share an IOMMU group
    refusing: frozenset[str] = frozenset()  # attributes of VFs that it does not take
    hanging: frozenset[str] = frozenset()  # files of sysfs to which a write does not end
    address: str = PF
    interface: str = INTERFACE
    log: list[str] = field(default_factory=list)
    vfs: dict[int, dict[str, Any]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)  # interfaces, by their numbers

    def __post_init__(self) -> None:
        (self.root / "class/net").mkdir(parents=True, exist_ok=True)
        (self.root / "bus/pci/drivers/vfio-pci").mkdir(parents=True, exist_ok=True)
        files = {"totalvfs": self.total, "numvfs": 0, "offset": 128, "stride": 2}
        folder = self._device(self.address, 1, "igb")
        for name, text in {**files, "drivers_autoprobe": 1}.items():
            (folder / f"sriov_{name}").write_text(f"{text}\n")
        self._interface(self.address, self.interface, "0x1002")

    @property
    def port(self) -> NicPort:
        return NicPort(self.address, self.interface, self.total)

    def _device(self, address: str, group: int, driver: str = "") -> Path:
        folder = self.root / "bus/pci/devices" / address
        folder.mkdir(parents=True)
        for name, text in {"class": "0x020000", "vendor": "0x8086", "device": "0x10c9"}.items():
            (folder / name).write_text(text)
        (folder / "driver_override").write_text("(null)\n")
        members = self.root / f"kernel/iommu_groups/{group}/devices"
        members.mkdir(parents=True, exist_ok=True)
        (members / address).symlink_to(folder)
        (folder / "iommu_group").symlink_to(members.parent)
        if driver:
            self._attach(folder, driver)
        return folder

    def _attach(self, folder: Path, driver: str) -> None:
        drivers = self.root / "bus/pci/drivers" / driver
        drivers.mkdir(parents=True, exist_ok=True)
        (folder / "driver").symlink_to(drivers)

    def _interface(self, address: str, name: str, flags: str) -> None:
        folder = self.root / "bus/pci/devices" / address / "net" / name
        folder.mkdir(parents=True)
        for file, text in {"flags": flags, "carrier": "0", "mtu": "1500"}.items():
            (folder / file).write_text(f"{text}\n")
        (self.root / "class/net" / name).symlink_to(folder)
        self.names[max(self.names, default=0) + 1] = name

    def rename(self, index: int, name: str) -> None:
        """An interface, as udev does too."""
        old = self.root / "class/net" / self.names[index]
        folder = old.resolve()
        old.unlink()
        self.names[index] = name
        (self.root / "class/net" / name).symlink_to(folder.rename(folder.parent / name))

    def _interfaces_go(self, device: Path) -> None:
        for folder in (device / "net").glob("*"):
            (self.root / "class/net" / folder.name).unlink()
            self.names = {at: name for at, name in self.names.items() if name != folder.name}
        shutil.rmtree(device / "net", ignore_errors=True)

    # -------------------------------------------------------------- sysfs

    def write(self, file: Path, text: str, seconds: float = 1.0, **_: object) -> None:
        """In the place of `unis.nics.binding.write`."""
        where = file.parent.resolve().name
        if file.name in self.hanging:
            raise TimeoutError(errno.ETIMEDOUT, f"nobody answers within {seconds:g} s", str(file))
        self.log.append(f"{file.name} {text.strip()}" + f" of {where}" * (where != self.address))
        match file.name:
            case "sriov_numvfs":
                self._count(int(text))
            case "drivers_probe":
                folder = self.root / "bus/pci/devices" / text
                driver = (folder / "driver_override").read_text().strip()
                self._attach(folder, driver)
                if driver == "igbvf":
                    self._interface(text, f"eth{len(self.names)}", "0x1002")
                return
            case "unbind":
                folder = self.root / "bus/pci/devices" / text
                (folder / "driver").unlink()
                self._interfaces_go(folder)
                return
        file.write_text(f"{text}\n")

    def _count(self, count: int) -> None:
        pf = self.root / "bus/pci/devices" / self.address
        for vf in [*self.vfs][count:]:
            address = self.port.address_of(vf)
            group = (pf.parent / address / "iommu_group").resolve()
            (group / "devices" / address).unlink()
            self._interfaces_go(pf.parent / address)
            shutil.rmtree(pf.parent / address)
            (pf / f"virtfn{vf}").unlink()
            del self.vfs[vf]
        for vf in range(len(self.vfs), count):
            address = self.port.address_of(vf)
            folder = self._device(address, 9 if self.grouped else 10 + vf)
            (folder / "physfn").symlink_to(pf)
            (pf / f"virtfn{vf}").symlink_to(folder)
            self.vfs[vf] = {"mac": "00:00:00:00:00:00", "vlan": 0, "rate": 0, "spoofchk": 1}

    # -------------------------------------------------------------- netlink

    @contextmanager
    def netlink(self) -> Iterator["FakeNic"]:
        """In the place of `unis.links.netlink.netlink`."""
        yield self

    def link_lookup(self, ifname: str) -> list[int]:
        return [index for index, name in self.names.items() if name == ifname]

    def get_links(self, index: int) -> list[Message]:
        return [Message(IFLA_IFNAME=self.names[index])]

    def get_addr(self, **_: object) -> list[Message]:
        return []

    def link(self, do: str, index: int, **changes: Any) -> list[Message]:
        name = self.names[index]
        if do == "get":
            return [Message(IFLA_VFINFO_LIST=Message(IFLA_VF_INFO=[*map(self._told, self.vfs)]))]
        if vf := changes.pop("vf", None):
            self._set_vf(vf)
        for key, value in changes.items():
            self.log.append(f"{name} {key} {value}")
            if key == "state":
                folder = self.root / "class/net" / name
                (folder / "flags").write_text("0x1003" if value == "up" else "0x1002")
                (folder / "carrier").write_text("1" if value == "up" else "0")
            if key == "ifname":
                self.rename(index, value)
        return []

    def _set_vf(self, change: dict[str, Any]) -> None:
        vf = change.pop("vf")
        ((key, value),) = change.items()
        if key in self.refusing:
            raise NetlinkError(errno.EOPNOTSUPP)
        value = value["max_tx_rate"] if key == "rate" else value
        self.log.append(f"VF {vf} {key} {value}")
        self.vfs[vf][key] = value

    def _told(self, vf: int) -> Message:
        has = self.vfs[vf]
        return Message(
            IFLA_VF_MAC={"vf": vf, "mac": has["mac"]},
            IFLA_VF_VLAN={"vf": vf, "vlan": has["vlan"]},
            IFLA_VF_RATE={"vf": vf, "max_tx_rate": has["rate"]},
            IFLA_VF_SPOOFCHK={"vf": vf, "spoofchk": has["spoofchk"]},
        )

"""NICs as the kernel shows them in sysfs.

Nothing here changes anything. `root` is where sysfs is mounted: tests have a folder like it.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from unis.errors import UnisError

SYS = Path("/sys")
_ADDRESS = re.compile(r"(?:([0-9a-f]{4}):)?([0-9a-f]{2}:[01][0-9a-f]\.[0-7])", re.IGNORECASE)
_NAME = re.compile(r"[^\s/:\0]{1,15}")  # which the kernel makes a file of
_NETWORK = 0x02  # class of PCI devices
_MOST_VFS = 0xFFFF  # their number has 16 bits
UP = 0x1  # IFF_UP


@dataclass(frozen=True)
class Device:
    """A PCI device of the network class."""

    address: str  # with its domain: 0000:03:00.0
    vendor: int
    product: int
    driver: str | None  # the kernel's; None: no driver has it
    interfaces: tuple[str, ...]  # network interfaces, of this network namespace
    iommu_group: int | None  # None: no IOMMU is in use
    group_peers: tuple[str, ...]  # other devices of that group
    numa_node: int | None  # None: not known, or the machine has one node only
    total_vfs: int  # that it can have; 0: no SR-IOV
    vfs: tuple[str, ...]  # addresses of those that it has, VF 0 first
    physical: str | None  # of a VF: the address of its NIC


def full_address(text: str) -> str:
    """A PCI address with its domain, in lower case; empty if `text` is none."""
    match = _ADDRESS.fullmatch(text)
    return f"{match[1] or '0000'}:{match[2]}".lower() if match else ""


def is_name(text: str) -> bool:
    """Whether a network interface can be called so."""
    return text not in (".", "..") and _NAME.fullmatch(text) is not None


def folder_of(address: str, root: Path = SYS) -> Path:
    """The folder of a PCI device."""
    return root / "bus/pci/devices" / address


def driver_of(address: str, root: Path = SYS) -> str | None:
    """The driver that has a PCI device; None: no driver, or no such device."""
    return _name_behind(folder_of(address, root) / "driver")


def devices(root: Path = SYS) -> list[Device]:
    """All PCI devices of the network class, by address."""
    return [
        _read(folder, root)
        for folder in _listed(root / "bus/pci/devices")
        if number(folder / "class", 0) >> 16 == _NETWORK
    ]


def find(name_or_address: str, root: Path = SYS) -> Device:
    """The device with this PCI address, or the one behind this network interface."""
    address = full_address(name_or_address)
    for device in devices(root):
        if device.address == address or name_or_address in device.interfaces:
            return device
    if address and folder_of(address, root).exists():
        raise UnisError(f"PCI device {address} is no network device")
    what = f"PCI device {address}" if address else f"PCI device behind `{name_or_address}`"
    raise UnisError(f"there is no {what} here: `unis doctor` lists NICs")


def _read(folder: Path, root: Path) -> Device:
    address = folder.name
    group = _name_behind(folder / "iommu_group")
    node = number(folder / "numa_node", -1)
    return Device(
        address=address,
        vendor=number(folder / "vendor", 0),
        product=number(folder / "device", 0),
        driver=driver_of(address, root),
        interfaces=tuple(sorted(_interfaces(folder))),
        iommu_group=int(group) if group and group.isdecimal() else None,
        group_peers=tuple(
            peer.name for peer in _listed(folder / "iommu_group/devices") if peer.name != address
        ),
        numa_node=node if node >= 0 else None,
        total_vfs=min(max(0, number(folder / "sriov_totalvfs", 0)), _MOST_VFS),
        vfs=tuple(_vfs(folder)),
        physical=_name_behind(folder / "physfn"),
    )


def _interfaces(folder: Path) -> Iterator[str]:
    """Those of a virtio device are below its device of that bus."""
    for below in (folder, *folder.glob("virtio[0-9]*")):
        yield from (interface.name for interface in _listed(below / "net"))


def _vfs(folder: Path) -> Iterator[str]:
    links = [link for link in folder.glob("virtfn*") if link.name[6:].isdecimal()]
    for link in sorted(links, key=lambda link: int(link.name[6:])):
        if address := _name_behind(link):
            yield address


def _name_behind(link: Path) -> str | None:
    try:
        return link.readlink().name
    except OSError:
        return None


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def above(interface: str, root: Path = SYS) -> list[str]:
    """Interfaces that are on it, or that it is part of: VLANs, bridges, bonds."""
    return [link.name[6:] for link in sorted((root / "class/net" / interface).glob("upper_*"))]


def is_up(interface: str, root: Path = SYS) -> bool:
    """As it is set, with or without a carrier."""
    return bool(flags(interface, root) & UP)


def flags(interface: str, root: Path = SYS) -> int:
    """Its IFF_ bits; 0: it is not there."""
    return number(root / "class/net" / interface / "flags")


def content(file: Path) -> str:
    """Of a file, without the line's end; empty if there is none."""
    with suppress(OSError):
        return file.read_text(errors="replace").strip()
    return ""


def number(file: Path, absent: int = 0) -> int:
    """In a file; `absent` if there is none."""
    with suppress(ValueError):
        return int(content(file), 0)
    return absent

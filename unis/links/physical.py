"""Ports of NICs, which are physical functions (PFs): virtual functions (VFs) are made on them, and
each port is put back as it was found.

A file for each port tells how it was found, which run has it, and which VFs each of its links has.
It is written before anything is done, so whoever finds it can undo that.
"""

import errno
import fcntl
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unis.errors import UnisError
from unis.links import devices
from unis.links.netlink import netlink, use_by_host
from unis.nics import binding, sysfs, usable
from unis.nics.layout import NicPort, VirtualLink
from unis.nics.sysfs import (
    SYS,
    Device,
    above,
    content,
    find,
    folder_of,
    full_address,
    is_name,
    is_up,
    number,
)

if TYPE_CHECKING:
    from pyroute2 import IPRoute

_SETTINGS = Path("/proc/sys/net")
_NUMBER, _AUTOPROBE = "sriov_numvfs", "sriov_drivers_autoprobe"
_MAKING_SECONDS = 30.0  # to make VFs, or to remove them: some drivers wait for each
_CARRIER_SECONDS = 15.0
_INTERFACE_SECONDS = 5.0  # until a driver has made the interface of a VF
_LOOK_SECONDS = 0.02
_OFF = "SR-IOV, or it is off in the firmware"
_OTHER_KIND = "turn it on, or make the links of another kind"
_RENAMES = 3  # udev renames an interface once
_WITH_VFS = 1  # RTEXT_FILTER_VF
_FRESH = ".new"  # suffix of a file that is being written
_VERSION = 1  # of the files; a change that old readers would take for something else raises it
# The kernel's driver of VFs, by that of their PF; others have one driver for both.
_VF_DRIVERS = {"igb": "igbvf", "ixgbe": "ixgbevf", "i40e": "iavf", "ice": "iavf"}


@dataclass(frozen=True)
class FoundPort:
    """A port as it was found, and what is on it."""

    address: str
    interface: str
    run: str  # that has it
    up: bool
    autoprobe: str
    ipv6: str  # disable_ipv6; empty: a kernel without IPv6
    links: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # VFs, by link

    def __post_init__(self) -> None:
        # Root reads this from a file, makes paths of it, and writes it to files of the kernel.
        texts = all(isinstance(text, str) for text in (self.run, self.autoprobe, self.ipv6))
        if not (texts and full_address(self.address) == self.address and is_name(self.interface)):
            raise ValueError(f"not a port: {self}")

    @property
    def file(self) -> Path:
        """Where this stands."""
        return records() / f"{self.address}.json"


def records() -> Path:
    """Where the files are."""
    return Path(os.environ.get("UNIS_RUN_DIR") or "/run/unis").absolute() / "nics"


# ------------------------------------------------------------------ to plan by


def port_for(name: str, run: str, root: Path = SYS) -> NicPort:
    """The port of a NIC that a file names, by interface or address. UnisError in one sentence: the
    run can have no VFs there.
    """
    device = find(name, root)
    folder = folder_of(device.address, root)
    if device.physical:
        raise UnisError(f"{name} is a virtual function itself; name its NIC, {device.physical}")
    if device.total_vfs < 2:
        others = [" or ".join([*other.interfaces, other.address]) for other in with_vfs(root)]
        raise UnisError(
            f"{name} has no {_OFF}; " + (f"name {', '.join(others)}" if others else _OTHER_KIND)
        )
    if len(device.interfaces) != 1:
        has = f"driver {device.driver} has" if device.driver else "no driver has"
        raise UnisError(
            f"{has} {name}, without an interface here; give it to the kernel's own driver, which "
            "makes its virtual functions, in the network namespace of UNiS"
        )
    record = _read(device.address)
    if device.vfs and (record is None or record.run != run):
        whose = f"of run `{record.run}`" if record else "which UNiS has not made"
        raise UnisError(
            f"{name} has {len(device.vfs)} virtual functions already, {whose}; name another NIC, "
            + (
                f"or run `unis down {record.run}`"
                if record
                else f"or remove them with `echo 0 > {folder}/{_NUMBER}`"
            )
        )
    if not device.vfs and (why := _in_use(device.interfaces[0], root)):
        raise UnisError(
            f"{name} is in use: {why}; to make virtual functions would cut its link for seconds"
        )
    return NicPort(
        address=device.address,
        interface=device.interfaces[0],
        vfs=len(device.vfs) or device.total_vfs,
        made=bool(device.vfs),
        offset=number(folder / "sriov_offset"),
        stride=number(folder / "sriov_stride"),
    )


def with_vfs(root: Path = SYS) -> list[Device]:
    """The NICs here that can have the VFs of a link."""
    return [device for device in sysfs.devices(root) if device.total_vfs >= 2]


def missing() -> str:
    """Whether no NIC here can have them, and what to do then; empty: one can."""
    return "" if with_vfs(sysfs.SYS) else f"no NIC here has {_OFF}; {_OTHER_KIND}"


def vfio_hindrance(address: str, root: Path = SYS) -> str:
    """Why programs cannot have VFs of a port by vfio, as far as the port tells; empty: they can."""
    device = find(address, root)
    if usable.is_bifurcated(device):
        return (
            f"DPDK has its virtual functions beside driver {device.driver}, not by vfio; state "
            "driver: af_packet"
        )
    if device.iommu_group is None:
        return (
            "no IOMMU guards memory from its virtual functions; boot with intel_iommu=on or "
            "amd_iommu=on, or state driver: af_packet"
        )
    return ""


def _in_use(interface: str, root: Path) -> str:
    for name in above(interface, root):
        return f"{name} is on it"
    try:
        why = use_by_host(interface)
    except OSError as error:
        raise UnisError(
            f"cannot look at interface {interface}: {os.strerror(error.errno or 0)}",
            bad_input=False,
        ) from None
    return f"it {why}" if why else ""


# ------------------------------------------------------------------ a link is made


def make(name: str, link: VirtualLink, *, kernel: tuple[str, ...] | None, root: Path = SYS) -> None:
    """Makes the VFs of a link, on a port that gets all of its VFs with the first link. `kernel`:
    names of the interfaces that VFs with the kernel's driver get; None: the VFs get no driver.

    UnisError if it cannot be: then nothing of the link is left, unless `is_noted`.
    """
    try:
        with _locked():
            _claim(name, link, root)
            try:
                if not number(folder_of(link.port, root) / _NUMBER):
                    _make_all(link, root)
                _check(link, needs_group=kernel is None, root=root)
                _set_up(link)
                for vf, interface in enumerate(kernel or ()):
                    _give_to_kernel(name, link.port, link.addresses[vf], interface, root)
            except (OSError, UnisError) as error:
                left = _release(name, root)
                told = str(error) if isinstance(error, UnisError) else _sentence(error)
                raise UnisError(
                    "; ".join([f"link {name}: {told}", *left]), bad_input=False
                ) from None
    except OSError as error:  # of the record
        raise UnisError(f"link {name}: {_sentence(error)}", bad_input=False) from None


def _claim(name: str, link: VirtualLink, root: Path) -> None:
    record = _read(link.port)
    if record is None:
        device = find(link.port, root)
        if device.vfs:
            raise UnisError(f"{link.interface} has virtual functions already", bad_input=False)
        record = _as_found(device, link, root)
    if record.run != link.run:
        raise UnisError(f"run `{record.run}` has {link.interface}", bad_input=False)
    _write(replace(record, links={**record.links, name: link.vfs}))


def _as_found(device: Device, link: VirtualLink, root: Path) -> FoundPort:
    interface = link.interface
    return FoundPort(
        address=device.address,
        interface=interface,
        run=link.run,
        up=is_up(interface, root),
        autoprobe=content(folder_of(device.address, root) / _AUTOPROBE),
        ipv6=content(_ipv6(interface)),
    )


def _make_all(link: VirtualLink, root: Path) -> None:
    """The kernel's driver must take no VF before it has its address."""
    folder = folder_of(link.port, root)
    if (folder / _AUTOPROBE).exists():
        binding.write(folder / _AUTOPROBE, "0")
    binding.write(folder / _NUMBER, str(link.port_vfs), _MAKING_SECONDS)
    interface = link.interface
    if not is_up(interface, root):
        if _ipv6(interface).exists():  # what the kernel greets with comes to every VF
            _ipv6(interface).write_text("1")
        _set_link(interface, up=True)
    until = time.monotonic() + _CARRIER_SECONDS
    while content(root / "class/net" / interface / "carrier") != "1":
        if time.monotonic() > until:
            raise UnisError(
                f"{interface} has no carrier after {_CARRIER_SECONDS:g} s, and without it the "
                "NIC's switch carries nothing; is there a cable in it?",
                bad_input=False,
            )
        time.sleep(_LOOK_SECONDS)


def _check(link: VirtualLink, *, needs_group: bool, root: Path) -> None:
    """The VFs are where the plan has them, and each is alone in its IOMMU group."""
    there = find(link.port, root).vfs
    for vf, address in zip(link.vfs, link.addresses, strict=True):
        if vf >= len(there):
            raise UnisError(
                f"{link.interface} has {len(there)} virtual functions, and their number stays "
                "while the run has them; `unis down` and `unis up` make more",
                bad_input=False,
            )
        if there[vf] != address:
            raise UnisError(
                f"virtual function {vf} of {link.interface} is at {there[vf]}, not {address}",
                bad_input=False,
            )
        if needs_group and (peers := find(address, root).group_peers):
            raise UnisError(
                f"{address} shares its IOMMU group with {', '.join(peers)}, so no program can "
                "have it by vfio; move the NIC to another slot, or state driver: af_packet",
                bad_input=False,
            )


def _set_up(link: VirtualLink) -> None:
    """What the NIC does not take is an error where others' packets could come."""
    with netlink() as kernel:
        index = _index(kernel, link.interface)
        for at, vf in enumerate(link.vfs):
            wanted = _wanted(link, at)
            for key, value in wanted.items():
                with suppress(OSError):  # what it reads back shows it
                    _set_vf(kernel, index, vf, key, value)
            has = _vf(kernel, index, vf)
            for key, called in (("mac", "MAC address"), ("vlan", "VLAN")):
                if has.get(key) != wanted[key]:
                    raise UnisError(
                        f"VF {vf} of {link.interface} has not taken its {called}, {wanted[key]}: "
                        f"it has {has.get(key)}",
                        bad_input=False,
                    )


def not_taken(link: VirtualLink) -> list[str]:
    """Of the rest, what the NIC does not say that it has, as sentences."""
    told: list[str] = []
    try:
        with netlink() as kernel:
            index = _index(kernel, link.interface)
            has_now = [_vf(kernel, index, vf) for vf in link.vfs]
    except OSError as error:
        return [f"it is not known what {link.interface} has taken: {_sentence(error)}"]
    for at, (vf, has) in enumerate(zip(link.vfs, has_now, strict=True)):
        wanted = _wanted(link, at)
        name = f"VF {vf} of {link.interface}"
        if bool(has.get("spoofchk")) != link.spoof_check:
            told.append(f"{name} keeps its spoof check {'off' if link.spoof_check else 'on'}")
        if has.get("rate") != wanted["rate"]:
            limit = f"{has['rate']} Mbps" if has.get("rate") else "none"
            told.append(
                f"{name} has not taken the rate limit of {wanted['rate']} Mbps: it has {limit}"
            )
    return told


def _wanted(link: VirtualLink, at: int) -> dict[str, Any]:
    """In the order in which it is set."""
    return {
        "mac": link.macs[at],
        "spoofchk": int(link.spoof_check),
        "vlan": link.vlan,
        "trust": 0,
        "rate": link.rate_mbps,
    }


def _set_vf(kernel: "IPRoute", index: int, vf: int, key: str, value: object) -> None:
    from pyroute2 import NetlinkError

    told = {"min_tx_rate": 0, "max_tx_rate": value} if key == "rate" else value
    try:
        kernel.link("set", index=index, vf={"vf": vf, key: told})
    except NetlinkError as error:
        raise OSError(error.code, os.strerror(error.code or 0)) from None


def _vf(kernel: "IPRoute", index: int, vf: int) -> dict[str, Any]:
    """What the NIC says of a VF."""
    (link,) = kernel.link("get", index=index, ext_mask=_WITH_VFS)
    listed = link.get_attr("IFLA_VFINFO_LIST")
    for one in listed.get_attrs("IFLA_VF_INFO") if listed else ():
        mac = one.get_attr("IFLA_VF_MAC")
        if mac and mac["vf"] == vf:
            vlan, rate = one.get_attr("IFLA_VF_VLAN"), one.get_attr("IFLA_VF_RATE")
            spoof = one.get_attr("IFLA_VF_SPOOFCHK")
            return {
                "mac": mac["mac"],
                "vlan": vlan["vlan"] if vlan else 0,
                "rate": rate["max_tx_rate"] if rate else 0,
                "spoofchk": spoof["spoofchk"] if spoof else 0,
            }
    return {}


def _give_to_kernel(name: str, port: str, vf: str, interface: str, root: Path) -> None:
    """Has the kernel's driver make an interface of a VF, on which nothing but programs sends."""
    usual = find(port, root).driver or ""
    binding.bind(vf, _VF_DRIVERS.get(usual, usual), root)
    with netlink() as kernel:
        index = _index_of(kernel, vf, root)
        for _ in range(_RENAMES):
            kernel.link("set", index=index, state="down")
            kernel.link("set", index=index, ifname=interface)
            devices.start_function(kernel, name, interface, index)
            _let_udev_end()
            (link,) = kernel.get_links(index)
            if (has := link.get_attr("IFLA_IFNAME")) == interface:
                return
    raise UnisError(
        f"something renames the interface of {vf} to {has}, again and again; is there a rule of "
        "udev's that does?",
        bad_input=False,
    )


def _let_udev_end() -> None:
    """It renames interfaces a moment after they have come, whatever they are called by then."""
    with suppress(OSError, subprocess.TimeoutExpired):  # without udev nobody renames any
        subprocess.run(
            ["udevadm", "settle", f"--timeout={_INTERFACE_SECONDS:g}"],
            capture_output=True,
            check=False,
            timeout=2 * _INTERFACE_SECONDS,
        )


def _index_of(kernel: "IPRoute", vf: str, root: Path) -> int:
    """Of its interface, as soon as there is one, which udev may rename just now."""
    until = time.monotonic() + _INTERFACE_SECONDS
    while True:
        for name in find(vf, root).interfaces:
            for index in kernel.link_lookup(ifname=name):
                return int(index)
        if time.monotonic() > until:
            raise UnisError(f"{vf} has a driver and no interface", bad_input=False)
        time.sleep(_LOOK_SECONDS)


# ------------------------------------------------------------------ and goes


def release(name: str, root: Path = SYS) -> list[str]:
    """Removes the VFs of a link, and with the last link puts the port back as it was found.

    Sentences of what could not be; then the file stays, and it can be tried again. Programs that
    had the VFs have ended: the kernel would wait for them.
    """
    try:
        with _locked():
            return _release(name, root)
    except OSError as error:
        return [f"link {name}: {_sentence(error)}"]
    except UnisError as error:  # the NIC went just now
        return [f"link {name}: {error}"]


def is_noted(name: str) -> bool:
    """Whether something of a link may be left."""
    record, unread = _noted(name)
    return record is not None or bool(unread)


def _noted(name: str) -> tuple[FoundPort | None, list[str]]:
    """The port that a link is on; if it is on none, sentences on the files that cannot be read."""
    unread: list[str] = []
    for address in [file.stem for file in records().glob("*.json")]:
        try:
            record = _read(address)
        except UnisError as error:
            unread.append(str(error))
        else:
            if record and name in record.links:
                return record, []
    return None, unread


def _release(name: str, root: Path) -> list[str]:
    record, unread = _noted(name)
    if record is None:
        return [f"link {name}: {sentence}" for sentence in unread]
    problems: list[str] = []
    if not folder_of(record.address, root).exists():  # the NIC is gone
        record.file.unlink(missing_ok=True)
        return []
    device = find(record.address, root)
    for vf in record.links[name]:
        if vf < len(device.vfs):
            problems += binding.restore(binding.Binding(device.vfs[vf], None, ""), root)
    others = {link: vfs for link, vfs in record.links.items() if link != name}
    if not others and not problems:
        problems += _put_back(record, root)
    if problems:
        return problems
    if others:
        _write(replace(record, links=others))
    else:
        record.file.unlink(missing_ok=True)
    return []


def _put_back(record: FoundPort, root: Path) -> list[str]:
    folder = folder_of(record.address, root)
    try:
        if number(folder / _NUMBER):
            binding.write(folder / _NUMBER, "0", _MAKING_SECONDS)
        if record.autoprobe and content(folder / _AUTOPROBE) != record.autoprobe:
            binding.write(folder / _AUTOPROBE, record.autoprobe)
        if not record.up and is_up(record.interface, root):
            _set_link(record.interface, up=False)
        if not record.up and record.ipv6 and _ipv6(record.interface).exists():
            _ipv6(record.interface).write_text(record.ipv6)
    except OSError as error:
        return [f"{record.interface} is not as it was: {_sentence(error)}"]
    return []


# ------------------------------------------------------------------ files


@contextmanager
def _locked() -> Iterator[None]:
    records().mkdir(mode=0o755, parents=True, exist_ok=True)
    descriptor = os.open(records(), os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for left in records().glob(f"*{_FRESH}"):  # by one that was killed while it wrote
            left.unlink()
        yield
    finally:
        os.close(descriptor)


def _read(address: str) -> FoundPort | None:
    """UnisError: the file cannot be read, or another version of UNiS has written it."""
    file = records() / f"{address}.json"
    try:
        data = json.loads(file.read_text())
        version = data.pop("version", 1)  # older files have none
        if version != _VERSION:
            raise ValueError(
                f"another version of UNiS has written it: it has version {version}, and this "
                f"`unis` reads {_VERSION}"
            )
        links = {str(link): tuple(map(int, vfs)) for link, vfs in data.pop("links").items()}
        record = FoundPort(**data, links=links)
        if record.file != file:
            raise ValueError(f"it is about {record.address}")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnisError(
            f"cannot read {file}: {os.strerror(error.errno or 0)}", bad_input=False
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnisError(
            f"cannot read {file}: {_fault(error)}; see to it that NIC {address} is as you want it, "
            "and remove the file",
            bad_input=False,
        ) from None
    return record


def _fault(error: Exception) -> str:
    """Of a file, in a line."""
    return str(error) if isinstance(error, ValueError) else "it is no note of a NIC"


def _write(record: FoundPort) -> None:
    fresh = record.file.with_suffix(_FRESH)
    fresh.write_text(json.dumps({"version": _VERSION, **asdict(record)}, indent=1))
    fresh.replace(record.file)


# ------------------------------------------------------------------ small things


def _set_link(interface: str, *, up: bool) -> None:
    with netlink() as kernel:
        kernel.link("set", index=_index(kernel, interface), state="up" if up else "down")


def _index(kernel: "IPRoute", interface: str) -> int:
    for index in kernel.link_lookup(ifname=interface):
        return int(index)
    raise OSError(errno.ENODEV, os.strerror(errno.ENODEV), interface)


def _ipv6(interface: str) -> Path:
    return _SETTINGS / f"ipv6/conf/{interface}/disable_ipv6"


def _sentence(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"{os.strerror(error.errno or 0) if error.errno else error}{where}"

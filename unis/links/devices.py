"""Kernel devices that links are made of: made so that nothing but programs sends on them."""

import errno
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unis.errors import UnisError
from unis.links import namespaces
from unis.links.netlink import netlink

if TYPE_CHECKING:
    from pyroute2 import IPRoute

_MTU = 1504  # bytes: frames of 1518, with a VLAN tag too
_NIC_MTU = 1500  # the NIC itself adds tags
_ALIAS = "unis link"
_SETTINGS = Path("/proc/sys/net")
# The kernel neither greets nor answers nor passes on.
_SILENT = {
    "ipv6/conf/{}/disable_ipv6": "1",
    "ipv4/conf/{}/forwarding": "0",
    "ipv4/conf/{}/drop_unicast_in_l2_multicast": "1",
}
_UP, _NOARP, _MULTICAST = 0x1, 0x80, 0x1000  # IFF_ of the kernel


class Maker:
    """Makes the devices of one link."""

    def __init__(self, kernel: "IPRoute", link: str) -> None:
        self.kernel = kernel
        self._link = link
        self.made: list[tuple[str, str]] = []  # kind and name

    def add(self, kind: str, device: str, *settings: tuple[str, object]) -> None:
        """Makes a device, with settings of its kind."""
        info = {"attrs": [("IFLA_INFO_KIND", kind), ("IFLA_INFO_DATA", {"attrs": [*settings]})]}
        self.kernel.link("add", ifname=device, index=index_of(device), linkinfo=info)
        self.made.append((kind, device))

    def add_pair(self, near: str, far: str) -> None:
        """Makes two devices, of which each receives what the other sends."""
        peer = {"index": index_of(far), "attrs": [("IFLA_IFNAME", far)]}
        self.add("veth", near, ("VETH_INFO_PEER", peer))

    def start(self, device: str, **more: Any) -> None:
        """Has it carry packets, and nothing else."""
        _start(self.kernel, self._link, device, index_of(device), mtu=_MTU, **more)


def start_function(kernel: "IPRoute", link: str, device: str, index: int) -> None:
    """The same of a function of a NIC, whose driver gave it its number, and the NIC its MTU."""
    _start(kernel, link, device, index, mtu=_NIC_MTU)


def _start(kernel: "IPRoute", link: str, device: str, index: int, **more: Any) -> None:
    silence(device)
    kernel.link(
        "set",
        index=index,
        ifalias=f"{_ALIAS} {link}",
        flags=_UP | _NOARP,
        change=_UP | _NOARP | _MULTICAST,
        **more,
    )


@contextmanager
def making(link: str, *devices: str) -> Iterator[Maker]:
    """Makes devices of a link. UnisError if that fails: then what was made is gone."""
    made: list[tuple[str, str]] = []
    try:
        with netlink() as kernel:
            maker = Maker(kernel, link)
            made = maker.made
            yield maker
    except UnisError as error:
        left = remove(reversed(made))
        raise UnisError("; ".join([str(error), *left]), bad_input=False) from None
    except OSError as error:
        left = remove(reversed(made))
        number = error.errno or 0
        sentence = (
            f"link {link}: cannot make the kernel devices {' and '.join(devices)}: "
            f"{os.strerror(number)}{_mend(number, devices[0])}"
        )
        raise UnisError("; ".join([sentence, *left]), bad_input=False) from None


def place(link: str, device: str, namespace: str) -> None:
    """Moves a device of a link into a namespace, if it is in another one, and has it carry packets
    there: settings do not move along. UnisError if it cannot be.
    """

    def is_there() -> bool:
        with netlink() as kernel:
            return _number_of(kernel, device) is not None

    def move(to: int) -> None:
        with netlink() as kernel:
            kernel.link("set", index=_number_of(kernel, device), net_ns_fd=to)

    def start() -> None:
        with netlink() as kernel:
            if (index := _number_of(kernel, device)) == index_of(device):
                _start(kernel, link, device, index, mtu=_MTU)
            elif index is not None:
                start_function(kernel, link, device, index)

    try:
        if namespaces.inside(namespace, is_there):
            return
        for before in (namespaces.HERE, *namespaces.ours()):
            if namespaces.inside(before, is_there):
                with namespaces.file_of(namespace).open() as file:
                    namespaces.inside(before, partial(move, file.fileno()))
                break
        namespaces.inside(namespace, start)
    except OSError as error:
        where = namespace or "of UNiS"
        raise UnisError(
            f"link {link}: cannot move the kernel device {device} into the network namespace "
            f"{where}: {os.strerror(error.errno or 0)}",
            bad_input=False,
        ) from None


def _number_of(kernel: "IPRoute", device: str) -> int | None:
    """Of a device, if it is here and ours: a function of a NIC is known by its alias."""
    for index in kernel.link_lookup(ifname=device):
        (found,) = kernel.get_links(index)
        if index == index_of(device) or str(found.get_attr("IFLA_IFALIAS")).startswith(_ALIAS):
            return int(index)
    return None


def _mend(number: int, device: str) -> str:
    if number == errno.EEXIST:
        return f"; `ip link show {device}` tells whose it is"
    if number == errno.EOPNOTSUPP:
        return "; `unis doctor` tells what this kernel lacks"
    return ""


def remove(devices: Iterable[tuple[str, str]]) -> list[str]:
    """Removes devices, of a kind and a name, if they are there and ours: a launcher that was killed
    may have noted a name which it then would have found taken. Those that are in namespaces of
    functions too. Sentences of what could not be.
    """
    devices = [*devices]
    problems = _remove(devices)
    for namespace in namespaces.ours():
        with suppress(OSError):  # it has gone meanwhile
            problems += namespaces.inside(namespace, partial(_remove, devices))
    return problems


def _remove(devices: Iterable[tuple[str, str]]) -> list[str]:
    problems: list[str] = []
    for kind, device in devices:
        try:
            with netlink() as kernel:
                # It has its number from the moment when it is made; an alias it gets later.
                ours = kernel.link_lookup(ifname=device, kind=kind, index=index_of(device))
                for index in ours:
                    kernel.link("del", index=index)
        except OSError as error:
            problems.append(
                f"cannot remove the kernel device {device}: {error.strerror}; "
                f"`ip link delete {device}`"
            )
    return problems


def detach_xdp(link: str, device: str, namespace: str) -> None:
    """Takes the BPF program, if any, off a device in a namespace. UnisError if that fails."""

    def detach() -> None:
        with netlink() as kernel:
            kernel.link("set", index=index_of(device), xdp_fd=-1)

    try:
        namespaces.inside(namespace, detach)
    except OSError as error:
        where = f"-n {namespace} " if namespace else ""
        raise UnisError(
            f"link {link}: cannot take the BPF program off {device}: {error.strerror}; "
            f"`ip {where}link set {device} xdp off`",
            bad_input=False,
        ) from None


def base_name(words: str) -> str:
    """Of devices: their names have 15 bytes, too few for those of the run and the link."""
    return f"unis{hashlib.sha256(words.encode()).hexdigest()[:8]}"


def index_of(device: str) -> int:
    """The number of a device. net_af_packet tells its groups of sockets (PACKET_FANOUT) apart by 16
    bits of this number and the process's: those of devices and processes that were made one after
    the other are often the same, and then it opens no port. So numbers are scattered. By its number
    a device is also known to be ours.
    """
    return (1 << 24) + int.from_bytes(hashlib.sha256(device.encode()).digest()[:3])


def silence(device: str) -> None:
    """Nothing but what programs send is on the device."""
    for setting, value in _SILENT.items():
        with suppress(FileNotFoundError):  # a kernel without IPv6
            (_SETTINGS / setting.format(device)).write_text(value)

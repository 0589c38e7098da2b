"""Packet and AF_XDP sockets of a process, seen from outside: the interfaces that they are on, and
their rings.

The kernel tells them to whoever is in their network namespace, which a thread of ours enters.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unis.links import namespaces
from unis.links.netlink import netlink
from unis.plan.attached import DeviceId, PacketEnd, PacketSocket
from unis.runtime.errors import LaunchError
from unis.runtime.open_files import sockets_of
from unis.runtime.process import all_pids
from unis.runtime.xdp_sockets import on_interfaces

# Of the kernel's netlink.
_REQUEST, _DUMP, _ERROR, _DONE = 0x1, 0x301, 2, 3
_SOCK_DIAG, _BY_FAMILY, _ALL = 4, 20, 0xFFFFFFFF
_SHOW_INFO_AND_RINGS = 0x1 | 0x4
_INFO, _RX_RING, _TX_RING = 0, 2, 3
_GET_NSID, _FD, _NSID = 90, 3, 1
_TPACKET_V2 = 1
_XDP = -1  # in the place of such a version
_MOST_BYTES = 1 << 16


class NotToldError(LaunchError):
    """The kernel does not tell of packet sockets."""


@dataclass(frozen=True)
class Interface:
    """One of the network namespace of a process."""

    name: str
    device: DeviceId
    peer: DeviceId | None  # of a veth, where that is known
    sockets: tuple["_SeenSocket", ...]


@dataclass(frozen=True)
class _SeenSocket:
    """A socket, as the kernel tells it."""

    inode: int
    index: int  # of its interface
    version: int  # of its rings; the rest is of packet sockets alone
    receiving: tuple[int, int, int, int] | None = None  # block bytes, blocks, slot bytes, slots
    sending: tuple[int, int, int, int] | None = None

    def checked(self, whose: str) -> PacketSocket:
        """As the engine can read it, or LaunchError."""
        if self.version == _XDP:
            return PacketSocket(self.inode, xdp=True)
        if self.receiving is None:
            return PacketSocket(self.inode)
        block, blocks, slot, slots = self.receiving
        if self.version != _TPACKET_V2:
            raise LaunchError(
                f"{whose} has rings of TPACKET_V{self.version + 1}, and UNiS reads those of "
                "TPACKET_V2: give the program a port of net_af_packet or of net_mmsg"
            )
        if slots & (slots - 1) or block % slot:
            raise LaunchError(
                f"{whose} has {slots} slots of {slot} bytes in blocks of {block}: give its "
                "net_af_packet a framecnt that is a power of two, and a blocksz that is a multiple "
                "of framesz"
            )
        sent = self.sending[0] * self.sending[1] if self.sending else 0
        return PacketSocket(self.inode, slots, slot, block * blocks + sent)


def find_interface(pid: int, name: str) -> PacketEnd:
    """The sockets that a process has on an interface; LaunchError if it has none there that can be
    read.
    """
    found = {interface.name: interface for interface in interfaces(pid)}
    used = [one.name for one in found.values() if one.sockets]
    if used:
        has = f"it has them on {' and '.join(used)}"
    else:
        has = (
            f"it has none: start it with --vdev=net_af_packet0,iface={name}, or attach it by "
            "memifs or rings"
        )
    if name not in found:
        raise LaunchError(
            f"there is no interface `{name}` in the network namespace of process {pid}; of packet "
            f"or AF_XDP sockets {has}"
        )
    if name not in used:
        raise LaunchError(f"process {pid} has no packet or AF_XDP socket on {name}; {has}")
    here = found[name]
    whose = f"process {pid} on {name}"
    sockets = tuple(seen.checked(whose) for seen in here.sockets)
    if len({one.slots for one in sockets}) > 1:
        raise LaunchError(f"{whose} has packet sockets of several lengths; give all the same")
    return PacketEnd(here.device, here.peer, sockets)


def interfaces(pid: int) -> list[Interface]:
    """Those of the network namespace of a process, with its sockets on them."""
    own = sockets_of(pid)
    try:
        return namespaces.inside_that_of(pid, lambda: list(_interfaces(pid, own)))
    except FileNotFoundError:
        raise LaunchError(f"there is no process {pid}") from None
    except OSError as error:
        raise LaunchError(
            f"cannot look at the interfaces of process {pid}: {error.strerror}"
        ) from None


def _interfaces(pid: int, own: set[int]) -> Iterator[Interface]:
    namespace = _namespace(pid)
    seen = [found for found in _packet_sockets() if found.inode in own]
    with netlink() as kernel:
        links = list(kernel.get_links())
        by_xdp = on_interfaces(pid, {link["index"]: _queues(link) for link in links})
        for link in links:
            index = link["index"]
            # Of a program that has both its ports are the former: the others only listen.
            on_it = tuple(_SeenSocket(inode, index, _XDP) for inode in by_xdp.get(index, ()))
            on_it = on_it or tuple(found for found in seen if found.index == index)
            peer = None
            if on_it and link.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") == "veth":
                number = link.get_attr("IFLA_LINK_NETNSID")
                there = namespace if number is None else _numbered(number)
                peer = DeviceId(there, link.get_attr("IFLA_LINK")) if there else None
            yield Interface(link.get_attr("IFLA_IFNAME"), DeviceId(namespace, index), peer, on_it)


def _queues(link: Any) -> int:
    """On which there may be AF_XDP sockets that receive: without a BPF program there is none."""
    if not link.get_nested("IFLA_XDP", "IFLA_XDP_ATTACHED"):
        return 0
    return max(link.get_attr(f"IFLA_NUM_{way}_QUEUES") or 1 for way in ("RX", "TX"))


def _namespace(pid: int) -> int:
    return Path(f"/proc/{pid}/ns/net").stat().st_ino


def _numbered(number: int) -> int | None:
    """The network namespace that has this number in ours; None: no process is in it."""
    looked: set[int] = set()
    named = list(namespaces.PLACE.iterdir()) if namespaces.PLACE.is_dir() else []
    for path in [*named, *(Path(f"/proc/{pid}/ns/net") for pid in all_pids())]:
        with contextlib.suppress(OSError):
            inode = path.stat().st_ino
            if inode in looked:
                continue
            looked.add(inode)
            with _opened(path) as namespace:
                if _number_of(namespace) == number:
                    return inode
    return None


def _number_of(namespace: int) -> int | None:
    question = struct.pack("=BxxxHHI", 0, 8, _FD, namespace)
    for answer in _ask(socket.NETLINK_ROUTE, _GET_NSID, _REQUEST, question):
        return int.from_bytes(_attributes(answer[4:])[_NSID], "little", signed=True)
    return None


def _packet_sockets() -> Iterator[_SeenSocket]:
    """Those that receive, and are bound to an interface."""
    question = struct.pack("=BBHIIII", socket.AF_PACKET, 0, 0, 0, _SHOW_INFO_AND_RINGS, _ALL, _ALL)
    for answer in _answers_of_diag(question):
        _, _, protocol, inode = struct.unpack_from("=BBHI", answer)
        told = _attributes(answer[16:])
        index, version = struct.unpack_from("=II", told[_INFO])
        receiving, sending = (
            struct.unpack_from("=IIII", told[ring]) if ring in told else None
            for ring in (_RX_RING, _TX_RING)
        )
        if protocol and index:
            yield _SeenSocket(inode, index, version, receiving, sending)


def lacks() -> str:
    """Why packet sockets cannot be found here, and what mends that; empty: they can."""
    try:
        list(_packet_sockets())
    except (LaunchError, OSError) as error:
        return str(error)
    return ""


# ------------------------------------------------------------------ netlink


def _answers_of_diag(question: bytes) -> Iterator[bytes]:
    try:
        yield from _ask(_SOCK_DIAG, _BY_FAMILY, _DUMP, question)
    except FileNotFoundError:  # what the kernel answers for a family that nobody serves
        raise NotToldError(
            "this kernel lacks CONFIG_PACKET_DIAG; `modprobe af_packet_diag`"
        ) from None


def _ask(family: int, kind: int, flags: int, question: bytes) -> Iterator[bytes]:
    """The answers of the kernel, without their headers; OSError if it refuses."""
    header = struct.pack("=IHHII", 16 + len(question), kind, flags, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family) as kernel:
        kernel.send(header + question)
        while True:
            got = kernel.recv(_MOST_BYTES)
            while got:
                length, what = struct.unpack_from("=IH", got)
                if what == _DONE:
                    return
                if what == _ERROR:
                    code = -struct.unpack_from("=i", got, 16)[0]
                    raise OSError(code, os.strerror(code) if code else "no answer")
                yield got[16:length]
                got = got[-(-length // 4) * 4 :]
            if flags == _REQUEST:
                return


def _attributes(words: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while len(words) >= 4:
        length, kind = struct.unpack_from("=HH", words)
        found[kind] = words[4:length]
        words = words[-(-length // 4) * 4 :]
    return found


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)

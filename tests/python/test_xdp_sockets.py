"""AF_XDP sockets of a process: where each is, as a probe finds out."""

import ctypes
import mmap
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.needs import need_root
from unis import built
from unis.runtime import xdp_sockets
from unis.runtime.attached import ports_of
from unis.runtime.errors import LaunchError
from unis.runtime.sockets import find_interface
from unis.runtime.xdp_sockets import of_ports, on_interfaces

pytestmark = pytest.mark.system  # needs root

_AF_XDP, _SOL_XDP = 44, 283
_RX_RING, _UMEM_REG, _FILL_RING, _COMPLETION_RING = 2, 4, 5, 6
_SHARED_UMEM, _COPY = 1, 2
_FRAMES, _FRAME_BYTES = 64, 2048
NEAR, FAR = f"ut{os.getpid()}a", f"ut{os.getpid()}b"


@pytest.fixture
def indexes() -> Iterator[tuple[int, int]]:
    """Two interfaces with a BPF program each, as net_af_xdp loads it."""
    need_root()

    def ip(*words: str) -> None:
        subprocess.run(["ip", "link", *words], check=True, capture_output=True)

    ip("add", NEAR, "type", "veth", "peer", "name", FAR)
    try:
        for name in (NEAR, FAR):
            ip("set", name, "xdp", "obj", str(built.xdp_program()), "sec", "xdp")
            ip("set", name, "up")
        yield socket.if_nametoindex(NEAR), socket.if_nametoindex(FAR)
    finally:
        ip("delete", NEAR)


class XdpSocket:
    """One with buffers of its own, or that shares those of another."""

    def __init__(self, held: ExitStack, index: int | None, of: "XdpSocket | None" = None) -> None:
        self._socket = held.enter_context(socket.socket(_AF_XDP, socket.SOCK_RAW))
        self.inode = os.fstat(self._socket.fileno()).st_ino
        self._memory = mmap.mmap(-1, _FRAMES * _FRAME_BYTES)
        at = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        if of is None:
            memory = struct.pack("=QQIIII", at, len(self._memory), _FRAME_BYTES, 0, 0, 0)
            self._socket.setsockopt(_SOL_XDP, _UMEM_REG, memory)
            for ring in (_FILL_RING, _COMPLETION_RING):
                self._socket.setsockopt(_SOL_XDP, ring, _FRAMES)
        self._socket.setsockopt(_SOL_XDP, _RX_RING, _FRAMES)
        if index is None:
            return
        flags, other = (_SHARED_UMEM, of._socket.fileno()) if of else (_COPY, 0)
        address = struct.pack("=HHIII", _AF_XDP, flags, index, 0, other)
        assert ctypes.CDLL(None).bind(self._socket.fileno(), address, len(address)) == 0


def test_each_is_told_where_it_is_bound_and_stays_so(indexes: tuple[int, int]) -> None:
    near, far = indexes
    with ExitStack() as held:
        XdpSocket(held, None)  # bound to nothing
        one, other = XdpSocket(held, near), XdpSocket(held, far)
        sharing = XdpSocket(held, far, other)
        for _ in range(3):
            found = on_interfaces(os.getpid(), {near: 4, far: 4, 1: 4})
            assert found == {near: [one.inode], far: [other.inode, sharing.inode]}
        assert on_interfaces(os.getpid(), {near: 0, far: 1}).keys() == {far}
        told = of_ports(os.getpid, {1: NEAR, 2: FAR}, lambda: None)
        assert told == {1: one.inode, 2: other.inode}


def test_they_are_ports_where_packet_sockets_only_listen(indexes: tuple[int, int]) -> None:
    near, _ = indexes
    with ExitStack() as held:
        XdpSocket(held, None)
        assert not {NEAR, FAR} & {*ports_of(os.getpid())}
        one = XdpSocket(held, near)
        listens = held.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        listens.bind((NEAR, 3))
        assert NEAR in ports_of(os.getpid())
        end = find_interface(os.getpid(), NEAR)
        assert [(found.inode, found.xdp) for found in end.sockets] == [(one.inode, True)]
        assert end.peer
        assert end.peer.index == indexes[1]
        with pytest.raises(LaunchError, match=f"no packet or AF_XDP socket on {FAR}; .* on {NEAR}"):
            find_interface(os.getpid(), FAR)


def test_one_that_never_comes_is_told(
    indexes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xdp_sockets, "_OPENED_SECONDS", 0.1)
    looks: list[int] = []
    with ExitStack() as held:
        XdpSocket(held, indexes[0])
        with pytest.raises(LaunchError, match=f"after 0.1 s it has no AF_XDP socket on {FAR}; "):
            of_ports(os.getpid, {0: NEAR, 1: FAR}, lambda: looks.append(1))
    assert len(looks) > 1
    with pytest.raises(LaunchError, match="no AF_XDP socket on nowhere"):
        of_ports(os.getpid, {0: "nowhere"}, lambda: None)


def test_a_kernel_that_refuses_duplicates_is_told(
    indexes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with kernel.yama.ptrace_scope=3."""
    monkeypatch.setattr(xdp_sockets, "_OPENED_SECONDS", 0.1)
    monkeypatch.setattr(xdp_sockets, "_PIDFD_GETFD", 9999)
    with ExitStack() as held:
        XdpSocket(held, indexes[0])
        with pytest.raises(LaunchError, match=f"AF_XDP socket on {NEAR}: Function not implement"):
            of_ports(os.getpid, {0: NEAR}, lambda: None)
        with pytest.raises(LaunchError, match=r"cannot look at .*: Function not implemented$"):
            ports_of(os.getpid())


def test_a_number_that_is_another_files_by_now_is_not_taken(
    indexes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    near, _ = indexes
    with ExitStack() as held:
        XdpSocket(held, near)
        ((inode, at),) = xdp_sockets._sockets(os.getpid())
        files = len([*Path("/proc/self/fd").iterdir()])
        for seen in ((inode + 1, at), (inode, 9999)):  # or nobody's
            monkeypatch.setattr(xdp_sockets, "_sockets", lambda _, seen=seen: [seen])
            assert on_interfaces(os.getpid(), {near: 1}) == {}
        assert len([*Path("/proc/self/fd").iterdir()]) == files

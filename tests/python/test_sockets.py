"""Packet sockets of a process, as the kernel tells them."""

import os
import socket
import struct
import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.attached import namespace
from tests.needs import need
from unis.runtime import memifs, sockets
from unis.runtime.attached import ports_of
from unis.runtime.doctor.kernel import packet_sockets
from unis.runtime.errors import LaunchError
from unis.runtime.sockets import find_interface, interfaces

pytestmark = pytest.mark.system  # needs root

_PACKET, _VERSION, _RX_RING, _TX_RING = 263, 10, 5, 13
_V2, _V3 = 1, 2
_ALL = 3  # protocols
_UNUSED_FAMILY = 40


@pytest.fixture
def packets() -> Iterator[socket.socket]:
    """A packet socket of ours on the loopback interface."""
    need(os.geteuid() == 0, "needs root")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as made:
        made.bind(("lo", _ALL))
        yield made


def rings(made: socket.socket, version: int, block: int, slot: int, slots: int) -> None:
    made.setsockopt(_PACKET, _VERSION, version)
    blocks = slots // (block // slot)
    request = struct.pack("=IIII", block, blocks, slot, slots)
    if version == _V3:
        made.setsockopt(_PACKET, _RX_RING, request + bytes(12))
        return
    for ring in (_RX_RING, _TX_RING):
        made.setsockopt(_PACKET, ring, request)


def test_a_socket_without_rings(packets: socket.socket) -> None:
    end = find_interface(os.getpid(), "lo")
    assert [(one.inode, one.slots) for one in end.sockets] == [
        (os.fstat(packets.fileno()).st_ino, 0)
    ]
    assert end.peer is None
    assert "lo" in ports_of(os.getpid())


def test_the_shape_of_rings_is_the_programs(packets: socket.socket) -> None:
    rings(packets, _V2, 8192, 4096, 64)
    (one,) = find_interface(os.getpid(), "lo").sockets
    assert (one.slots, one.slot_bytes, one.ring_bytes) == (64, 4096, 2 * 64 * 4096)


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ((_V2, 4096, 2048, 96), "has 96 slots .* a framecnt that is a power of two"),
        ((_V2, 4096, 1536, 64), "in blocks of 4096: .* a blocksz that is a multiple of framesz"),
        ((_V3, 4096, 2048, 64), "rings of TPACKET_V3, and UNiS reads those of TPACKET_V2: give"),
    ],
)
def test_rings_that_the_engine_cannot_read(
    packets: socket.socket, shape: tuple[int, int, int, int], why: str
) -> None:
    rings(packets, *shape)
    with pytest.raises(LaunchError, match=why):
        find_interface(os.getpid(), "lo")


def test_sockets_that_receive_nothing_are_no_port() -> None:
    need(os.geteuid() == 0, "needs root")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as made:
        made.bind(("lo", 0))
        assert ports_of(os.getpid()) == []


def test_what_is_not_there_is_told_with_what_is(packets: socket.socket) -> None:
    del packets
    with pytest.raises(LaunchError, match=r"no interface `nothing` .* it has them on lo$"):
        find_interface(os.getpid(), "nothing")
    with pytest.raises(LaunchError, match="there is no process"):
        interfaces(2**22 + 1)


def test_a_program_without_sockets_is_told_what_to_do() -> None:
    with pytest.raises(LaunchError, match="AF_XDP socket on lo; it has none: start it wit"):
        find_interface(os.getpid(), "lo")


# ------------------------------------------------------------------ what is not found


@pytest.fixture
def _without_diag(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a kernel answers that has nobody for a family of sockets."""
    need(os.geteuid() == 0, "needs root")
    monkeypatch.setattr(socket, "AF_PACKET", _UNUSED_FAMILY)


@pytest.mark.usefixtures("_without_diag")
def test_a_kernel_that_does_not_tell_of_packet_sockets_is_told() -> None:
    for looked in (interfaces, ports_of, lambda pid: find_interface(pid, "lo")):
        with pytest.raises(LaunchError, match=r"CONFIG_PACKET_DIAG; `modprobe af_packet_diag`"):
            looked(os.getpid())
    found = packet_sockets()
    assert (found.found, found.mend) == (
        "this kernel lacks CONFIG_PACKET_DIAG",
        "modprobe af_packet_diag",
    )


@pytest.mark.usefixtures("_without_diag")
def test_memifs_are_found_there_nevertheless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memifs, "count", lambda _pid: 2)
    assert ports_of(os.getpid()) == ["memif:0", "memif:1"]


def test_the_doctor_finds_that_the_kernel_tells_of_packet_sockets() -> None:
    assert packet_sockets().found == "the kernel tells whose they are"


def test_of_others_veths_no_peer_is_looked_for(
    packets: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host of containers has hundreds."""
    del packets
    asked: list[int] = []
    monkeypatch.setattr(sockets, "_numbered", asked.append)
    with namespace(("near", "far")) as name:
        subprocess.run(
            ["ip", "-n", name, "link", "set", "far", "netns", str(os.getpid())], check=True
        )
        try:
            assert {one.name for one in interfaces(os.getpid())} >= {"lo", "far"}
            assert asked == []
        finally:
            subprocess.run(["ip", "link", "delete", "far"], check=True)

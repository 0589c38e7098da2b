"""Source and sink of a chain on interfaces that the user names."""

import os
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pyroute2.ethtool.ioctl import IoctlEthtool

from tests.e2e.machine import Json, Machine
from tests.e2e.test_run import assert_whole
from unis.links import namespaces
from unis.links.devices import silence

_SIZE = 60
_ALL = 3  # protocols
_JOINED = 3 * 1448  # bytes of TCP
# Of the kernel's headers.
_SOL_PACKET, _PACKET_VNET_HDR, _NEEDS_CHECKSUM, _TCP_OF_IPV4 = 263, 15, 1, 1


class Outside:
    """What is at the other ends of two interfaces of the host."""

    def __init__(self, name: str, source: str, sink: str) -> None:
        self.source, self.sink = source, sink
        self._name = name
        self.near, self.far = (self._socket(device) for device in ("near", "far"))

    def _socket(self, device: str) -> socket.socket:
        def made() -> socket.socket:
            one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 25)
            one.bind((device, _ALL))
            one.settimeout(20)
            return one

        return namespaces.inside(self._name, made)

    def send(self, first: int, count: int) -> None:
        for at in range(first, first + count):
            self.near.send(frame(at))

    def receive(self, count: int) -> list[bytes]:
        return [self.far.recv(2048) for _ in range(count)]

    def send_joined(self, count: int) -> None:
        """Packets of TCP that are three each, as GRO of the receiver would make them."""
        ip = struct.pack(
            "!BBHHHBBH4s4s", 0x45, 0, 40 + _JOINED, 0, 0, 64, 6, 0, b"\xc0\0\2\1", b"\xc0\0\2\2"
        )
        tcp = struct.pack("!HHIIBBHHH", 1, 2, 0, 0, 0x50, 0x10, 1024, 0, 0)
        packet = bytes.fromhex("020000000001020000000002") + b"\x08\0" + ip + tcp + bytes(_JOINED)
        virtio = struct.pack("=BBHHHH", _NEEDS_CHECKSUM, _TCP_OF_IPV4, 54, _JOINED // 3, 34, 16)
        with self._socket("near") as joined:
            joined.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
            for _ in range(count):
                joined.send(virtio + packet)

    def found(self) -> list[object]:
        """What the host says of its interfaces, but what they count; and their offloads."""
        import json

        said = subprocess.check_output(["ip", "-d", "-j", "addr", "show"], text=True)
        mine = [one for one in json.loads(said) if one.get("ifname") in (self.source, self.sink)]
        return [*mine, *(offloads(name) for name in (self.source, self.sink))]

    def promiscuous(self) -> list[int]:
        return [one["promiscuity"] for one in self.found() if isinstance(one, dict)]


def offloads(name: str) -> set[str]:
    with closing(IoctlEthtool(name)) as kernel:
        return {feature for feature, on, *_ in kernel.get_features() if on}


def frame(at: int) -> bytes:
    head = bytes.fromhex("020000000001") + bytes.fromhex("020000000002") + b"\x88\xb5"
    return head + at.to_bytes(4, "big") + bytes(_SIZE - 18)


@contextmanager
def outside() -> Iterator[Outside]:
    """Two interfaces of the host, whose other ends are in a namespace."""
    name, pid = f"ut{os.getpid()}", os.getpid()
    ends = {f"ut{pid}a": "near", f"ut{pid}b": "far"}

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    ip("netns", "add", name)
    try:
        for device, peer in ends.items():
            ip("link", "add", device, "type", "veth", "peer", "name", peer, "netns", name)
            silence(device)
            namespaces.inside(name, lambda peer=peer: silence(peer))  # type: ignore[misc]
            ip("link", "set", device, "arp", "off", "multicast", "off", "up")
            ip("-n", name, "link", "set", peer, "arp", "off", "multicast", "off", "up")
        made = Outside(name, *ends)
        with made.near, made.far:
            yield made
    finally:
        ip("netns", "delete", name)


def file_of(machine: Machine, made: Outside) -> Path:
    return machine.chain_file(
        {"count": {"program": "monitor", "cpu": 1, "cost_ns": 50}},
        traffic={
            "source": {"kind": "interface", "interface": made.source},
            "sink": {"kind": "interface", "interface": made.sink},
        },
    )


def up(machine: Machine, made: Outside) -> None:
    machine.up(file_of(machine, made))


def test_every_frame_goes_through_in_order_and_is_accounted_for(machine: Machine) -> None:
    with outside() as made:
        before = made.found()
        up(machine, made)
        assert made.promiscuous() == [1, 1]
        made.send(0, 2000)
        assert made.receive(2000) == [frame(at) for at in range(2000)]
        account = machine.exact_account()
        assert_whole(account)
        assert account["offered"] == account["delivered"] == 2000
        machine.down()
        assert made.found() == before


def test_what_finds_no_room_is_offered_and_dropped(machine: Machine) -> None:
    """The engine stands still meanwhile; when it is killed, the interfaces are as before."""
    with outside() as made:
        before = made.found()
        up(machine, made)
        unisd = machine.pid_of("unisd")
        os.kill(unisd, signal.SIGSTOP)
        made.send(0, 30_000)
        os.kill(unisd, signal.SIGCONT)

        def account() -> Json:
            return machine.exact_account()

        machine.wait_for(lambda: account()["offered"] >= 30_000, "they do not come")
        told = account()
        assert_whole(told)
        assert told["offered"] == 30_000
        assert told["dropped_source"] > 5_000
        machine.kill(unisd)
        machine.wait_for(lambda: made.found() == before, "they stay promiscuous")


def test_a_packet_that_was_joined_of_several_is_dropped_and_told(machine: Machine) -> None:
    """An interface with GRO or LRO, or a neighbour that leaves segments to it."""
    with outside() as made:
        up(machine, made)
        made.send_joined(5)
        made.send(0, 100)
        assert made.receive(100) == [frame(at) for at in range(100)]
        account = machine.exact_account()
        assert_whole(account)
        assert (account["offered"], account["delivered"]) == (105, 100)
        assert account["dropped_source"] == 5


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_amid_packets_leaves_interfaces_as_they_were(
    machine: Machine, end: signal.Signals
) -> None:
    with outside() as made:
        before = made.found()
        process = machine.start("up", str(file_of(machine, made)))
        machine.wait_for(lambda: made.promiscuous() == [1, 1], "nobody listens")
        at = 0
        while process.poll() is None:
            made.send(at, 200)
            at += 200
            if at == 2000:
                process.send_signal(end)
        assert at > 2000
        process.communicate(timeout=60)
        assert made.found() == before
    machine.assert_clean()

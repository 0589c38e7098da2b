"""Programs on kernel devices, that somebody else started, are found and scheduled."""

import socket
from collections.abc import Callable

import pytest

from tests.e2e.attached import Foreign, namespace, polls, started_by_hand
from tests.e2e.machine import Machine
from tests.e2e.test_attach import adopted, attach, goes_on, received
from unis.links.namespaces import inside_that_of
from unis.runtime.sockets import interfaces

_DRIVER = "framecnt=1024,framesz=2048,blocksz=4096"


def af_packet(*devices: str) -> list[str]:
    return [f"--vdev=net_af_packet{at},iface={one},{_DRIVER}" for at, one in enumerate(devices)]


def af_xdp(*devices: str) -> list[str]:
    return [f"--vdev=net_af_xdp{at},iface={one}" for at, one in enumerate(devices)]


Ports = Callable[..., list[str]]
either = pytest.mark.parametrize("ports", [af_packet, af_xdp])


def has_sockets(one: Foreign) -> bool:
    return sum(bool(interface.sockets) for interface in interfaces(one.pid)) == 2


def begins(machine: Machine, one: Foreign) -> None:
    machine.wait_for(lambda: has_sockets(one), f"{one.name} has no sockets")
    one.say("start")
    machine.wait_for(lambda: polls(one), f"{one.name} does not poll")


def packet_sockets(pid: int, *devices: str) -> list[socket.socket]:
    """Of ours, in the network namespace of a process."""

    def made() -> list[socket.socket]:
        found = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3) for _ in devices]
        for one, device in zip(found, devices, strict=True):
            one.bind((device, 3))
            one.settimeout(20)
        return found

    return inside_that_of(pid, made)


def passes(near: socket.socket, far: socket.socket) -> None:
    """Frames that come in at one end of the program go out at the other, in order."""
    for at in range(200):
        near.send(bytes(12) + b"\x08\x00" + at.to_bytes(4, "big") + bytes(46))
        while (frame := far.recv(2048))[12:14] != b"\x08\x00":
            pass  # the kernel's own
        assert int.from_bytes(frame[14:18], "big") == at


@either
def test_two_programs_on_veths_of_a_namespace(machine: Machine, ports: Ports) -> None:
    """Packets go round between them; they are found by their sockets, and share their links."""
    with (
        namespace(("p0", "p1"), ("q0", "q1")) as inside,
        started_by_hand("left", machine.directory, *ports("p0", "q0"), "--in-memory",
                        inside=inside) as left,
        started_by_hand("right", machine.directory, *ports("p1", "q1"), "--in-memory",
                        inside=inside) as right,
    ):  # fmt: skip
        both = (left, right)
        machine.wait_for(lambda: all(map(has_sockets, both)), "they have no sockets")
        right.say("start")
        left.say("start tx_first 4")
        machine.wait_for(lambda: all(map(polls, both)), "they do not poll")
        before = [one.threads() for one in both]

        def refused(*ends: str) -> str:
            return attach(machine, left, *ends, code=2)

        assert "there is no interface `p9` in the network namespace" in refused(
            "--ingress", "p9", "--egress", "q0"
        )
        assert "has no packet or AF_XDP socket on p1; it has them on p0 and q0" in refused(
            "--ingress", "p1", "--egress", "q0"
        )

        assert "found p0 and q0: attaching both ways" in attach(machine, left)
        attach(machine, right, *("--ingress", "p1", "--egress", "q1"),
               *("--ingress", "q1", "--egress", "p1"))  # fmt: skip
        goes_on(machine, "left", "right")
        stats = machine.ps()["stats"]
        assert sorted(chain["functions"] for chain in stats["chains"]) == [["left", "right"]] * 2
        assert sum(one["scheduling"].startswith("rr") for one in stats["functions"]) == 2
        machine.unis("detach", "right", "--name", machine.name)
        assert right.threads() == before[1]
        machine.down()
        assert [one.threads() for one in both] == before
        assert all(one.process.poll() is None for one in both)


@either
def test_one_program_whose_neighbours_nobody_attaches(machine: Machine, ports: Ports) -> None:
    """As on eth1: how full what it sends into is, nobody tells."""
    with (
        namespace(("p0", "p1"), ("q0", "q1")) as inside,
        started_by_hand("middle", machine.directory, *ports("p0", "q0"), "--in-memory",
                        inside=inside) as middle,
    ):  # fmt: skip
        machine.wait_for(lambda: has_sockets(middle), "it has no sockets")
        near, far = packet_sockets(middle.pid, "p1", "q1")
        with near, far:
            middle.say("start")
            machine.wait_for(lambda: polls(middle), "it does not poll")
            before = middle.threads()
            attach(machine, middle, "--ingress", "p0", "--egress", "q0")
            passes(near, far)
            machine.wait_for(  # the engine counts the last one when it looks again
                lambda: received(machine)["middle"] >= 200, "not all were counted"
            )
            machine.kill(machine.ps()["unisd"]["pid"])
            adopted(machine, "middle")
            passes(near, far)
            machine.down()
            assert middle.threads() == before


def test_what_an_ended_program_had_another_can_have(machine: Machine) -> None:
    """On a queue there is one AF_XDP socket with buffers of its own: UNiS lets go of it."""
    with (
        namespace(("p0", "p1"), ("q0", "q1"), ("r0", "r1"), ("s0", "s1")) as inside,
        started_by_hand("stays", machine.directory, *af_packet("r0", "s0"), "--in-memory",
                        inside=inside) as stays,
    ):  # fmt: skip
        begins(machine, stays)
        attach(machine, stays)
        for name in ("first", "second"):
            with started_by_hand(name, machine.directory, *af_xdp("p0", "q0"), "--in-memory",
                                 inside=inside) as one:  # fmt: skip
                begins(machine, one)
                near, far = packet_sockets(one.pid, "p1", "q1")
                with near, far:
                    attach(machine, one)
                    passes(near, far)
                    machine.kill(one.pid)
                machine.wait_for(
                    lambda: [*machine.ps()["functions"]] == ["stays"], "it is attached still"
                )

"""What the switch in the card does: who hears whom. Chains through it rest on that."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.machine.frames import ETHERTYPE, mac, packet_socket
from tests.machine.guest import Outside
from tests.machine.inside.cards import MOST, Card, Function

_BROADCAST = "ff:ff:ff:ff:ff:ff"
_HEARD_SECONDS = 0.4
_RESET_SECONDS = 3.0  # a virtual function whose VLAN changes is reset


class Switch:
    """A socket on the card itself and on each of its virtual functions."""

    def __init__(self, card: Card, functions: list[Function], outside: Outside) -> None:
        self.card = card
        self.macs = {"card": card.mac}
        self.macs |= {f"vf{at}": function.mac for at, function in enumerate(functions)}
        self._outside = outside
        self._interfaces = {"card": card.interface}
        self._interfaces |= {f"vf{at}": one.interface for at, one in enumerate(functions)}
        self._sockets = {name: packet_socket(one) for name, one in self._interfaces.items()}
        self._numbers = count()

    def close(self) -> None:
        for opened in self._sockets.values():
            opened.close()

    def heard(self, sender: str, destination: str, source: str | None = None) -> set[str]:
        """Who receives a frame that `sender` sends; `destination` is one of us, or an address.

        `wire`: it comes out of the machine.
        """
        content = ETHERTYPE.to_bytes(2, "big") + b"%06d" % next(self._numbers) + bytes(52)
        to = mac(self.macs.get(destination, destination))
        self._sockets[sender].send(to + mac(source or self.macs[sender]) + content)
        time.sleep(_HEARD_SECONDS)
        hearers = {name for name in self._sockets if self._has(name, content)}
        outside = any(content in frame for frame in self._outside.seen(self.card.number))
        return hearers | ({"wire"} if outside else set())

    def _has(self, name: str, content: bytes) -> bool:
        found = False
        while True:
            try:
                found |= content in self._sockets[name].recv(2048)
            except BlockingIOError:
                return found


@pytest.fixture(scope="module")
def switch(cards: list[Card], outside: Outside) -> Iterator[Switch]:
    with ExitStack() as stack:
        made = Switch(cards[0], cards[0].make(MOST, "igbvf"), outside)
        stack.callback(made.close)
        yield made


@pytest.fixture
def tenants(switch: Switch) -> Iterator[Switch]:
    """vf0 and vf1 are one's, vf2 is another's."""
    vlans = {0: 10, 1: 10, 2: 20}
    for number, vlan in vlans.items():
        switch.card.set(number, vlan=vlan)
        assert switch.card.get(number, "IFLA_VF_VLAN")["vlan"] == vlan
    time.sleep(_RESET_SECONDS)
    yield switch
    for number in vlans:
        switch.card.set(number, vlan=0)
    time.sleep(_RESET_SECONDS)


def test_a_frame_goes_to_whom_it_is_for(switch: Switch) -> None:
    assert switch.heard("card", "vf0") == {"vf0"}
    assert switch.heard("vf0", "vf1") == {"vf1"}
    assert switch.heard("vf5", "vf6") == {"vf6"}
    assert switch.heard("vf6", "card") == {"card"}
    assert switch.heard("vf0", "vf0") == {"vf0"}, "a function hears itself: a loop of one"


def test_what_is_for_nobody_leaves_by_the_wire(switch: Switch) -> None:
    assert switch.heard("vf0", "02:00:00:00:99:99") == {"wire"}


def test_all_hear_a_broadcast(switch: Switch) -> None:
    """Also who sent it, which a real card spares it."""
    assert switch.heard("vf0", _BROADCAST) == {*switch.macs, "wire"}


def test_tenants_hear_only_their_own(tenants: Switch) -> None:
    """VLANs that the card sets and takes off: the functions never see them."""
    assert tenants.heard("vf0", "vf1") == {"vf1"}
    assert tenants.heard("vf0", "vf2") == set()
    assert tenants.heard("vf0", "vf3") == set()
    assert tenants.heard("vf3", "vf0") == set()
    assert tenants.heard("vf0", _BROADCAST) == {"vf0", "vf1", "wire"}


def test_a_rate_is_read_back(switch: Switch) -> None:
    """That the card keeps to it this machine cannot show."""
    speed = Path("/sys/class/net") / switch.card.interface / "speed"
    assert int(speed.read_text()) > 100
    switch.card.set(3, rate={"min_tx_rate": 0, "max_tx_rate": 100})
    assert switch.card.get(3, "IFLA_VF_RATE")["max_tx_rate"] == 100
    assert switch.card.get(2, "IFLA_VF_RATE")["max_tx_rate"] == 0


def test_a_spoof_check_is_accepted_and_not_enforced(switch: Switch) -> None:
    """This is a limit of the emulation: a real card drops such frames."""
    forged = "02:00:00:00:00:ee"
    switch.card.set(0, spoofchk=1)
    assert switch.card.get(0, "IFLA_VF_SPOOFCHK")["spoofchk"] == 1
    assert switch.heard("vf0", "vf1", source=forged) == {"vf1"}


def test_each_function_has_an_iommu_group_of_its_own(cards: list[Card]) -> None:
    functions = cards[0].make(MOST, "vfio-pci")
    groups = [function.device / "iommu_group" for function in functions]
    assert len({group.resolve() for group in groups}) == MOST
    assert all(len([*(group / "devices").iterdir()]) == 1 for group in groups)

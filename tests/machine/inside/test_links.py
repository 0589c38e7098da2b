"""Links of kind sriov: what UNiS does to a card, and how it leaves it."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.machine.inside.cards import DEVICES, Card, driver_of
from unis.links import physical
from unis.nics import binding
from unis.nics.layout import VfsWanted, VirtualLink, choices

_FILES = ("sriov_numvfs", "sriov_drivers_autoprobe")


def state_of(card: Card) -> list[str]:
    interface = Path("/sys/class/net") / card.interface
    return [
        *((card.device / file).read_text() for file in _FILES),
        (interface / "flags").read_text(),
        *(str(path) for path in physical.records().glob("*.json")),
    ]


@pytest.fixture
def link(cards: list[Card], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VirtualLink:
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path))
    port = physical.port_for(cards[0].interface, "x")
    (pair, *_), *_ = choices([port], [VfsWanted(), VfsWanted()])
    return VirtualLink(
        run="x",
        port=port.address,
        interface=port.interface,
        vfs=pair.vfs,
        addresses=pair.addresses,
        macs=("02:00:00:00:0a:00", "02:00:00:00:0a:01"),
        port_vfs=4,
        vlan=7,
        rate_mbps=100,
        spoof_check=True,
    )


@pytest.mark.parametrize("up", [True, False])
def test_the_card_takes_what_it_is_told_and_is_put_back(
    cards: list[Card], link: VirtualLink, up: bool
) -> None:
    card = cards[0]
    if not up:
        physical._set_link(card.interface, up=False)
    before = state_of(card)
    physical.make("x.c.0", link, kernel=None)
    assert physical.not_taken(link) == []
    for at, vf in enumerate(link.vfs):
        assert card.get(vf, "IFLA_VF_MAC")["mac"] == link.macs[at]
        assert card.get(vf, "IFLA_VF_VLAN")["vlan"] == 7
        assert card.get(vf, "IFLA_VF_RATE")["max_tx_rate"] == 100
        assert card.get(vf, "IFLA_VF_SPOOFCHK")["spoofchk"] == 1
        assert driver_of(DEVICES / link.addresses[at]) is None
        assert (card.device / f"virtfn{vf}").resolve().name == link.addresses[at]
        binding.bind(link.addresses[at], "vfio-pci")
    assert physical.release("x.c.0") == []
    assert state_of(card) == before
    card.up()


def test_a_second_link_is_made_on_functions_that_are_there(
    cards: list[Card], link: VirtualLink
) -> None:
    before = state_of(cards[0])
    physical.make("x.c.0", link, kernel=None)
    port = physical.port_for(cards[0].interface, "x")
    (_, (pair, *_)) = choices([port], [VfsWanted(), VfsWanted()])
    other = replace(link, vfs=pair.vfs, addresses=pair.addresses, vlan=0, rate_mbps=0)
    other = replace(other, macs=("02:00:00:00:0b:00", "02:00:00:00:0b:01"), spoof_check=False)
    physical.make("x.c.1", other, kernel=None)
    assert physical.not_taken(other) == []
    assert cards[0].get(pair.vfs[0], "IFLA_VF_MAC")["mac"] == other.macs[0]
    assert physical.release("x.c.0") == []
    assert int((cards[0].device / "sriov_numvfs").read_text()) == 4
    assert physical.release("x.c.1") == []
    assert state_of(cards[0]) == before


def test_interfaces_have_the_names_that_are_planned(cards: list[Card], link: VirtualLink) -> None:
    before = state_of(cards[0])
    names = ("unis0a0a0a0aa", "unis0a0a0a0ab")
    physical.make("x.c.0", link, kernel=names)
    for name, mac in zip(names, link.macs, strict=True):
        interface = Path("/sys/class/net") / name
        assert (interface / "address").read_text().strip() == mac
        assert int((interface / "flags").read_text(), 0) & 0x81 == 0x81
    assert physical.release("x.c.0") == []
    assert not (Path("/sys/class/net") / names[0]).exists()
    assert state_of(cards[0]) == before

"""Chains of UNiS whose packets a card's own switch carries from function to function."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.machine import Json, Machine, machine_in, macswap
from tests.machine.frames import ETHERTYPE, mac, packet_socket
from tests.machine.inside.cards import Card
from unis import built

_PACKETS = 2_000
_STRANGERS = 300  # frames to each virtual function
_DRAIN_SECONDS = 30.0  # a bound: two programs that poll share an emulated CPU
_MONITOR: Json = {"program": "monitor", "cpu": 1, "cost_ns": 2000}
# Sends on what it receives, as it is.
_AS_IT_IS: Json = {
    "command": [
        str(built.clone() / "build" / "third-party" / "bin" / "dpdk-testpmd"),
        "--forward-mode=io", "--auto-start", "--no-lsc-interrupt", "--disable-link-check",
        "--total-num-mbufs=4096", "--rxd=256", "--txd=256", "--no-mlockall",
    ],
    "cpu": 1, "lcores": 2, "cost_ns": 2000,
}  # fmt: skip


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Which a test must leave as it found it."""
    with machine_in(tmp_path) as machine:
        yield machine


def chain_on(
    machine: Machine,
    card: Card,
    functions: dict[str, Json],
    rate: str = "1000pps",
    **link: object,
) -> Path:
    """Source, functions and sink, each joined to the next by two virtual functions of the card."""
    names = ["ingress", *functions, "egress"]
    links = [{"from": one, "to": other, "kind": "sriov", **link} for one, other in pairwise(names)]
    return machine.chain_file(
        functions,
        sriov={"nics": [card.interface]},
        links=links,
        traffic={"source": {"kind": "synthetic", "size": 64}, "rate": rate},
        platform={"cpus": [0]},
    )


def chain_of(machine: Machine) -> Json:
    (chain,) = machine.ps()["stats"]["chains"]
    return dict(chain)


@pytest.mark.parametrize("driver", ["vfio", "mmsg"])
def test_packets_pass_functions_on_virtual_functions(
    cards: list[Card], machine: Machine, driver: str
) -> None:
    passes(cards, machine, driver, {"count": _MONITOR, "swap": macswap()})


@pytest.mark.parametrize("driver", ["vfio", "mmsg"])
def test_packets_pass_programs_that_know_of_no_next_function(
    cards: list[Card], machine: Machine, driver: str
) -> None:
    """The plug-in writes its address into them."""
    passes(cards, machine, driver, {"one": _AS_IT_IS, "other": _AS_IT_IS})


def test_no_frame_reaches_the_chain_of_another_tenant(cards: list[Card], machine: Machine) -> None:
    """Both have virtual functions of one switch; the card keeps each in a VLAN of its own."""
    file = machine.chain_file(
        {"count": _MONITOR, "swap": macswap()},
        sriov={"nics": [card.interface for card in cards]},
        chains={
            "acme": {"tenant": "acme", "path": ["count"], "match": [{"dst": "10.1.0.0/16"}]},
            "globex": {"tenant": "globex", "path": ["swap"]},
        },
        links=[
            {"from": one, "to": other, "kind": "sriov"}
            for name in ("count", "swap")
            for one, other in (("ingress", name), (name, "egress"))
        ],
        traffic={"source": {"kind": "synthetic", "size": 64}, "rate": "1000pps"},
        platform={"cpus": [0]},
    )
    machine.up(file)
    machine.wait_for(
        lambda: all(int(of["delivered"]) > _PACKETS for of in machine.ps()["stats"]["chains"]),
        "packets of a tenant do not come through",
    )
    card = cards[0]
    vfs = range(int((card.device / "sriov_numvfs").read_text()))
    vlans = {card.get(vf, "IFLA_VF_VLAN")["vlan"] for vf in vfs}
    assert len(vlans) == 2
    assert 0 not in vlans
    with packet_socket(card.interface) as outside:  # in no VLAN
        outside.setblocking(True)
        for vf in vfs:
            to = mac(card.get(vf, "IFLA_VF_MAC")["mac"])
            for _ in range(_STRANGERS):
                outside.send(to + mac(card.mac) + ETHERTYPE.to_bytes(2, "big") + bytes(50))
    account = machine.exact_account(_DRAIN_SECONDS)
    assert int(account["unaccounted"]) == 0
    assert int(account["delivered"]) <= int(account["offered"]), account
    assert int(account["lost_unseen"]) < _STRANGERS, account
    machine.down()


def passes(cards: list[Card], machine: Machine, driver: str, functions: dict[str, Json]) -> None:
    """As many packets as come in come out, or are accounted for."""
    machine.up(chain_on(machine, cards[0], functions, driver=driver))
    machine.wait_for(
        lambda: int(chain_of(machine)["delivered"]) > _PACKETS, "packets do not come through"
    )
    stats = machine.ps()["stats"]
    for function in stats["functions"]:
        (path,) = function["paths"]
        seen = [path[end] for end in ("ingress", "egress")]
        assert all(("packets" in link) == (driver != "vfio") for link in seen), seen
        assert int(function["switched_in"]) > 0, "turns go round"
    account = machine.exact_account(_DRAIN_SECONDS)
    assert int(account["unaccounted"]) == 0
    known = ("dropped_ingress_full", "dropped_on_links", "dropped_down", "lost_unseen")
    lost = sum(int(account.get(where, 0)) for where in known)
    assert int(account["offered"]) == int(account["delivered"]) + lost, account
    assert int(account["offered"]) > _PACKETS
    machine.down()


def test_functions_without_packets_sleep_though_nobody_sees_their_links(
    cards: list[Card], machine: Machine
) -> None:
    """They wake up to look, so a packet a second comes through."""
    functions = {"count": _MONITOR, "swap": macswap()}
    machine.up(chain_on(machine, cards[0], functions, rate="1pps"))
    machine.wait_for(lambda: int(chain_of(machine)["delivered"]) > 2, "packets do not come through")
    machine.wait_for(
        lambda: int(machine.ps()["stats"]["cores"][0].get("rests", 0)) > 1, "nobody sleeps"
    )
    before, delivered = machine.ps()["stats"], int(chain_of(machine)["delivered"])
    machine.wait_for(
        lambda: int(chain_of(machine)["delivered"]) > delivered + 3, "packets do not wake them"
    )
    now = machine.ps()["stats"]
    passed = int(now["time_ns"]) - int(before["time_ns"])
    for early, late in zip(before["functions"], now["functions"], strict=True):
        slept = int(late["time"]["blocked_ns"]) - int(early["time"].get("blocked_ns", 0))
        # To wake up takes long where a machine is emulated.
        assert slept > passed / 10, f"{late['name']} slept for {slept / passed:.0%} of the time"
    machine.down()


def test_the_example_runs_as_it_stands(cards: list[Card], machine: Machine) -> None:
    """But for the interface's name, the run's, and a rate that the emulation can bear."""
    examples = built.clone() / "examples"
    text = (examples / "sriov.yaml").read_text()
    changes = {"enp1s0f0": cards[0].interface, "name: sriov": f"name: {machine.name}"}
    for there, here in (changes | {"rate: 100kpps": "rate: 1kpps"}).items():
        assert text.count(there) == 1
        text = text.replace(there, here)
    file = examples / "sriov-in-the-machine.yaml"  # beside what it names; it stays in memory
    file.write_text(text)
    try:
        machine.up(file)
        machine.wait_for(
            lambda: int(chain_of(machine)["delivered"]) > _PACKETS, "packets do not come through"
        )
        account = machine.exact_account(_DRAIN_SECONDS)
        assert int(account["unaccounted"]) == 0, account
        machine.down()
    finally:
        file.unlink()

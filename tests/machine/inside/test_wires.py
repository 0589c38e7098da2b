"""Chains of UNiS that begin and end at wires: frames come to a virtual function of the first
function, and the last one sends them on, without UNiS between.
"""

import os
import signal
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.machine import Json, Machine, machine_in, macswap
from tests.machine.frames import Exchange, Outcome, packet_socket, run
from tests.machine.guest import Outside
from tests.machine.inside.cards import Card, wait_for
from tests.machine.inside.chain import COUNT, OUTSIDE
from unis.nics.layout import mac_of
from unis.runtime.directory import run_directory

_PATIENCE = 20.0  # seconds without a frame until the rest is lost
_RESTART_SECONDS = 60.0  # until a function is back: a bound, not an expectation
_MONITOR: Json = {"program": "monitor", "cpu": 1, "cost_ns": 2000}
_FUNCTIONS = {"count": _MONITOR, "swap": macswap(cost_ns=2000, restart="on-failure")}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Which a test must leave as it found it."""
    with machine_in(tmp_path) as machine:
        yield machine


def at_wires(machine: Machine, card: Card, count: int, next_hop: str, driver: str) -> Path:
    """So many functions, of which the last sends to the MAC address `next_hop`."""
    functions = dict([*_FUNCTIONS.items()][-count:])
    names = ["ingress", *functions, "egress"]
    return machine.chain_file(
        functions,
        sriov={"nics": [card.interface]},
        links=[
            {"from": one, "to": other, "kind": "sriov", "driver": driver}
            for one, other in pairwise(names)
        ],
        traffic={"source": {"kind": "wire"}, "sink": {"kind": "wire", "next_hop": next_hop}},
        platform={"cpus": [0]},
    )


def state_of(card: Card) -> list[str]:
    files = (card.device / "sriov_numvfs", card.device / "sriov_drivers_autoprobe")
    flags = Path("/sys/class/net") / card.interface / "flags"
    return [file.read_text() for file in (*files, flags)]


def exchange_of(machine: Machine, count: int, source: str, back: str) -> Exchange:
    state = run_directory(machine.name).read()
    assert state
    last = mac_of(f"{machine.name}/chain.{count}/0")
    return Exchange(
        number=1, count=COUNT, source=source, destination=state.wires["chain"], last=last,
        back=back, seconds=_PATIENCE,
    )  # fmt: skip


def assert_counted(machine: Machine, outcome: Outcome) -> None:
    """Frames and probes are offered, and all that were are delivered."""
    outcome.assert_exact(COUNT)
    sent = COUNT + outcome.probes
    (chain,) = machine.ps()["stats"]["chains"]
    assert (int(chain["offered"]), int(chain["delivered"])) == (sent, sent), chain
    account = machine.exact_account(30)
    assert int(account["offered"]) == int(account["delivered"]) == sent, account
    assert int(account["unaccounted"]) == 0


@pytest.mark.parametrize("driver", ["vfio", "mmsg"])
@pytest.mark.parametrize("count", [1, 2])
def test_frames_of_the_card_itself_pass_a_chain_at_wires(
    cards: list[Card], machine: Machine, count: int, driver: str,
    record_property: Callable[[str, object], None],
) -> None:  # fmt: skip
    card = cards[0]
    card.restore()
    before = state_of(card)
    machine.up(at_wires(machine, card, count, card.mac, driver))
    assert int((card.device / "sriov_numvfs").read_text()) == 2 * count
    exchange = exchange_of(machine, count, card.mac, card.mac)
    with packet_socket(card.interface) as both:
        outcome = run(exchange, both, both)
    record_property("frames", outcome.received)
    assert_counted(machine, outcome)
    machine.down()
    assert state_of(card) == before


@pytest.mark.parametrize("driver", ["vfio", "mmsg"])
def test_frames_from_outside_pass_a_chain_at_wires(
    cards: list[Card], outside: Outside, machine: Machine, driver: str,
    record_property: Callable[[str, object], None],
) -> None:  # fmt: skip
    machine.up(at_wires(machine, cards[0], 2, OUTSIDE[0], driver))
    outcome = outside.exchange(0, 0, exchange_of(machine, 2, OUTSIDE[0], OUTSIDE[0]))
    record_property("frames", outcome.received)
    assert_counted(machine, outcome)
    machine.down()


def test_a_function_at_a_wire_that_is_killed_goes_on_counting_when_it_is_back(
    cards: list[Card], machine: Machine
) -> None:
    card = cards[0]
    machine.up(at_wires(machine, card, 1, card.mac, "vfio"))
    exchange = exchange_of(machine, 1, card.mac, card.mac)
    with packet_socket(card.interface) as both:
        first = run(exchange, both, both)
        assert_counted(machine, first)
        pid = machine.ps()["functions"]["swap"]
        os.kill(pid, signal.SIGKILL)
        wait_for(
            lambda: machine.ps()["functions"].get("swap", pid) != pid,
            "the function is not back", _RESTART_SECONDS,
        )  # fmt: skip
        second = run(exchange, both, both)
    second.assert_exact(COUNT)
    sent = 2 * COUNT + first.probes + second.probes
    wait_for(lambda: _delivered(machine) >= 2 * COUNT, "what comes later is not counted")
    (chain,) = machine.ps()["stats"]["chains"]
    assert 2 * COUNT <= int(chain["delivered"]) <= int(chain["offered"]) <= sent
    machine.down()


def _delivered(machine: Machine) -> int:
    (chain,) = machine.ps()["stats"]["chains"]
    return int(chain["delivered"])

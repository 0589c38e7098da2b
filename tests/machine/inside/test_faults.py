"""A process of a run whose links are of kind sriov is killed, at 20 points of the run. Nothing
hangs, the card is as it was found, and what was lost is in the account.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.machine import Json, Machine, machine_in, macswap
from tests.e2e.test_crash_points import assert_was_killed, up
from tests.machine.inside.cards import MOST, Card, wait_for
from unis.links import physical
from unis.runtime.directory import run_directory

_SECONDS = 180.0  # until the others of the run have cleaned up: a bound, not an expectation
_SOME = 500  # packets
UP = [
    ("launcher", "unis.nics.binding:write"),  # the card is noted, and not touched
    ("launcher", "unis.nics.binding:write#2"),  # no virtual function is there yet
    ("guard", "unis.nics.binding:write#2"),
    ("launcher", "unis.links.physical:_set_up#2"),  # they are there, and those of a link not set up
    ("launcher", "unis.nics.binding:bind#3"),  # some are at vfio, some have no driver
    ("launcher", "unis.engine.client:EngineClient.deploy"),  # unisd has opened its own
    ("unisd", "unis.engine.client:EngineClient.deploy"),
    ("launcher", "unis.runtime.run:Run.attach"),  # a function has opened its own
]
RUNNING = [["launcher"], ["unisd"], ["guard"], ["guard", "launcher"]]
FUNCTIONS = ["count", "swap"]
DOWN = [
    ("unisd", "unis.runtime.running:clean_up"),
    ("launcher", "unis.runtime.steps:restore_nics"),
    ("launcher", "unis.nics.binding:restore#3"),
    ("guard", "unis.runtime.steps:remove_links"),
    ("launcher", "unis.runtime.steps:remove_links"),
    ("launcher", "unis.links.physical:release#2"),
]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_in(tmp_path) as machine:
        yield machine


def chain(machine: Machine, card: Card) -> Path:
    ends = [("ingress", "count"), ("count", "swap"), ("swap", "egress")]
    links: list[Json] = [{"from": one, "to": other, "kind": "sriov"} for one, other in ends]
    count = {"program": "monitor", "cpu": 1, "cost_ns": 50, "restart": "on-failure"}
    return machine.chain_file(
        {"count": count, "swap": macswap(restart="on-failure")},
        traffic={"source": {"kind": "synthetic"}, "rate": "2kpps"},
        platform={"cpus": [0]},
        sriov={"nics": [card.interface]},
        links=links,
    )


def state_of(card: Card) -> list[str]:
    """What a run must leave of a card."""
    flags = Path("/sys/class/net") / card.interface / "flags"
    files = [card.device / "sriov_numvfs", card.device / "sriov_drivers_autoprobe", flags]
    return [*(file.read_text() for file in files), *map(str, physical.records().glob("*.json"))]


@pytest.fixture
def card(cards: list[Card], machine: Machine) -> Iterator[Card]:
    """As it is before a run, and must be after it."""
    before = state_of(cards[0])
    assert before[0] == "0\n"
    yield cards[0]

    def undone() -> bool:
        state = run_directory(machine.name).read()
        return state is None or state.undone()

    wait_for(undone, "the run is not undone", _SECONDS)
    assert state_of(cards[0]) == before
    # It can be used at once.
    assert len(cards[0].make(MOST, "vfio-pci")) == MOST
    cards[0].restore()


@pytest.mark.parametrize(("victim", "point"), UP)
def test_while_it_comes_up(machine: Machine, card: Card, victim: str, point: str) -> None:
    assert up(machine, victim, point, chain(machine, card)) == 1
    assert_was_killed(machine, victim)


def delivered(machine: Machine) -> int:
    return int(machine.ps()["stats"]["account"]["delivered"])


def await_packets(machine: Machine, more_than: int) -> None:
    wait_for(lambda: delivered(machine) > more_than, "no packets come", _SECONDS)


@pytest.mark.parametrize("victims", RUNNING, ids="-".join)
def test_while_it_runs(machine: Machine, card: Card, victims: list[str]) -> None:
    machine.up(chain(machine, card))
    await_packets(machine, _SOME)
    state = run_directory(machine.name).read()
    assert state
    for victim in victims:
        os.kill(getattr(state, victim).pid, 9)
    if "guard" in victims:  # nobody is left who would clean up, or who would do it at once
        machine.unis("down", machine.name, codes=(0, 1))


def test_functions_come_back_on_their_virtual_functions(
    machine: Machine, card: Card, record_property: Callable[[str, object], None]
) -> None:
    machine.up(chain(machine, card))
    await_packets(machine, _SOME)
    for victim in FUNCTIONS:
        before = machine.pid_of(victim)
        machine.kill(before)
        wait_for(
            lambda who=victim, was=before: machine.ps()["functions"].get(who, was) != was,  # type: ignore[misc]
            f"{victim} is not back",
            _SECONDS,
        )
        await_packets(machine, delivered(machine) + _SOME)
        account = {key: value for key, value in machine.exact_account().items() if value}
        record_property(victim, account)
        assert "unaccounted" not in account, account
    machine.down()


@pytest.mark.parametrize(("victim", "point"), DOWN)
def test_while_it_goes_down(machine: Machine, card: Card, victim: str, point: str) -> None:
    assert up(machine, victim, point, chain(machine, card)) == 0
    machine.unis("down", machine.name, codes=(0, 1))
    assert_was_killed(machine, victim)

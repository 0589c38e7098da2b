"""A program of a chain through the card's switch is killed or stopped while frames pass.

Then what is on its way is lost, and nothing else: no frame comes twice, late or changed, the
virtual functions stay with their driver, and the card takes them back without delay.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.machine.frames import Outcome
from tests.machine.inside.cards import Card, driver_of
from tests.machine.inside.chain import Chain, layout

_COUNT = 1500
_LENGTH = 2
_SECONDS = 20.0  # until the card has taken its functions back
POINTS = [(victim, at) for victim in range(_LENGTH) for at in (100, 500, 1000)]


@pytest.fixture(params=["vfio-pci", "igbvf"])
def chain(request: pytest.FixtureRequest, cards: list[Card], tmp_path: Path) -> Iterator[Chain]:
    functions = [cards[0].make(2 * _LENGTH, request.param), []]
    made = Chain(cards, layout(cards, functions, _LENGTH), tmp_path)
    try:
        made.start(cards[0].mac)
        yield made
    finally:
        made.stop()


def once(at: int, act: Callable[[], None]) -> Callable[[Outcome], None]:
    """Acts when so many frames have come."""
    done: list[bool] = []

    def watch(outcome: Outcome) -> None:
        if outcome.received >= at and not done:
            done.append(True)
            act()

    return watch


def test_who_is_killed_loses_what_is_on_its_way(
    chain: Chain, record_property: Callable[[str, object], None]
) -> None:
    """Each program, early, in the middle and late; it is started again at once."""
    mac = chain.cards[0].mac
    lost = []
    for victim, at in POINTS:
        outcome = chain.from_card(_COUNT, once(at, partial(chain.replace, victim, mac)))
        outcome.assert_in_order(_COUNT)
        lost.append(outcome.lost)
        chain.from_card(200).assert_exact(200)
    record_property("points", len(POINTS))
    record_property("lost", lost)
    assert any(lost), "nobody was struck"


def test_who_is_stopped_goes_on(chain: Chain) -> None:
    for victim in range(_LENGTH):

        def strike(pid: int = chain.pid(victim)) -> None:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.5)
            os.kill(pid, signal.SIGCONT)

        chain.from_card(_COUNT, once(300, strike)).assert_exact(_COUNT)


@pytest.mark.short
def test_the_card_takes_functions_back_whose_program_was_killed(chain: Chain) -> None:
    card = chain.cards[0]
    functions = [end for hop in chain.hops for end in (hop.ingress, hop.egress)]
    before = [function.driver for function in functions]
    for victim in range(_LENGTH):
        chain.kill(victim)
    assert [driver_of(function.device) for function in functions] == before
    # In a process of its own: a write that hangs cannot be interrupted.
    write = ["sh", "-c", f"echo 0 > {card.device}/sriov_numvfs"]
    subprocess.run(write, check=True, timeout=_SECONDS)
    assert not any(function.device.exists() for function in functions)
    assert [*card.device.glob("virtfn*")] == []

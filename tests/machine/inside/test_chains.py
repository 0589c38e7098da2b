"""Chains of unmodified programs through the card's switch: every frame, once, in order, whole."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.machine.guest import Outside
from tests.machine.inside.cards import MOST, Card, Function
from tests.machine.inside.chain import COUNT, OUTSIDE, Chain, layout

_LONGEST = 4  # programs: one port more than a card has


@pytest.fixture(scope="module", params=["vfio-pci", "igbvf"])
def functions(request: pytest.FixtureRequest, cards: list[Card]) -> list[list[Function]]:
    """The virtual functions of each card, all at one driver."""
    counts = (MOST, 2 * _LONGEST - MOST)
    return [card.make(count, request.param) for card, count in zip(cards, counts, strict=True)]


@pytest.fixture
def chain(
    request: pytest.FixtureRequest, cards: list[Card], functions: list[list[Function]],
    tmp_path: Path,
) -> Iterator[Chain]:  # fmt: skip
    """So many programs, which run. What comes out goes to the last card itself."""
    made = Chain(cards, layout(cards, functions, request.param), tmp_path)
    try:
        made.start(cards[made.hops[-1].card].mac)
        yield made
    finally:
        made.stop()


@pytest.mark.short
@pytest.mark.parametrize("chain", [1, 2, 4], indirect=True)
def test_every_frame_passes(
    chain: Chain, outside: Outside, record_property: Callable[[str, object], None]
) -> None:
    outcome = chain.from_card()
    record_property("from the card", f"{outcome.received} frames")
    outcome.assert_exact(COUNT)
    last = chain.hops[-1]
    chain.replace(len(chain.hops) - 1, OUTSIDE[last.card])
    outcome = chain.from_outside(outside)
    record_property("from outside", f"{outcome.received} frames")
    outcome.assert_exact(COUNT)


@pytest.mark.parametrize("chain", [2], indirect=True)
def test_a_program_that_is_killed_and_started_again_passes_on(chain: Chain) -> None:
    card = chain.cards[0]
    driver = chain.hops[0].ingress.driver
    for victim in (0, 1):
        chain.replace(victim, card.mac)
        assert [hop.ingress.driver for hop in chain.hops] == [driver, driver]
        chain.from_card(1000).assert_exact(1000)

"""The cards of the emulated machine. On any other machine no test here is collected."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machine.guest import Outside
from tests.machine.inside.cards import Card
from tests.machine.lines import inside

collect_ignore_glob = [] if inside() else ["*"]


@pytest.fixture(scope="session")
def outside(pytestconfig: pytest.Config) -> Outside:
    return pytestconfig.stash[Outside.KEY]


@pytest.fixture(scope="module")
def cards() -> Iterator[list[Card]]:
    """Both, without virtual functions at first and afterwards."""
    both = [Card(number) for number in range(2)]
    for card in both:
        card.up()
    yield both
    for card in both:
        card.restore()


@pytest.fixture(autouse=True)
def _no_file_is_left() -> Iterator[None]:
    yield
    assert [*Path("/dev/hugepages").iterdir()] == []

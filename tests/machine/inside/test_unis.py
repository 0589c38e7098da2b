"""UNiS on virtual functions: what it counts, and what it leaves."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.machine import Json, Machine, machine_in, macswap
from tests.machine.frames import Exchange
from tests.machine.guest import Outside
from tests.machine.inside.cards import Card, Function
from tests.machine.inside.chain import COUNT, OUTSIDE

_PATIENCE = 20.0  # seconds without a frame until the rest is lost


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Which a test must leave as it found it."""
    with machine_in(tmp_path) as machine:
        yield machine


def on_ports(machine: Machine, functions: list[Function]) -> Path:
    """Frames come by the first virtual function, and leave by the second with swapped addresses."""
    traffic: Json = {
        way: {"kind": "port", "device": function.address}
        for way, function in zip(("source", "sink"), functions, strict=True)
    }
    return machine.chain_file(
        {"count": {"program": "monitor", "cpu": 1, "cost_ns": 50}, "swap": macswap()},
        traffic=traffic,
        platform={"cpus": [0]},
    )


@pytest.mark.short
def test_source_and_sink_on_virtual_functions(
    cards: list[Card], outside: Outside, machine: Machine,
    record_property: Callable[[str, object], None],
) -> None:  # fmt: skip
    functions = cards[0].make(2, "vfio-pci")
    machine.up(on_ports(machine, functions))
    exchange = Exchange(
        number=1, count=COUNT, source=OUTSIDE[0], destination=functions[0].mac,
        last=functions[0].mac, back=OUTSIDE[0], seconds=_PATIENCE,
    )  # fmt: skip
    outcome = outside.exchange(0, 0, exchange)
    record_property("frames", outcome.received)
    outcome.assert_exact(COUNT)
    account = machine.exact_account()
    assert int(account["offered"]) == COUNT + outcome.probes
    assert account["delivered"] == account["offered"]
    assert int(account["unaccounted"]) == 0
    machine.down()
    assert [function.driver for function in functions] == ["vfio-pci"] * 2

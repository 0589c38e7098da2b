"""Bad input gets a sentence and exit code 2, and nothing is left running."""

from pathlib import Path

import pytest
from machine import Json, Machine, macswap


def _cycle() -> list[Json]:
    return [macswap("a", after="b"), macswap("b", after="a")]


@pytest.mark.parametrize(
    ("functions", "more", "told"),
    [
        (_cycle(), {}, "cycle"),
        ([macswap("a", nonsense=1)], {}, "nonsense"),
        ([macswap("a", program="no-such-program")], {}, "no-such-program"),
        ([macswap("a", cpu=999)], {}, "999"),
        ([macswap("a")], {"traffic": {"source": {"kind": "pcap", "file": "no.pcap"}}}, "no.pcap"),
        ([macswap("a")], {"traffic": {"rate": "fast"}}, "fast"),
    ],
)
def test_one_sentence_and_exit_code_two(
    machine: Machine, functions: list[Json], more: Json, told: str
) -> None:
    said = machine.unis("up", str(machine.chain_file(functions, **more)), code=2)
    assert told in said
    assert len(said.strip().splitlines()) <= len(functions) + 1
    assert not machine.processes()


def test_a_ring_size_that_is_no_power_of_two(machine: Machine) -> None:
    chains = [{"name": "chain", "ring": 1000, "functions": [macswap("a")]}]
    said = machine.unis("up", str(machine.chain_file([], chains=chains)), code=2)
    assert "power of two" in said


def test_a_file_that_is_not_there(machine: Machine) -> None:
    assert "no.yaml" in machine.unis("up", "no.yaml", code=2)


def test_a_capture_that_is_none(machine: Machine) -> None:
    Path(machine.directory / "text.pcap").write_text("this is no capture")
    traffic = {"source": {"kind": "pcap", "file": "text.pcap"}}
    said = machine.unis("up", str(machine.chain_file([macswap("a")], traffic=traffic)), code=2)
    assert "text.pcap" in said

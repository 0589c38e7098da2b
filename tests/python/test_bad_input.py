"""Bad input gets a sentence and exit code 2, and nothing is left running."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.machine import Json, Machine, macswap
from unis.runtime.directory import run_directory
from unis.runtime.folders import ports_directory

pytestmark = pytest.mark.system


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    assert machine.processes() == []
    left = [*Path("/dev/hugepages").glob(f"unis-{machine.name}map_*")]
    left += ports_directory().glob(machine.name)
    assert left == []
    assert not run_directory(machine.name).path.exists()


@pytest.mark.parametrize(
    ("functions", "more", "told"),
    [
        ({"a": macswap()}, {"chains": {"chain": {"path": ["a", "b"]}}}, "`b`"),
        ({"a": macswap(nonsense=1)}, {}, "nonsense"),
        ({"a": macswap(program="no-such-program")}, {}, "no-such-program"),
        ({"a": macswap(cpu=999)}, {}, "999"),
        (
            {"a": macswap()},
            {"traffic": {"source": {"kind": "pcap", "file": "no.pcap"}}},
            "no.pcap",
        ),
        ({"a": macswap()}, {"traffic": {"rate": "fast"}}, "fast"),
        ({"a": macswap()}, {"scheduler": {"gamma": 1.5}}, "gamma"),
    ],
)
def test_one_sentence_and_exit_code_two(
    machine: Machine, functions: dict[str, Json], more: Json, told: str
) -> None:
    said = machine.unis("up", str(machine.chain_file(functions, **more)), code=2)
    assert told in said
    assert len(said.strip().splitlines()) == 1


def test_a_ring_size_that_is_no_power_of_two(machine: Machine) -> None:
    links = [{"from": "ingress", "to": "a", "slots": 1000}]
    said = machine.unis("up", str(machine.chain_file({"a": macswap()}, links=links)), code=2)
    assert "power of two" in said


def test_a_file_that_is_not_there(machine: Machine) -> None:
    assert "no.yaml" in machine.unis("up", "no.yaml", code=2)


def test_a_capture_that_is_none(machine: Machine) -> None:
    Path(machine.directory / "text.pcap").write_text("this is no capture")
    traffic = {"source": {"kind": "pcap", "file": "text.pcap"}}
    said = machine.unis("up", str(machine.chain_file({"a": macswap()}, traffic=traffic)), code=2)
    assert "text.pcap" in said

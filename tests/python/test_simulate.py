"""What the simulator is fed with."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import PcapNgWriter, wrpcap

from tests.python.planned import path_of
from tests.python.strategies import Data, chain_files, scaled
from unis import built
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile
from unis.chain.problem import ChainFileError
from unis.engine.limits import broken
from unis.simulate import run
from unis.simulate.capture import CaptureError, mean_size, packet_sizes
from unis.simulate.scenario import MachineCosts, ScenarioError, scenario, shortened
from unis.v1 import simulator_pb2 as pb


def loaded(data: Data, directory: Path = Path()) -> LoadedChain:
    return LoadedChain(directory / "x.yaml", ChainFile.model_validate(data))


def costs_of(chain: LoadedChain) -> dict[str, float | dict[int, float]]:
    return {name: part.cost_ns or 10.0 for name, part in chain.file.functions.items()}


@settings(max_examples=scaled(60))
@given(chain_files())
def test_a_chain_becomes_a_scenario(data: Data) -> None:
    if data.get("traffic", {}).get("source", {}).get("kind", "synthetic") != "synthetic":
        return
    chain = loaded(data)
    try:
        wire = scenario(chain, costs_of(chain), "unis", 0.5, MachineCosts())
    except ChainFileError as error:
        if "share no ring" not in str(error):
            raise
        return
    assert broken(wire) == []
    assert [function.name for function in wire.functions] == list(data["functions"])
    assert {part.name: list(part.path) for part in wire.chains} == {
        name: path_of(chain.file, name) for name in data["chains"]
    }
    for part in wire.chains:
        assert len(part.capacity) == len(part.path) + 1
        assert (part.arrivals.pps > 0) == (part.arrivals.kind != pb.ARRIVAL_SATURATING)
        poisson = data.get("traffic", {}).get("arrivals") == "poisson"
        assert (part.arrivals.kind == pb.ARRIVAL_POISSON) == poisson
    for function in wire.functions:
        assert function.cost_ns > 0
        assert len(function.size) == len(function.size_cost_ns)
        assert list(function.size) == sorted(function.size)
    short = shortened(chain, 1)
    assert all(len(path_of(short.file, name)) == 1 for name in data["chains"])
    assert len(scenario(short, costs_of(chain), "unis", 0.5, MachineCosts()).chains) == len(
        data["chains"]
    )


def a_chain(**parts: object) -> Data:
    return {
        "apiVersion": "unis/v1",
        "name": "x",
        "defaults": {"cpu": 1},
        "functions": {name: {"program": "p", "cost_ns": 50} for name in "abc"},
        "chains": {"c": {"path": ["a", "b", "c"], "ring": 512}},
        **parts,
    }


def test_capacities() -> None:
    links = [{"from": "a", "to": "b", "kind": "memif", "slots": 256}]
    chain = loaded(a_chain(links=links))
    wire = scenario(chain, costs_of(chain), "unis", 1, MachineCosts())
    # Behind b the engine carries packets from a memif of 1024 to a ring.
    assert list(wire.chains[0].capacity) == [511, 256, 511, 511]


def test_rings_are_as_long_as_the_costs_ask_for_whatever_the_file_states() -> None:
    chain = loaded(a_chain(chains={"c": {"path": ["a", "b", "c"]}}))

    def longest(cost: float) -> int:
        costs = dict.fromkeys("abc", cost)
        wire = scenario(chain, costs, "unis", 1, MachineCosts())
        return max(wire.chains[0].capacity)

    assert longest(5) > longest(5000)


def test_time_slices_of_the_kernel() -> None:
    def machine(**scheduler: float) -> pb.SimMachine:
        chain = loaded(a_chain(scheduler=scheduler))
        return scenario(chain, costs_of(chain), "other", 1, MachineCosts()).machine

    assert machine().fair_slice_ns == 0, "the simulator's own"
    stated = machine(fair_slice_ms=2.5, rr_timeslice_ms=7)
    assert (stated.fair_slice_ns, stated.rr_slice_ns) == (2_500_000, 7_000_000)


def test_functions_of_two_chains_stand_once() -> None:
    chains = {"c": {"path": ["a", "b", "c"], "match": [{"dst_port": 1}]}, "d": {"reverse_of": "c"}}
    chain = loaded(a_chain(chains=chains))
    wire = scenario(chain, costs_of(chain), "unis", 1, MachineCosts())
    assert [function.name for function in wire.functions] == ["a", "b", "c"]
    assert [list(part.path) for part in wire.chains] == [["a", "b", "c"], ["c", "b", "a"]]


def test_the_scheduler_reckons_with_the_packets_that_come() -> None:
    costs: dict[str, float | dict[int, float]] = dict.fromkeys("bc", 10.0)
    costs["a"] = {64: 10.0, 594: 40.0, 1518: 100.0}
    chain = loaded(a_chain(traffic={"source": {"kind": "synthetic", "size": "imix"}}))
    function = scenario(chain, costs, "unis", 1, MachineCosts()).functions[0]
    assert function.scheduled_cost_ns == pytest.approx((7 * 10 + 4 * 40 + 100) / 12)


def test_a_missing_cost_is_told() -> None:
    with pytest.raises(ScenarioError, match="the cost of b, c is not known: add cost_ns to"):
        scenario(loaded(a_chain()), {"a": 1.0}, "unis", 1, MachineCosts())


# ------------------------------------------------------------------ captures

FRAMES = [Ether() / IP() / UDP() / bytes(payload) for payload in (0, 100, 1400, 18, 700)]


def captures(directory: Path) -> list[Path]:
    files = [directory / "a.pcap", directory / "a.pcapng"]
    wrpcap(str(files[0]), FRAMES)
    with PcapNgWriter(str(files[1])) as writer:
        writer.write(FRAMES)
    return files


def test_sizes_of_a_capture(tmp_path: Path) -> None:
    expected = [max(64, len(frame) + 4) for frame in FRAMES]
    for file in captures(tmp_path):
        assert list(packet_sizes(file)) == expected
        assert mean_size(file) == round(sum(expected) / len(expected))


def test_what_the_engine_leaves_out_is_left_out_here(tmp_path: Path) -> None:
    long, short = Ether() / bytes(3000), Ether()
    wrpcap(str(tmp_path / "a.pcap"), [long, FRAMES[1]])
    assert mean_size(tmp_path / "a.pcap") == len(FRAMES[1]) + 4
    wrpcap(str(tmp_path / "b.pcap"), [long])
    with pytest.raises(CaptureError, match="holds no packet that fits a buffer"):
        mean_size(tmp_path / "b.pcap")
    wrpcap(str(tmp_path / "c.pcap"), [short])
    assert mean_size(tmp_path / "c.pcap") == 64


def test_a_capture_that_was_cut_off_is_told(tmp_path: Path) -> None:
    for file in captures(tmp_path):
        data = file.read_bytes()
        for length in (3, 10, 30, len(data) - 5):
            file.write_bytes(data[:length])
            with pytest.raises(CaptureError, match=file.name):
                mean_size(file)


def test_a_capture_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file"):
        mean_size(tmp_path / "none.pcap")
    with pytest.raises(CaptureError, match="cannot read"):
        mean_size(tmp_path)
    chain = loaded(a_chain(traffic={"source": {"kind": "pcap", "file": "no.pcap"}}), tmp_path)
    with pytest.raises(CaptureError, match="No such file"):
        scenario(chain, costs_of(chain), "unis", 1, MachineCosts())


@given(st.binary(max_size=300))
def test_any_bytes_end(data: bytes) -> None:
    for magic in ("d4c3b2a1", "0a0d0d0a"):
        path = Path("/dev/shm/unis-pytest.pcap")  # noqa: S108  only read back
        path.write_bytes(bytes.fromhex(magic) + data)
        try:
            assert all(size >= 64 for size in packet_sizes(path))
        except CaptureError as error:
            assert str(path) in str(error)  # noqa: PT017
        path.unlink()


def test_a_simulator_that_does_not_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = tmp_path / "unis-sim"
    stuck.write_text("#!/bin/sh\nexec sleep 60\n")
    stuck.chmod(0o755)
    monkeypatch.setattr(built, "simulator", lambda: stuck)
    monkeypatch.setattr(run, "_SECONDS", 0.2)
    with pytest.raises(ScenarioError, match=r"has not ended after .* simulate fewer"):
        run.simulate(pb.Scenario())


def test_the_controller_is_the_files_unless_it_is_stated() -> None:
    def handed(stated: str | None, **scheduler: str) -> bool:
        chain = loaded(a_chain(scheduler=scheduler))
        costs = costs_of(chain)
        return scenario(chain, costs, "unis", 1, MachineCosts(), controller=stated).handover

    assert handed(None)
    assert not handed(None, controller="priority")
    assert not handed("priority")
    assert handed("handover", controller="priority")


def test_what_a_packet_costs_in_a_chain_is_not_what_the_scheduler_reckons_with() -> None:
    chain = loaded(a_chain())
    costs: dict[str, float | dict[int, float]] = {
        "a": 20.0, "b": {64: 30.0, 1500: 50.0}, "c": 40.0,
    }  # fmt: skip
    a, b, _ = scenario(chain, costs, "unis", 1, MachineCosts(chain_factor=1.5)).functions
    assert (a.cost_ns, a.scheduled_cost_ns) == (30.0, 20.0)
    assert [*b.size_cost_ns] == [45.0, 75.0]
    assert b.cost_ns == pytest.approx(1.5 * b.scheduled_cost_ns)

"""Costs that are remembered, histograms, and what the simulator is fed with."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import PcapNgWriter, wrpcap
from strategies import Data, chain_files

from unis.bench.agreement import macswap_chain, reversed_pairs
from unis.chain.load import LoadedChain
from unis.chain.machine import Machine, format_cpu_list, parse_cpu_list
from unis.chain.model import ChainFile, Function
from unis.engine.histogram import Latency
from unis.launch.costs import Cost, CostCache, cost_key, sizes_of
from unis.simulate.capture import mean_size, packet_sizes
from unis.simulate.scenario import MachineCosts, ScenarioError, scenario, shortened
from unis.v1 import engine_pb2 as pb


def function(**parts: object) -> Function:
    return Function.model_validate({"name": "a", "program": "p", "cpu": 1, **parts})


def test_the_key_of_a_cost_changes_with_all_that_may_change_it(tmp_path: Path) -> None:
    program, rules = tmp_path / "p", tmp_path / "rules"
    program.write_text("one")
    rules.write_text("one")
    base = function(args=["--rules", "rules"])
    keys = [
        cost_key(program, base, tmp_path, [64]),
        cost_key(program, base, tmp_path, [1500]),
        cost_key(program, function(args=["--rules", "x"]), tmp_path, [64]),
        cost_key(program, function(args=["--rules=rules"]), tmp_path, [64]),
    ]
    rules.write_text("two")
    keys.append(cost_key(program, base, tmp_path, [64]))
    program.write_text("two")
    keys.append(cost_key(program, base, tmp_path, [64]))
    assert len(set(keys)) == len(keys)
    other_cpu = base.model_copy(update={"cpu": 2, "name": "b"})
    assert cost_key(program, other_cpu, tmp_path, [64]) == keys[-1]


def test_costs_are_remembered(tmp_path: Path) -> None:
    cache = CostCache(tmp_path / "deep" / "costs.json")
    assert cache.get("x") is None
    cost = Cost(ns=50, ns_q1=45, ns_q3=60, cycles=120)
    cache.put("x", cost)
    cache.put("y", cost)
    assert CostCache(tmp_path / "deep" / "costs.json").get("x") == cost
    (tmp_path / "deep" / "costs.json").write_text("{broken")
    assert cache.get("x") is None
    cache.put("x", cost)
    assert cache.get("x") == cost


@given(st.dictionaries(st.integers(1, 10**10), st.integers(1, 1000), min_size=1, max_size=40))
def test_latency_percentiles(buckets: dict[int, int]) -> None:
    values = sorted(buckets)
    latency = Latency([pb.LatencyHistogram(value_ns=values, count=[buckets[v] for v in values])])
    assert latency.count == sum(buckets.values())
    top = latency.percentile_us(100)
    assert top is not None
    assert top * 1000 == pytest.approx(values[-1], rel=1e-3)
    curve = latency.curve()
    assert curve[-1][1] == pytest.approx(1)
    assert all(a <= b for (_, a), (_, b) in itertools.pairwise(curve))
    median = latency.percentile_us(50)
    assert median is not None
    below = sum(count for value, count in buckets.items() if value / 1000 <= median * 1.001)
    assert below >= latency.count / 2


def test_no_packet_has_no_latency() -> None:
    assert Latency().percentiles_us([50]) == {"p50": None}
    assert Latency().curve() == []


@given(st.sets(st.integers(0, 200)))
def test_cpu_lists(cpus: set[int]) -> None:
    assert parse_cpu_list(format_cpu_list(cpus)) == cpus


@given(st.integers(2, 64), st.data())
def test_the_platform_never_takes_a_functions_cpu(count: int, data: st.DataObject) -> None:
    machine = Machine(frozenset(range(count)))
    functions = frozenset(data.draw(st.sets(st.integers(1, count - 1), min_size=1)))
    platform = machine.platform_cpus(functions)
    assert platform[0] == 0
    assert not functions & set(platform)
    if len(platform) > 1:  # one is left for the launcher
        assert machine.cpus - functions - set(platform)


def test_sizes_of_a_capture(tmp_path: Path) -> None:
    frames = [Ether() / IP() / UDP() / bytes(payload) for payload in (0, 100, 1400, 18, 700)]
    expected = [max(64, len(frame) + 4) for frame in frames]
    wrpcap(str(tmp_path / "a.pcap"), frames)
    with PcapNgWriter(str(tmp_path / "a.pcapng")) as writer:
        writer.write(frames)
    for name in ("a.pcap", "a.pcapng"):
        assert list(packet_sizes(tmp_path / name)) == expected
        assert mean_size(tmp_path / name) == round(sum(expected) / len(expected))


@given(st.binary(max_size=300))
def test_any_bytes_end(data: bytes) -> None:
    for magic in ("d4c3b2a1", "0a0d0d0a"):
        path = Path("/dev/shm/unis-pytest.pcap")  # noqa: S108  only read back
        path.write_bytes(bytes.fromhex(magic) + data)
        assert all(size >= 64 for size in packet_sizes(path))
        path.unlink()


@settings(max_examples=40)
@given(chain_files())
def test_a_chain_becomes_a_scenario(data: Data) -> None:
    if data.get("traffic", {}).get("source", {}).get("kind", "synthetic") != "synthetic":
        return
    chain = LoadedChain(Path("x.yaml"), ChainFile.model_validate(data))
    costs = {f.name: f.cost_ns or 10.0 for f in chain.file.functions}
    wire = scenario(chain, costs, "unis", 0.5, MachineCosts())
    assert [[nf.name for nf in c.nfs] for c in wire.chains] == [
        [f["name"] for f in c["functions"]] for c in data["chains"]
    ]
    assert wire.duration_ns == 500_000_000
    for part in wire.chains:
        assert (part.arrivals.pps > 0) == (part.arrivals.kind == pb.ARRIVAL_CONSTANT)
        for nf in part.nfs:
            assert nf.cost_ns > 0
            assert len(nf.size) == len(nf.size_cost_ns)
            assert list(nf.size) == sorted(nf.size)
    short = shortened(chain, 1)
    assert len(short.file.functions) == len(data["chains"])
    name = chain.file.functions[0].name
    with pytest.raises(ScenarioError, match=name):
        scenario(chain, {}, "unis", 0.5, MachineCosts())


def test_sizes_that_costs_are_taken_over() -> None:
    chain = macswap_chain(2, "light", Machine(frozenset({0, 1})))
    assert sizes_of(chain.file.traffic) == [64]
    assert [f.cpu for f in chain.file.functions] == [1, 1]


def test_order_of_policies() -> None:
    machine = [{"unis": 4.0, "cooperative": 4.1, "rr": 0.01}]
    assert reversed_pairs(machine, [{"unis": 9, "cooperative": 8, "rr": 1}]) == []  # too close
    assert reversed_pairs(machine, [{"unis": 1, "cooperative": 1, "rr": 9}]) == [
        ("unis", "rr"),
        ("cooperative", "rr"),
    ]


def test_policies_are_compared_within_a_round() -> None:
    drifting = [{"unis": 4.0, "rr": 2.0}, {"unis": 1.0, "rr": 0.5}, {"unis": 0.2, "rr": 0.1}]
    assert reversed_pairs(drifting, [{"unis": 2, "rr": 1}]) == []
    assert reversed_pairs(drifting, [{"unis": 1, "rr": 2}]) == [("unis", "rr")]

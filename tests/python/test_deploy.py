"""The chain file becomes the engine's request without a loss."""

import ipaddress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Data, chain_files

from unis.chain.deploy import deploy_request
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile
from unis.chain.order import Place, line_up
from unis.engine import names
from unis.v1 import engine_pb2 as pb


def request(data: Data, **costs: float) -> pb.DeployRequest:
    chain = LoadedChain(Path("/somewhere/chain.yaml"), ChainFile.model_validate(data))
    return deploy_request(chain, costs)


def small(**parts: object) -> Data:
    function = {"name": "fw", "program": "firewall", "cpu": 1}
    return {
        "apiVersion": "unis/v1",
        "name": "x",
        "chains": [{"name": "c", "functions": [function]}],
        **parts,
    }


@settings(max_examples=60)
@given(chain_files())
def test_every_function_and_match_arrives(data: Data) -> None:
    wire = request(data)
    assert [c.name for c in wire.chains] == [c["name"] for c in data["chains"]]
    for chain, source in zip(wire.chains, data["chains"], strict=True):
        assert [(nf.name, nf.cpu) for nf in chain.nfs] == [
            (f["name"], f["cpu"]) for f in source["functions"]
        ]
        assert chain.ring_size == source["ring"]
        for match, stated in zip(chain.match, source.get("match", []), strict=True):
            assert match.HasField("src_port") == ("src_port" in stated)
            assert match.HasField("dst_port") == ("dst_port" in stated)
            assert match.HasField("protocol") == ("protocol" in stated)
            if "src" in stated:
                network = ipaddress.IPv4Network(stated["src"])
                assert match.src.address == int(network.network_address)
                assert match.src.length == network.prefixlen


def test_defaults_are_the_papers() -> None:
    wire = request(small())
    assert wire.scheduler.gamma == 0.75
    assert wire.scheduler.theta_min == 64 - 8
    assert not wire.scheduler.HasField("theta_max")
    assert wire.scheduler.interval_ns == 1000
    assert wire.scheduler.occupancy
    assert not wire.scheduler.HasField("lead_ns")
    assert wire.chains[0].ring_size == 2048
    assert wire.controller == pb.CONTROLLER_PRIORITY


def test_theta_min_follows_the_batch() -> None:
    assert request(small(scheduler={"batch": 32})).scheduler.theta_min == 24


def test_costs_of_the_file_come_before_measured_ones() -> None:
    assert request(small(), fw=33.0).chains[0].nfs[0].cost_ns == 33.0
    data = small()
    data["chains"][0]["functions"][0]["cost_ns"] = {64: 10, 1500: 30}
    assert request(data, fw=33.0).chains[0].nfs[0].cost_ns == 20.0


def test_traffic() -> None:
    wire = request(small(traffic={"rate": "2.5Mpps"})).traffic
    assert (wire.pps, wire.bps, wire.synthetic.size) == (2.5e6, 0, 64)
    wire = request(small(traffic={"rate": "10Gbps"})).traffic
    assert (wire.pps, wire.bps) == (0, 1e10)
    wire = request(small(traffic={"source": {"kind": "synthetic", "size": "imix"}})).traffic
    assert wire.synthetic.mix == pb.SIZE_MIX_IMIX
    wire = request(small(traffic={"source": {"kind": "pcap", "file": "a.pcap"}})).traffic
    assert wire.replay.file == "/somewhere/a.pcap"
    wire = request(small(traffic={"sink": {"kind": "port", "device": "net_tap0"}})).traffic
    assert wire.sink_device == "net_tap0"


def test_times_are_nanoseconds() -> None:
    scheduler = request(
        small(scheduler={"interval_us": 2.5, "lead_us": 0, "max_wait_us": 7})
    ).scheduler
    assert scheduler.interval_ns == 2500
    assert scheduler.HasField("lead_ns")
    assert scheduler.lead_ns == 0
    assert scheduler.max_wait_ns == 7000


@given(st.permutations(list("abcdef")))
def test_any_line_of_functions_can_be_stated_in_any_order(order: list[str]) -> None:
    after = dict(zip(order, ["ingress", *order], strict=False))
    listed = sorted(order)
    places = [Place(name, after[name]) for name in listed]
    indices, problems = line_up(places)
    assert not problems
    assert [listed[index] for index in indices] == order


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([None, *"abcd", "ingress"]))))
def test_order_is_a_permutation_or_a_problem(stated: list[tuple[str, str | None]]) -> None:
    indices, problems = line_up([Place(*each) for each in stated])
    assert problems or sorted(indices) == list(range(len(stated)))
    assert all(problem.sentence for problem in problems)


def test_names_come_from_the_contract() -> None:
    assert names.policies() == ["unis", "cooperative", "rr", "fifo", "other", "batch"]
    assert [names.policy_name(names.policy(name)) for name in names.policies()] == names.policies()
    assert names.reason_name(pb.SWITCH_REASON_INGRESS_LOW) == "ingress low"

"""Links, ports and thresholds of a plan."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.python.planned import memifs_of, planned, small, told
from tests.python.strategies import Data
from unis.chain.graph import Graph
from unis.chain.model import ChainFile
from unis.engine.limits import broken
from unis.plan import planner
from unis.plan.wiring import Wiring, wire
from unis.v1 import engine_pb2 as pb


def test_a_chain_on_rings_is_a_line_of_ports() -> None:
    plan = planned(small())
    assert [(link.name, link.kind, link.slots) for link in plan.links] == [
        (f"c.{at}", "ring", 2048) for at in range(4)
    ]
    assert [f.ports[0].device for f in plan.functions] == [
        f"net_unis{at},rx=c.{at},tx=c.{at + 1},shm={name}.0"
        for at, name in enumerate(("fw", "nat", "monitor"))
    ]
    assert [f.lcores for f in plan.functions] == ["4@1", "5@1", "6@1"]


def test_a_memif_makes_the_function_behind_it_a_group_of_its_own() -> None:
    plan = planned(small(links=[{"from": "nat", "to": "monitor", "kind": "memif", "slots": 512}]))
    assert [(link.kind, link.slots) for link in plan.links] == [
        ("ring", 2048), ("ring", 2048), ("ring", 2048), ("memif", 512), ("memif", 1024),
    ]  # fmt: skip
    assert plan.chains[0].egress == "c.4", "the sink receives from it"
    monitor = plan.function("monitor")
    assert (monitor.group, monitor.file_prefix) == ("own", "unis-x.monitor")
    assert [(p.rx, p.tx, p.end) for p in monitor.ports] == [
        ("c.3", "c.3", 1),
        ("c.4", "c.4", 1),
    ]
    assert monitor.ports[0].device == (
        "net_memif0,role=client,id=0,socket=/run/unis/x/c.3.sock,socket-abstract=no,rsize=9,"
        "bsize=2112"
    )
    assert "--proc-type=primary" in monitor.argv
    assert plan.hugepages_mb > planned(small()).hugepages_mb
    assert [(hop.in_port, hop.out_port) for hop in plan.chains[0].hops] == [(0, 0), (0, 0), (0, 1)]


def test_a_function_is_measured_alone_on_the_kinds_of_links_that_it_has() -> None:
    links = [
        {"from": "fw", "to": "nat", "kind": "memif"},
        {"from": "nat", "to": "monitor", "kind": "veth"},
    ]
    plan = planned(small(links=links))
    for name in ("nat", "monitor"):
        here, solo = plan.function(name), plan.solo(name).function(name)
        assert here.drivers == solo.drivers


EAL = ["sh", "{eal}", "--", "{vdev2}"]


def branching(*slots: int) -> Data:
    """Commands, of which the first receives on port 0 and sends on two others."""
    edges = [
        {"from": "ingress", "to": "fw", "in_port": 0},
        {"from": "fw", "to": "nat", "port": 1},
        {"from": "fw", "to": "dpi", "port": 2},
        *({"from": name, "to": "egress"} for name in ("nat", "dpi")),
    ]
    functions = {"fw": {"command": EAL}, "nat": {"command": ["sh"]}, "dpi": {"command": ["sh"]}}
    links = [
        {"from": "fw", "to": to, "kind": "memif", "slots": long}
        for to, long in zip(("nat", "dpi"), slots, strict=False)
    ]
    return small(functions=functions, chains={"c": {"graph": edges}}, links=links)


def test_a_function_is_measured_alone_with_all_of_its_ports() -> None:
    plan = planned(branching(4096))
    fw, solo = plan.function("fw"), plan.solo("fw").function("fw")
    assert len(fw.ports) == len(solo.ports) == 3
    assert fw.drivers == solo.drivers
    assert solo.argv[-1].startswith("net_memif2,role=client")
    assert [link.slots for link in plan.solo("fw").links] == [1024, 4096, 4096]
    assert broken(plan.solo("fw").deploy({}, "")) == []


def test_a_function_that_receives_on_several_ports_is_measured_with_those() -> None:
    data = branching()
    merging = [
        {"from": "nat", "to": "ids", "in_port": 0},
        {"from": "dpi", "to": "ids", "in_port": 1},
        {"from": "ids", "to": "egress", "port": 2},
    ]
    data["functions"]["ids"] = {"command": EAL}
    data["chains"]["c"]["graph"][-2:] = merging
    plan = planned(data)
    there = plan.solo("ids")
    assert len(there.function("ids").ports) == len(plan.function("ids").ports) == 3
    assert broken(there.deploy({}, "")) == []
    (chain,) = there.chains
    assert [edge.in_port for edge in chain.edges if edge.to] == [0, 1]


def test_no_function_is_planned_alone_before_it_must_be_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []

    def counted(file: ChainFile, graph: Graph) -> Wiring:
        made.extend(file.functions)
        return wire(file, graph)

    monkeypatch.setattr(planner, "wire", counted)
    plan = planned(branching())
    assert plan.linked == {"fw", "nat", "dpi"}
    assert made == ["fw", "nat", "dpi"]
    plan.solo("fw")
    assert made[3:] == ["fw"]


def test_between_two_such_functions_the_memif_is_direct() -> None:
    links = [
        {"from": "fw", "to": "nat", "kind": "memif"},
        {"from": "nat", "to": "monitor", "kind": "memif"},
    ]
    plan = planned(small(links=links))
    direct = [name for name, memif in memifs_of(plan).items() if memif.engine_end == "none"]
    assert len(direct) == 1
    assert plan.linked == {"nat", "monitor"}
    nat, monitor = plan.function("nat"), plan.function("monitor")
    assert nat.ports[1].rx == monitor.ports[0].rx == direct[0]
    assert (nat.ports[1].end, monitor.ports[0].end) == (0, 1)
    served = [socket.name for socket in plan.served_by(nat)]
    assert (served, plan.served_by(monitor)) == ([f"{direct[0]}.sock"], [])
    # The server is the one that is started first.
    turned = planned(small(links=links, functions=dict(reversed(small()["functions"].items()))))
    assert [function.name for function in turned.functions] == ["monitor", "nat", "fw"]
    assert turned.function("nat").ports[1].end == 1
    assert turned.function("monitor").ports[0].end == 0


def test_a_memif_has_as_many_queues_as_the_functions_on_it() -> None:
    functions = {
        "two": {"command": ["sh"], "cpu": 1, "queues": 2},
        "also": {"command": ["sh"], "cpu": 1, "queues": 2},
    }
    plan = planned(small(functions=functions, chains={"c": {"path": ["two", "also"]}}))
    requests = [plan.deploy({}, ""), plan.solo("also").deploy({}, "")]
    for request in requests:
        queues = queues_of(request)
        assert queues == [(2, 2)] * len(queues)
        assert len(queues) > 1
    other = planned(small(links=[{"from": "fw", "to": "nat", "kind": "memif"}]))
    assert {memif.queues_to_client for memif in memifs_of(other).values()} == {1}


def queues_of(request: pb.DeployRequest) -> list[tuple[int, int]]:
    """Of each memif: by how many the client sends, and by how many the server."""
    memifs = [link.memif for link in request.links if link.HasField("memif")]
    return [(memif.queues_to_server, memif.queues_to_client) for memif in memifs]


def test_a_program_may_receive_by_other_queues_than_it_sends_by() -> None:
    functions = {
        "one": {"command": ["sh"], "cpu": 1, "queues": {"rx": 1, "tx": 2}},
        "other": {"command": ["sh"], "cpu": 1, "queues": {"rx": 2, "tx": 1}},
    }
    chains = {"c": {"path": ["one", "other"]}}
    plan = planned(small(functions=functions, chains=chains))
    # The engine serves both; of the two the one that is started later is the client.
    assert queues_of(plan.deploy({}, "")) == [(2, 1), (1, 2), (1, 2)]
    turned = planned(small(functions=dict(reversed(functions.items())), chains=chains))
    assert queues_of(turned.deploy({}, "")) == [(2, 1), (2, 1), (1, 2)]


def test_over_a_veth_queues_do_not_differ() -> None:
    functions = {"fw": {"command": ["sh"], "cpu": 1, "queues": {"rx": 1, "tx": 2}}}
    links = [{"from": "ingress", "to": "fw", "kind": "veth"}]
    said = told(small(functions=functions, chains={"c": {"path": ["fw"]}}, links=links))
    assert said == [
        "('functions', 'fw', 'queues') differ for receiving and sending, and `fw` is on a veth, "
        "which has as many of both: give one number, or make its links kind: memif"
    ]


@given(st.lists(st.tuples(st.integers(1, 16), st.integers(1, 16)), min_size=2, max_size=4))
def test_each_receives_by_as_many_queues_as_its_neighbour_sends_by(
    stated: list[tuple[int, int]],
) -> None:
    functions = {
        f"f{at}": {"command": ["sh"], "cpu": 1, "queues": {"rx": rx, "tx": tx}}
        for at, (rx, tx) in enumerate(stated)
    }
    data = small(functions=functions, chains={"c": {"path": list(functions)}})
    wrong = [
        f"f{at + 1}"
        for at, ((rx, tx), (next_rx, next_tx)) in enumerate(pairwise(stated))
        if (rx, tx) != (next_tx, next_rx)
    ]
    if wrong:
        said = told(data)
        assert len(said) == len(wrong)
        assert all(
            f"('functions', '{name}', 'queues')" in row
            for name, row in zip(wrong, said, strict=True)
        )
    else:
        memifs = queues_of(planned(data).deploy({}, ""))
        assert sorted(memifs[1]) == sorted(stated[0])


def test_neighbours_on_memif_have_as_many_queues() -> None:
    functions = {
        "two": {"command": ["sh"], "cpu": 1, "queues": 2},
        "one": {"command": ["sh"], "cpu": 1},
        "ours": {"program": "sh", "cpu": 1, "queues": 2},
    }
    said = told(small(functions=functions, chains={"c": {"path": ["two", "one", "ours"]}}))
    assert said == [
        "('functions', 'ours', 'queues') applies to functions in a DPDK group of their own; one on "
        "rings has one queue each way: leave it out, or let the link to `ours` state kind: memif",
        "('functions', 'one', 'queues') `two` has queues: 2 and `one` queues: 1; over a memif each "
        "receives by as many as the other sends by, so give `one` queues: 2",
    ]


def test_a_way_back_goes_through_the_same_ports_the_other_way() -> None:
    chains = {
        "there": {"path": ["fw", "nat", "monitor"], "match": [{"dst_port": 80}]},
        "back": {"reverse_of": "there"},
    }
    plan = planned(small(chains=chains))
    there, back = plan.chains
    assert [(hop.in_port, hop.out_port) for hop in there.hops] == [(0, 1)] * 3
    assert [(hop.function, hop.in_port, hop.out_port) for hop in back.hops] == [
        ("monitor", 1, 0), ("nat", 1, 0), ("fw", 1, 0),
    ]  # fmt: skip
    memif = [{"from": "fw", "to": "nat", "kind": "memif"}]
    plan = planned(small(chains=chains, links=memif))
    assert len(plan.function("nat").ports) == 2  # both ways over the same two memifs
    assert sum(link.kind == "memif" for link in plan.links) == 2


def test_an_odd_chain_leaves_one_direction_of_its_pair_unused() -> None:
    chains = {
        f"c{at}": {"path": ["fw", "nat", "monitor"], "match": [{"dst_port": at}]} for at in range(3)
    }
    ports = planned(small(chains=chains)).function("nat").ports
    assert [(port.rx, port.tx) for port in ports] == [
        ("c0.1", "c1.2"), ("c1.1", "c0.2"), ("c2.1", ""), ("", "c2.2"),
    ]  # fmt: skip
    assert [port.device.split(",", 1)[1] for port in ports[2:]] == [
        "rx=c2.1,shm=nat.2",
        "tx=c2.2,shm=nat.3",
    ]


def test_ports_are_bounded() -> None:
    chains = {
        f"c{at}": {"path": ["fw", "nat", "monitor"], "match": [{"dst_port": at}]} for at in range(8)
    }
    assert len(planned(small(chains=chains)).function("fw").ports) == 8
    memif = [{"from": "fw", "to": "nat", "kind": "memif"}]
    assert "has 16 ports for its chains and 8 at most" in told(small(chains=chains, links=memif))[0]
    functions = {f"f{at}": {"program": "sh"} for at in range(16)}
    chains = {f"c{at}": {"path": list(functions), "match": [{"dst_port": at}]} for at in range(2)}
    assert "32 ports on rings" in told(small(functions=functions, chains=chains))[0]


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        (
            {"from": "monitor", "to": "egress", "kind": "memif"},
            "`monitor` receives from a ring, so it",
        ),
        (
            {"from": "fw", "to": "nat", "kind": "memif", "slots": 32768},
            "a link of kind memif has up to 16384",
        ),
    ],
)
def test_links_that_cannot_be(link: Data, sentence: str) -> None:
    assert sentence in told(small(links=[link]))[0]


@pytest.mark.parametrize(
    ("scheduler", "parts", "sentence"),
    [
        ({"theta_min": 511}, {}, "from `ingress` to `fw` holds 511 packets, and θmin is 511"),
        (
            {"theta_min": 1024},
            {"chains": {"c": {"path": ["fw", "nat", "monitor"], "ring": 2048}},
             "links": [{"from": "fw", "to": "nat", "kind": "memif"}]},
            "from `fw` to `nat` holds 1024 packets, and θmin is 1024: `nat` would never have work",
        ),
        (
            {},
            {"links": [{"from": "fw", "to": "nat", "slots": 64}]},
            "from `fw` to `nat` is filled up to θmax, 48 packets of 63, and θmin is 56",
        ),
    ],
)  # fmt: skip
def test_a_link_that_is_too_small_for_the_thresholds(
    scheduler: Data, parts: Data, sentence: str
) -> None:
    chains = {"c": {"path": ["fw", "nat", "monitor"], "ring": 512}}
    sentences = told(small(**{"scheduler": scheduler, "chains": chains, **parts}))
    assert sum(sentence in row for row in sentences) == 1


def test_links_that_are_just_large_enough() -> None:
    links = [
        {"from": "ingress", "to": "fw", "slots": 64},  # a source fills it to the brim
        {"from": "fw", "to": "nat", "slots": 128},
        {"from": "monitor", "to": "egress", "slots": 64},  # a sink empties it
    ]
    assert [link.slots for link in planned(small(links=links)).links] == [64, 128, 2048, 64]
    between = [{"from": "fw", "to": "nat", "slots": 64}]
    assert planned(small(links=between, scheduler={"theta_min": 40}))

"""The plan: what holds for every file and machine, and what is decided for some."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.python.strategies import Data, chain_files
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile
from unis.chain.problem import ChainFileError
from unis.engine.limits import broken
from unis.links.kind import LinkPlan
from unis.plan.machine import Machine, OtherRun, format_cpu_list, parse_cpu_list
from unis.plan.model import Places, Plan
from unis.plan.planner import make_plan
from unis.plan.wiring import MOST_PORTS
from unis.v1 import engine_pb2 as pb

EIGHT_CPUS = Machine(frozenset(range(8)))
CHECKS = settings(max_examples=120)


def places(name: str) -> Places:
    folder = Path("/run/unis") / name
    return Places(folder, folder / "engine.sock", folder / "driver.so", Path("/dev/hugepages"))


def planned(data: Data, machine: Machine = EIGHT_CPUS, others: tuple[OtherRun, ...] = ()) -> Plan:
    chain = LoadedChain(Path("/somewhere/chain.yaml"), ChainFile.model_validate(data))
    return make_plan(chain, machine, others, places)


def plan_or_none(data: Data) -> Plan | None:
    """None: more ports than DPDK has, or two functions over memif that a ring was stated for."""
    data.get("traffic", {}).get("source", {}).pop("file", None)
    if data.get("traffic", {}).get("source", {}).get("kind") == "pcap":
        del data["traffic"]
    try:
        return planned(data)
    except ChainFileError as error:
        for problem in error.problems:
            if not {"ports", "ring;"} & set(problem.problem.sentence.split()):
                raise
        return None


def small(**parts: object) -> Data:
    """Three functions in a line."""
    return {
        "apiVersion": "unis/v1",
        "name": "x",
        "defaults": {"cpu": 1},
        "functions": {name: {"program": "sh"} for name in ("fw", "nat", "monitor")},
        "chains": {"c": {"path": ["fw", "nat", "monitor"]}},
        **parts,
    }


def told(data: Data, machine: Machine = EIGHT_CPUS, *others: OtherRun) -> list[str]:
    with pytest.raises(ChainFileError) as caught:
        planned(data, machine, others)
    return [str(row.problem.location) + " " + row.problem.sentence for row in caught.value.problems]


# ------------------------------------------------------------------ what always holds


@CHECKS
@given(chain_files())
def test_every_packet_has_a_way(data: Data) -> None:
    plan = plan_or_none(data)
    assume(plan)
    assert plan
    links = {link.name: link for link in plan.links}
    for chain in plan.chains:
        at = chain.ingress
        assert links[at].kind == "ring"
        for hop in chain.hops:
            ports = plan.function(hop.function).ports
            _carried(links, at, ports[hop.in_port].rx)
            at = ports[hop.out_port].tx
        _carried(links, at, chain.egress)
        assert links[chain.egress].kind == "ring"


def _carried(links: dict[str, LinkPlan], sent: str, received: str) -> None:
    """The same link, or two of which the engine has the end of the memif."""
    if sent == received:
        return
    assert {links[sent].kind, links[received].kind} == {"ring", "memif"}
    memifs = [links[name].memif for name in (sent, received)]
    assert [memif.engine_end for memif in memifs if memif] == ["server"]


@CHECKS
@given(chain_files())
def test_every_link_has_two_ends_each_way(data: Data) -> None:
    plan = plan_or_none(data)
    assume(plan)
    assert plan
    receivers = Counter(port.rx for f in plan.functions for port in f.ports)
    senders = Counter(port.tx for f in plan.functions for port in f.ports)
    clients = Counter(p.rx for f in plan.functions for p in f.ports if p.memif_client)
    receivers.update(chain.egress for chain in plan.chains)
    senders.update(chain.ingress for chain in plan.chains)
    for link in plan.links:
        if link.memif:
            functions = 2 if link.memif.engine_end == "none" else 1
            assert receivers[link.name] == senders[link.name] == functions
            assert clients[link.name] == 1
        else:  # the engine has the other end of a ring that leads to a memif
            assert receivers[link.name] <= 1
            assert senders[link.name] <= 1
            assert receivers[link.name] + senders[link.name] >= 1


@CHECKS
@given(chain_files())
def test_nothing_that_must_be_distinct_is_shared(data: Data) -> None:
    plan = plan_or_none(data)
    assume(plan)
    assert plan
    lcores = [*range(1 + len(plan.platform_cpus)), *(f.lcore for f in plan.functions)]
    memifs = [link.memif for link in plan.links if link.memif]
    buffers = [memif.buffer_bytes for memif in memifs]
    prefixes = [f.file_prefix for f in plan.functions if f.group == "own"]
    names = [port.name for f in plan.functions for port in f.ports]
    on_rings = [port.device for f in plan.functions if f.group == "engine" for port in f.ports]
    devices = [device.partition(",")[0] for device in on_rings]
    sockets = [(memif.socket, memif.id) for memif in memifs]
    for distinct in (lcores, buffers, prefixes, names, devices, sockets):
        assert len(set(distinct)) == len(distinct)
    assert plan.engine.file_prefix not in prefixes
    bridged = [memif for memif in memifs if memif.engine_end != "none"]
    assert len(on_rings) + len(bridged) <= MOST_PORTS
    assert not set(plan.cpus) & set(plan.platform_cpus)


@CHECKS
@given(chain_files())
def test_the_same_file_makes_the_same_plan_within_the_contract(data: Data) -> None:
    plan = plan_or_none(data)
    assume(plan)
    assert plan
    assert plan_or_none(data) == plan
    request = plan.deploy({}, "id")
    assert broken(request) == []
    assert [function.name for function in request.functions] == list(data["functions"])
    assert [chain.name for chain in request.chains] == list(data["chains"])
    assert plan.as_dict()["name"] == data["name"]
    assert json.loads(json.dumps(plan.as_dict())) == plan.as_dict()


# ------------------------------------------------------------------ links and ports


def test_a_chain_on_rings_is_a_line_of_ports() -> None:
    plan = planned(small())
    assert [(link.name, link.kind, link.slots) for link in plan.links] == [
        (f"c.{at}", "ring", 2048) for at in range(4)
    ]
    assert [f.ports[0].device for f in plan.functions] == [
        f"net_unis{at},rx=c.{at},tx=c.{at + 1},shm={name}.0"
        for at, name in enumerate(("fw", "nat", "monitor"))
    ]
    assert [f.lcore for f in plan.functions] == [4, 5, 6]


def test_a_memif_makes_the_function_behind_it_a_group_of_its_own() -> None:
    plan = planned(small(links=[{"from": "nat", "to": "monitor", "kind": "memif", "slots": 512}]))
    assert [(link.kind, link.slots) for link in plan.links] == [
        ("ring", 2048), ("ring", 2048), ("ring", 2048), ("memif", 512), ("memif", 1024),
        ("ring", 2048),
    ]  # fmt: skip
    monitor = plan.function("monitor")
    assert (monitor.group, monitor.file_prefix) == ("own", "unis-x-monitor")
    assert [(p.rx, p.tx, p.memif_client) for p in monitor.ports] == [
        ("c.3", "c.3", True),
        ("c.4", "c.4", True),
    ]
    assert monitor.ports[0].device == (
        "net_memif0,role=client,id=0,socket=/run/unis/x/c.3.sock,socket-abstract=no,rsize=9,"
        "bsize=2048"
    )
    assert "--proc-type=primary" in monitor.argv
    assert plan.hugepages_mb > planned(small()).hugepages_mb
    assert [(hop.in_port, hop.out_port) for hop in plan.chains[0].hops] == [(0, 0), (0, 0), (0, 1)]


def test_between_two_such_functions_the_memif_is_direct() -> None:
    links = [
        {"from": "fw", "to": "nat", "kind": "memif"},
        {"from": "nat", "to": "monitor", "kind": "memif"},
    ]
    assert told(small(links=links)) == [
        f"('functions', '{name}') has a memif to another function, where the engine cannot "
        "measure it; add its cost_ns"
        for name in ("nat", "monitor")
    ]
    functions = {name: {"program": "sh", "cost_ns": 50} for name in ("fw", "nat", "monitor")}
    plan = planned(small(links=links, functions=functions))
    direct = [link for link in plan.links if link.memif and link.memif.engine_end == "none"]
    assert len(direct) == 1
    nat, monitor = plan.function("nat"), plan.function("monitor")
    assert nat.ports[1].rx == monitor.ports[0].rx == direct[0].name
    assert (nat.ports[1].memif_client, monitor.ports[0].memif_client) == (False, True)
    # The server is the one that is started first.
    turned = planned(small(links=links, functions=dict(reversed(functions.items()))))
    assert [function.name for function in turned.functions] == ["monitor", "nat", "fw"]
    assert turned.function("nat").ports[1].memif_client
    assert not turned.function("monitor").ports[0].memif_client


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
        ({"from": "fw", "to": "nat", "kind": "memif", "slots": 32768}, "a memif has up to 16384"),
    ],
)
def test_links_that_cannot_be(link: Data, sentence: str) -> None:
    assert sentence in told(small(links=[link]))[0]


# ------------------------------------------------------------------ CPUs


@given(st.integers(2, 64), st.data())
def test_the_platform_never_takes_a_functions_cpu(count: int, data: st.DataObject) -> None:
    machine = Machine(frozenset(range(count)))
    cpus = data.draw(st.sets(st.integers(1, count - 1), min_size=1, max_size=3))
    functions = {f"f{cpu}": {"program": "sh", "cpu": cpu} for cpu in cpus}
    plan = planned(small(functions=functions, chains={"c": {"path": list(functions)}}), machine)
    assert plan.platform_cpus[0] == 0
    assert not cpus & set(plan.platform_cpus)
    if len(plan.platform_cpus) > 1:  # one is left for the launcher
        assert machine.cpus - cpus - set(plan.platform_cpus)
    assert not plan.notes


def run(name: str, cpus: set[int], platform: set[int]) -> OtherRun:
    return OtherRun(name, frozenset(cpus), frozenset(platform))


def test_a_second_run_is_planned_around_the_first() -> None:
    first = planned(small())
    other = run("first", set(first.cpus), set(first.platform_cpus))
    sentence = told(small(), EIGHT_CPUS, other)[0]
    assert sentence.startswith("('defaults', 'cpu') CPU 1 is in use by run `first`: run `unis down")
    plan = planned(small(defaults={"cpu": 7}), EIGHT_CPUS, (other,))
    assert not set(plan.platform_cpus) & {*other.cpus, *other.platform_cpus, 7}
    assert not plan.notes


@pytest.mark.parametrize("count", [3, 4])
def test_platforms_share_a_cpu_where_none_is_left_and_say_so(count: int) -> None:
    machine = Machine(frozenset(range(count)))
    other = run("first", {1} if count == 3 else {1, 2}, {0})
    plan = planned(small(defaults={"cpu": count - 1}), machine, (other,))
    assert plan.platform_cpus == (0,)
    assert plan.notes == (
        "traffic and scheduler share CPU 0 with run `first`: both are slower than alone",
    )
    assert "CPU 0 is in use by run `first`" in told(small(defaults={"cpu": 0}), machine, other)[0]


def test_no_cpu_is_left() -> None:
    machine = Machine(frozenset({0, 1, 2}))
    sentences = told(small(defaults={"cpu": 2}), machine, run("a", {0, 1}, {5}))
    assert "no CPU of 0-2 is left for traffic and the scheduler" in sentences[0]


def test_stated_platform_cpus() -> None:
    plan = planned(small(platform={"cpus": [5, 6]}, defaults={"cpu": 0}))
    assert plan.platform_cpus == (5, 6)
    assert plan.engine.argv[plan.engine.argv.index("--cpus") + 1] == "5,6"
    assert "CPU 9 does not exist here" in told(small(platform={"cpus": [9]}))[0]
    busy = told(small(platform={"cpus": [2]}), EIGHT_CPUS, run("a", {2}, {0}))
    assert "CPU 2 is that of functions of run `a`" in busy[0]


@pytest.mark.parametrize(
    ("cpu", "cpus", "sentence"),
    [
        (2, {0, 1}, "CPU 2 does not exist here (0-1); choose from 1, or try the chain with"),
        (0, {0, 1}, "CPU 0 is for traffic and the scheduler; choose from 1"),
        (1, {0}, "this machine has one CPU"),
        (1, {2, 3}, "CPU 1 does not exist here (2-3); choose from 3"),  # a container
    ],
)
def test_cpu_that_cannot_be_used(cpu: int, cpus: set[int], sentence: str) -> None:
    sentences = told(small(defaults={"cpu": cpu}), Machine(frozenset(cpus)))
    assert sum(sentence in row for row in sentences) == 1


def test_the_machine_is_what_we_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {2, 3})
    assert Machine.this().cpus == {2, 3}


@given(st.sets(st.integers(0, 200)))
def test_cpu_lists(cpus: set[int]) -> None:
    assert parse_cpu_list(format_cpu_list(cpus)) == cpus


# ------------------------------------------------------------------ functions


def test_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unis.plan.programs import find_program

    monkeypatch.setenv("UNIS_BUILD", str(tmp_path / "build"))
    (tmp_path / "build" / "functions").mkdir(parents=True)
    own, built = tmp_path / "sh", tmp_path / "build" / "functions" / "sh"
    for file in (own, built):
        file.write_text("#!/bin/true\n")
        file.chmod(0o755)
    assert find_program("./sh", tmp_path) == own
    assert find_program("sh", tmp_path) == built  # never what happens to lie beside the file
    built.unlink()
    assert find_program("sh", tmp_path) not in (own, None)


def test_a_missing_program_is_told_once_with_what_to_write(tmp_path: Path) -> None:
    functions = {name: {"program": "mine"} for name in ("fw", "nat", "monitor")}
    (tmp_path / "mine").write_text("")
    chain = LoadedChain(tmp_path / "c.yaml", ChainFile.model_validate(small(functions=functions)))
    with pytest.raises(ChainFileError) as caught:
        make_plan(chain, EIGHT_CPUS, (), places)
    assert str(caught.value).endswith("write ./mine")
    assert len(caught.value.problems) == 1


def test_user_and_environment() -> None:
    functions = small()["functions"] | {"monitor": {"program": "sh", "user": "nobody"}}
    assert "only root may open" in told(small(functions=functions))[0]
    memif = [{"from": "nat", "to": "monitor", "kind": "memif"}]
    defaults = {"cpu": 1, "env": {"A": 1, "B": "2"}}
    functions["nat"] = {"program": "sh", "env": {"B": "3"}, "args": ["-x", 5], "yield_every": 4}
    plan = planned(small(functions=functions, links=memif, defaults=defaults))
    assert plan.function("monitor").user == "nobody"
    assert plan.function("nat").env == {"A": "1", "B": "3"}
    argv = plan.function("nat").argv
    assert argv[argv.index("--") :] == ("--", "-x", "5", "--yield-every", "4")
    assert plan.deploy({}, "").functions[1].cooperates


# ------------------------------------------------------------------ what the engine is told


def test_defaults_are_the_papers() -> None:
    request = planned(small()).deploy({}, "id")
    assert request.scheduler.gamma == 0.75
    assert request.scheduler.theta_min == 64 - 8
    assert not request.scheduler.HasField("theta_max")
    assert request.scheduler.interval_ns == 1000
    assert request.scheduler.occupancy
    assert not request.scheduler.HasField("lead_ns")
    assert request.links[0].slots == 2048
    assert (request.run, request.run_id) == ("x", "id")


def test_costs_of_the_file_come_before_measured_ones() -> None:
    costs = {"fw": 33.0, "nat": 44.0}
    functions = small()["functions"] | {"fw": {"program": "sh", "cost_ns": {64: 10, 1500: 30}}}
    request = planned(small(functions=functions)).deploy(costs, "")
    assert [function.cost_ns for function in request.functions] == [20.0, 44.0, 0.0]


def test_traffic() -> None:
    def traffic(**parts: object) -> pb.TrafficConfig:
        return planned(small(traffic=parts)).deploy({}, "").traffic

    wire = traffic(rate="2.5Mpps")
    assert (wire.pps, wire.bps, wire.synthetic.size) == (2.5e6, 0, 64)
    assert traffic(rate="10Gbps").bps == 1e10
    assert traffic(sink={"kind": "port", "device": "net_tap0"}).sink_device == "net_tap0"
    nic = planned(small(traffic={"source": {"kind": "port", "device": "0000:03:00.0,a=1"}}))
    assert nic.engine.pci == ("0000:03:00.0",)
    assert nic.engine.argv[-2:] == ("--pci", "0000:03:00.0")


def test_times_are_nanoseconds() -> None:
    scheduler = {"interval_us": 2.5, "lead_us": 0, "max_wait_us": 7}
    wire = planned(small(scheduler=scheduler)).deploy({}, "").scheduler
    assert (wire.interval_ns, wire.lead_ns, wire.max_wait_ns) == (2500, 0, 7000)
    assert wire.HasField("lead_ns")


def test_a_socket_path_that_is_too_long_is_told() -> None:
    chain = LoadedChain(
        Path("/c.yaml"),
        ChainFile.model_validate(small(links=[{"from": "fw", "to": "nat", "kind": "memif"}])),
    )
    deep = Places(Path("/" + "d" * 100), Path("/s"), Path("/d"))
    with pytest.raises(ChainFileError, match=r"socket has \d+ bytes, 107 at most"):
        make_plan(chain, EIGHT_CPUS, (), lambda _: deep)

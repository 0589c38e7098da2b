"""Programs of a plan, and what the engine is told."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.python.planned import EIGHT_CPUS, places, planned, small
from tests.python.strategies import Data
from unis.chain.consistency import problems
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile
from unis.chain.problem import ChainFileError
from unis.engine.limits import broken
from unis.plan.model import Places
from unis.plan.planner import make_plan
from unis.v1 import common_pb2, traffic_pb2


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
    (tmp_path / "alias").symlink_to("sh")
    assert find_program("./alias", tmp_path) == tmp_path / "alias"  # as argv[0] says
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
    functions = small()["functions"] | {"monitor": {"program": "sh", "user": "root"}}
    memif = [{"from": "nat", "to": "monitor", "kind": "memif"}]
    defaults = {"cpu": 1, "env": {"A": 1, "B": "2"}}
    functions["nat"] = {"program": "sh", "env": {"B": "3"}, "args": ["-x", 5], "yield_every": 4}
    plan = planned(small(functions=functions, links=memif, defaults=defaults))
    assert plan.function("monitor").user is None
    assert plan.function("nat").env == {"A": "1", "B": "3"}
    argv = plan.function("nat").argv
    assert argv[argv.index("--") :] == ("--", "-x", "5", "--yield-every", "4")
    assert plan.deploy({}, "").functions[1].yield_every == 4


def test_defaults() -> None:
    request = planned(small()).deploy({}, "id")
    assert request.scheduler.gamma == 0.94, "chosen, for rings that are so long"
    assert request.scheduler.theta_min == 64 - 8
    assert not request.scheduler.HasField("theta_max")
    assert request.scheduler.interval_ns == 1000
    assert request.scheduler.occupancy
    assert not request.scheduler.HasField("lead_ns")
    assert request.links[0].slots == 2048, "chosen, as nobody has measured the functions"
    assert (request.run, request.run_id) == ("x", "id")


def test_costs_of_the_file_come_before_measured_ones() -> None:
    costs = {"fw": 33.0, "nat": 44.0}
    functions = small()["functions"] | {"fw": {"program": "sh", "cost_ns": {64: 10, 1400: 30}}}
    for size, cost in ((64, 10.0), (1500, 30.0), ("datacenter", (10 + 20 * 136 / 1336 + 30) / 2)):
        traffic = {"source": {"kind": "synthetic", "size": size}}
        request = planned(small(functions=functions, traffic=traffic)).deploy(costs, "")
        found = [function.cost_ns for function in request.functions]
        assert found == pytest.approx([cost, 44.0, 0.0])


def test_traffic() -> None:
    def traffic(**parts: object) -> traffic_pb2.TrafficConfig:
        return planned(small(traffic=parts)).deploy({}, "").traffic

    wire = traffic(rate="2.5Mpps")
    assert (wire.pps, wire.bps, wire.synthetic.size) == (2.5e6, 0, 64)
    assert wire.arrivals == traffic_pb2.ARRIVALS_CONSTANT
    assert traffic(rate="1kpps", arrivals="poisson").arrivals == traffic_pb2.ARRIVALS_POISSON
    assert traffic(rate="10Gbps").bps == 1e10
    assert traffic(sink={"kind": "port", "device": "net_tap0"}).sink_device == "net_tap0"
    nic = planned(small(traffic={"source": {"kind": "port", "device": "0000:03:00.0,a=1"}}))
    assert nic.deploy({}, "").traffic.arrivals == traffic_pb2.ARRIVALS_UNSPECIFIED
    assert nic.engine.pci == ("0000:03:00.0",)
    assert nic.engine.argv[-2:] == ("--pci", "0000:03:00.0")
    assert "--ports" in nic.engine.argv
    assert "--ports" not in planned(small()).engine.argv


def test_times_are_nanoseconds() -> None:
    scheduler = {"interval_us": 2.5, "lead_us": 0, "max_wait_us": 7, "idle_us": 9}
    wire = planned(small(scheduler=scheduler)).deploy({}, "").scheduler
    assert (wire.interval_ns, wire.lead_ns, wire.max_wait_ns) == (2500, 0, 7000)
    assert wire.idle_ns == 9000
    assert wire.HasField("lead_ns")


@pytest.mark.parametrize(
    ("goals", "cpus", "stated", "delay_us"),
    [
        ((), 1, {}, 100), ((), 2, {}, 100), (("10ms",), 1, {}, 100), (("400us",), 1, {}, 40),
        (("400us", "300us"), 1, {}, 30), (("400us",), 2, {}, 20), (("390us",), 2, {}, 0),
        (("199us",), 1, {}, 0), (("199us",), 1, {"max_delay_us": 70}, 70),
        ((), 1, {"max_delay_us": 0}, 0),
    ],
)  # fmt: skip
def test_how_long_a_packet_may_wait_for_functions_that_sleep(
    goals: tuple[str, ...], cpus: int, stated: Data, delay_us: float
) -> None:
    names = ("fw", "nat")
    functions = {name: {"program": "sh", "cpu": 1 + at % cpus} for at, name in enumerate(names)}
    chains = {
        f"c{at}": {"path": [name], "match": [{"dst_port": 1 + at}], **goal}
        for at, (name, goal) in enumerate(
            zip(names, [*({"slo": {"p95_latency": each}} for each in goals), {}, {}], strict=False)
        )
    }
    plan = planned(small(functions=functions, chains=chains, scheduler=stated))
    assert plan.deploy({}, "").scheduler.max_delay_ns == delay_us * 1000


def test_who_may_sleep_and_share() -> None:
    usual = planned(small()).deploy({}, "")
    assert not any(function.stays_awake for function in usual.functions)
    assert usual.scheduler.platform_nap_ns == 0
    functions = {"fw": {"program": "sh", "cpu": 1, "may_sleep": False}}
    chains: Data = {"c": {"path": ["fw"]}}
    shares: Data = {"functions": functions, "chains": chains, "platform": {"share": True}}
    slow = {"rate": "1Mpps"}
    wire = planned(small(**shares, traffic=slow)).deploy({}, "")
    assert wire.functions[0].stays_awake
    assert wire.scheduler.platform_nap_ns == 50_000
    chains["c"]["slo"] = {"p95_latency": "300us"}
    assert planned(small(**shares, traffic=slow)).deploy({}, "").scheduler.platform_nap_ns == 30_000
    assert planned(small(**shares)).deploy({}, "").scheduler.platform_nap_ns == 0, "at any rate"


def test_time_slices_of_the_kernel() -> None:
    none = planned(small()).deploy({}, "")
    assert none.rr_timeslice_ms == 0
    assert not none.HasField("fair_slice_ns")
    for ms, ns in ((0.1, 100_000), (2.5, 2_500_000), (100, 100_000_000)):
        stated = small(scheduler={"fair_slice_ms": ms, "rr_timeslice_ms": 5})
        request = planned(stated).deploy({}, "")
        assert (request.fair_slice_ns, request.rr_timeslice_ms) == (ns, 5)
        assert not broken(request)
    for wrong, bound in ((0.05, "greater than or equal to 0.1"), (100.1, "less than or equal")):
        with pytest.raises(ValidationError, match=f"(?s)fair_slice_ms.*{bound}"):
            planned(small(scheduler={"fair_slice_ms": wrong}))


def test_how_the_kernel_runs_a_function() -> None:
    """As it states itself, else as its chain does, else as `defaults`."""
    functions = {name: {"program": "sh", "cpu": 1} for name in ("fw", "nat", "dpi")}
    functions["fw"]["kernel"] = {"policy": "batch", "nice": -5, "slice_ms": 2.5}
    data = small(
        functions=functions,
        chains={
            "web": {"path": ["fw", "nat"], "match": [{"dst_port": 80}], "kernel": {"priority": 7}},
            "rest": {"path": ["dpi"]},
        },
        defaults={"kernel": {"policy": "idle"}},
    )
    fw, nat, dpi = (function.kernel for function in planned(data).deploy({}, "").functions)
    assert (fw.policy, fw.nice, fw.slice_ns) == (common_pb2.POLICY_BATCH, -5, 2_500_000)
    assert (nat.policy, nat.priority) == (common_pb2.POLICY_UNSPECIFIED, 7)
    assert not nat.HasField("nice")
    assert dpi.policy == common_pb2.POLICY_IDLE
    data["chains"]["rest"] = {"path": ["nat", "dpi"], "kernel": {"priority": 8}}
    (problem,) = problems(ChainFile.model_validate(data))
    assert problem.sentence.startswith("differs from that of chain web, which has function nat")


def test_what_does_nothing_is_told() -> None:
    veth = {"links": [{"from": "fw", "to": "nat", "kind": "veth"}]}
    port = {"source": {"kind": "port", "device": "net_tap0"}}
    slow = {"rate": "1Mpps"}
    share: Data = {"platform": {"share": True, "cpus": [0]}, "traffic": slow}
    for parts, said in (
        ({**share, "traffic": {}}, "at rate: max"),
        ({**share, "traffic": port}, "with a device as source"),
        ({**share, **veth}, "beside links of kernel devices"),
        ({**share, "scheduler": {"max_delay_us": 0}}, "with max_delay_us: 0"),
        ({**share, "scheduler": {"policy": "rr"}}, "under another policy"),
        ({"defaults": {"cpu": 1, "kernel": {"nice": 3}}}, "kernel of functions does nothing"),
    ):
        assert any(said in note for note in planned(small(**parts)).notes), said
    for parts in (
        share,
        {"defaults": {"cpu": 1, "kernel": {"nice": 3}}, "scheduler": {"policy": "rr"}},
    ):
        assert not any("does nothing" in note for note in planned(small(**parts)).notes), parts
    chains: Data = {"web": {"path": ["fw", "nat", "monitor"]}}
    chains["back"] = {"reverse_of": "web", "kernel": {"nice": 3}}
    told = [each.sentence for each in problems(ChainFile.model_validate(small(chains=chains)))]
    assert "its functions are those of chain web; state it there" in told


def test_costs_are_followed_unless_they_are_static() -> None:
    for scheduler, follows in (({}, True), ({"cost": "online"}, True), ({"cost": "static"}, False)):
        assert planned(small(scheduler=scheduler)).deploy({}, "").scheduler.online_cost is follows


def test_a_socket_path_that_is_too_long_is_told() -> None:
    chain = LoadedChain(
        Path("/c.yaml"),
        ChainFile.model_validate(small(links=[{"from": "fw", "to": "nat", "kind": "memif"}])),
    )
    deep = Places(Path("/" + "d" * 100), *map(Path, ("/s", "/d", "/m", "/p", "/f")))
    with pytest.raises(ChainFileError, match=r"socket has \d+ bytes, 107 at most"):
        make_plan(chain, EIGHT_CPUS, (), lambda _: deep)


def _memory_mb(data: Data) -> int:
    argv = planned(data).engine.argv
    return int(argv[argv.index("--memory") + 1])


def test_the_engine_takes_at_its_start_what_the_run_may_need() -> None:
    """What it takes later every function must agree to, and one may be stopped."""
    plan = planned(small())
    assert plan.hugepages_mb == _memory_mb(small()) == 256
    # A packet for each slot, of 2 KiB and more; what holds the packets is small beside.
    long = 2**17
    rings = {"c": {"path": ["fw", "nat", "monitor"], "ring": long}}
    assert _memory_mb(small(chains=rings)) > 4 * long * 2048 >> 20
    one = {"chains": {"c": {"path": ["fw"]}}}
    own = small(functions={"fw": {"command": ["sh"]}}, **one)
    assert (planned(own).hugepages_mb, _memory_mb(own)) == (256 + 64, 256)
    ring = [{"from": "ingress", "to": "fw", "kind": "ring"}]
    of_the_group = small(functions={"fw": {"command": ["sh"]}}, links=ring, **one)
    assert (planned(of_the_group).hugepages_mb, _memory_mb(of_the_group)) == (256 + 64,) * 2


@pytest.mark.parametrize(("plugin", "controller"), [(True, "handover"), (False, "priority")])
def test_who_cannot_hand_the_cpu_over_is_switched_by_priority(
    plugin: bool, controller: str
) -> None:
    functions = {"only": {"command": ["sh"], "plugin": plugin}}
    data = small(functions=functions, chains={"c": {"path": ["only"]}})
    assert planned(data).controller == controller
    stated = small(
        functions=functions, chains={"c": {"path": ["only"]}}, scheduler={"controller": "handover"}
    )
    assert planned(stated).controller == "handover", "and the engine says why it cannot"


def test_turns_are_of_as_many_packets_as_are_stated() -> None:
    assert planned(small()).deploy({}, "id").scheduler.quota == 0, "the engine has a rule"
    assert planned(small(scheduler={"quota": 300})).deploy({}, "id").scheduler.quota == 300
    for wrong in (63, 2**21, "half", 64.5):
        with pytest.raises(ValidationError, match="invalid quota"):
            planned(small(scheduler={"quota": wrong}))

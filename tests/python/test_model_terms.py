"""What UNiS's own parts cost in the model, with numbers that can be added by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.python.modelled import cycles, drivers, machine, nic, ns, parameter, path
from unis.capacity.case import CapacityCase
from unis.capacity.chain import HARDWARE, FunctionCost, ModelChain, ModelFunction
from unis.capacity.convert import chains_of, setting_of
from unis.capacity.demands import Setting
from unis.capacity.idle import busy_at
from unis.capacity.machine import MachineFile, MemoryPart
from unis.chain.load import load

GRAPH = """
apiVersion: unis/v1
name: x
scheduler: {quota: 512}
functions:
  a: {program: a, cpu: 1}
  b: {program: b, cpu: 1}
  c: {program: c, cpu: 2}
  tap: {program: tap, cpu: 2}
chains:
  x:
    ring: 1024
    graph:
      - {from: ingress, to: a}
      - {from: a, to: b, weight: 3}
      - {from: a, to: c, weight: 1}
      - {from: b, to: egress}
      - {from: c, to: egress}
      - {from: a, to: tap, mode: tap}
"""


def amount(case: CapacityCase, resource: str) -> float:
    return sum(d.amount for d in case.answered().load.demands if d.resource == resource)


def of_file(tmp_path: Path, text: str, of: MachineFile) -> CapacityCase:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    chain = load(file)
    costs = {name: FunctionCost(10.0, "ns", "assumed") for name in chain.file.functions}
    return CapacityCase(chains_of(chain, costs, {64: 1}, of), of, setting_of(chain, of))


def test_a_chain_on_rings() -> None:
    """Three functions of a CPU switch three times a turn."""
    case = CapacityCase((path([100.0, 50.0, 30.0]),), machine(), Setting(turn=100))
    assert amount(case, "CPU 1") == pytest.approx(180 + 3 * 2000 / 100)
    assert amount(case, "CPU 0") == pytest.approx(10 + 20 + 3 * 1000 / 100)
    found = case.answered().found
    assert found.bottlenecks == ("CPU 1",)
    assert found.total == pytest.approx(1e9 / 240)


def test_a_function_alone_on_its_cpu_never_switches() -> None:
    case = CapacityCase((path([100.0]),), machine(), Setting(turn=100))
    assert amount(case, "CPU 1") == pytest.approx(100)
    assert amount(case, "CPU 0") == pytest.approx(30)


def test_memif_costs_both_ends_and_the_platform_has_two_of_them() -> None:
    case = CapacityCase((path([100.0, 50.0], "memif"),), machine(switch=ns(0)), Setting(turn=1e9))
    receive, send = 3 + 6.4, 4 + 6.4
    assert amount(case, "CPU 1") == pytest.approx(150 + 2 * receive + 2 * send)
    assert amount(case, "CPU 0") == pytest.approx(30 + send + receive, rel=1e-4)


@pytest.mark.parametrize(("carrier", "cpu"), [(None, "CPU 0"), (1, "CPU 1"), (3, "CPU 3")])
def test_open_vswitch_carries_on_its_cpu(carrier: int | None, cpu: str) -> None:
    case = CapacityCase((path([100.0], "ovs"),), machine(), Setting(carrier_cpu=carrier))
    parts = case.answered().load.terms["c", cpu]
    assert parts["ovs carries"] == pytest.approx(200)


def test_the_cost_of_a_burst_is_shared_by_its_packets() -> None:
    links = machine().links
    calls = {**links, "veth": links["ring"].model_copy(update={"per_burst": ns(320)})}
    of = machine(links=calls)
    by = {
        batch: amount(CapacityCase((path([100.0], "veth"),), of, Setting(batch=batch)), "CPU 1")
        for batch in (1.0, 32.0)
    }
    assert by == pytest.approx({1.0: 100 + 640, 32.0: 100 + 20})


def test_packets_from_another_cpu_cost_the_function_that_receives_them() -> None:
    of = machine(crossing=ns(11), switch=ns(0))
    one = CapacityCase((path([100.0, 50.0]),), of, Setting(turn=1e9))
    assert amount(one, "CPU 1") == pytest.approx(150 + 11)
    apart = one.changed(lambda chain: chain.placed({"f1": 2}))
    assert amount(apart, "CPU 1") == pytest.approx(100 + 11)
    assert amount(apart, "CPU 2") == pytest.approx(50 + 11)
    shared = one.with_setting(source_cpu=1)
    assert amount(shared, "CPU 1") == pytest.approx(150 + 10)


def test_cycles_depend_on_the_clock_and_ns_do_not() -> None:
    for hz in (1e9, 2e9):
        of = machine(hz=hz)
        in_cycles = CapacityCase((path([500.0]),), of).answered().found.total
        in_ns = CapacityCase((path([500.0], unit="ns"),), of).answered().found.total
        assert in_cycles == pytest.approx(hz / 500)
        assert in_ns == pytest.approx(1e9 / 500)


def test_time_that_is_lost_is_no_ones() -> None:
    cpus = machine().cpus.model_copy(update={"lost": parameter(0.25, "share")})
    case = CapacityCase((path([100.0]),), machine(cpus=cpus))
    assert case.answered().found.total == pytest.approx(7.5e6)


def test_the_memory_is_taken_by_copies_and_by_the_nic() -> None:
    memory = MemoryPart(bandwidth=parameter(1e9, "bytes/s"))
    links = machine().links
    copying = {
        **links,
        "memif": links["memif"].model_copy(update={"copies": parameter(1, "copies")}),
    }
    of = machine(memory=memory, links=copying)
    case = CapacityCase((path([1.0] * 3, "memif", sizes={100: 1}),), of)
    assert amount(case, "memory") == pytest.approx(4 * 2 * 100)
    of = machine(memory=memory, drivers=drivers(), nics={"x520": nic()})
    case = CapacityCase((path([1.0] * 3, HARDWARE, sizes={100: 1}, nic="x520"),), of)
    assert amount(case, "memory") == pytest.approx(2 * 3 * 100)


def test_sleeping_costs_a_wake_up_and_a_turn_of_each_function() -> None:
    """At 1 Mpps they wake each 100 packets, or each 50 µs, whichever is more often."""
    of = machine(wake=ns(3000), switch=ns(1000))
    setting = Setting(turn=1e12, woken_by=100, max_delay_us=50)
    case = CapacityCase((path([100.0, 100.0]),), of, setting)
    share = 1e6 / case.answered().found.total
    busy = {row.name: row for row in busy_at(case, case.answered(), share)}
    assert busy["CPU 1"].waking == pytest.approx(20_000 * 5e-6)
    assert busy["CPU 1"].used == pytest.approx(0.2 + 0.1, rel=1e-6)
    assert busy["CPU 0"].waking == 0
    rarer = case.with_setting(max_delay_us=0)
    waking = busy_at(rarer, rarer.answered(), share)[0].waking
    assert waking == pytest.approx(10_000 * 5e-6)


def test_nobody_sleeps_at_the_maximum_or_where_the_file_says_so(tmp_path: Path) -> None:
    of = machine(wake=ns(3000))
    case = of_file(tmp_path, GRAPH, of)
    assert (case.setting.woken_by, case.setting.max_delay_us) == (256, 100)
    answered = case.answered()
    (limit,) = answered.found.bottlenecks
    at_most = {row.name: row for row in busy_at(case, answered, 1.0)}[limit]
    assert at_most.used == pytest.approx(1)
    assert at_most.waking == pytest.approx(0, abs=1e-6)
    half = {row.name: row for row in busy_at(case, answered, 0.5)}
    assert half["CPU 1"].waking > 0
    awake = of_file(tmp_path, GRAPH.replace("{quota: 512}", "{quota: 512, max_delay_us: 0}"), of)
    assert sum(row.waking for row in busy_at(awake, awake.answered(), 0.5)) == 0


def test_a_mix_of_sizes_is_its_mean() -> None:
    sizes = {64: 7, 594: 4, 1518: 1}
    by_size = FunctionCost({64: 100.0, 1518: 200.0}, "cycles", "assumed")
    chain = path([0.0], HARDWARE, nic="x520", sizes=sizes)
    of = machine(drivers=drivers((0, 0), (0, 0)), nics={"x520": nic()})
    case = CapacityCase((chain,), of, Setting(pcie="padded"))
    mean = (7 * 64 + 4 * 594 + 1518) / 12
    assert amount(case, "x520 port 0 in") == pytest.approx((mean + 20) * 8)
    lines = (7 * 64 + 4 * 640 + 1536) / 12
    assert amount(case, "x520 PCIe to host") == pytest.approx((lines + 16) * 8)
    assert by_size.mean(sizes).value == pytest.approx(
        (7 * 100 + 4 * (100 + 100 * 530 / 1454) + 200) / 12
    )


def test_shares_of_a_graph_and_where_copies_end(tmp_path: Path) -> None:
    """Three quarters of the packets pass b, a quarter c, and copies of all the tap."""
    of = machine(switch=ns(0), platform=None)
    case = of_file(tmp_path, GRAPH, of)
    assert amount(case, "CPU 1") == pytest.approx(10 + 0.75 * 10)
    assert amount(case, "CPU 2") == pytest.approx(0.25 * 10 + 10)
    assert case.setting.turn == 512


def test_the_engine_carries_what_splits_and_merges(tmp_path: Path) -> None:
    """All packets and their copies leave a by one link, and the engine bridges them to others."""
    case = of_file(tmp_path, GRAPH, machine(switch=ns(0)))
    parts = case.answered().load.terms["x", "CPU 0"]
    assert parts["source"] == pytest.approx(10)
    assert parts["sink"] == pytest.approx(20)
    assert parts["bridge"] == pytest.approx(7 * 2)


def test_a_copy_is_sent_with_the_packet_that_it_is_a_copy_of(tmp_path: Path) -> None:
    """A function on memif sends each packet once, and the engine receives it once."""
    memif = GRAPH.replace("  a: {program: a, cpu: 1}", "  a: {command: [a], cpu: 1}")
    parts = of_file(tmp_path, memif, machine(switch=ns(0))).answered().load.terms
    assert parts["x", "CPU 1"]["memif send"] == pytest.approx(4 + 6.4)
    assert parts["x", "CPU 0"]["memif receive"] == pytest.approx(3 + 6.4)


def test_each_of_two_links_on_an_edge_is_carried() -> None:
    chain = path([100.0], "ovs")
    links = (replace(chain.links[0], kinds=("ovs", "ring")), chain.links[1])
    case = CapacityCase((replace(chain, links=links),), machine())
    assert case.answered().load.terms["c", "CPU 0"]["ovs carries"] == pytest.approx(200)


def test_a_way_back_enters_where_the_way_there_leaves(tmp_path: Path) -> None:
    text = (
        "apiVersion: unis/v1\nname: x\ndefaults: {cpu: 1}\n"
        "functions: {a: {program: a}, b: {program: b}}\nchains:\n"
        "  there: {path: [a, b], match: [{dst: 10.0.0.0/8}]}\n  back: {reverse_of: there}\n"
    )
    of = machine(drivers=drivers(), nics={"x520": nic()})
    case = of_file(tmp_path, text, of)
    taken = {(d.chain, d.resource) for d in case.answered().load.demands}
    assert {("there", "x520 port 0 in"), ("there", "x520 port 1 out")} <= taken
    assert {("back", "x520 port 1 in"), ("back", "x520 port 0 out")} <= taken


def test_with_a_nic_the_platform_receives_or_the_functions_do() -> None:
    of = machine(drivers=drivers(), nics={"x520": nic()}, switch=cycles(0))
    chain = path([100.0], nic="x520")
    platform = CapacityCase((chain,), of)
    assert amount(platform, "CPU 0") == pytest.approx(30 + 40)
    assert amount(platform, "CPU 1") == pytest.approx(100)
    functions = CapacityCase((chain,), of, Setting(ends="functions"))
    assert amount(functions, "CPU 0") == 0
    assert amount(functions, "CPU 1") == pytest.approx(100 + 30 + 40)


def test_functions_on_virtual_functions_leave_the_platform_nothing_to_carry() -> None:
    of = machine(drivers=drivers(), nics={"x520": nic()}, switch=cycles(0))
    case = CapacityCase((path([100.0] * 2, HARDWARE, nic="x520"),), of, Setting(turn=1e12))
    assert amount(case, "CPU 0") == pytest.approx(0, abs=1e-6)
    assert amount(case, "CPU 1") == pytest.approx(2 * (100 + 50 + 60))


def test_functions_that_are_repeated_have_names_of_their_own() -> None:
    two = (("fw", 10.0), ("fw-2", 20.0))
    uses = tuple(ModelFunction(name, 1, FunctionCost(c, "ns", "assumed")) for name, c in two)
    chain = ModelChain.path("c", uses)
    assert [use.name for use in chain.of_length(4).order] == ["fw", "fw-2", "fw (2)", "fw-2 (2)"]

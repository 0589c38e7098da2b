"""Chains that begin and end at wires: virtual functions whose other end is outside, on an emulated
NIC.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.python.fake_nic import INTERFACE, FakeNic
from tests.python.planned import EIGHT_CPUS, FILE, planned, small, told
from tests.python.strategies import Data
from unis.capacity.chain import FunctionCost
from unis.capacity.convert import chains_of, setting_of
from unis.capacity.demands import load_of
from unis.capacity.files import load_machine
from unis.capacity.resources import CapacityError
from unis.chain.consistency import problems
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile
from unis.errors import UnisError
from unis.links import KINDS
from unis.links.sriov import nic_of, sriov_of
from unis.plan.difference import difference
from unis.plan.machine import Machine
from unis.plan.model import Plan
from unis.runtime.claim import noted
from unis.runtime.errors import LaunchError
from unis.runtime.interrupts import Interrupts
from unis.runtime.run import Options
from unis.runtime.running import measure_costs
from unis.runtime.state import RunState
from unis.v1 import common_pb2

ROOT = Path(__file__).parents[2]

NEXT_HOP = "02:00:00:00:00:99"
WIRES = {"source": {"kind": "wire"}, "sink": {"kind": "wire", "next_hop": NEXT_HOP}}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path / "unis"))
    return Machine(EIGHT_CPUS.cpus, FakeNic(tmp_path / "sys").root)


def at_wires(count: int = 2, stated: Data | None = None, **parts: Any) -> Data:
    names = [f"f{at}" for at in range(count)]
    ends = ["ingress", *names, "egress"]
    whole = small(
        functions={name: {"program": "sh"} for name in names},
        chains={"c": {"path": names}},
        sriov={"nics": [INTERFACE]},
        links=[{"from": a, "to": b, "kind": "sriov", **(stated or {})} for a, b in pairwise(ends)],
        traffic=WIRES,
    )
    return whole | parts


def vfs_of(plan: Plan) -> list[tuple[int, ...]]:
    return [nic_of(link).vfs for link in plan.links]


def test_each_function_has_two_virtual_functions_and_the_engine_none(machine: Machine) -> None:
    plan = planned(at_wires(3), machine)
    assert vfs_of(plan) == [(0,), (2, 1), (4, 3), (5,)]
    assert {nic_of(link).port_vfs for link in plan.links} == {6}
    assert plan.engine.pci == ()
    assert "--pci" not in plan.engine.argv
    for function in plan.functions:
        addresses = [port.device for port in function.ports]
        assert addresses == sorted(addresses)
        assert len(addresses) == 2
    assert {(one.name, one.env.get("UNIS_COUNTED")) for one in plan.functions} == {
        ("f0", "0"), ("f1", None), ("f2", "1"),
    }  # fmt: skip


def test_the_example_of_the_page_can_be_planned(machine: Machine) -> None:
    page = (ROOT / "docs" / "sriov.md").read_text().partition("\n## Wires\n")[2]
    example = YAML(typ="safe").load(page.partition("```yaml\n")[2].partition("```")[0])
    built = {name: {**one, "program": "sh"} for name, one in example["functions"].items()}
    plan = planned({**example, "functions": built}, machine)
    assert vfs_of(plan) == [(0,), (2, 1), (3,)]
    assert [*plan.wires] == ["edge"]


def test_of_one_function_both_ports_are_wires(machine: Machine) -> None:
    plan = planned(at_wires(1), machine)
    assert vfs_of(plan) == [(0,), (1,)]
    assert plan.function("f0").env["UNIS_COUNTED"] == "0,1"


def test_others_send_to_the_first_and_the_last_sends_where_the_file_says(machine: Machine) -> None:
    plan = planned(at_wires(2), machine)
    first, between, _ = map(nic_of, plan.links)
    assert plan.wires == {"c": first.macs[0]}
    told = [function.argv[function.argv.index("--next-hop") + 1] for function in plan.functions]
    assert told == [f"-,{between.macs[1]}", f"{between.macs[0]},{NEXT_HOP}"]
    assert KINDS["sriov"].driver_stated(plan.links[0]) == (
        f", VF 0 of {INTERFACE}, MAC {first.macs[0]}"
    )


@pytest.mark.parametrize("driver", ["vfio", "mmsg", "af_packet"])
def test_the_engine_is_told_of_one_end(machine: Machine, driver: str) -> None:
    plan = planned(at_wires(2, {"driver": driver}), machine)
    request = plan.deploy({}, "")
    assert request.traffic.WhichOneof("source") == "wire"
    for link, function in ((plan.links[0], "f0"), (plan.links[-1], "f1")):
        message = link.message()
        assert message.kind == common_pb2.LINK_SRIOV
        assert not message.sriov.engine_end
        assert message.sriov.address1 == ""
        kernel = sriov_of(link).devices[0]
        assert bool(kernel) == (driver != "vfio")
        assert message.sriov.address0 == (kernel or nic_of(link).addresses[0])
        assert KINDS["sriov"].devices(link) == ((kernel,) if kernel else ())
        (port,) = [port for port in plan.function(function).ports if port.rx == link.name]
        assert port.end == 0
        assert message.sriov.address0 in port.device


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"traffic": {"source": {"kind": "wire"}}}, "write sink: {kind: wire, next_hop: …}"),
        ({"traffic": {"sink": WIRES["sink"]}}, "write source: {kind: wire}"),
        ({"traffic": {**WIRES, "rate": "1Mpps"}}, "interface or wire come when they come"),
        ({"traffic": {**WIRES, "arrivals": "poisson"}}, "interface or wire come when they come"),
        (
            {"chains": {"c": {"path": ["f0", "f1"], "slo": {"p95_latency": "1ms"}}}},
            "goes with no wire: nobody sees when packets come and go",
        ),
        (
            {"chains": {"c": {"path": ["f0", "f1"], "match": [{"protocol": "udp"}]}}},
            "others choose a chain by the MAC address to which they send",
        ),
        ({"links": []}, "add {from: ingress, to: f0, kind: sriov}"),
        (
            {
                "functions": {
                    "f0": {"command": ["sh", "{next_mac1}"], "plugin": False},
                    "f1": {"program": "sh"},
                }
            },
            "whose packets UNiS's plug-in counts; leave it in",
        ),
    ],
)
def test_what_a_chain_at_wires_cannot_have_is_told_in_a_sentence(
    parts: Data, sentence: str
) -> None:
    found = problems(ChainFile.model_validate(at_wires(2, **parts)))
    assert sentence in " ".join(one.sentence for one in found)


def test_a_wire_without_a_next_hop_is_refused() -> None:
    lacking = at_wires(2, traffic={**WIRES, "sink": {"kind": "wire"}})
    with pytest.raises(ValueError, match="next_hop"):
        ChainFile.model_validate(lacking)


@pytest.mark.parametrize(
    ("next_hop", "sentence"),
    [
        ("02:00", "expected six bytes"),
        ("00:00:00:00:00:00", "expected six bytes"),
        ("01:00:5e:00:00:01", "`01:00:5e:00:00:01` is the MAC address of a group"),
        ("ff:ff:ff:ff:ff:ff", "expected that of one device, whose first byte is even"),
    ],
)
def test_a_next_hop_is_the_address_of_one_device(next_hop: str, sentence: str) -> None:
    wrong = at_wires(2, traffic={**WIRES, "sink": {"kind": "wire", "next_hop": next_hop}})
    with pytest.raises(ValueError, match=sentence):
        ChainFile.model_validate(wrong)


def test_a_command_at_a_wire_that_places_its_arguments_loads_the_plugin(machine: Machine) -> None:
    def chain(*words: str) -> Data:
        middle = {"command": ["sh", "{next_mac1}", "{eal}"]}
        functions = {"f0": {"command": ["sh", *words]}, "f1": middle, "f2": {"program": "sh"}}
        return at_wires(3, functions=functions)

    (sentence,) = told(chain("{next_mac1}", "{lcores}"), machine)
    assert "`f0` is at a wire" in sentence
    assert "-d {plugin}" in sentence
    planned(chain("{next_mac1}", "{lcores}", "-d", "{plugin}"), machine)
    planned(chain("{next_mac1}", "{eal}"), machine)


def test_what_a_run_notes_of_its_plan_holds_its_wires(machine: Machine) -> None:
    plan = planned(at_wires(2), machine)
    assert plan.wires
    assert noted(plan)["wires"] == plan.wires
    assert RunState.__dataclass_fields__.keys() >= noted(plan).keys()


@pytest.mark.parametrize(
    "traffic",
    [
        {"source": {"kind": "synthetic"}},
        {**WIRES, "sink": {"kind": "wire", "next_hop": "02:00:00:00:00:01"}},
    ],
)
def test_the_wires_of_a_run_stay(machine: Machine, traffic: Data) -> None:
    there = planned(at_wires(2), machine)
    assert difference(there, planned(at_wires(2, traffic=traffic), machine)).refused


def test_too_few_virtual_functions_are_told(machine: Machine) -> None:
    (said,) = told(at_wires(4), machine)
    assert "3 links, two each and of one port, and 2 wires on enp1s0f0 need 8" in said


def test_the_model_counts_no_source_and_sink_and_two_functions_of_the_card_each() -> None:
    loaded = LoadedChain(FILE, ChainFile.model_validate(at_wires(3)))
    machine = load_machine(ROOT / "examples/machines/xeon-x520.yaml")
    costs = {f"f{at}": FunctionCost(60, "ns", "assumed") for at in range(3)}
    setting = setting_of(loaded, machine)
    terms = load_of(chains_of(loaded, costs, {64: 1}, machine), machine, setting).terms
    named = {term for (_, resource), parts in terms.items() if "CPU" in resource for term in parts}
    assert {"f0", "f1", "f2"} <= named
    assert not {"source", "sink"} & named
    (nic,) = machine.nics.values()
    assert nic.virtual_functions
    has = nic.virtual_functions.model_copy
    for there, suffices in ((6, True), (5, False)):
        few = nic.model_copy(
            update={
                "virtual_functions": has(update={"value": float(there)}),
                "ports": nic.ports.model_copy(update={"value": 1.0}),
            }
        )
        small_card = machine.model_copy(update={"nics": {"x": few}})
        chains = chains_of(loaded, costs, {64: 1}, small_card)
        if suffices:
            load_of(chains, small_card, setting)
        else:
            with pytest.raises(CapacityError, match="need 6 virtual functions, and x has 5"):
                load_of(chains, small_card, setting)


def test_functions_at_wires_are_not_measured(machine: Machine) -> None:
    plan = planned(at_wires(2), machine)
    with pytest.raises(LaunchError, match="state their cost_ns"):
        measure_costs(plan, [["f0"]], Options(), print, Interrupts())


def test_no_virtual_function_is_given_twice_when_chains_come_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path / "unis"))
    machine = Machine(EIGHT_CPUS.cpus, FakeNic(tmp_path / "sys", total=8).root)

    def chains(**paths: list[str]) -> Data:
        ends = [pair for path in paths.values() for pair in pairwise(["ingress", *path, "egress"])]
        return at_wires(
            functions={name: {"program": "sh"} for path in paths.values() for name in path},
            chains={name: {"path": path} for name, path in paths.items()},
            links=[{"from": a, "to": b, "kind": "sriov"} for a, b in dict.fromkeys(ends)],
        )

    both = planned(chains(one=["z"], two=["a", "b", "e"]), machine)
    alone = planned(chains(two=["a", "b", "e"]), machine, there=both)
    assert vfs_of(alone) == [(1,), (3, 2), (5, 4), (7,)]
    with pytest.raises(UnisError, match="all virtual functions are taken"):
        planned(chains(two=["a", "b", "d", "e"]), machine, there=alone)

"""Plans of chains whose links are virtual functions, on an emulated NIC."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.python.fake_nic import INTERFACE, FakeNic
from tests.python.planned import EIGHT_CPUS, planned, small, told
from tests.python.strategies import Data
from unis.chain.consistency import problems
from unis.chain.model import ChainFile
from unis.errors import UnisError
from unis.links import physical
from unis.links.kind import LinkPlan
from unis.links.sriov import Sriov, nic_of, sriov_of
from unis.plan import virtual
from unis.plan.difference import difference
from unis.plan.machine import Machine
from unis.plan.model import Plan
from unis.runtime.interrupts import Interrupts
from unis.runtime.open_files import has_polled
from unis.runtime.run import Run
from unis.runtime.state import Phase
from unis.runtime.steps import Made, make_links
from unis.v1 import common_pb2 as pb
from unis.workload import COUNTED, NEXT_HOPS, OFFLOADS

ENDS = [("ingress", "fw"), ("fw", "nat"), ("nat", "egress")]
COMMAND = ["sh", "--eth-peer=1,{next_mac1}", "--mine={mac0}"]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path / "unis"))
    return Machine(EIGHT_CPUS.cpus, FakeNic(tmp_path / "sys").root)


def chain(*ends: tuple[str, str], **parts: Any) -> Data:
    """Two functions: one of UNiS, and a command."""
    functions = {"fw": {"program": "sh"}, "nat": {"command": COMMAND}}
    stated = parts.pop("stated", {})
    whole = small(
        functions=functions,
        chains={"c": {"path": ["fw", "nat"]}},
        sriov={"nics": [INTERFACE]},
        links=[{"from": a, "to": b, "kind": "sriov", **stated} for a, b in ends or ENDS],
    )
    return whole | parts


def on_nic(plan: Plan) -> list[LinkPlan]:
    return [link for link in plan.links if link.kind == "sriov"]


def test_a_chain_of_two_has_six_virtual_functions(machine: Machine) -> None:
    plan = planned(chain(), machine)
    found = on_nic(plan)
    assert len(found) == 3
    assert sorted(vf for link in found for vf in nic_of(link).vfs) == [0, 1, 2, 3, 4, 5]
    assert {nic_of(link).port_vfs for link in found} == {6}
    into, between, out = (nic_of(link).addresses for link in found)
    assert into[1] < into[0], "the end that receives has the lower one: of these end 1"
    assert between[1] < between[0]
    assert out[0] < out[1], "here the engine receives"
    macs = [mac for link in found for mac in nic_of(link).macs]
    assert len({*macs}) == 6
    assert plan.engine.argv.count("--pci") == 2
    for function in plan.functions:
        addresses = [port.device for port in function.ports]
        assert addresses == sorted(addresses)
        assert len(addresses) == 2
    again = planned(chain(), machine)
    assert [nic_of(link) for link in on_nic(again)] == [nic_of(link) for link in found]


def test_the_engine_is_told_where_its_frames_go(machine: Machine) -> None:
    first, between, last = (link.message() for link in on_nic(planned(chain(), machine)))
    assert {first.kind, between.kind, last.kind} == {pb.LINK_SRIOV}
    assert [link.sriov.engine_end for link in (first, between, last)] == [True, False, True]
    plan = planned(chain(), machine)
    mac = nic_of(on_nic(plan)[0]).macs[1]
    assert first.sriov.next_mac.hex(":") == mac
    assert between.sriov.next_mac == b""
    assert first.sriov.address1 == plan.function("fw").ports[0].device


def test_each_function_is_told_the_address_of_the_next(machine: Machine) -> None:
    plan = planned(chain(), machine)
    first, between, last = (nic_of(link).macs for link in on_nic(plan))
    argv = plan.function("fw").argv
    assert argv[argv.index("--next-hop") + 1] == f"{first[0]},{between[1]}"
    nat = plan.function("nat").argv
    assert nat[-2:] == (f"--eth-peer=1,{last[0]}", f"--mine={between[1]}")
    assert "--lcores" in nat, "such places are none of EAL's arguments"


def test_with_the_kernels_driver_it_is_a_veth_to_the_engine(machine: Machine) -> None:
    keys = {"driver": "mmsg", "batch": 8, "vlan": 7, "rate": "1Gbps"}
    plan = planned(chain(stated=keys), machine)
    link = on_nic(plan)[0]
    assert Sriov().driver_stated(link) == (
        ", VFs 1 and 0 of enp1s0f0, VLAN 7, 1000 Mbps, driver mmsg, batch 8"
    )
    message = link.message()
    assert message.kind == pb.LINK_VETH
    assert (message.veth.device0, message.veth.device1) == sriov_of(link).devices
    assert message.veth.next_mac.hex(":") == nic_of(link).macs[1]
    assert plan.function("fw").ports[0].device.startswith("net_mmsg0,iface=unis")
    assert (Sriov().binds(link), plan.engine.pci) == ((), ())
    assert len(Sriov().devices(link)) == 2


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (
            {"command": ["sh"], "plugin": False},
            "the NIC would bring each packet back to it, for ever; let it load UNiS's plug-in",
        ),
        ({"command": ["sh", "{vdev0}"]}, "nothing writes the MAC address of the next function"),
        (
            {"command": ["sh", "{next_mac0}"], "plugin": False},
            "nothing writes the MAC address of the next function into what `nat` sends on port 1",
        ),
        ({"command": ["sh", "{next_mac1} {next_mac2}"]}, "{next_mac2}: port 2 is on no link of ki"),
        ({"program": "sh", "user": "nobody"}, "`nobody` may not open vfio's devices"),
    ],
)
def test_functions_that_cannot_be(machine: Machine, function: Data, sentence: str) -> None:
    data = chain()
    data["functions"]["nat"] = function
    said = told(data, machine)
    assert sum(sentence in row for row in said) == 1


@pytest.mark.parametrize("driver", ["vfio", "mmsg"])
def test_the_plugin_writes_the_next_address_for_a_command_that_does_not(
    machine: Machine, driver: str
) -> None:
    data = chain(stated={"driver": driver})
    data["functions"]["nat"] = {"command": ["sh"]}
    plan = planned(data, machine)
    link = on_nic(plan)[-1]
    device = nic_of(link).addresses[1] if driver == "vfio" else "net_mmsg1"
    # Of the link to the sink the engine has end 0.
    assert plan.function("nat").env == {"UNIS_NEXT_HOPS": f"{device}={nic_of(link).macs[0]}"}
    for does in ({"command": COMMAND}, {"command": ["sh"], "rewrites": True}):
        data["functions"]["nat"] = does
        assert planned(data, machine).function("nat").env == {}


@pytest.mark.parametrize("where", [("functions", "nat"), ("defaults",)])
@pytest.mark.parametrize("variable", [OFFLOADS, NEXT_HOPS, COUNTED])
def test_variables_of_the_plugin_are_not_stated(where: tuple[str, ...], variable: str) -> None:
    data = chain()
    part = data
    for key in where:
        part = part.setdefault(key, {})
    part["env"] = {variable: "x", "OTHER": "y"}
    (found,) = problems(ChainFile.model_validate(data))
    assert found.location == (*where, "env", variable)
    assert found.sentence.startswith("is UNiS's own")


def test_a_command_may_state_that_it_rewrites(machine: Machine) -> None:
    data = chain()
    data["functions"]["nat"] = {"command": ["sh"], "rewrites": True}
    assert planned(data, machine).function("nat").argv[-1] == "--"
    data["functions"]["fw"]["rewrites"] = True
    assert "goes with command; programs are" in str(problems(ChainFile.model_validate(data)))


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"sriov": {"nics": []}}, "names no NIC, and links are of kind sriov"),
        ({"sriov": {"nics": ["eth9"]}}, "there is no PCI device behind `eth9` here"),
        ({"stated": {"nic": "eth9"}}, "`eth9` is not under sriov.nics"),
        ({"functions": {f"f{at}": {"program": "sh"} for at in range(4)},
          "chains": {"c": {"path": ["f0", "f1", "f2", "f3"]}},
          "links": [{"from": a, "to": b, "kind": "sriov"} for a, b in
                    [("ingress", "f0"), ("f0", "f1"), ("f1", "f2"), ("f2", "f3")]]},
         "4 links on enp1s0f0 need two virtual functions of one port each, and there can be 7"),
    ],
)  # fmt: skip
def test_what_a_nic_has_no_room_for(machine: Machine, parts: Data, sentence: str) -> None:
    said = told(chain(**parts), machine)
    assert sum(sentence in row for row in said) >= 1
    assert not any("\n" in row for row in said)


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ({"kind": "veth", "vlan": 7}, "'vlan') is for links of kind sriov, and this one is a veth"),
        ({"kind": "memif", "rate": "5Mbps"}, "'rate') is for links of kind sriov"),
        ({"kind": "veth", "driver": "vfio"}, "'driver') vfio is for links of kind sriov"),
    ],
)
def test_keys_of_such_links_are_for_no_other_kind(link: Data, sentence: str) -> None:
    assert sentence in str(told(small(links=[{"from": "fw", "to": "nat", **link}])))


@pytest.mark.parametrize("rate", ["1.5Mbps", "5Mpps", "1kbps", "max", 5])
def test_rates_are_those_that_nics_have(rate: object) -> None:
    with pytest.raises(ValueError, match="expected a whole number of Mbps"):
        ChainFile.model_validate(chain(stated={"rate": rate}))
    (link, *_) = ChainFile.model_validate(chain(stated={"rate": "2.5Gbps"})).links
    assert link.rate_mbps == 2500


@pytest.mark.parametrize(
    "changed",
    [
        {"links": [{"from": "ingress", "to": "fw", "kind": "sriov", "vlan": 8}]},
        {"links": [{"from": "ingress", "to": "fw", "kind": "sriov", "rate": "5Mbps"}]},
        {"links": [{"from": "ingress", "to": "fw", "kind": "sriov", "spoof_check": True}]},
        {"links": [{"from": "ingress", "to": "fw", "kind": "sriov", "driver": "af_packet"}]},
        {"links": [{"from": "ingress", "to": "fw", "kind": "sriov", "nic": "enp2s0f0"}]},
        {"sriov": {"nics": ["enp2s0f0", INTERFACE]},
         "links": [{"from": "ingress", "to": "fw", "kind": "sriov", "nic": "enp2s0f0"}]},
        {"sriov": {"nics": ["enp2s0f0"]}},
    ],
)  # fmt: skip
def test_each_key_of_links_on_nics_is_seen(machine: Machine, changed: Data) -> None:
    FakeNic(machine.sysfs, address="0000:02:00.0", interface="enp2s0f0")
    data = chain(ENDS[0], chains={"c": {"path": ["fw"]}}, functions={"fw": {"program": "sh"}})
    data["sriov"] = {"nics": [INTERFACE, "enp2s0f0"]}
    before = planned(data, machine)
    assert difference(before, planned({**data, **changed}, machine, there=before))


def test_another_tenant_is_another_vlan(machine: Machine) -> None:
    before = planned(tenants("acme", None), machine)
    assert difference(before, planned(tenants("globex", None), machine, there=before))


def tenants(first: str | None, second: str | None, **stated: Any) -> Data:
    """Each a chain of one function."""
    functions = {name: {"program": "sh"} for name in ("fw", "nat")}
    chains: dict[str, Data] = {
        "a": {"path": ["fw"], "match": [{"dst_port": 1}]},
        "b": {"path": ["nat"]},
    }
    for name, tenant in zip(chains, (first, second), strict=True):
        chains[name] |= {"tenant": tenant} if tenant else {}
    return chain(("fw", "egress"), functions=functions, chains=chains) | {
        "links": [
            {"from": "ingress", "to": "fw", "kind": "sriov", **stated},
            {"from": "ingress", "to": "nat", "kind": "sriov", **stated},
        ]
    }


def vlans(plan: Plan) -> list[int]:
    return [nic_of(link).vlan for link in on_nic(plan)]


def test_tenants_on_a_nic_have_a_vlan_each(machine: Machine) -> None:
    plan = planned(tenants("acme", "globex"), machine)
    of_acme, of_globex = vlans(plan)
    assert len({0, of_acme, of_globex}) == 3
    assert f"tenant acme has VLAN {of_acme} on the NIC" in plan.notes
    assert vlans(planned(tenants("acme", None), machine)) == [of_acme, 0]
    assert vlans(planned(tenants("acme", "acme"), machine)) == [0, 0]
    data = tenants("acme", "globex")
    data["links"][1]["vlan"] = of_acme
    assert vlans(planned(data, machine))[1] == of_acme
    assert of_acme not in vlans(planned(data, machine))[:1], "what is stated is nobody else's"


def test_no_two_tenants_have_one_vlan(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "_LAST_VLAN", 3)
    for name in ("acme", "globex", "initech", "umbrella"):
        of_both = vlans(planned(tenants(name, "hooli"), machine))
        assert sorted(of_both) == [2, 3]


def test_tenants_share_neither_a_vlan_nor_a_function(machine: Machine) -> None:
    said = told(tenants("acme", "globex", vlan=7), machine)
    assert "VLAN 7 has links of tenants `acme` and `globex`" in str(said)
    data = tenants("acme", "globex")
    data["chains"]["b"]["path"] = ["nat", "fw"]
    found = problems(ChainFile.model_validate(data))
    assert "serves chains of two tenants, acme (a) and globex (b)" in str(found)
    back = tenants("acme", "globex")
    back["chains"]["b"] = {"reverse_of": "a", "tenant": "globex"}
    del back["functions"]["nat"]
    back["links"].pop()
    assert "whose way back this is, is of `acme`" in str(problems(ChainFile.model_validate(back)))


def test_a_link_that_stays_keeps_its_functions(machine: Machine) -> None:
    before = planned(chain(), machine)
    after = planned(chain(), machine, there=before)
    assert on_nic(after) == on_nic(before)
    assert not difference(before, after)
    fewer = chain(*ENDS[:2])
    fewer["functions"]["nat"]["command"] = ["sh"]
    short = planned(fewer, machine, there=before)
    assert on_nic(short) == on_nic(before)[:2]
    slower = chain()
    slower["links"][1]["rate"] = "10Mbps"
    with pytest.raises(Exception, match=r"all virtual functions are taken.*`unis down x`"):
        planned(slower, machine, there=before)


def test_what_unisd_has_opened_does_not_go_before_it(machine: Machine) -> None:
    before = planned(chain(), machine)
    fewer = chain(*ENDS[:2])
    fewer["functions"]["nat"]["command"] = ["sh"]
    (refused,) = difference(before, planned(fewer, machine, there=before)).refused
    address = nic_of(on_nic(before)[2]).addresses[0]
    assert refused.startswith(f"unisd keeps NIC {address} open till it ends")


class Making:
    """What `make_links` needs of a run."""

    def __init__(self) -> None:
        self.state = SimpleNamespace(made=[])
        self.switch = Interrupts()
        self.told: list[str] = []

    def tell(self, line: str) -> None:
        self.told.append(line)

    def record(self, made: list[Made]) -> None:
        self.state.made = made


@pytest.mark.parametrize("left", [True, False])
def test_a_link_of_which_something_is_left_is_undone_later(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, left: bool
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise UnisError("it cannot be")

    monkeypatch.setattr(physical, "make", fails)
    monkeypatch.setattr(physical, "is_noted", lambda _: left)
    run = Making()
    with pytest.raises(UnisError, match="it cannot be"):
        make_links(cast("Run", run), planned(chain(), machine))
    assert run.state.made == [("sriov", "x.c.0")] * left


class Attaching(Run):
    """A run of which a function is attached."""

    def __init__(self, plan: Plan, process: subprocess.Popen[bytes]) -> None:
        self.plan = plan
        self.attached: list[bool] = []
        self.looked = 0
        self.functions = cast("Any", {"fw": SimpleNamespace(process=process)})
        self._state = cast("Any", SimpleNamespace(phase=Phase.STARTING))
        self.client = cast("Any", SimpleNamespace(attach=self._attach))
        self._coming = set()

    def _attach(self, _: str, pid: int, *__: object, **___: object) -> None:
        self.attached.append(has_polled(pid))

    def check(self) -> None:
        self.looked += 1


_STARTS = """
import os, sys
file = os.memfd_create("unis_turns")
os.ftruncate(file, 64 + 32 * 128)
print("loaded", flush=True)
sys.stdin.readline()
os.pwrite(file, (77).to_bytes(4, "little"), 64 + 128)
sys.stdin.readline()
"""


def test_a_function_is_attached_once_it_has_polled(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine sees nothing of its links, and who starts does not sleep either."""
    command = [sys.executable, "-c", _STARTS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        assert not has_polled(process.pid)
        run = Attaching(planned(chain(), machine), process)

        def polls_soon() -> None:
            run.looked += 1
            if run.looked == 3:
                assert process.stdin
                process.stdin.write(b"\n")
                process.stdin.flush()

        monkeypatch.setattr(run, "check", polls_soon)
        run.attach("fw")
        assert run.looked >= 3
        assert run.attached == [True]
        process.stdin.close()
    seen = small(functions={"fw": {"program": "sh"}}, chains={"c": {"path": ["fw"]}})
    run = Attaching(planned(seen), process)
    run.attach("fw")
    assert run.attached == [False], "of links that can be seen the engine knows better"

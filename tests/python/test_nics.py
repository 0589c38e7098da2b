"""NICs in a folder that imitates sysfs (an emulation), and their drivers."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.e2e.attached import namespace
from tests.python.fake_sysfs import FakeSysfs, answering
from tests.python.planned import EIGHT_CPUS, places, small
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile
from unis.chain.problem import ChainFileError
from unis.errors import UnisError
from unis.links import namespaces
from unis.links.netlink import use_by_host
from unis.nics import binding, sysfs, usable
from unis.nics.binding import Binding, bind, found, restore
from unis.nics.sysfs import Device, devices, driver_of, find, full_address
from unis.plan.model import NicPlan, Plan
from unis.plan.planner import make_plan
from unis.runtime import nics, steps
from unis.runtime.doctor import nics as doctor_nics
from unis.runtime.doctor.finding import Level
from unis.runtime.errors import LaunchError
from unis.runtime.interrupts import Interrupts
from unis.runtime.process import ProcessId, children, wait_gone
from unis.runtime.state import RunState

if TYPE_CHECKING:
    from unis.runtime.run import Run

NIC, VF, OTHER = "0000:01:00.0", "0000:01:10.0", "0000:01:10.2"


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeSysfs]:
    with answering(tmp_path / "sys") as made:
        made.add_driver("vfio-pci")
        yield made


def test_what_sysfs_tells_of_a_nic_and_its_vfs(fake: FakeSysfs) -> None:
    fake.add(NIC, "igb", "enp1s0", group=1, numa_node=0, sriov_totalvfs=7)
    fake.add(VF, group=12, device="0x10ca")
    fake.add(OTHER, group=12)
    fake.add("0000:00:1f.2", "ahci", pci_class=0x010601)
    fake.add_vfs(NIC, OTHER, VF)
    nic, vf, other = devices(fake.root)
    assert nic == Device(NIC, 0x8086, 0x10C9, "igb", ("enp1s0",), 1, (), 0, 7, (OTHER, VF), None)
    assert vf == Device(VF, 0x8086, 0x10CA, None, (), 12, (OTHER,), None, 0, (), NIC)
    assert other.group_peers == (VF,)
    assert find("enp1s0", fake.root) == find("01:00.0", fake.root) == nic


def test_the_interface_of_a_virtio_nic_is_below_its_device_of_that_bus(fake: FakeSysfs) -> None:
    (fake.add(NIC, "virtio-pci") / "virtio2/net/eth0").mkdir(parents=True)
    assert find("eth0", fake.root).address == NIC


def test_what_is_not_there_or_no_nic_is_told_in_a_sentence(fake: FakeSysfs) -> None:
    fake.add("0000:00:1f.2", pci_class=0x010601)
    for asked, sentence in (
        ("03:00.0", "there is no PCI device 0000:03:00.0 here"),
        ("eth7", "there is no PCI device behind `eth7` here"),
        ("0000:00:1f.2", "PCI device 0000:00:1f.2 is no network device"),
    ):
        with pytest.raises(UnisError, match=sentence):
            find(asked, fake.root)


@given(
    st.integers(0, 0xFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 7),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_every_form_of_an_address_is_the_same_device(
    domain: int, bus: int, slot: int, function: int, short: bool, upper: bool
) -> None:
    whole = f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"
    text = whole if domain or not short else whole[5:]
    assert full_address(text.upper() if upper else text) == whole
    for broken in (f"{text}0", f" {text}", f"{text}\n", text.replace(".", ":")):
        assert full_address(broken) == ""


@given(st.dictionaries(st.sampled_from(
    ["vendor", "class", "numa_node", "sriov_totalvfs", "device"]
), st.text(max_size=8)))  # fmt: skip
def test_no_text_in_sysfs_raises(texts: dict[str, str]) -> None:
    with TemporaryDirectory() as folder:
        fake = FakeSysfs(Path(folder) / "sys")
        fake.close()
        fake.add(NIC)
        for name, text in texts.items():
            (fake.device(NIC) / name).write_text(text, errors="replace")
        assert all(device.address == NIC for device in devices(fake.root))


# ------------------------------------------------------------------ drivers


def test_a_device_goes_to_vfio_and_back_with_its_interface(fake: FakeSysfs) -> None:
    fake.add(NIC, "igb", "enp1s0")
    (fake.root / "class/net/enp1s0/flags").write_text("0x1003\n")
    (fake.root / "class/net/enp1s0/mtu").write_text("9000\n")
    before = bind(NIC, "vfio-pci", fake.root)
    assert before == Binding(NIC, "igb", "", "enp1s0", 0x1003, 9000)
    assert driver_of(NIC, fake.root) == "vfio-pci"
    assert find(NIC, fake.root).interfaces == ()
    assert restore(before, fake.root) == []
    assert found(NIC, fake.root) == before
    assert restore(before, fake.root) == [], "twice"
    assert found(NIC, fake.root) == before


def test_an_interface_that_was_down_stays_down(fake: FakeSysfs) -> None:
    fake.add(NIC, "igb", "enp1s0")
    before = bind(NIC, "vfio-pci", fake.root)
    assert restore(before, fake.root) == []
    assert found(NIC, fake.root).flags == 0x1002


def test_a_vf_without_driver_is_without_driver_again(fake: FakeSysfs) -> None:
    fake.add(VF)
    before = bind(VF, "vfio-pci", fake.root)
    assert restore(before, fake.root) == []
    assert found(VF, fake.root) == before == Binding(VF, None, "")


def test_an_override_of_before_is_put_back(fake: FakeSysfs) -> None:
    fake.add(VF, "igbvf", driver_override="igbvf")
    before = bind(VF, "vfio-pci", fake.root)
    assert restore(before, fake.root) == []
    assert found(VF, fake.root) == before == Binding(VF, "igbvf", "igbvf")


def test_a_device_that_its_driver_has_already_is_let_be(fake: FakeSysfs) -> None:
    fake.add(VF, "vfio-pci")
    assert bind(VF, "vfio-pci", fake.root).driver == "vfio-pci"
    assert fake.probed == []


def test_a_device_that_is_gone_needs_nothing(fake: FakeSysfs) -> None:
    assert restore(Binding(VF, "igbvf", ""), fake.root) == []


def test_a_driver_that_refuses_leaves_the_device_as_it_was(
    fake: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding, "_PROBE_SECONDS", 0.3)
    fake.add(NIC, "igb", "enp1s0")
    fake.refusing.add("vfio-pci")
    before = found(NIC, fake.root)
    with pytest.raises(UnisError, match=f"driver vfio-pci does not take {NIC}: no driver has it$"):
        bind(NIC, "vfio-pci", fake.root)
    assert found(NIC, fake.root) == before


def test_a_device_that_does_not_come_back_is_told(
    fake: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding, "_PROBE_SECONDS", 0.2)
    fake.add(NIC, "igb")
    before = bind(NIC, "vfio-pci", fake.root)
    fake.refusing.add("igb")
    (problem,) = restore(before, fake.root)
    assert f"PCI device {NIC} is not as it was, with driver igb" in problem


def test_a_write_that_hangs_is_given_up(fake: FakeSysfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "SECONDS", 0.3)
    fake.add_driver("busy", hangs=True)
    fake.add(VF, "busy")
    begin = time.monotonic()
    with pytest.raises(UnisError, match="does not answer within"):
        bind(VF, "vfio-pci", fake.root)
    assert time.monotonic() - begin < 60, "it would hang for ever"
    assert found(VF, fake.root) == Binding(VF, "busy", "")


def test_a_writer_ends_with_the_launcher_that_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "sriov_numvfs"
    os.mkfifo(file)  # the kernel's files can wait as long
    script = "import sys; from pathlib import Path; from unis.nics.binding import write; "
    script += "write(Path(sys.argv[1]), '4', 60)"
    launcher = subprocess.Popen([sys.executable, "-c", script, file])
    writers: list[ProcessId] = []
    try:
        until = time.monotonic() + 30
        while not writers and time.monotonic() < until:
            writers = children(launcher.pid)
            time.sleep(0.02)
        assert len(writers) == 1
        time.sleep(0.3)  # it waits for a reader, most likely
    finally:
        launcher.kill()
        launcher.wait()
    left = wait_gone(writers, 30)
    for one in left:
        one.send(signal.SIGKILL)
    assert left == []


def test_a_device_that_goes_while_it_is_put_back_is_no_problem(
    fake: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = found_nic(fake)

    def gone(address: str, root: Path) -> Device:
        fake.device(address).rename(root / "gone")
        return find(address, root)

    monkeypatch.setattr(binding, "find", gone)
    assert restore(before, fake.root) == []


def found_nic(fake: FakeSysfs) -> Binding:
    fake.add(NIC, "igb", "enp1s0")
    return found(NIC, fake.root)


def test_an_interface_without_its_files_is_no_crash(fake: FakeSysfs) -> None:
    before = found_nic(fake)
    (fake.root / "class/net/enp1s0/flags").unlink()
    assert restore(before, fake.root) == []


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        binding.write(tmp_path / "sriov_numvfs", "4")
    assert not (tmp_path / "sriov_numvfs").exists()


@pytest.mark.parametrize("change", [
    {"address": "../../class"}, {"address": "01:00.0"}, {"driver": "../igb"}, {"override": "a/b"},
    {"interface": "a/../b"}, {"driver": "igb\n"},
])  # fmt: skip
def test_root_makes_no_path_of_what_a_file_says(change: dict[str, Any]) -> None:
    good = Binding(NIC, "igb", "", "enp1s0")
    assert Binding(**asdict(good)) == good
    with pytest.raises(ValueError, match="not a binding"):
        replace(good, **change)


# ------------------------------------------------------------------ what hinders


def test_what_vfio_can_have(fake: FakeSysfs) -> None:
    fake.add(VF, group=12)
    fake.add("0000:00:02.0", "pcieport", group=12, pci_class=0x060400)
    assert usable.hindrance(find(VF, fake.root), fake.root) == ""


def test_a_group_that_others_use_a_nic_without_iommu_and_one_with_vfs(fake: FakeSysfs) -> None:
    fake.add(VF, group=12)
    fake.add(OTHER, "igbvf", "eth3", group=12)
    fake.add(NIC, "igb", group=1)
    fake.add("0000:03:00.0", "igb")
    fake.add_vfs(NIC, VF)
    fake.add("0000:04:00.0", "mlx5_core", group=4)
    for address, sentence in (
        (VF, f"IOMMU group 12 is shared with {OTHER}, which driver igbvf has"),
        (NIC, f"it has 1 VFs, which go with its driver; use VF {VF}"),
        ("0000:03:00.0", "no IOMMU guards memory from it"),
        ("0000:04:00.0", "DPDK uses it beside mlx5_core"),
    ):
        assert sentence in usable.hindrance(find(address, fake.root), fake.root)
    assert usable.hindrance(find(VF, fake.root), fake.root, [OTHER]) == ""


def test_a_kernel_without_vfio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(tmp_path / "sys") as fake:
        fake.add(VF, group=12)
        monkeypatch.setenv("PATH", str(tmp_path))  # no modprobe
        assert "no module vfio-pci" in usable.hindrance(find(VF, fake.root), fake.root)


# ------------------------------------------------------------------ in a chain file


@pytest.fixture
def sys_is(fake: FakeSysfs, monkeypatch: pytest.MonkeyPatch) -> FakeSysfs:
    """The whole of UNiS looks into the folder."""
    monkeypatch.setattr(sysfs, "SYS", fake.root)
    return fake


def chain(source: str, sink: str = "net_tap0", **more: str) -> LoadedChain:
    traffic = {
        "source": {"kind": "port", "device": source, **more},
        "sink": {"kind": "port", "device": sink},
    }
    return LoadedChain(Path("chain.yaml"), ChainFile.model_validate(small(traffic=traffic)))


def plan_of(chain: LoadedChain, *runs: RunState) -> Plan:
    return make_plan(nics.resolved(chain, runs), EIGHT_CPUS, [], places)


def a_run(**parts: Any) -> RunState:
    return RunState(
        run_id="a", name="other", chain_file="x", groups=[], cpus=[], platform_cpus=[],
        hugepages_mb=0, launcher=ProcessId.me(), **parts,
    )  # fmt: skip


def test_a_nic_by_any_name_is_probed_by_its_address(sys_is: FakeSysfs) -> None:
    sys_is.add(NIC, "igb", "enp1s0", group=1)
    for name in ("01:00.0", NIC, "enp1s0"):
        plan = plan_of(chain(f"{name},a=1"))
        assert plan.engine.pci == (NIC,)
        assert plan.deploy({}, "").traffic.port.device == f"{NIC},a=1"
        assert plan.nics == (NicPlan(NIC, "vfio-pci"),)
    both = plan_of(chain("enp1s0", "01:00.0"))
    assert both.nics == (NicPlan(NIC, "vfio-pci"),)


def test_a_nic_that_dpdk_uses_beside_its_driver_keeps_it(sys_is: FakeSysfs) -> None:
    sys_is.add(NIC, "mlx5_core", "enp1s0", group=1)
    assert plan_of(chain("enp1s0")).nics == (NicPlan(NIC, ""),)
    with pytest.raises(ChainFileError, match="one NIC, so state one driver"):
        plan_of(chain("enp1s0", NIC, driver="vfio-pci"))


def test_the_name_of_an_interface_holds_while_a_run_has_the_nic(sys_is: FakeSysfs) -> None:
    sys_is.add(NIC, "vfio-pci", group=1)
    run = a_run(nics=[NIC], bindings=[Binding(NIC, "igb", "", "enp1s0")])
    assert plan_of(chain("enp1s0"), run).engine.pci == (NIC,)


def test_a_nic_by_its_interface_through_the_kernel(sys_is: FakeSysfs) -> None:
    sys_is.add(NIC, "igb", "enp1s0")
    plan = plan_of(chain("01:00.0", driver="mmsg"))
    assert (plan.traffic.interfaces, plan.nics) == (["enp1s0"], ())
    with pytest.raises(ChainFileError, match=r"mmsg needs an interface, and there is no"):
        plan_of(chain("02:00.0", driver="mmsg"))
    with pytest.raises(ChainFileError, match="is for NICs, and `net_null0` is none here"):
        plan_of(chain("net_null0", driver="vfio-pci"))


def test_a_plan_needs_no_nic(sys_is: FakeSysfs) -> None:  # noqa: ARG001
    assert plan_of(chain("03:00.0")).nics == (NicPlan("0000:03:00.0", "vfio-pci"),)


@pytest.mark.parametrize(("device", "sentence"), [
    ("01:00.0", ""),
    ("02:00.0", "there is no PCI device 0000:02:00.0 here"),
    ("eth7", "there is no NIC `eth7` here"),
    ("veth0", "interface veth0 is no PCI device; write kind: interface"),
    ("05:00.0", "NIC 0000:05:00.0 is in use by run `other`"),
    ("06:00.0", "has the interface eth6, source or sink of run `other`"),
    ("07:00.0", "its interface eth8 is part of br0"),
    ("08:00.0", "its interface is not here, but perhaps in a network namespace"),
    ("09:00.0", "no IOMMU guards memory from it"),
    ("0a:00.0", r"process \d+ \(.*\) has it open"),
])  # fmt: skip
def test_what_a_run_cannot_have_is_one_sentence(
    sys_is: FakeSysfs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, device: str, sentence: str
) -> None:
    for at, interface in enumerate(("eth1", None, None, None, "eth5", "eth6", "eth8", ""), 1):
        if interface is not None:
            sys_is.add(f"0000:{at:02x}:00.0", "igb", interface, group=at)
    sys_is.add("0000:09:00.0", "igb", "eth9")
    sys_is.add("0000:0a:00.0", "vfio-pci", group=10)
    (sys_is.root / "class/net/veth0").mkdir()
    upper = sys_is.root / "class/net/eth8/upper_br0"
    upper.symlink_to(sys_is.root)
    other = a_run(nics=["0000:05:00.0"], interfaces=["eth6"])
    held = tmp_path / "proc/77/fd"
    held.mkdir(parents=True)
    (held / "3").symlink_to("/dev/vfio/10")
    monkeypatch.setattr(nics, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(nics, "use_by_host", lambda _: "")
    plan = plan_of(chain(device))
    if not sentence:
        nics.require(plan, [other])
        return
    with pytest.raises(LaunchError, match=sentence):
        nics.require(plan, [other])
    if plan.nics:
        nics.require(plan, [], [plan.nics[0].address])  # our own already


@pytest.mark.system
def test_what_the_host_uses_is_told_with_what_frees_it() -> None:
    with namespace(("eth1", "far")) as name:

        def why(*words: str) -> str:
            subprocess.run(["ip", "-n", name, *words], check=True)
            return namespaces.inside(name, lambda: use_by_host("eth1"))

        assert why("link", "set", "eth1", "up") == "", "an fe80 address is nobody's choice"
        assert why("addr", "add", "192.0.2.1/24", "dev", "eth1").startswith(
            "has the address 192.0.2.1; `ip addr flush dev eth1`"
        )
        way = ("route", "add", "default", "via", "192.0.2.9")
        assert why(*way) == "has the default route of this host; name another NIC"


def test_bindings_are_noted_as_they_were() -> None:
    state = a_run(nics=[NIC], bindings=[Binding(NIC, "igb", "", "enp1s0", 0x1003, 1500)])
    assert RunState.parse(state.text()) == state
    bad = state.text().replace('"igb"', '"../../x"')
    with pytest.raises(ValueError, match="not a binding"):
        RunState.parse(bad)


def test_nics_are_noted_bound_and_given_back(sys_is: FakeSysfs) -> None:
    sys_is.add(NIC, "igb", "enp1s0", group=1)
    sys_is.add(VF, "igbvf", "eth3", group=12)
    before = [found(address, sys_is.root) for address in (NIC, VF)]
    run = Noting(a_run())
    steps.bind_nics(cast("Run", run), plan_of(chain(NIC, VF)))
    assert run.state.bindings == before
    assert run.had == [(NIC, "igb"), (VF, "igbvf")], "noted before it is bound"
    assert [driver_of(one, sys_is.root) for one in (NIC, VF)] == ["vfio-pci"] * 2
    steps.bind_nics(cast("Run", run), plan_of(chain(NIC, VF)))
    assert run.state.bindings == before
    assert steps.restore_nics(run.state.bindings) == []
    assert [found(address, sys_is.root) for address in (NIC, VF)] == before


class Noting:
    """What `bind_nics` needs of a run."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.switch = Interrupts()
        self.had: list[tuple[str, str | None]] = []

    def record(self, bindings: list[Binding]) -> None:
        self.state = self.state.with_changes(bindings=bindings)
        self.had.append((bindings[-1].address, driver_of(bindings[-1].address, sysfs.SYS)))


def test_every_way_to_undo_a_run_gives_nics_back_after_programs_have_ended() -> None:
    names = [step.name for step in steps.STEPS]
    assert names.index("LinkDevices") < names.index("Nics") < names.index("Engine")


# ------------------------------------------------------------------ doctor


def test_the_doctor_lists_nics_and_what_hinders(sys_is: FakeSysfs) -> None:
    sys_is.add(NIC, "igb", "enp1s0", group=1, numa_node=1, sriov_totalvfs=7)
    sys_is.add(VF, group=12)
    sys_is.add("0000:02:00.0", "igb", "enp2s0")
    sys_is.add_vfs(NIC, VF)
    told = {finding.check: finding for finding in doctor_nics.nics()}
    nic, vf, other = (told[f"NIC {at}"] for at in (NIC, VF, "0000:02:00.0"))
    assert nic.found == "enp1s0 (driver igb), IOMMU group 1, NUMA node 1, 1 of 7 VFs"
    assert nic.level == Level.NOTE
    assert nic.meaning == "DPDK cannot have it: it has 1 VFs, which go with its driver"
    assert nic.mend.startswith(f"use VF {VF}")
    assert nic.details["vfs"] == (VF,)
    assert (vf.level, vf.found) == (Level.OK, f"no driver, IOMMU group 12, VF of {NIC}: ready")
    assert "no IOMMU, no SR-IOV" in other.found
    assert "hindrance" in other.details


def test_the_doctor_tells_which_run_has_a_nic(
    sys_is: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    sys_is.add(NIC, "vfio-pci", group=1)
    monkeypatch.setattr(doctor_nics, "all_runs", lambda: [(None, a_run(nics=[NIC]))])
    (finding,) = doctor_nics.nics()
    assert finding.found == "(driver vfio-pci), IOMMU group 1, no SR-IOV: run `other` has it"

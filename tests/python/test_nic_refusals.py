"""What cannot be of NICs is one sentence, and nothing was changed. On emulated NICs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.python.fake_nic import INTERFACE, PF, FakeNic
from tests.python.fake_sysfs import FakeSysfs, answering
from tests.python.planned import EIGHT_CPUS, planned, small
from tests.python.strategies import Data
from tests.python.test_nics import NIC, a_run, plan_of
from tests.python.test_physical_faults import Place, place_in
from tests.python.test_sriov import Making
from tests.python.test_sriov import chain as on_links
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile
from unis.chain.problem import ChainFileError
from unis.errors import UnisError
from unis.links import physical, sriov
from unis.nics import sysfs
from unis.nics.binding import found
from unis.plan.machine import Machine
from unis.runtime import nics
from unis.runtime.doctor import nics as doctor_nics
from unis.runtime.doctor.finding import Level
from unis.runtime.errors import LaunchError, NotAllowedError
from unis.runtime.run import Run
from unis.runtime.state import RunState
from unis.runtime.steps import make_links

NO_REWRITING = {"fw": {"program": "sh"}, "nat": {"command": ["sh"], "plugin": False}}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = place_in(tmp_path / "card", monkeypatch)
    monkeypatch.setattr(sysfs, "SYS", place.nic.root)
    make, release = physical.make, physical.release
    monkeypatch.setattr(
        physical, "make", lambda *words, kernel: make(*words, kernel=kernel, root=place.nic.root)
    )
    monkeypatch.setattr(physical, "release", lambda name: release(name, place.nic.root))
    return place


def no_sriov(place: Place, _: pytest.MonkeyPatch) -> None:
    (place.nic.root / "bus/pci/devices" / PF / "sriov_totalvfs").write_text("0\n")


def few(place: Place, _: pytest.MonkeyPatch) -> None:
    (place.nic.root / "bus/pci/devices" / PF / "sriov_totalvfs").write_text("5\n")


def addressed(_: Place, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(physical, "use_by_host", lambda _: "has the address 192.0.2.1")


def grouped(place: Place, _: pytest.MonkeyPatch) -> None:
    place.nic.grouped = True


def nothing(_: Place, __: pytest.MonkeyPatch) -> None:
    pass


@pytest.mark.parametrize(("case", "file", "sentence"), [
    (no_sriov, on_links(), "enp1s0f0 has no SR-IOV, or it is off in the firmware; turn it on, or "
     "make the links of another kind"),
    (few, on_links(), "3 links on enp1s0f0 need two virtual functions of one port each, and there "
     "can be 5"),
    (addressed, on_links(), "enp1s0f0 is in use: it has the address 192.0.2.1"),
    (grouped, on_links(), "shares its IOMMU group with 0000:01:10."),
    (nothing, on_links(functions=NO_REWRITING), "the NIC would bring each packet back to it"),
    (nothing, on_links(traffic={
        "source": {"kind": "port", "device": PF}, "sink": {"kind": "measure"}, "rate": "max"}),
     "vfio-pci would take enp1s0f0 from the kernel, whose driver makes the virtual functions"),
])  # fmt: skip
def test_a_link_on_a_nic_that_cannot_be(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    case: Callable[[Place, pytest.MonkeyPatch], None],
    file: Data,
    sentence: str,
) -> None:
    case(place, monkeypatch)
    before = place.found
    run = Making()
    with pytest.raises(UnisError) as caught:
        make_links(cast("Run", run), planned(file, Machine(EIGHT_CPUS.cpus, place.nic.root)))
    told = [one.problem.sentence for one in getattr(caught.value, "problems", ())]
    (line,) = told or [str(caught.value)]
    assert sentence in line
    assert "\n" not in line
    assert place.found == before
    assert run.state.made == []
    if case is not grouped:  # which is seen only once they are there
        assert place.nic.log == []


def test_a_nic_with_sriov_is_named_instead_of_one_without(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert physical.missing() == sriov.Sriov().hindrance() == ""
    no_sriov(place, monkeypatch)
    assert sriov.Sriov().hindrance().startswith("no NIC here has SR-IOV, or it is off")
    FakeNic(place.nic.root, address="0000:02:00.0", interface="enp2s0f0")
    assert sriov.Sriov().hindrance() == ""
    with pytest.raises(UnisError, match=r"firmware; name enp2s0f0 or 0000:02:00\.0$"):
        physical.port_for(INTERFACE, "x", place.nic.root)


def test_a_port_that_another_run_sends_by_keeps_its_link(place: Place) -> None:
    plan = planned(on_links(), Machine(EIGHT_CPUS.cpus, place.nic.root))
    for other in (a_run(interfaces=[INTERFACE]), a_run(nics=[PF])):
        with pytest.raises(
            LaunchError, match=r"NIC enp1s0f0 is source or sink of run `other`.*`unis down other`"
        ):
            nics.require(plan, [other])
    nics.require(plan, [a_run(interfaces=["eth9"])])
    assert place.nic.log == []


def test_what_a_nic_has_not_taken_is_told_once(place: Place) -> None:
    place.nic.refusing = frozenset({"spoofchk"})
    plan = planned(on_links(), Machine(EIGHT_CPUS.cpus, place.nic.root))
    run = Making()
    make_links(cast("Run", run), plan)
    assert len(run.told) == 6
    assert run.told[0].endswith("keeps its spoof check on")
    run.told.clear()
    make_links(cast("Run", run), plan)  # as each `unis apply` does
    assert run.told == []
    kind = sriov.Sriov()
    gone = run.state.made.pop()
    assert kind.remove(gone[1]) == []
    make_links(cast("Run", run), plan)
    assert len(run.told) == 2, "that link is another"


# ------------------------------------------------------------------ source and sink


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSysfs]:
    with answering(tmp_path / "sys") as made:
        made.add_driver("vfio-pci")
        monkeypatch.setattr(sysfs, "SYS", made.root)
        made.add(NIC, "igb", "enp1s0", group=1)
        made.add("0000:02:00.0", "igb", "enp2s0", group=2)
        yield made


def ends(source: Data, sink: Data) -> LoadedChain:
    traffic = {"source": source, "sink": sink}
    return LoadedChain(Path("chain.yaml"), ChainFile.model_validate(small(traffic=traffic)))


def port(device: str, **more: Any) -> Data:
    return {"kind": "port", "device": device, **more}


_INTERFACE = {"kind": "interface", "interface": "enp1s0"}


@pytest.mark.parametrize("other", [
    port(NIC, driver="mmsg"), port("enp1s0", driver="mmsg"), _INTERFACE,
    port("net_af_packet0,iface=enp1s0"), port("net_af_xdp0,iface=enp1s0,start_queue=0"),
    port("net_pcap0,rx_iface=enp1s0,tx_iface=enp1s0"),
])  # fmt: skip
@pytest.mark.parametrize("turned", [False, True])
def test_a_nic_is_not_at_vfio_and_at_the_kernel(fake: FakeSysfs, other: Data, turned: bool) -> None:
    pair = [port(NIC), other]
    with pytest.raises(ChainFileError) as caught:
        plan_of(ends(*(pair[::-1] if turned else pair)))
    (problem,) = caught.value.problems
    assert problem.problem.sentence == (
        f"source and sink are one NIC, so state one driver for both: while vfio-pci has {NIC}, it "
        "has no interface and no other driver"
    )
    assert fake.probed == []
    beside = [port("02:00.0"), other]
    assert plan_of(ends(*(beside[::-1] if turned else beside))).engine.pci == ("0000:02:00.0",)
    if other["kind"] == "interface":
        assert plan_of(ends(port(NIC, driver="mmsg"), other)).nics == ()


def test_a_nic_that_a_run_has_taken_from_the_kernel_is_known_by_its_interface(
    fake: FakeSysfs,
) -> None:
    run = a_run(nics=[NIC], bindings=[found(NIC, fake.root)])
    (fake.root / "class/net/enp1s0").unlink()
    (fake.device(NIC) / "net").rename(fake.root / "gone")
    with pytest.raises(ChainFileError, match="source and sink are one NIC"):
        plan_of(ends(port(NIC), _INTERFACE), run)


@pytest.mark.parametrize(("device", "sentence"), [
    ("0000:09:00.0", "mmsg needs an interface, and there is no PCI device 0000:09:00.0 here: `u"),
    ("0000:00:1f.2", "mmsg needs an interface, and PCI device 0000:00:1f.2 is no network device"),
    ("0000:03:00.0", "mmsg needs the interface of 0000:03:00.0, and it has none here; give it to"),
])  # fmt: skip
def test_without_an_interface_it_is_told_what_is_there(
    fake: FakeSysfs, device: str, sentence: str
) -> None:
    fake.add("0000:00:1f.2", "ahci", pci_class=0x010601)
    fake.add("0000:03:00.0", "vfio-pci", group=3)
    with pytest.raises(ChainFileError) as caught:
        plan_of(ends(port(device, driver="mmsg"), {"kind": "measure"}))
    assert sentence in str(caught.value)


def test_dpdk_has_no_nic_beside_the_kernels_driver_for_virtio(fake: FakeSysfs) -> None:
    """Neither is it the driver of programs, as on a device without an interface."""
    fake.add("0000:03:00.0", "virtio-pci", "eth0")
    fake.add("0000:04:00.0", "virtio-pci")
    plan = plan_of(ends(port("eth0", driver="kernel"), {"kind": "measure"}))
    with pytest.raises(LaunchError, match="DPDK does not use NICs beside driver virtio-pci; leave"):
        nics.require(plan, [])
    nics.require(plan_of(ends(port("04:00.0", driver="kernel"), {"kind": "measure"})), [])


# ------------------------------------------------------------------ doctor


@pytest.mark.parametrize(("root", "driver", "level", "words"), [
    (True, "vfio-pci", Level.OK, ""),
    (False, "vfio-pci", Level.NOTE, "ready, unless a program has it, which is not known without"),
    (False, "virtio-pci", Level.OK, ""),
    (False, "igb", Level.OK, ""),
])  # fmt: skip
def test_without_root_nobody_knows_who_has_a_device_open(
    fake: FakeSysfs, monkeypatch: pytest.MonkeyPatch, root: bool, driver: str, level: Level,
    words: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("os.geteuid", lambda: 0 if root else 1000)
    monkeypatch.setattr(nics, "use_by_host", lambda _: "")
    fake.add("0000:03:00.0", driver, "enp3s0" if driver == "igb" else "", group=3)
    finding = next(one for one in doctor_nics.nics() if one.check == "NIC 0000:03:00.0")
    assert finding.level == level
    assert words in finding.meaning
    assert finding.found.endswith(": ready") == (not words)
    assert finding.mend.endswith("doctor") == bool(words)


def test_runs_that_may_not_be_looked_at_may_have_each_nic(
    fake: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> list[tuple[None, RunState]]:
        raise NotAllowedError("only root may look at run `x`")

    monkeypatch.setattr(nics, "use_by_host", lambda _: "")
    monkeypatch.setattr(doctor_nics, "all_runs", refused)
    assert all("unless a program has it" in finding.meaning for finding in doctor_nics.nics())
    state = a_run(interfaces=["enp1s0"])
    monkeypatch.setattr(doctor_nics, "all_runs", lambda: [(None, state)])
    one, other = doctor_nics.nics()
    assert one.found.endswith("run `other` has it"), "by its interface"
    assert other.found.endswith("ready")
    assert fake.probed == []

"""Virtual functions are made, set up and removed, and the port is put back. On an emulated NIC:
what is tested is the order, and what is left where a step fails.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.python.fake_nic import INTERFACE, PF, FakeNic
from unis.errors import UnisError
from unis.links import devices, physical
from unis.nics import binding
from unis.nics.layout import VfRoom, VirtualLink
from unis.nics.sysfs import content


@pytest.fixture
def nic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNic:
    fake = FakeNic(tmp_path / "sys")
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path / "unis"))
    monkeypatch.setattr(binding, "write", fake.write)
    monkeypatch.setattr(physical, "netlink", fake.netlink)
    monkeypatch.setattr(physical, "use_by_host", lambda _: "")
    monkeypatch.setattr(physical, "_CARRIER_SECONDS", 0.05)
    return fake


def a_link(nic: FakeNic, at: int = 0, **more: object) -> VirtualLink:
    pair = VfRoom(nic.port, 2 * at)
    link = VirtualLink(
        run="x",
        port=PF,
        interface=INTERFACE,
        vfs=pair.vfs,
        addresses=pair.addresses,
        macs=(f"02:00:00:00:0{at}:00", f"02:00:00:00:0{at}:01"),
        port_vfs=4,
    )
    return replace(link, **more)  # type: ignore[arg-type]


def as_found(nic: FakeNic) -> bool:
    folder = nic.root / "bus/pci/devices" / PF
    return (
        content(folder / "sriov_numvfs") == "0"
        and content(folder / "sriov_drivers_autoprobe") == "1"
        and content(nic.root / "class/net" / INTERFACE / "flags") == "0x1002"
        and not [*physical.records().glob("*")]
    )


def test_steps_are_in_the_order_that_hardware_needs(nic: FakeNic) -> None:
    link = a_link(nic, vlan=7, rate_mbps=100)
    physical.make("x.c.0", link, kernel=None, root=nic.root)
    assert physical.not_taken(link) == []
    assert nic.log == [
        "sriov_drivers_autoprobe 0",
        "sriov_numvfs 4",
        "enp1s0f0 state up",
        "VF 0 mac 02:00:00:00:00:00",
        "VF 0 spoofchk 0",
        "VF 0 vlan 7",
        "VF 0 trust 0",
        "VF 0 rate 100",
        "VF 1 mac 02:00:00:00:00:01",
        "VF 1 spoofchk 0",
        "VF 1 vlan 7",
        "VF 1 trust 0",
        "VF 1 rate 100",
    ]
    nic.log.clear()
    assert physical.release("x.c.0", nic.root) == []
    assert nic.log == ["sriov_numvfs 0", "sriov_drivers_autoprobe 1", "enp1s0f0 state down"]
    assert as_found(nic)
    assert physical.release("x.c.0", nic.root) == [], "what is gone is no problem"


def test_the_port_stays_until_its_last_link_goes(nic: FakeNic) -> None:
    for at in (0, 1):
        physical.make(f"x.c.{at}", a_link(nic, at), kernel=None, root=nic.root)
    assert nic.log.count("sriov_numvfs 4") == 1
    assert physical.release("x.c.0", nic.root) == []
    assert len(nic.vfs) == 4
    assert physical.release("x.c.1", nic.root) == []
    assert as_found(nic)


def test_a_port_that_was_up_stays_up(nic: FakeNic) -> None:
    (nic.root / "class/net" / INTERFACE / "flags").write_text("0x1003\n")
    (nic.root / "class/net" / INTERFACE / "carrier").write_text("1\n")
    physical.make("x.c.0", a_link(nic), kernel=None, root=nic.root)
    physical.release("x.c.0", nic.root)
    assert not [line for line in nic.log if "state" in line]


def test_the_kernels_driver_comes_after_the_addresses(nic: FakeNic) -> None:
    monkey = pytest.MonkeyPatch()
    monkey.setattr(devices, "silence", lambda _: None)
    physical.make("x.c.0", a_link(nic), kernel=("unis1a", "unis1b"), root=nic.root)
    monkey.undo()
    first = nic.log.index("driver_override igbvf of 0000:01:10.0")
    assert nic.log.index("VF 1 rate 0") < first
    assert nic.log[first + 1 : first + 4] == [
        "drivers_probe 0000:01:10.0 of pci",
        "eth1 state down",
        "eth1 ifname unis1a",
    ]
    assert "unis1b" in nic.names.values()
    assert physical.release("x.c.0", nic.root) == []
    assert as_found(nic)


@pytest.mark.parametrize(
    ("refused", "sentence"),
    [
        ("rate", "VF 0 of enp1s0f0 has not taken the rate limit of 100 Mbps"),
        ("spoofchk", "VF 1 of enp1s0f0 keeps its spoof check on"),
    ],
)
def test_what_the_nic_does_not_take_is_told(nic: FakeNic, refused: str, sentence: str) -> None:
    nic.refusing = frozenset({refused})
    link = a_link(nic, rate_mbps=100)
    physical.make("x.c.0", link, kernel=None, root=nic.root)
    told = physical.not_taken(link)
    assert len(told) == 2
    assert sentence in "; ".join(told)


def test_without_its_vlan_no_link_is_made(nic: FakeNic) -> None:
    nic.refusing = frozenset({"vlan"})
    with pytest.raises(UnisError, match="has not taken its VLAN, 7: it has 0"):
        physical.make("x.c.0", a_link(nic, vlan=7), kernel=None, root=nic.root)
    assert as_found(nic)


def test_functions_that_share_an_iommu_group_are_refused(nic: FakeNic) -> None:
    nic.grouped = True
    with pytest.raises(UnisError, match=r"0000:01:10\.0 shares its IOMMU group with 0000:01:10\.2"):
        physical.make("x.c.0", a_link(nic), kernel=None, root=nic.root)
    assert as_found(nic)


def test_a_port_without_a_cable_is_put_back(nic: FakeNic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(physical, "_set_link", lambda *_, **__: None)
    with pytest.raises(UnisError, match="has no carrier"):
        physical.make("x.c.0", a_link(nic), kernel=None, root=nic.root)
    assert as_found(nic)


def test_functions_of_others_are_not_touched(nic: FakeNic) -> None:
    nic.write(nic.root / "bus/pci/devices" / PF / "sriov_numvfs", "2")
    nic.log.clear()
    with pytest.raises(UnisError, match="has 2 virtual functions already, which UNiS has not made"):
        physical.port_for(INTERFACE, "x", nic.root)
    with pytest.raises(UnisError, match="already"):
        physical.make("x.c.0", a_link(nic), kernel=None, root=nic.root)
    assert nic.log == []
    assert len(nic.vfs) == 2


def test_another_run_has_the_port(nic: FakeNic) -> None:
    physical.make("x.c.0", a_link(nic), kernel=None, root=nic.root)
    with pytest.raises(UnisError, match=r"of run `x`.*unis down x"):
        physical.port_for(INTERFACE, "y", nic.root)
    with pytest.raises(UnisError, match="run `x` has enp1s0f0"):
        physical.make("y.c.0", a_link(nic, 1, run="y"), kernel=None, root=nic.root)
    mine = physical.port_for(INTERFACE, "x", nic.root)
    assert (mine.made, mine.vfs) == (True, 4)
    with pytest.raises(UnisError, match="has 4 virtual functions, and their number stays"):
        physical.make("x.c.2", a_link(nic, 2), kernel=None, root=nic.root)
    assert physical.release("x.c.0", nic.root) == []
    assert as_found(nic)


def test_where_the_kernel_does_not_answer_it_is_told_and_tried_again(nic: FakeNic) -> None:
    physical.make("x.c.0", a_link(nic), kernel=None, root=nic.root)
    nic.hanging = frozenset({"sriov_numvfs"})
    (problem,) = physical.release("x.c.0", nic.root)
    assert problem.startswith("enp1s0f0 is not as it was: ")
    nic.hanging = frozenset()
    assert physical.release("x.c.0", nic.root) == []
    assert as_found(nic)


def test_what_a_program_has_is_not_taken_from_below_it(nic: FakeNic) -> None:
    link = a_link(nic)
    physical.make("x.c.0", link, kernel=None, root=nic.root)
    binding.bind(link.addresses[1], "vfio-pci", nic.root)
    nic.hanging = frozenset({"unbind"})
    (problem,) = physical.release("x.c.0", nic.root)
    assert link.addresses[1] in problem
    assert "sriov_numvfs 0" not in nic.log, "the kernel would wait for the program"
    nic.hanging = frozenset()
    assert physical.release("x.c.0", nic.root) == []
    assert as_found(nic)


def test_a_nic_that_is_gone_leaves_nothing_to_do(nic: FakeNic) -> None:
    physical.make("x.c.0", a_link(nic), kernel=None, root=nic.root)
    (nic.root / "bus/pci/devices").rename(nic.root / "gone")
    assert physical.release("x.c.0", nic.root) == []
    assert not [*physical.records().glob("*")]


@pytest.mark.parametrize(
    ("total", "driver", "sentence"),
    [
        (0, "igb", "has no SR-IOV, or it is off in the firmware"),
        (7, "vfio-pci", "driver vfio-pci has enp1s0f0, without an interface"),
        (7, None, "no driver has enp1s0f0"),
    ],
)
def test_ports_that_can_have_none(
    nic: FakeNic, total: int, driver: str | None, sentence: str
) -> None:
    folder = nic.root / "bus/pci/devices" / PF
    (folder / "sriov_totalvfs").write_text(f"{total}\n")
    if driver != "igb":
        (folder / "net" / INTERFACE).rename(nic.root / "gone")
        (folder / "driver").unlink()
        if driver:
            (folder / "driver").symlink_to(nic.root / "bus/pci/drivers" / driver)
    with pytest.raises(UnisError) as caught:
        physical.port_for(PF, "x", nic.root)
    assert sentence.replace("enp1s0f0", PF if driver != "igb" else "enp1s0f0") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert nic.log == []


def test_a_port_that_something_of_the_host_is_on_keeps_its_link(nic: FakeNic) -> None:
    (nic.root / "class/net" / INTERFACE / "upper_enp1s0f0.5").symlink_to(nic.root)
    with pytest.raises(UnisError, match=r"enp1s0f0 is in use: enp1s0f0\.5 is on it; to make"):
        physical.port_for(INTERFACE, "x", nic.root)


def test_functions_that_dpdk_has_beside_their_driver_do_not_go_to_vfio(nic: FakeNic) -> None:
    assert physical.vfio_hindrance(PF, nic.root) == ""
    driver = nic.root / "bus/pci/devices" / PF / "driver"
    driver.unlink()
    driver.symlink_to(nic.root / "bus/pci/drivers/mlx5_core")
    assert "beside driver mlx5_core, not by vfio" in physical.vfio_hindrance(PF, nic.root)


def test_an_interface_that_udev_renames_meanwhile_is_found(
    nic: FakeNic, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    found = nic.link_lookup

    def renamed(ifname: str) -> list[int]:
        looked.append(ifname)
        if looked == ["enp1s0f0", "eth1"]:
            nic.rename(2, "enp1s0f0v0")
        return found(ifname)

    monkeypatch.setattr(devices, "silence", lambda _: None)
    monkeypatch.setattr(nic, "link_lookup", renamed)
    monkeypatch.setattr(physical, "_set_link", lambda *_, **__: None)
    (nic.root / "class/net" / INTERFACE / "carrier").write_text("1")
    physical.make("x.c.0", a_link(nic), kernel=("unis1a", "unis1b"), root=nic.root)
    assert "enp1s0f0v0" in looked
    assert {"unis1a", "unis1b"} < {*nic.names.values()}


def test_what_could_be_neither_made_nor_undone_stays_noted(
    nic: FakeNic, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_way(file: Path, text: str, seconds: float = 1.0, **_: object) -> None:
        nic.hanging = frozenset({"sriov_numvfs"} if text == "0" else ())
        nic.write(file, text, seconds)

    monkeypatch.setattr(binding, "write", one_way)
    nic.refusing = frozenset({"vlan"})
    with pytest.raises(UnisError, match=r"has not taken its VLAN.*is not as it was"):
        physical.make("x.c.0", a_link(nic, vlan=7), kernel=None, root=nic.root)
    assert physical.is_noted("x.c.0")
    monkeypatch.setattr(binding, "write", nic.write)
    nic.hanging = frozenset()
    assert physical.release("x.c.0", nic.root) == []
    assert not physical.is_noted("x.c.0")
    assert as_found(nic)

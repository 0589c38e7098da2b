"""Links that are bridges of the kernel: the five devices of each."""

import errno
import platform
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError
from pyroute2 import IPRoute

from tests.needs import need_root
from tests.python.planned import planned, small
from unis.errors import UnisError
from unis.links import bridge, devices, modules
from unis.links.bridge import Bridge
from unis.links.kind import LinkPlan, LinkSpec
from unis.links.veth import Veth, VethPlan

DEVICES = Path("/sys/class/net")


def a_bridge(folder: Path) -> LinkPlan:
    spec = LinkSpec("r" * 64, "c" * 24, 256, engine=True, folder=folder)
    return LinkPlan("c.1", "bridge", 256, Bridge().details(spec, 0))


def details(link: LinkPlan) -> VethPlan:
    assert isinstance(link.details, VethPlan)
    return link.details


def devices_of(link: LinkPlan) -> list[str]:
    return [Bridge().made(link), *details(link).devices, *details(link).ports]


def there(link: LinkPlan) -> list[str]:
    return [name for name in devices_of(link) if (DEVICES / name).exists()]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[LinkPlan]:
    need_root()
    link = a_bridge(tmp_path)
    try:
        Bridge().make(link)
        Bridge().settle(link)
        yield link
    finally:
        assert Bridge().remove(Bridge().made(link)) == []
        assert there(link) == []


def test_the_engine_is_told_of_the_ports_whose_drops_it_counts(tmp_path: Path) -> None:
    link = a_bridge(tmp_path)
    settings = link.message().veth
    assert (settings.device0, settings.device1) == details(link).devices
    assert (settings.port0, settings.port1) == details(link).ports
    assert len({*devices_of(link)}) == 5
    assert max(len(name) for name in devices_of(link)) <= 15


def test_a_veth_of_the_same_name_has_other_devices(tmp_path: Path) -> None:
    spec = LinkSpec("r" * 64, "c" * 24, 256, engine=True, folder=tmp_path)
    assert not {*Veth().details(spec, 0).devices} & {*devices_of(a_bridge(tmp_path))}


def test_a_chain_may_begin_and_end_on_them() -> None:
    ends = [("ingress", "fw"), ("fw", "nat"), ("nat", "monitor"), ("monitor", "egress")]
    plan = planned(small(links=[{"from": a, "to": b, "kind": "bridge"} for a, b in ends]))
    assert [link.kind for link in plan.links] == ["bridge"] * 4
    assert [function.group for function in plan.functions] == ["own"] * 3
    assert [link.message().veth.engine_end for link in plan.links] == [True, False, False, True]


@pytest.mark.parametrize(("slots", "mend"), [(100, "power of two"), (1 << 15, "16384")])
def test_bad_slots_are_refused_with_the_mend(slots: int, mend: str) -> None:
    link = {"from": "ingress", "to": "fw", "kind": "bridge", "slots": slots}
    with pytest.raises((UnisError, ValidationError), match=mend):
        planned(small(links=[link]))


@pytest.mark.system
def test_a_bridge_knows_no_address_and_forwards_at_once(made: LinkPlan) -> None:
    master = DEVICES / Bridge().made(made)
    for setting in ("ageing_time", "stp_state", "multicast_snooping"):
        assert (master / "bridge" / setting).read_text() == "0\n", setting
    for port in details(made).ports:
        assert (DEVICES / port / "master").resolve() == master.resolve()
        found = {
            name: (DEVICES / port / "brport" / name).read_text().strip()
            for name in ("state", "learning", "unicast_flood", "group_fwd_mask")
        }
        assert found == {
            "state": "3",
            "learning": "0",
            "unicast_flood": "1",
            "group_fwd_mask": "0xfffd",
        }
    for device in devices_of(made):
        assert (DEVICES / device / "mtu").read_text() == "1504\n"
        assert (DEVICES / device / "ifalias").read_text() == "unis link c.1\n"
        assert int((DEVICES / device / "flags").read_text(), 16) & 0x1080 == 0x80
        ipv6 = Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6")
        assert not ipv6.exists() or ipv6.read_text() == "1\n"


@pytest.mark.system
@pytest.mark.parametrize("after", range(5))
def test_what_is_half_made_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Both by who makes it, and by the name alone, as after SIGKILL."""
    need_root()
    link = a_bridge(tmp_path)
    calls = 0

    def refuse(_device: str) -> None:
        nonlocal calls
        calls += 1
        if calls > after:
            raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(devices, "silence", refuse)
    with pytest.raises(UnisError, match=r"link c.1: cannot make .*: Permission denied$"):
        Bridge().make(link)
    assert there(link) == []
    calls = 0
    with monkeypatch.context() as killed:
        killed.setattr(devices, "remove", lambda _devices: [])
        with pytest.raises(UnisError):
            Bridge().make(link)
    assert there(link)
    assert Bridge().remove(Bridge().made(link)) == []
    assert there(link) == []


@pytest.mark.system
def test_ports_that_never_forward_are_told(made: LinkPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "_SECONDS", 0.0)
    monkeypatch.setattr(bridge, "_state", lambda _port: "0")
    with pytest.raises(UnisError, match=r"the ports of bridge .* do not forward"):
        Bridge().settle(made)


@pytest.mark.system
def test_somebody_elses_bridge_is_let_be(tmp_path: Path) -> None:
    need_root()
    link = a_bridge(tmp_path)
    name = Bridge().made(link)
    with IPRoute() as kernel:
        kernel.link("add", ifname=name, kind="bridge")
        try:
            with pytest.raises(UnisError, match=f"`ip link show {name}` tells whose it is"):
                Bridge().make(link)
            assert Bridge().remove(name) == []
            assert there(link) == [name]
        finally:
            kernel.link("del", ifname=name)


def test_a_kernel_without_bridges_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(modules, "_LOADED", tmp_path / "none")
    monkeypatch.setattr(modules, "_LISTED", tmp_path)
    assert Bridge().hindrance() == "", "a container may not see the modules of its kernel"
    listed = tmp_path / platform.release() / "modules.dep"
    listed.parent.mkdir()
    listed.write_text("kernel/net/llc/llc.ko:\n")
    assert "CONFIG_BRIDGE" in Bridge().hindrance()
    (tmp_path / "none" / "bridge").mkdir(parents=True)
    assert Bridge().hindrance() == ""


def test_another_kind_has_no_devices(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no veth"):
        Bridge().made(replace(a_bridge(tmp_path), details=None))

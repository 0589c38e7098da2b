"""Links that are kernel devices: their names, and the devices themselves."""

import errno
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError
from pyroute2 import IPRoute

from tests.needs import need_root
from tests.python.planned import planned, small, told
from tests.python.strategies import Data
from unis.built import clone
from unis.errors import UnisError
from unis.links import devices
from unis.links.kind import LinkPlan, LinkSpec, PortEnds
from unis.links.veth import _BLOCK_BYTES, _FRAME_BYTES, Veth, VethPlan

DEVICES = Path("/sys/class/net")
SETTINGS = Path("/proc/sys/net")


def a_veth(folder: Path, *, engine: bool = True) -> LinkPlan:
    spec = LinkSpec("r" * 64, "c" * 24, 256, engine=engine, folder=folder)
    return LinkPlan("c.1", "veth", 256, Veth().details(spec, 0))


def devices_of(link: LinkPlan) -> tuple[str, str]:
    assert isinstance(link.details, VethPlan)
    return link.details.devices


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[LinkPlan]:
    need_root()
    link = a_veth(tmp_path)
    try:
        Veth().make(link)
        yield link
    finally:
        assert Veth().remove(Veth().made(link)) == []


def test_devices_have_short_names_which_no_other_run_has(tmp_path: Path) -> None:
    names = [*devices_of(a_veth(tmp_path)), *devices_of(a_veth(tmp_path / "other"))]
    assert len({*names}) == 4
    assert max(len(name) for name in names) <= 15


def test_each_end_has_its_device(tmp_path: Path) -> None:
    link = a_veth(tmp_path)
    for end, device in enumerate(devices_of(link)):
        assert Veth().device(PortEnds("fw.0", 2, link, link, end)) == (
            f"net_af_packet2,iface={device},qpairs=1,blocksz=4096,framesz=2048,framecnt=256"
        )
    ring = replace(link, details=None)
    with pytest.raises(ValueError, match="is no veth"):
        Veth().made(ring)


@pytest.mark.parametrize(("name", "ours"), [("Frame", _FRAME_BYTES), ("Block", _BLOCK_BYTES)])
def test_slots_are_as_long_as_the_engine_takes_them_to_be(name: str, ours: int) -> None:
    found = [
        re.search(rf"k{name}Bytes = (\d+);", source.read_text())
        for source in (clone() / "engine/platform/links").glob("veth_ring.*")
    ]
    assert [int(one[1]) for one in found if one] == [ours]


def test_a_link_is_another_one_where_the_engine_has_an_end(tmp_path: Path) -> None:
    spec = LinkSpec("x", "c.1", 256, engine=True, folder=tmp_path)
    assert Veth().matches(a_veth(tmp_path), spec)
    assert not Veth().matches(a_veth(tmp_path, engine=False), spec)
    assert not Veth().matches(a_veth(tmp_path), replace(spec, queues_to_server=2))


def test_a_chain_may_begin_and_end_on_them() -> None:
    ends = [("ingress", "fw"), ("fw", "nat"), ("nat", "monitor"), ("monitor", "egress")]
    plan = planned(small(links=[{"from": a, "to": b, "kind": "veth"} for a, b in ends]))
    assert [link.kind for link in plan.links] == ["veth"] * 4
    assert [function.group for function in plan.functions] == ["own"] * 3
    assert "net_admin" not in plan.function("nat").capabilities
    engine_ends = [link.message().veth.engine_end for link in plan.links]
    assert engine_ends == [True, False, False, True]


def test_ports_have_the_driver_that_the_link_states(tmp_path: Path) -> None:
    spec = LinkSpec("x", "c.1", 256, engine=True, folder=tmp_path, driver="mmsg", batch=8)
    link = LinkPlan("c.1", "veth", 256, Veth().details(spec, 0))
    (near, _) = devices_of(link)
    port = PortEnds("fw.0", 2, link, link, 0)
    assert Veth().device(port) == f"net_mmsg2,iface={near},qpairs=1,batch=8"
    assert link.message().veth.without_rings
    assert not a_veth(tmp_path).message().veth.without_rings
    assert Veth().matches(link, spec)
    others: list[Data] = [{"batch": 16}, {"batch": None}, {"driver": None, "batch": None}]
    for other in [*others, {"options": (("wait", 1),)}]:
        assert not Veth().matches(link, replace(spec, **other))


def test_only_functions_with_such_ports_load_the_driver() -> None:
    links = [
        {"from": "ingress", "to": "fw", "kind": "veth"},
        {"from": "fw", "to": "nat", "kind": "veth", "driver": "mmsg"},
        {"from": "nat", "to": "monitor", "kind": "veth", "driver": "af_packet"},
    ]
    plan = planned(small(links=links))
    loads = {one.name: "mmsg.so" in " ".join(one.argv) for one in plan.functions}
    assert loads == {"fw": True, "nat": True, "monitor": False}
    assert "batch=32" in " ".join(plan.function("nat").argv)
    assert plan.function("nat").drivers != plan.function("monitor").drivers
    alone = plan.solo("nat").function("nat")
    assert alone.drivers == plan.function("nat").drivers


def test_functions_may_wait_and_make_a_call_a_frame_where_the_kernel_schedules() -> None:
    link = {"from": "fw", "to": "nat", "kind": "veth", "driver": "mmsg"}
    chain = small(links=[{**link, "wait": True, "calls": "single"}], scheduler={"policy": "other"})
    plan = planned(chain)
    assert "batch=32,calls=single,wait=1 " in " ".join(plan.function("nat").argv) + " "
    waits = {function.name: function.message(0).waits for function in plan.functions}
    assert waits == {"fw": False, "nat": True, "monitor": False}
    polls = planned(small(links=[link]))
    assert "wait" not in " ".join(polls.function("nat").argv)
    assert polls.function("nat").drivers != plan.function("nat").drivers
    assert not any(function.waits for function in polls.functions)


@pytest.mark.parametrize("policy", ["unis", "cooperative"])
def test_functions_that_wait_hand_no_cpu_over(policy: str) -> None:
    link = {"from": "fw", "to": "nat", "kind": "veth", "driver": "mmsg", "wait": True}
    said = str(told(small(links=[link], scheduler={"policy": policy})))
    assert "('links', 0, 'wait') under policy" in said
    assert "state another scheduler.policy, such as other" in said


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"kind": "veth", "wait": True}, "'wait') applies to driver: mmsg"),
        ({"kind": "veth", "calls": "single"}, "'calls') applies to driver: mmsg"),
        ({"driver": "mmsg"}, "'driver') applies to kinds veth and ovs and sriov, and"),
        (
            {"kind": "memif", "driver": "af_packet"},
            "'driver') applies to kinds veth and ovs and sriov, and",
        ),
        ({"kind": "veth", "batch": 8}, "'batch') applies to driver: mmsg"),
        ({"kind": "veth", "driver": "af_packet", "batch": 8}, "'batch') applies to driver: mmsg"),
    ],
)
def test_drivers_and_batches_that_do_not_apply_are_told(keys: Data, sentence: str) -> None:
    assert sentence in str(told(small(links=[{"from": "fw", "to": "nat", **keys}])))


@pytest.mark.parametrize(
    "keys", [{"batch": 0}, {"batch": 257}, {"driver": "xdp"}, {"calls": "many"}]
)
def test_drivers_and_batches_that_are_none_are_told(keys: Data) -> None:
    link = {"from": "fw", "to": "nat", "kind": "veth", "driver": "mmsg"}
    with pytest.raises(ValidationError, match=next(iter(keys))):
        planned(small(links=[{**link, **keys}]))


@pytest.mark.system
def test_devices_carry_nothing_but_what_programs_send(pair: LinkPlan) -> None:
    noarp, multicast = 0x80, 0x1000
    for device in devices_of(pair):
        assert (DEVICES / device / "carrier").read_text() == "1\n"  # operstate comes later
        assert (DEVICES / device / "mtu").read_text() == "1504\n"
        flags = int((DEVICES / device / "flags").read_text(), 16)
        assert flags & noarp
        assert not flags & multicast
        assert (SETTINGS / f"ipv4/conf/{device}/forwarding").read_text() == "0\n"
        ipv6 = SETTINGS / f"ipv6/conf/{device}/disable_ipv6"
        assert not ipv6.exists() or ipv6.read_text() == "1\n"
        assert (DEVICES / device / "statistics/tx_packets").read_text() == "0\n"


@pytest.mark.system
def test_numbers_of_devices_are_scattered(pair: LinkPlan) -> None:
    """Else net_af_packet of two programs may have the same number of a group of sockets."""
    near, far = (int((DEVICES / one / "ifindex").read_text()) for one in devices_of(pair))
    assert min(near, far) >= 1 << 24
    assert abs(near - far) > 1


@pytest.mark.system
def test_somebody_elses_device_is_let_be(pair: LinkPlan) -> None:
    near, _ = devices_of(pair)
    number = (DEVICES / near / "ifindex").read_text()
    with pytest.raises(UnisError, match=f"cannot make the kernel devices {near} and .* exists"):
        Veth().make(pair)
    assert (DEVICES / near / "ifindex").read_text() == number


@pytest.mark.system
def test_a_device_that_only_has_the_name_is_not_removed(tmp_path: Path) -> None:
    """A launcher that is killed before it finds the name taken leaves a note of it."""
    need_root()
    near, far = devices_of(a_veth(tmp_path))
    with IPRoute() as kernel:
        kernel.link("add", ifname=near, kind="veth", peer=far)
        try:
            assert Veth().remove(near) == []
            assert (DEVICES / near).exists()
        finally:
            kernel.link("del", ifname=near)


@pytest.mark.system
def test_a_pair_that_cannot_be_set_up_is_removed(
    pair: LinkPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, _ = devices_of(pair)
    Veth().remove(near)

    def refuse(_device: str) -> None:
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(devices, "silence", refuse)
    with pytest.raises(UnisError, match=r"Permission denied$"):
        Veth().make(pair)
    assert not (DEVICES / near).exists()


@pytest.mark.system
def test_they_are_removed_once(pair: LinkPlan) -> None:
    made = Veth().made(pair)
    assert Veth().remove(made) == []
    assert not any((DEVICES / device).exists() for device in devices_of(pair))
    assert Veth().remove(made) == []

"""Links on which functions have AF_XDP sockets."""

import os
import platform
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.needs import need_root
from tests.python.planned import planned, small, told
from tests.python.strategies import Data
from unis import built
from unis.errors import UnisError
from unis.links import kind, xdp
from unis.links.devices import place
from unis.links.kind import LinkPlan, LinkSpec, PortEnds
from unis.links.namespaces import HERE
from unis.links.veth import Veth
from unis.links.xdp import PROGRAM, Xdp, XdpPlan

ENDS = [("ingress", "fw"), ("fw", "nat"), ("nat", "monitor"), ("monitor", "egress")]


def an_xdp(folder: Path) -> LinkPlan:
    spec = LinkSpec("r" * 64, "c" * 24, 256, engine=True, folder=folder, loaded=Path("/loaded"))
    return LinkPlan("c.1", "xdp", 256, Xdp().details(spec, 0))


def devices_of(link: LinkPlan) -> tuple[str, str]:
    assert isinstance(link.details, XdpPlan)
    return link.details.devices


@pytest.fixture
def made(tmp_path: Path) -> Iterator[LinkPlan]:
    need_root()
    link = an_xdp(tmp_path)
    try:
        Xdp().make(link)
        yield link
    finally:
        assert Xdp().remove(Xdp().made(link)) == []


def test_a_port_is_of_dpdks_driver_with_our_program(tmp_path: Path) -> None:
    link = an_xdp(tmp_path)
    (_, far) = devices_of(link)
    device = Xdp().device(PortEnds("fw.0", 2, link, link, 1))
    assert device == f"net_af_xdp2,iface={far},xdp_prog=/loaded/{PROGRAM}"
    veth = Veth().details(LinkSpec("r" * 64, "c" * 24, 256, engine=True, folder=tmp_path), 0)
    assert not {*veth.devices} & {*devices_of(link)}


def test_a_chain_may_begin_and_end_on_them() -> None:
    plan = planned(small(links=[{"from": a, "to": b, "kind": "xdp"} for a, b in ENDS]))
    assert [link.kind for link in plan.links] == ["xdp"] * 4
    assert [link.message().veth.engine_end for link in plan.links] == [True, False, False, True]
    for function in plan.functions:
        assert {"net_raw", "net_admin", "bpf", "ipc_lock"} <= {*function.capabilities}
        assert "sys_admin" not in function.capabilities
        assert f",xdp_prog=/run/unis/x/{PROGRAM}" in " ".join(function.argv)


def test_a_program_of_several_queues_is_told() -> None:
    own: Data = {"command": ["/bin/true"], "queues": 2}
    functions = {"fw": own, "nat": {"program": "sh"}, "monitor": {"program": "sh"}}
    links = [{"from": "ingress", "to": "fw", "kind": "xdp"}]
    (sentence,) = told(small(functions=functions, links=links))
    assert "'queues') `fw` is on a link of kind xdp, which has one queue each way" in sentence


def test_a_function_on_it_can_be_in_a_namespace_of_its_own() -> None:
    links = [{"from": a, "to": b, "kind": "xdp"} for a, b in ENDS]
    plan = planned(small(defaults={"cpu": 1, "namespace": "own"}, links=links))
    assert all(function.namespace for function in plan.functions)


@pytest.mark.parametrize(("slots", "mend"), [(100, "power of two"), (4096, "up to 2048")])
def test_bad_slots_are_refused_with_the_mend(slots: int, mend: str) -> None:
    with pytest.raises((UnisError, ValidationError), match=mend):
        planned(small(links=[{"from": "ingress", "to": "fw", "kind": "xdp", "slots": slots}]))


@pytest.mark.system
def test_what_a_killed_program_left_on_its_device_is_taken_off(made: LinkPlan) -> None:
    (near, far) = devices_of(made)

    def attached(*where: str) -> bool:
        shown = subprocess.run(["ip", *where, "link", "show", far], capture_output=True, check=True)
        return b"prog/xdp" in shown.stdout

    program = str(built.xdp_program())
    subprocess.run(["ip", "link", "set", far, "xdp", "obj", program, "sec", "xdp"], check=True)
    Xdp().clear(made, 0, HERE)
    assert attached(), "it is on the other end"
    Xdp().clear(made, 1, HERE)
    assert not attached()
    Xdp().clear(made, 1, HERE)
    space = f"ut{os.getpid()}"
    subprocess.run(["ip", "netns", "add", space], check=True)
    try:
        place(made.name, far, space)
        load = ["xdp", "obj", program, "sec", "xdp"]
        subprocess.run(["ip", "-n", space, "link", "set", far, *load], check=True)
        assert attached("-n", space)
        Xdp().clear(made, 1, space)
        assert not attached("-n", space)
        with pytest.raises(UnisError, match=f"`ip -n {space} link set {near} xdp off`"):
            Xdp().clear(made, 0, space)
    finally:
        subprocess.run(["ip", "netns", "delete", space], check=True)
    with pytest.raises(UnisError, match=f"BPF program off {far}: .*`ip link set {far} xdp off`"):
        Xdp().clear(made, 1, HERE)


def test_what_the_kernel_lacks_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert Xdp().hindrance() == ""
    monkeypatch.setattr(platform, "release", lambda: "6.1.0-40-amd64")
    assert Xdp().hindrance() == "Linux 6.1.0-40-amd64 is too old; use 6.4 or later"
    (tmp_path / "protocols").write_text("PACKET 1\n")
    monkeypatch.setattr(xdp, "_SOCKETS", tmp_path / "protocols")
    assert "CONFIG_XDP_SOCKETS" in Xdp().hindrance()
    monkeypatch.setattr(kind, "driver_missing", lambda _driver: "")
    assert "CONFIG_XDP_SOCKETS" in Xdp().lacks()
    monkeypatch.setattr(kind, "driver_missing", lambda _driver: "install it")
    assert Xdp().lacks() == "install it"


def test_another_kind_has_no_devices(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no veth"):
        Xdp().clear(replace(an_xdp(tmp_path), details=None), 0, HERE)

"""Network namespaces of functions: made and removed, and devices of links moved into them."""

import errno
import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyroute2
import pytest
from pyroute2 import IPRoute, NetlinkError

from tests.needs import need_root
from tests.python.planned import planned, small
from tests.python.signalling import wait_until
from tests.python.test_bridge import a_bridge
from tests.python.test_link_devices import Noting, a_state
from tests.python.test_veth import a_veth
from unis import links
from unis.errors import UnisError
from unis.links import devices, namespaces
from unis.links.kind import LinkKind, LinkPlan
from unis.runtime.child import Command, start
from unis.runtime.privileges import Rights
from unis.runtime.steps import make_links, remove_links

NETNS = Path("/run/netns")


def in_order(*names: str) -> list[dict[str, str]]:
    ends = itertools.pairwise(("ingress", *names, "egress"))
    return [{"from": one, "to": other, "kind": "veth"} for one, other in ends]


@pytest.fixture
def spaces() -> Iterator[tuple[str, str]]:
    """Names of two, which are gone afterwards."""
    need_root()
    names = (f"unis-t{os.getpid()}.a", f"unis-t{os.getpid()}.b")
    try:
        yield names
    finally:
        assert [problem for name in names for problem in namespaces.remove(name)] == []
        assert not [name for name in names if (NETNS / name).exists()]


def look(name: str, *words: str) -> str:
    return subprocess.run(
        ["ip", "netns", "exec", name, *words], check=True, capture_output=True, text=True
    ).stdout


# ------------------------------------------------------------------ the plan


def test_a_function_has_a_namespace_where_the_file_says_so() -> None:
    functions = {**small()["functions"], "nat": {"program": "sh", "namespace": "host"}}
    common = {**small().get("defaults", {}), "namespace": "own"}
    plan = planned(small(functions=functions, defaults=common))
    found = {function.name: function.namespace for function in plan.functions}
    assert found == {"fw": "unis-x.fw", "nat": None, "monitor": "unis-x.monitor"}
    assert {function.namespace for function in planned(small()).functions} == {None}


def test_namespaces_are_noted_first_and_removed_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that a change has added: devices of before may be in it."""
    there: list[str] = []
    placed: dict[str, str] = {}
    removed: list[str] = []

    def made(link: LinkKind, plan: LinkPlan) -> None:
        there.append(link.made(plan))

    def remove(name: str) -> list[str]:
        removed.append(name)
        return []

    def place(_link: str, device: str, namespace: str) -> None:
        assert not namespace or namespace in there
        placed[device] = namespace

    monkeypatch.setattr(namespaces, "make", there.append)
    monkeypatch.setattr(namespaces, "remove", remove)
    monkeypatch.setattr("unis.runtime.steps.place", place)
    veth = links.KINDS["veth"]
    monkeypatch.setattr(veth, "make", lambda plan: made(veth, plan))
    monkeypatch.setattr(veth, "remove", remove)
    functions = {**small()["functions"], "nat": {"program": "sh", "namespace": "own"}}
    chain = {"functions": functions, "links": in_order("fw", "nat", "monitor")}
    plan = planned(small(**chain))
    run = Noting(plan)
    make_links(run, plan)  # type: ignore[arg-type]
    assert [kind for kind, _ in run.state.made] == ["namespace", *["veth"] * 4]
    assert [*placed.values()].count("unis-x.nat") == 2
    assert [*placed.values()].count("") == 4, "of the others; the engine's stay where they are"
    assert remove_links([*run.state.made[1:], run.state.made[0]]) == []
    assert removed[-1] == "unis-x.nat"
    assert len(removed) == 5


def test_a_run_notes_namespaces_under_names_alone() -> None:
    with pytest.raises(ValueError, match="invalid name"):
        a_state([("namespace", "../x")])


# ------------------------------------------------------------------ the kernel's


@pytest.mark.system
def test_one_is_made_as_ip_netns_makes_it_and_removed_once(spaces: tuple[str, str]) -> None:
    name, _ = spaces
    namespaces.make(name)
    assert name in subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout.split()
    (lo,) = json.loads(look(name, "ip", "-j", "link"))
    assert "UP" in lo["flags"]
    assert name in namespaces.ours()
    assert namespaces.remove(name) == []
    assert name not in namespaces.ours()
    assert namespaces.remove(name) == []
    namespaces.make(name)


@pytest.mark.system
def test_somebody_elses_is_refused_with_the_mend_and_let_be(spaces: tuple[str, str]) -> None:
    name, _ = spaces
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        with pytest.raises(UnisError, match=f"`ip netns delete {name}`"):
            namespaces.make(name)
        assert namespaces.remove(name) == []
        assert (NETNS / name).exists()
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


@pytest.mark.system
def test_what_a_killed_launcher_has_left_half_made_is_removed(spaces: tuple[str, str]) -> None:
    """It makes the file, and then mounts the namespace there."""
    name, _ = spaces
    NETNS.mkdir(exist_ok=True)
    (NETNS / name).touch()
    assert name not in namespaces.ours()
    assert namespaces.remove(name) == []
    assert not (NETNS / name).exists()


@pytest.mark.system
def test_a_device_goes_from_one_to_another_and_stays_silent(
    tmp_path: Path, spaces: tuple[str, str]
) -> None:
    link = a_veth(tmp_path)
    kind = links.KINDS["veth"]
    _, device = kind.devices(link)
    for name in spaces:
        namespaces.make(name)
    try:
        kind.make(link)
        for name in (spaces[0], spaces[0], spaces[1]):
            devices.place(link.name, device, name)
            (found,) = json.loads(look(name, "ip", "-j", "link", "show", device))
            assert found["ifindex"] == devices.index_of(device)
            assert {"UP", "NOARP"} <= {*found["flags"]}
            assert (found["mtu"], found["ifalias"]) == (1504, f"unis link {link.name}")
            for setting, wanted in devices._SILENT.items():
                file = Path("/proc/sys/net") / setting.format(device)
                assert look(name, "cat", str(file)).strip() == wanted, setting
        devices.place(link.name, device, namespaces.HERE)
        state = Path("/sys/class/net") / device / "operstate"
        # The kernel notices the carrier a moment later.
        assert wait_until(lambda: state.read_text() == "up\n")
        devices.place(link.name, device, spaces[1])
    finally:
        assert kind.remove(kind.made(link)) == []
    assert "unis link" not in look(spaces[1], "ip", "link")


@pytest.mark.system
def test_so_does_a_device_that_has_its_number_from_elsewhere(spaces: tuple[str, str]) -> None:
    """As a virtual function of a NIC; here it is a veth."""
    device = f"{devices.base_name(spaces[0])}a"
    namespaces.make(spaces[0])
    with IPRoute() as kernel:
        kernel.link("add", ifname=device, kind="veth", peer=f"{device}p")
        (index,) = kernel.link_lookup(ifname=device)
        try:
            devices.place("c.1", device, spaces[0])
            assert kernel.link_lookup(ifname=device) == [index], "it is not known to be ours"
            devices.start_function(kernel, "c.1", device, index)
            devices.place("c.1", device, spaces[0])
            (found,) = json.loads(look(spaces[0], "ip", "-j", "link", "show", device))
            assert {"UP", "NOARP"} <= {*found["flags"]}
            assert found["mtu"] == 1500
            devices.place("c.1", device, namespaces.HERE)
        finally:
            for there in kernel.link_lookup(ifname=device):
                kernel.link("del", index=there)


@pytest.mark.system
def test_a_pair_is_removed_that_is_in_two(tmp_path: Path, spaces: tuple[str, str]) -> None:
    """As it is between two functions."""
    link = a_veth(tmp_path)
    kind = links.KINDS["veth"]
    kind.make(link)
    for name, device in zip(spaces, kind.devices(link), strict=True):
        namespaces.make(name)
        devices.place(link.name, device, name)
    assert kind.remove(kind.made(link)) == []
    assert [json.loads(look(name, "ip", "-j", "link"))[1:] for name in spaces] == [[], []]


@pytest.mark.system
def test_a_bridge_forwards_between_two(tmp_path: Path, spaces: tuple[str, str]) -> None:
    link = a_bridge(tmp_path)
    kind = links.KINDS["bridge"]
    kind.make(link)
    try:
        for name, device in zip(spaces, kind.devices(link), strict=True):
            namespaces.make(name)
            devices.place(link.name, device, name)
        kind.settle(link)
        with IPRoute() as kernel:
            ports = kernel.get_links(master=devices.index_of(kind.made(link)))
        assert [port.get("operstate") for port in ports] == ["UP", "UP"]
    finally:
        assert kind.remove(kind.made(link)) == []


@pytest.mark.system
def test_no_namespace_to_move_into_is_told(tmp_path: Path) -> None:
    need_root()
    link = a_veth(tmp_path)
    kind = links.KINDS["veth"]
    kind.make(link)
    try:
        with pytest.raises(UnisError, match=r"into the network namespace unis-no.b: No such file"):
            devices.place(link.name, kind.devices(link)[1], "unis-no.b")
    finally:
        assert kind.remove(kind.made(link)) == []


@pytest.mark.system
def test_a_program_starts_in_it_as_its_user(tmp_path: Path, spaces: tuple[str, str]) -> None:
    """It also sees /sys as it is there."""
    name, _ = spaces
    namespaces.make(name)
    words = [
        "sh",
        "-c",
        "id -un; ls /sys/class/net; readlink /proc/self/ns/net",
    ]
    child = start(
        "x", Command(words, rights=Rights("nobody"), namespace=name), tmp_path / "log", "1"
    )
    assert child.process.wait(30) == 0
    user, *devices_there, where = (tmp_path / "log").read_text().split()
    assert (user, devices_there) == ("nobody", ["lo"])
    assert where != str(Path("/proc/self/ns/net").readlink())


@pytest.mark.system
def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    need_root()
    here = Path("/proc/self/ns/net").readlink()
    assert namespaces.lacks() == ""
    assert Path("/proc/thread-self/ns/net").readlink() == here
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert "apt-get install iproute2" in namespaces.lacks()
    monkeypatch.undo()

    def refuse(name: str, *_: object) -> None:
        raise PermissionError(1, f"{name} is not permitted")

    monkeypatch.setattr(namespaces, "_call", refuse)
    assert "refuses a network namespace: unshare is not permitted" in namespaces.lacks()


# ------------------------------------------------------------------ what the kernel refuses


class Refusing:
    """pyroute2 has an error of its own for what netlink refuses."""

    def __enter__(self) -> None:
        raise NetlinkError(errno.ENOBUFS)

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.system
def test_what_netlink_refuses_is_a_sentence(
    spaces: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, other = spaces
    namespaces.make(name)
    with monkeypatch.context() as patched:
        patched.setattr(pyroute2, "IPRoute", Refusing)
        with pytest.raises(UnisError, match=f"the network namespace {other}: No buffer space"):
            namespaces.make(other)
        assert not (NETNS / other).exists()
        (problem,) = namespaces.remove(name)
    assert problem.startswith(f"cannot remove the network namespace {name}: No buffer space")

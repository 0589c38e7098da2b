"""Functions in network namespaces of their own: they pass packets, and nothing of it is left."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.machine import Machine, macswap
from tests.e2e.test_run import assert_delivers_more_than, assert_whole, delivered
from tests.e2e.test_veth import assert_come_back, assert_ends_clean, on_links, on_veths
from unis import built
from unis.runtime.directory import run_directory

EXAMPLE = built.clone() / "examples" / "kernel-chain.yaml"
NETNS = Path("/run/netns")
TRAFFIC = {"source": {"kind": "synthetic", "size": 64}, "rate": "20kpps"}


def said(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def network() -> dict[str, object]:
    """Of the host, as its operator sees it; without what other tests have."""
    devices = {one["ifname"]: one.get("link") for one in json.loads(said("ip", "-j", "link"))}
    rules = said("nft", "list", "ruleset") if shutil.which("nft") else ""
    names = {*said("ip", "netns", "list").split()}
    return {
        "devices": {name: link for name, link in devices.items() if not name.startswith("ut")},
        "namespaces": {name for name in names if name.startswith("unis")},
        "rules": rules,
    }


def namespaces_of(machine: Machine) -> list[str]:
    return [path.name for path in NETNS.glob(f"unis-{machine.name}.*")]


def devices_in(name: str) -> set[str]:
    return {one["ifname"] for one in json.loads(said("ip", "-n", name, "-j", "link"))} - {"lo"}


@pytest.mark.parametrize("end", ["down", "launcher", "unisd"])
def test_the_example_loses_none_unseen_and_leaves_the_network_as_it_was(
    machine: Machine, end: str
) -> None:
    before = network()
    machine.unis("up", str(EXAMPLE), "--name", machine.name, "--detach", "--wait")
    names = namespaces_of(machine)
    assert len(names) == 4
    for name in names:
        assert len(devices_in(name)) == 2
    (run,) = json.loads(machine.unis("ps", machine.name, "--json"))
    assert sorted(run["namespaces"].values()) == sorted(names)
    for function, pid in run["functions"].items():
        name = run["namespaces"][function]
        assert said("ip", "netns", "identify", str(pid)).strip() == name
    assert_delivers_more_than(machine, 5000)
    account = machine.exact_account()
    assert_whole(account)
    assert account["in_flight"] == 0
    lost = int(account["offered"] - account["delivered"])
    assert lost == account["dropped_on_links"] + account["dropped_ingress_full"]
    assert_ends_clean(machine, end, lambda: network() == before)


def test_functions_that_die_come_back_in_the_same_namespaces(machine: Machine) -> None:
    functions = {name: macswap(restart="on-failure", namespace="own") for name in "ab"}
    machine.up(machine.chain_file(functions, links=on_veths("a", "b"), traffic=TRAFFIC))
    inodes = {name: (NETNS / name).stat().st_ino for name in namespaces_of(machine)}
    devices = {name: devices_in(name) for name in inodes}
    assert_delivers_more_than(machine, 1000)
    assert_come_back(machine, "aba")
    assert inodes == {name: (NETNS / name).stat().st_ino for name in namespaces_of(machine)}
    assert devices == {name: devices_in(name) for name in inodes}


def test_a_function_on_rings_can_have_one(machine: Machine) -> None:
    machine.up(machine.chain_file({"a": macswap(namespace="own"), "b": macswap()}))
    assert_delivers_more_than(machine, 10_000)
    assert_whole(machine.exact_account())
    assert namespaces_of(machine) == [f"unis-{machine.name}.a"]
    assert devices_in(f"unis-{machine.name}.a") == set()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["veth", "bridge", "xdp"])
def test_a_change_of_namespace_restarts_that_function_alone(machine: Machine, kind: str) -> None:
    """Its neighbour keeps its process and its sockets."""

    def pids(own: Sequence[str], command: str = "apply") -> dict[str, int]:
        functions = {name: macswap(namespace="own" if name in own else "host") for name in "ab"}
        file = machine.chain_file(functions, links=on_links(kind, "a", "b"), traffic=TRAFFIC)
        machine.unis(command, str(file), *(["--detach"] if command == "up" else []))
        assert namespaces_of(machine) == [f"unis-{machine.name}.{name}" for name in own]
        run = machine.ps()
        assert_delivers_more_than(machine, delivered(run) + 5000)
        assert_whole(machine.exact_account())
        return dict(run["functions"])

    last, before = "", pids("", "up")
    for own in ("b", "a", ""):
        after = pids(own)
        moved = {*own} ^ {*last}
        assert {name for name in "ab" if after[name] != before[name]} == moved
        last, before = own, after


def test_what_a_device_there_drops_is_of_the_account(machine: Machine) -> None:
    """The next one takes no such frame, so the device of a drops it."""
    traffic = {"source": {"kind": "synthetic", "size": 1000}, "rate": "20kpps"}
    functions = {name: macswap(namespace="own") for name in "ab"}
    machine.up(machine.chain_file(functions, links=on_veths("a", "b"), traffic=traffic))
    assert_delivers_more_than(machine, 1000)
    before = machine.exact_account()["dropped_on_links"]
    state = run_directory(machine.name).read()
    assert state
    device = f"{state.made[3][1].removesuffix('a')}b"  # of b, on the link between them
    space = f"unis-{machine.name}.b"
    for mtu in ("500", "1504"):
        said("ip", "-n", space, "link", "set", device, "mtu", mtu)
        offered = machine.ps()["stats"]["account"]["offered"]
        machine.wait_for(
            lambda than=offered + 5000: machine.ps()["stats"]["account"]["offered"] > than,  # type: ignore[misc]
            "nothing is offered",
        )
    account = machine.exact_account()
    assert_whole(account)
    assert account["dropped_on_links"] > before + 500


def test_somebody_elses_namespace_is_refused_and_stays(machine: Machine) -> None:
    name = f"unis-{machine.name}.a"
    said("ip", "netns", "add", name)
    try:
        file = machine.chain_file({"a": macswap(namespace="own")}, links=on_veths("a"))
        told = machine.unis("up", str(file), "--detach", codes=(1, 2))
        assert f"`ip netns delete {name}`" in told
        machine.assert_clean()
        assert namespaces_of(machine) == [name]
    finally:
        said("ip", "netns", "delete", name)

"""Chains over bridges of the kernel: what they drop is told, and no device of them is left."""

import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.machine import Machine, macswap
from tests.e2e.test_run import assert_delivers_more_than, assert_whole
from tests.e2e.test_veth import assert_come_back, assert_ends_clean, on_links
from unis import built
from unis.runtime.directory import run_directory

EXAMPLE = built.clone() / "examples" / "bridge.yaml"
DEVICES = Path("/sys/class/net")


on_bridges = partial(on_links, "bridge")


def bridges_of(machine: Machine) -> list[str]:
    state = run_directory(machine.name).read()
    assert state
    return [name for kind, name in state.made if kind == "bridge"]


def devices_of(bridges: list[str]) -> set[str]:
    return {file.name for file in DEVICES.iterdir() if file.name.startswith(tuple(bridges))}


@pytest.mark.parametrize("end", ["down", "launcher", "unisd"])
def test_packets_pass_are_accounted_for_and_no_device_stays(machine: Machine, end: str) -> None:
    machine.unis("up", str(EXAMPLE), "--name", machine.name, "--detach")
    bridges = bridges_of(machine)
    assert len(bridges) == 3
    assert len(devices_of(bridges)) == 5 * len(bridges)
    assert_delivers_more_than(machine, 10_000)
    account = machine.exact_account()
    assert_whole(account)
    # The functions drop none: what does not arrive the kernel has counted as dropped.
    assert account["in_flight"] == 0
    assert account["offered"] == account["delivered"] + account["dropped_on_links"]
    assert_ends_clean(machine, end, lambda: not devices_of(bridges))


def test_functions_that_die_come_back_on_the_same_bridges(machine: Machine) -> None:
    functions = {name: macswap(restart="on-failure") for name in "ab"}
    traffic = {"source": {"kind": "synthetic", "size": 64}, "rate": "30kpps"}
    machine.up(machine.chain_file(functions, links=on_bridges("a", "b"), traffic=traffic))
    devices = devices_of(bridges_of(machine))
    assert_delivers_more_than(machine, 1000)
    assert_come_back(machine, "aba")
    assert devices_of(bridges_of(machine)) == devices


def assert_offers(machine: Machine, packets: int) -> None:
    def offered() -> int:
        return int(machine.ps()["stats"]["account"]["offered"])

    before = offered()
    machine.wait_for(lambda: offered() > before + packets, "nothing is offered")


def test_what_a_port_of_the_bridge_drops_is_of_the_account(machine: Machine) -> None:
    traffic = {"source": {"kind": "synthetic", "size": 1000}, "rate": "20kpps"}
    functions = {name: macswap() for name in "ab"}
    machine.up(machine.chain_file(functions, links=on_bridges("a", "b"), traffic=traffic))
    assert_delivers_more_than(machine, 1000)
    before = machine.exact_account()["dropped_on_links"]
    device = f"{bridges_of(machine)[1]}b"  # of b, which takes no such frame of its port now
    for mtu in ("500", "1504"):
        subprocess.run(["ip", "link", "set", device, "mtu", mtu], check=True)
        assert_offers(machine, 5000)
    account = machine.exact_account()
    assert_whole(account)
    assert account["dropped_on_links"] > before + 4000
    assert account["offered"] == account["delivered"] + account["dropped_on_links"]

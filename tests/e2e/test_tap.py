"""Chains on tap devices: all that DPDK's net_tap does not get is told, and no device is left."""

import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.machine import Machine, macswap
from tests.e2e.test_crash_points import assert_nothing_stays, assert_was_killed
from tests.e2e.test_crash_points import up as killed
from tests.e2e.test_namespaces import network
from tests.e2e.test_run import assert_delivers_more_than, assert_whole, delivered
from tests.e2e.test_veth import assert_ends_clean, on_links
from tests.e2e.test_xdp import assert_lost_by_the_kernel_alone
from tests.e2e.third_party import a_testpmd
from unis import built
from unis.runtime.directory import run_directory

EXAMPLE = built.clone() / "examples" / "tap.yaml"

on_taps = partial(on_links, "tap")


def devices_of(machine: Machine) -> set[str]:
    state = run_directory(machine.name).read()
    assert state
    names = tuple(name for kind, name in state.made if kind == "tap")
    return {file.name for file in Path("/sys/class/net").iterdir() if file.name.startswith(names)}


@pytest.mark.parametrize("end", ["down", "launcher", "unisd"])
def test_packets_pass_are_accounted_for_and_no_device_stays(machine: Machine, end: str) -> None:
    machine.unis("up", str(EXAMPLE), "--name", machine.name, "--detach")
    devices = devices_of(machine)
    assert len(devices) == 6, "one at each end of the chain, two between functions"
    assert_delivers_more_than(machine, 10_000)
    assert_lost_by_the_kernel_alone(machine.exact_account())
    assert_ends_clean(
        machine, end, lambda: not any(Path("/sys/class/net", name).exists() for name in devices)
    )


def test_what_a_device_drops_is_of_the_account(machine: Machine) -> None:
    """As fast as it goes, into a short queue between two functions."""
    functions = {"a": macswap(), "pmd": a_testpmd(), "b": macswap()}
    links = on_taps("a", "pmd", "b")
    links[1]["slots"] = 128
    traffic = {"source": {"kind": "synthetic", "size": 64}}
    machine.up(machine.chain_file(functions, links=links, traffic=traffic))
    dropped = 0
    for _ in range(2):
        assert_delivers_more_than(machine, delivered(machine.ps()) + 20_000)
        account = machine.exact_account()
        assert_lost_by_the_kernel_alone(account)
        assert account["dropped_on_links"] > dropped
        dropped = account["dropped_on_links"]


def test_what_comes_while_a_device_is_down_is_of_the_account(machine: Machine) -> None:
    """No counter of the kernel's has that; net_tap takes the device down when a port closes."""
    functions = {name: macswap() for name in "ab"}
    traffic = {"source": {"kind": "synthetic", "size": 64}, "rate": "20kpps"}
    machine.up(machine.chain_file(functions, links=on_taps("a", "b"), traffic=traffic))
    assert_delivers_more_than(machine, 1000)
    state = run_directory(machine.name).read()
    assert state
    between = [name for _, name in state.made][1]
    for way in ("down", "up"):
        subprocess.run(["ip", "link", "set", f"{between}b", way], check=True)
        offered = int(machine.ps()["stats"]["account"]["offered"])
        machine.wait_for(
            lambda: int(machine.ps()["stats"]["account"]["offered"]) > offered + 5000,  # noqa: B023
            "nothing is offered",
        )
    assert_delivers_more_than(machine, delivered(machine.ps()) + 1000)
    account = machine.exact_account()
    assert_whole(account)
    assert account["dropped_on_links"] > 4000


@pytest.mark.parametrize(
    ("victim", "point"),
    [
        ("launcher", "unis.links.tap:_keep"),  # a device goes with the launcher still
        ("launcher", "unis.links.devices:silence#2"),  # it is there, and not set up
        ("launcher", "unis.links.tap:_join#2"),  # one way of two
        ("guard", "unis.links.tap:_join"),
        ("unisd", "unis.runtime.run:Run.attach"),
    ],
)
def test_nothing_stays_where_a_process_is_killed(machine: Machine, victim: str, point: str) -> None:
    before = network()
    functions = {name: macswap() for name in "ab"}
    traffic = {"source": {"kind": "synthetic", "size": 64}, "rate": "20kpps"}
    file = machine.chain_file(functions, links=on_taps("a", "b"), traffic=traffic)
    assert killed(machine, victim, point, file) == 1
    assert_was_killed(machine, victim)
    assert_nothing_stays(machine, before)

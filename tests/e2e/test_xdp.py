"""Chains on AF_XDP sockets: what the kernel drops there is told, and no device is left."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.machine import Json, Machine, macswap
from tests.e2e.test_crash_points import assert_nothing_stays, assert_was_killed
from tests.e2e.test_crash_points import up as killed
from tests.e2e.test_namespaces import namespaces_of, network
from tests.e2e.test_run import assert_delivers_more_than, assert_whole, delivered
from tests.e2e.test_veth import assert_come_back, assert_ends_clean, on_links
from tests.e2e.third_party import a_testpmd
from tests.needs import need
from unis import built
from unis.runtime.directory import run_directory

EXAMPLE = built.clone() / "examples" / "xdp.yaml"

on_xdps = partial(on_links, "xdp")


def devices_of(machine: Machine) -> list[Path]:
    state = run_directory(machine.name).read()
    assert state
    return [Path("/sys/class/net") / name for kind, name in state.made if kind == "xdp"]


def assert_lost_by_the_kernel_alone(account: Json) -> None:
    assert_whole(account)
    assert account["in_flight"] == 0
    lost = account["offered"] - account["delivered"]
    assert lost == account["dropped_on_links"] + account["dropped_ingress_full"]


@pytest.mark.parametrize("end", ["down", "launcher", "unisd"])
def test_packets_pass_are_accounted_for_and_no_device_stays(machine: Machine, end: str) -> None:
    machine.unis("up", str(EXAMPLE), "--name", machine.name, "--detach")
    devices = devices_of(machine)
    assert len(devices) == 5
    assert all(device.exists() for device in devices)
    assert_delivers_more_than(machine, 10_000)
    assert_lost_by_the_kernel_alone(machine.exact_account())
    assert_ends_clean(machine, end, lambda: not any(device.exists() for device in devices))


def test_what_the_kernel_drops_before_a_slow_program_is_of_the_account(machine: Machine) -> None:
    """As fast as it goes, into a short ring between the functions."""
    functions = {"a": macswap(), "pmd": a_testpmd("macswap", "--rxd=128"), "b": macswap()}
    traffic = {"source": {"kind": "synthetic", "size": "imix"}}
    machine.up(machine.chain_file(functions, links=on_xdps("a", "pmd", "b"), traffic=traffic))
    dropped = 0
    for _ in range(2):
        assert_delivers_more_than(machine, delivered(machine.ps()) + 50_000)
        account = machine.exact_account()
        assert_lost_by_the_kernel_alone(account)
        assert account["dropped_on_links"] > dropped
        dropped = account["dropped_on_links"]


@pytest.mark.parametrize("end", ["down", "launcher", "unisd"])
def test_functions_in_namespaces_have_such_ports(machine: Machine, end: str) -> None:
    """What the kernel drops there is counted there too, and the next process has the socket."""
    before = network()
    functions = {
        "a": macswap(namespace="own", restart="on-failure"),
        "pmd": a_testpmd("macswap", "--rxd=128", namespace="own"),
        "b": macswap(namespace="own", user="nobody"),
        "c": macswap(),
    }
    traffic = {"source": {"kind": "synthetic", "size": "imix"}}
    links = on_xdps("a", "pmd", "b", "c")
    machine.up(machine.chain_file(functions, links=links, traffic=traffic))
    assert len(namespaces_of(machine)) == 3
    assert_delivers_more_than(machine, 50_000)
    account = machine.exact_account()
    assert_lost_by_the_kernel_alone(account)
    assert account["dropped_on_links"] > 0
    assert_come_back(machine, "aa")
    assert_ends_clean(machine, end, lambda: network() == before)


@pytest.mark.parametrize("namespace", ["host", "own"])
@pytest.mark.parametrize(
    "point",
    [
        "unis.links.devices:detach_xdp#2",  # before a function starts on its device
        "unis.runtime.run:Run.attach",  # its sockets are bound
        "unis.runtime.xdp_sockets:_is_on#2",  # they are being looked for
    ],
)
def test_a_launcher_that_is_killed_leaves_nothing(
    machine: Machine, point: str, namespace: str
) -> None:
    before = network()
    functions = {name: macswap(namespace=namespace) for name in "ab"}
    traffic = {"source": {"kind": "synthetic", "size": 64}, "rate": "20kpps"}
    file = machine.chain_file(functions, links=on_xdps("a", "b"), traffic=traffic)
    assert killed(machine, "launcher", point, file) == 1
    assert_was_killed(machine, "launcher")
    assert_nothing_stays(machine, before)


def test_functions_in_containers_have_such_ports(machine: Machine) -> None:
    need(shutil.which("crun") is not None, "needs crun: apt-get install crun")
    functions = {
        "a": macswap(container={}, restart="on-failure"),
        "b": macswap(container={}, user="nobody"),
    }
    traffic = {"source": {"kind": "synthetic", "size": 64}, "rate": "30kpps"}
    machine.up(machine.chain_file(functions, links=on_xdps("a", "b"), traffic=traffic))
    assert_delivers_more_than(machine, 1000)
    assert_come_back(machine, "a")
    assert_whole(machine.exact_account())
    machine.down()
    machine.assert_clean()

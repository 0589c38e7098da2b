"""Chains over Open vSwitch: what it drops is told, and nothing of it is left, whoever dies."""

import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.machine import Machine, macswap
from tests.e2e.test_crash_points import assert_nothing_stays, assert_was_killed
from tests.e2e.test_crash_points import up as killed
from tests.e2e.test_namespaces import network
from tests.e2e.test_run import assert_delivers_more_than, assert_whole, delivered
from tests.e2e.test_veth import assert_come_back, assert_ends_clean, on_links
from tests.e2e.third_party import on_path
from unis import built
from unis.cli.look_commands import _run_data, _RunRow
from unis.runtime.directory import run_directory
from unis.runtime.process import ProcessId
from unis.runtime.state import FunctionProcess

EXAMPLE = built.clone() / "examples" / "ovs.yaml"
DEVICES = Path("/sys/class/net")
TRAFFIC = {"source": {"kind": "synthetic", "size": 64}, "rate": "20kpps"}

_TRIES, _TRY_SECONDS = 4, 20.0

on_ovs = partial(on_links, "ovs")


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package was."""
    on_path(monkeypatch, "ovs-vswitchd")


def bridges_of(machine: Machine) -> list[str]:
    state = run_directory(machine.name).read()
    assert state
    return [name for kind, name in state.made if kind == "ovs"]


def devices_of(bridges: list[str]) -> set[str]:
    return {file.name for file in DEVICES.iterdir() if file.name.startswith(tuple(bridges))}


def switch_of(machine: Machine) -> FunctionProcess:
    state = run_directory(machine.name).read()
    assert state
    assert state.ovs
    return state.ovs


def up(machine: Machine, *functions: str, **more: object) -> None:
    each = {name: macswap(restart="on-failure") for name in functions}
    machine.up(machine.chain_file(each, links=on_ovs(*functions), traffic=TRAFFIC, **more))


@pytest.mark.parametrize("end", ["down", "launcher", "unisd"])
def test_packets_pass_are_accounted_for_and_nothing_stays(machine: Machine, end: str) -> None:
    machine.unis("up", str(EXAMPLE), "--name", machine.name, "--detach")
    bridges, switch = bridges_of(machine), switch_of(machine).process
    assert len(devices_of(bridges)) == 4 * len(bridges) == 12
    assert_delivers_more_than(machine, 10_000)
    account = machine.exact_account()
    assert_whole(account)
    # The functions drop none: what does not arrive the kernel has counted, at the switch too.
    lost = account["dropped_on_links"] + account["dropped_ingress_full"]
    assert account["offered"] == account["delivered"] + lost
    assert_ends_clean(machine, end, lambda: not devices_of(bridges) and not switch.alive())
    left = subprocess.run(
        ["pgrep", "-f", f"runs/{machine.name}/"], capture_output=True, check=False
    )
    assert left.stdout == b""


def test_what_it_has_no_room_for_is_of_the_account(machine: Machine) -> None:
    """It is stopped for a while, and its buffers run over."""
    up(machine, "a", "b")
    assert_delivers_more_than(machine, 1000)
    before = machine.exact_account()
    assert_whole(before)
    switch = switch_of(machine).process
    taken = machine.pid_of("a")
    most = before["dropped_on_links"] + 300
    for _ in range(_TRIES):  # the port may have more room than a ring has packets
        is_full = partial(has_more_than, machine, full(machine))
        os.kill(taken, signal.SIGSTOP)
        machine.wait_for(is_full, "the first ring does not fill")
        os.kill(switch.pid, signal.SIGSTOP)
        os.kill(taken, signal.SIGCONT)  # it sends a ring of packets into the next bridge's port
        end = time.monotonic() + _TRY_SECONDS
        while on_links_of(machine) <= most and time.monotonic() < end:
            time.sleep(0.05)
        os.kill(switch.pid, signal.SIGCONT)
        if on_links_of(machine) > most:
            break
    assert on_links_of(machine) > most
    assert_delivers_more_than(machine, delivered(machine.ps()) + 1000)
    account = machine.exact_account()
    assert_whole(account)
    lost = sum(account[f"dropped_{where}"] for where in ("on_links", "ingress_full"))
    assert account["offered"] == account["delivered"] + lost + account["dropped_down"]


def has_more_than(machine: Machine, before: int) -> bool:
    return full(machine) > before


def full(machine: Machine | dict[str, int]) -> int:
    account = machine.ps()["stats"]["account"] if isinstance(machine, Machine) else machine
    return int(account["dropped_ingress_full"])


def on_links_of(machine: Machine) -> int:
    return int(machine.ps()["stats"]["account"]["dropped_on_links"])


def test_functions_that_die_come_back(machine: Machine) -> None:
    up(machine, "a", "b")
    assert_delivers_more_than(machine, 1000)
    assert_come_back(machine, "aba")


@pytest.mark.parametrize("program", ["ovs-vswitchd", "ovsdb-server"])
def test_if_it_dies_that_is_told_and_it_comes_back(machine: Machine, program: str) -> None:
    up(machine, "a")
    assert_delivers_more_than(machine, 1000)
    before = delivered(machine.ps())
    is_switch = program == "ovs-vswitchd"
    machine.kill(switch_of(machine).process.pid if is_switch else databases_of(machine)[0])
    machine.wait_for(lambda: switch_of(machine).restarts == 1, "it is not back")
    machine.wait_for(lambda: "Open vSwitch runs again" in machine.unis("logs", machine.name), "log")
    assert f"{program} (pid " in machine.unis("logs", machine.name)
    time.sleep(2)  # nobody asks for statistics meanwhile
    assert delivered(machine.ps()) > before + 5000
    assert_delivers_more_than(machine, delivered(machine.ps()) + 5000)
    assert_whole(machine.exact_account())


def databases_of(machine: Machine) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
            folder = (process / "cwd").readlink()
        except OSError:
            continue
        if b"ovsdb-server" in words and f"/{machine.name}/" in str(folder):
            found.append(int(process.name))
    return found


def test_both_plans_and_their_change_while_it_runs(machine: Machine) -> None:
    """A CPU of its own, or that of the functions, above them; told as the kernel says it."""
    up(machine, "a", ovs={"cpu": 1})
    assert_delivers_more_than(machine, 1000)
    assert about(machine) == {"cpus": [1], "policy": "fifo", "priority": 49, "nice": 0}
    assert "Open vSwitch: pid" in machine.unis("ps", machine.name)
    switch = switch_of(machine).process
    wanted = {"cpu": 0, "kernel": {"policy": "other", "nice": -5}}
    functions = {"a": macswap(restart="on-failure")}
    file = machine.chain_file(functions, links=on_ovs("a"), traffic=TRAFFIC, ovs=wanted)
    machine.unis("apply", str(file))
    assert about(machine) == {"cpus": [0], "policy": "other", "priority": 0, "nice": -5}
    assert switch_of(machine).process == switch
    assert_delivers_more_than(machine, delivered(machine.ps()) + 1000)
    plain = machine.chain_file(functions, links=on_links("veth", "a"), traffic=TRAFFIC)
    bridges = bridges_of(machine)
    machine.unis("apply", str(plain))
    assert not switch.alive()
    assert not devices_of(bridges)
    assert "ovs" not in told_of(machine)
    assert_delivers_more_than(machine, delivered(machine.ps()) + 1000)


@pytest.mark.parametrize(
    ("victim", "point"),
    [
        ("launcher", "_spawn"),
        ("launcher", "_spawn#2"),  # the database runs
        ("launcher", "_wait_for#2"),  # both run, and are not noted
        ("launcher", "_join"),
        ("guard", "_join"),
        ("launcher", "_tool#2@add-flows"),  # of two bridges one has none
        ("launcher", "_settle"),
    ],
)
def test_killed_while_it_starts_it_leaves_nothing(
    machine: Machine, victim: str, point: str
) -> None:
    before = network()
    functions = {"a": macswap(restart="on-failure")}
    file = machine.chain_file(functions, links=on_ovs("a"), traffic=TRAFFIC)
    assert killed(machine, victim, f"unis.runtime.ovs:SwitchProcesses.{point}", file) == 1
    assert_was_killed(machine, victim)
    assert_nothing_stays(machine, before)
    machine.wait_for(lambda: databases_of(machine) == [], "a database is left")


@pytest.mark.parametrize(
    ("victim", "point"),
    [
        ("unisd", "SwitchProcesses._join#2"),
        ("launcher", "SwitchProcesses._tool#3@add-flows"),  # the new bridge has none
        ("launcher", "leave"),
    ],
)
def test_killed_while_a_change_is_applied_it_leaves_nothing(
    machine: Machine, victim: str, point: str
) -> None:
    before = network()
    file = machine.chain_file({"a": macswap()}, links=on_ovs("a"), traffic=TRAFFIC)
    assert killed(machine, victim, f"unis.runtime.ovs:{point}", file) == 0
    more = {name: macswap() for name in "ab"}
    file = machine.chain_file(more, links=on_ovs("a", "b"), traffic=TRAFFIC)
    machine.unis("apply", str(file), codes=(0, 1))
    assert_was_killed(machine, victim)
    assert_nothing_stays(machine, before)
    machine.wait_for(lambda: databases_of(machine) == [], "a database is left")


def told_of(machine: Machine) -> dict[str, object]:
    state = run_directory(machine.name).read()
    assert state
    return _run_data(_RunRow(state))


def about(machine: Machine) -> dict[str, object]:
    told = told_of(machine)["ovs"]
    assert isinstance(told, dict)
    assert ProcessId.of(told["pid"]) == switch_of(machine).process
    return {key: told[key] for key in ("cpus", "policy", "priority", "nice")}

"""A process of a run is killed at any step of it, and nothing stays: no process, no namespace, no
device, no note, no hugepage.

Mostly the others of the run clean up: the guard after the launcher, the launcher after guard or
unisd. Where launcher and guard are gone, or the guard had not started yet, the next `unis up` or
`unis down` does.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.machine import Machine, macswap
from tests.e2e.test_namespaces import network
from tests.e2e.test_run import assert_delivers_more_than
from tests.e2e.test_veth import on_links
from unis import built
from unis.runtime.directory import run_directory

_SECONDS = 180.0  # until a command must have ended: a bound, not an expectation
UP = [
    ("launcher", "unis.links.namespaces:make"),  # it is noted, and not made
    ("launcher", "unis.links.namespaces:_call@thread-self"),  # it is a file, and not mounted
    ("launcher", "unis.links.devices:silence"),  # a pair is made, and not set up
    ("launcher", "unis.links.devices:_start#8"),  # an end is moved, and not up
    ("guard", "unis.links.namespaces:make#2"),
    ("launcher", "unis.runtime.run:Run.record@'unisd'"),  # it runs, and is not noted
    ("unisd", "unis.engine.client:EngineClient.deploy"),
    ("launcher", "unis.runtime.run:Run.record_event@'functions'"),  # one runs, and is not noted
    ("unisd", "unis.runtime.run:Run.attach"),
    ("launcher", "unis.runtime.run:Run.attach#2"),
]
RUNNING = ["launcher", "unisd", "guard"]
APPLY = [
    ("launcher", "unis.runtime.change:end_functions"),
    ("unisd", "unis.runtime.change:make_links"),
    ("launcher", "unis.links.namespaces:make#3"),
    ("launcher", "unis.links.devices:_start#14"),
    ("guard", "unis.engine.client:EngineClient.apply"),
]
DOWN = [
    ("unisd", "unis.runtime.running:clean_up"),
    ("launcher", "unis.runtime.steps:remove_links"),
    ("guard", "unis.runtime.steps:remove_links"),
    ("launcher", "unis.links.namespaces:remove#2"),
]


def chain(machine: Machine, *own: str, host: str = "") -> Path:
    """Functions in namespaces of their own, and one that is not, between them."""
    names = sorted([*own, *host])
    functions = {name: macswap(namespace="own" if name in own else "host") for name in names}
    links = on_links("veth", *names)
    links[0]["kind"] = "bridge"
    traffic = {"source": {"kind": "synthetic", "size": 64}, "rate": "20kpps"}
    return machine.chain_file(functions, links=links, traffic=traffic)


def up(machine: Machine, victim: str, point: str, file: Path | None = None) -> int:
    """The exit code of `unis up` in which the victim dies there."""
    file = file or chain(machine, "a", "b")
    program = [sys.executable, "-m", "tests.e2e.killing", point, victim]
    command = [*program, "up", str(file), "--detach"]
    done = subprocess.run(
        command, cwd=built.clone(), capture_output=True, text=True, check=False, timeout=_SECONDS,
        env={**os.environ, "KILLED": str(machine.directory / "killed")},
    )  # fmt: skip
    assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    return done.returncode


def assert_was_killed(machine: Machine, victim: str) -> None:
    """Else the point was never reached, and the test says nothing."""
    assert (machine.directory / "killed").read_text() == victim


def assert_nothing_stays(machine: Machine, before: dict[str, object]) -> None:
    def undone() -> bool:
        state = run_directory(machine.name).read()
        return state is None or state.undone()

    machine.wait_for(undone, "the run is not undone")
    machine.wait_for(lambda: network() == before, "namespaces or devices are left")
    machine.assert_clean()


@pytest.mark.parametrize(("victim", "point"), UP)
def test_while_it_comes_up(machine: Machine, victim: str, point: str) -> None:
    before = network()
    assert up(machine, victim, point) == 1
    assert_was_killed(machine, victim)
    assert_nothing_stays(machine, before)


@pytest.mark.parametrize("victim", RUNNING)
def test_while_it_runs(machine: Machine, victim: str) -> None:
    before = network()
    machine.up(chain(machine, "a", "b"))
    assert_delivers_more_than(machine, 100)
    state = run_directory(machine.name).read()
    assert state
    machine.kill(getattr(state, victim).pid)
    assert_nothing_stays(machine, before)


@pytest.mark.parametrize(("victim", "point"), APPLY)
def test_while_a_change_is_applied(machine: Machine, victim: str, point: str) -> None:
    """b leaves its namespace, and c comes with one."""
    before = network()
    assert up(machine, victim, point) == 0
    machine.unis("apply", str(chain(machine, "a", "c", host="b")), codes=(0, 1))
    assert_was_killed(machine, victim)
    assert_nothing_stays(machine, before)


@pytest.mark.parametrize(("victim", "point"), DOWN)
def test_while_it_goes_down(machine: Machine, victim: str, point: str) -> None:
    before = network()
    assert up(machine, victim, point) == 0
    machine.unis("down", machine.name, codes=(0, 1))
    assert_was_killed(machine, victim)
    assert_nothing_stays(machine, before)


def test_where_nobody_is_left_the_next_run_cleans_up(machine: Machine) -> None:
    before = network()
    machine.up(chain(machine, "a", "b"))
    state = run_directory(machine.name).read()
    assert state
    assert state.guard
    machine.kill(state.guard.pid)
    machine.kill(state.launcher.pid)
    other = f"{machine.name}-2"
    machine.unis("up", str(machine.chain_file({"a": macswap()})), "-d", "--name", other)
    machine.unis("down", other)
    assert_nothing_stays(machine, before)


def test_where_there_is_no_guard_yet_a_later_command_cleans_up(machine: Machine) -> None:
    before = network()
    assert up(machine, "launcher", "unis.runtime.steps:appending") == 1
    assert_was_killed(machine, "launcher")
    machine.unis("down", machine.name)
    assert_nothing_stays(machine, before)

"""Whatever is killed, the rest goes too, and the machine is as before."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.e2e.machine import UNIS, Machine, macswap
from unis.engine.client import EngineClient, EngineError
from unis.runtime.directory import run_directory


@pytest.mark.parametrize("victim", ["launcher", "unisd", "a"])
def test_a_killed_process_takes_the_run_with_it(machine: Machine, victim: str) -> None:
    machine.up(machine.chain_file({"a": macswap(), "b": macswap()}))
    machine.kill(machine.pid_of(victim))
    machine.wait_for(lambda: not machine.processes(), f"left after {victim} was killed")
    machine.assert_clean()


def test_functions_that_an_engine_held_back_do_not_stay(machine: Machine) -> None:
    """Killed, it can let go of nobody: all functions but one are stopped."""
    file = machine.chain_file({"a": macswap(), "b": macswap(), "c": macswap()})
    machine.up(file, "--controller", "signal")
    machine.kill(machine.pid_of("unisd"))
    machine.wait_for(lambda: not machine.processes(), "left by controller signal")
    machine.assert_clean()


def test_ctrl_c_takes_a_foreground_run_down(machine: Machine) -> None:
    file = machine.chain_file({"a": macswap(), "b": macswap()})
    with subprocess.Popen(
        [UNIS, "up", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        machine.wait_for(lambda: len(machine.processes()) >= 4, "the run comes up")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    machine.assert_clean()


def test_a_function_that_ends_at_once_is_told_with_its_last_words(machine: Machine) -> None:
    function = macswap(args=["--cost", "nonsense"])
    said = machine.unis("up", str(machine.chain_file({"a": function})), "--detach", code=2)
    assert "function a" in said
    assert "nonsense" in said
    machine.assert_clean()


def test_a_function_that_dies_before_a_settle_ends_the_run(machine: Machine) -> None:
    machine.up(machine.chain_file({"a": macswap(), "b": macswap()}))
    machine.kill(machine.pid_of("b"))
    account = machine.start("account", machine.name)
    account.communicate(timeout=60)
    assert account.returncode in (1, 2), "counted, refused or gone: but it ends"
    machine.wait_for(lambda: not machine.processes(), "left after b was killed")
    assert "function b (pid" in machine.unis("ps", machine.name)


def test_a_second_attach_is_refused_and_harms_nothing(machine: Machine) -> None:
    machine.up(machine.chain_file({"a": macswap(), "b": macswap()}))
    before = machine.ps()
    with EngineClient(run_directory(machine.name).socket) as client:
        with pytest.raises(EngineError) as caught:
            client.attach("a", before["functions"]["a"], lambda: None, seconds=5)
        assert "attached already" in str(caught.value)
    assert [it["scheduling"].split()[0] for it in machine.ps()["stats"]["functions"]] == [
        it["scheduling"].split()[0] for it in before["stats"]["functions"]
    ]
    delivered = before["stats"]["account"]["delivered"]
    machine.wait_for(
        lambda: bool(machine.ps()["stats"]["account"]["delivered"] > delivered), "it goes on"
    )


def settle_for_ever(socket: Path) -> None:
    """So that a signal comes while the engine counts."""
    with contextlib.suppress(EngineError), EngineClient(socket) as client:
        while True:
            client.settle()


def test_sigterm_to_the_engine_during_long_calls(machine: Machine) -> None:
    machine.up(machine.chain_file({"a": macswap(), "b": macswap()}))
    calls = [
        machine.start("trace", "-o", "t.json", "--seconds", "30", "--name", machine.name),
        machine.start("top", machine.name),
    ]
    pid = machine.pid_of("unisd")
    settling = threading.Thread(
        target=settle_for_ever, args=[run_directory(machine.name).socket], daemon=True
    )
    settling.start()
    time.sleep(1)  # until all wait for an answer
    os.kill(pid, signal.SIGTERM)
    machine.wait_for(lambda: not machine.processes(), "left after SIGTERM")
    for call in calls:
        call.communicate(timeout=60)
    settling.join(60)
    assert not settling.is_alive()
    machine.assert_clean()


@pytest.mark.parametrize("same_name", [True, False])
def test_two_at_once(machine: Machine, same_name: bool) -> None:
    """One runs, the other is refused with a sentence: they want the same CPU."""
    file = machine.chain_file({"a": macswap()})
    names = [machine.name, machine.name if same_name else f"{machine.name}-2"]
    both = [machine.start("up", str(file), "-d", "--name", name) for name in names]
    said = [process.communicate(timeout=90)[0] for process in both]
    for name in dict.fromkeys(names):
        if run_directory(name).path.exists():
            machine.unis("down", name)
    assert sorted(process.returncode for process in both) == [0, 1], said
    assert "Traceback" not in "".join(said)

"""Whatever is killed, the rest goes too, and the machine is as before."""

import signal
import subprocess

import pytest
from machine import UNIS, Machine, macswap


@pytest.mark.parametrize("victim", ["supervisor", "unisd", "a"])
def test_a_killed_process_takes_the_run_with_it(machine: Machine, victim: str) -> None:
    machine.up(machine.chain_file([macswap("a"), macswap("b")]))
    machine.kill(machine.pid_of(victim))
    machine.wait_for(lambda: not machine.processes(), f"left after {victim} was killed")
    machine.assert_clean()


def test_ctrl_c_takes_a_foreground_run_down(machine: Machine) -> None:
    file = machine.chain_file([macswap("a"), macswap("b")])
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
    function = macswap("a", args=["--cost", "nonsense"])
    said = machine.unis("up", str(machine.chain_file([function])), "--detach", code=2)
    assert "function a" in said
    assert "nonsense" in said
    machine.assert_clean()

"""What `unis profile chain` leaves: files where it ends by itself, else nothing."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.machine import Machine
from tests.e2e.test_profile_chain import chain_file, tracers
from unis.parts.result import ChainParts

_SHORT = {"rounds": 2, "window": "200ms"}
_LONG = ("--rounds", "1000", "--window", "0.2")
_TOLD = (0, 1)  # 1: the parts do not explain the latency, as where other programs disturb it
_INTERRUPTED = 130


def said_until(process: subprocess.Popen[str], words: str) -> str:
    """What a command says until a line has these words."""
    assert process.stdout
    said = ""
    for line in process.stdout:
        said += line
        if words in line:
            return said
    raise AssertionError(said)


def test_a_file_with_mode_profile_is_profiled_by_up(machine: Machine) -> None:
    functions = {"one": "light", "other": "light"}
    stated = {**_SHORT, "output": "found"}
    file = chain_file(machine, functions, mode="profile", profile=stated)
    said = machine.unis("up", str(file), codes=_TOLD)
    folder = file.parent / "found"
    assert str(folder / "profile.html") in said
    found = ChainParts.model_validate_json((folder / "profile.json").read_text())
    assert [function.name for function in found.functions] == ["one", "other"]
    page = (folder / "profile.html").read_text()
    assert ">one</text>" in page
    assert ">other</text>" in page
    assert tracers() == []
    machine.assert_clean()


@pytest.mark.parametrize("moment", ["starting", "pass at most", "round 2"])
def test_ctrl_c_leaves_nothing_and_says_so_in_a_line(
    moment: str, machine: Machine, tmp_path: Path
) -> None:
    file = chain_file(machine, {"only": "light"})
    process = machine.start("profile", "chain", str(file), "-o", str(tmp_path / "found"), *_LONG)
    said_until(process, moment)
    os.kill(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == _INTERRUPTED
    assert said.splitlines()[-1] == "interrupted"
    assert [*(tmp_path / "found").glob("*")] == []
    machine.wait_for(lambda: not tracers(), "the tracer is left")
    machine.assert_clean()


def test_ctrl_c_leaves_a_run_as_it_was(machine: Machine) -> None:
    machine.up(chain_file(machine, {"only": "light"}))
    process = machine.start("profile", "chain", machine.name, *_LONG)
    said_until(process, "round 2")
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == _INTERRUPTED
    machine.wait_for(lambda: not tracers(), "the tracer is left")
    assert machine.ps()["functions"]["only"]


def test_after_a_kill_down_cleans_up(machine: Machine) -> None:
    process = machine.start("profile", "chain", str(chain_file(machine, {"only": "light"})), *_LONG)
    said_until(process, "round 2")
    process.kill()
    process.communicate()
    machine.unis("down", machine.name)
    machine.wait_for(lambda: not tracers(), "the tracer is left")
    machine.assert_clean()

"""A launcher that was stopped, and whose run others have undone, touches no later one."""

import os
import signal
from pathlib import Path

import pytest

from tests.python.claiming import hugepages_there, plan, taken
from tests.python.spinning import SPIN, identity, process
from unis.cli import run_commands
from unis.runtime.directory import run_directory
from unis.runtime.errors import RunFailedError
from unis.runtime.interrupts import Interrupts
from unis.runtime.run import Options, Run
from unis.runtime.running import take_down
from unis.runtime.state import Phase

pytestmark = pytest.mark.system


@pytest.fixture(autouse=True)
def _hugepages(monkeypatch: pytest.MonkeyPatch) -> None:
    hugepages_there(monkeypatch)


def stopped(tmp_path: Path) -> Run:
    """A run whose notes are those of its claim."""
    run = Run(plan(tmp_path, "one", 1), Options(), print, Interrupts())
    run._state = taken(tmp_path, "one", 1)
    return run


def test_a_later_run_keeps_its_notes_and_its_log(tmp_path: Path) -> None:
    run = stopped(tmp_path)
    later = run.state.with_changes(run_id="later", phase=Phase.RUNNING)
    run.directory.write(later)
    with pytest.raises(RunFailedError, match="another process has cleaned up `one`"):
        run.record(phase=Phase.RUNNING)
    assert take_down(run, "unisd died") == (None, [])
    assert run.directory.read() == later
    assert not run.directory.event_log.exists()


def test_a_run_that_is_undone_stays_so(tmp_path: Path) -> None:
    run = stopped(tmp_path)
    undone = run.state.with_changes(phase=Phase.FAILED, reason="unisd died")
    run.directory.write(undone)
    with pytest.raises(RunFailedError, match="cleaned up"):
        run.record(phase=Phase.STOPPING)
    assert run.directory.read() == undone


def test_nothing_is_noted_on_what_was_never_claimed(tmp_path: Path) -> None:
    taken(tmp_path, "one", 1)
    Run(plan(tmp_path, "one", 1), Options(), print, Interrupts()).note("it failed")
    assert not run_directory("one").event_log.exists()


def test_down_ends_a_launcher_that_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_commands, "_DOWN_SECONDS", 5.0)
    with process(SPIN) as launcher:
        state = taken(tmp_path, "one", 1).with_changes(launcher=identity(launcher))
        run_directory("one").write(state)
        os.kill(launcher.pid, signal.SIGSTOP)
        os.waitpid(launcher.pid, os.WUNTRACED)  # till it is
        assert run_commands._down(run_directory("one"), state) == []
        assert launcher.wait(1) == -signal.SIGTERM


def test_down_ends_a_run_that_its_launcher_had_just_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under another id than that of the run that `down` was told of, and not undone."""
    directory = run_directory("one")
    with process(SPIN) as launcher:
        waits = taken(tmp_path, "one", 1).with_changes(
            launcher=identity(launcher), phase=Phase.FAILED, reason="unisd died", failures=1
        )
        directory.write(waits)

        def killed_in_the_middle(*_: object) -> None:
            directory.write(waits.with_changes(run_id="again", phase=Phase.STARTING))
            launcher.kill()
            launcher.wait(1)

        monkeypatch.setattr(run_commands, "_ask_launcher", killed_in_the_middle)
        assert waits.comes_again()
        assert run_commands._down(directory, waits) == []
    assert directory.read() is None

"""Several runs on one machine: what one has, another does not get, also when both come at once."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.python.claiming import claimed, hugepages_there, plan, taken
from tests.python.place import step
from unis import built
from unis.chain.model import Traffic
from unis.cli.app import app
from unis.plan.model import Plan
from unis.runtime import child, hugepages, interfaces, kernel_settings
from unis.runtime import directory as directory_module
from unis.runtime import running as running_module
from unis.runtime.claim import claim
from unis.runtime.directory import (
    RunDirectory,
    all_runs,
    base_directory,
    machine_lock,
    run_directory,
)
from unis.runtime.errors import (
    InterruptedRunError,
    LaunchError,
    NotAllowedError,
    RunTimeoutError,
)
from unis.runtime.files import appending
from unis.runtime.interrupts import interrupts
from unis.runtime.logs import ended
from unis.runtime.planning import others
from unis.runtime.privileges import Rights
from unis.runtime.process import ProcessId
from unis.runtime.run import Options
from unis.runtime.running import running
from unis.runtime.state import RUN_MARK, Phase, RunState

pytestmark = pytest.mark.system


@pytest.fixture(autouse=True)
def _hugepages(monkeypatch: pytest.MonkeyPatch) -> None:
    hugepages_there(monkeypatch)


def built_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("port_driver", "mmsg_driver", "port_plugin", "xdp_program"):
        monkeypatch.setattr(built, part, lambda: Path("/bin/true"))


def refused(tmp_path: Path, name: str, cpu: int, platform: int = 0, code: int = 1) -> str:
    with pytest.raises(LaunchError) as caught:
        claimed(plan(tmp_path, name, cpu, platform))
    assert caught.value.exit_code == code
    return str(caught.value)


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    taken(tmp_path, "one", 1)
    assert refused(tmp_path, "one", 2).startswith("`one` is already running")


@pytest.mark.parametrize(("cpu", "platform"), [(1, 3), (0, 3), (2, 1)])
def test_no_function_shares_a_cpu_with_another_run(tmp_path: Path, cpu: int, platform: int) -> None:
    taken(tmp_path, "one", 1, 0)
    assert "is in use by run `one`" in refused(tmp_path, "two", cpu, platform)


def test_an_interface_is_source_or_sink_of_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interfaces, "look_at", list)
    ends = {"source": {"kind": "interface", "interface": "eth1"}}
    traffic = Traffic.model_validate(ends)
    one, two = (replace(plan(tmp_path, name, at + 1), traffic=traffic)
                for at, name in enumerate(("one", "two")))  # fmt: skip
    assert claimed(one).interfaces == ["eth1"]
    with pytest.raises(LaunchError, match=r"eth1 is source or sink of run `one`: .*unis down one"):
        claimed(two)


def test_two_engines_may_share_a_cpu(tmp_path: Path) -> None:
    taken(tmp_path, "one", 1)
    taken(tmp_path, "two", 2)
    assert {other.name: set(other.cpus) for other in others()} == {"one": {1}, "two": {2}}


def test_hugepages_are_summed_over_runs_that_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = plan(tmp_path, "one", 1).hugepages_mb
    monkeypatch.setattr(hugepages, "free_mb", lambda: 2 * needed - 1)
    state = taken(tmp_path, "one", 1)
    said = refused(tmp_path, "two", 2)
    assert f"{needed} MB of them promised" in said
    run_directory("one").write(state.with_changes(phase=Phase.RUNNING))  # it has them now
    taken(tmp_path, "two", 2)


def test_too_few_hugepages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hugepages, "free_mb", lambda: 10)
    assert "10 MB of hugepages are free and" in refused(tmp_path, "one", 1)
    monkeypatch.setattr(hugepages, "directory", lambda: None)
    assert "are mounted: run `mkdir" in refused(tmp_path, "one", 1)


def test_without_root_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["/bin/true", "up", "my file.yaml"])
    assert "run `sudo /bin/true up 'my file.yaml'`" in refused(tmp_path, "one", 1, code=2)


def test_a_full_disk_is_told_and_leaves_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for module, name in ((directory_module, "write_atomically"), (shutil, "copyfile")):
        built_parts(monkeypatch)
        monkeypatch.setattr(module, name, full)
        with pytest.raises(LaunchError, match="No space left on device; is there room") as caught:
            start(plan(tmp_path, "one", 1))
        assert caught.value.exit_code == 1
        monkeypatch.undo()
        hugepages_there(monkeypatch)
        assert [state.phase for _, state in all_runs() if not state.undone()] == []


def test_a_signal_while_a_run_is_noted_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built_parts(monkeypatch)
    write = RunDirectory.write

    def interrupted(directory: RunDirectory, state: RunState) -> None:
        monkeypatch.setattr(RunDirectory, "write", write)
        write(directory, state)
        raise InterruptedRunError

    monkeypatch.setattr(RunDirectory, "write", interrupted)
    with pytest.raises(InterruptedRunError):
        start(plan(tmp_path, "one", 1))
    assert all_runs() == []


def start(plan: Plan) -> None:
    with interrupts() as switch, running(plan, Options(), print, switch):
        pass


def test_a_fault_of_ours_keeps_the_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("in a step")

    monkeypatch.setattr(running_module, "STEPS", [type("Broken", (), {"do": broken})()])
    built_parts(monkeypatch)
    with pytest.raises(ZeroDivisionError):
        start(plan(tmp_path, "one", 1))
    ((directory, state),) = all_runs()
    assert (state.phase, state.undone()) == (Phase.FAILED, True)
    assert "unis itself failed: ZeroDivisionError('in a step')" in state.reason
    assert "Traceback" in directory.event_log.read_text()


def test_a_stale_run_makes_room(tmp_path: Path) -> None:
    state = taken(tmp_path, "one", 1)
    dead = ProcessId(os.getpid(), 1)
    run_directory("one").write(state.with_changes(launcher=dead))
    told: list[str] = []
    claimed(plan(tmp_path, "two", 1), told.append)
    assert told == ["cleaning up after run `one`, whose launcher was killed"]
    assert [state.name for _, state in all_runs()] == ["two"]


@pytest.mark.parametrize(
    ("number", "error"),
    [(signal.SIGTERM, InterruptedRunError), (signal.SIGALRM, RunTimeoutError)],
)
def test_what_comes_while_a_stale_run_is_undone_counts_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[BaseException]
) -> None:
    """A step that was taken for one that failed would be left, and the new run come up."""
    run_directory("one").write(
        taken(tmp_path, "one", 1).with_changes(launcher=ProcessId(os.getpid(), 1))
    )
    finished: list[bool] = []

    def undo(*_: object) -> list[str]:
        monkeypatch.setattr(step("Traffic"), "undo", lambda *_: [])
        signal.raise_signal(number)
        finished.append(True)
        return []

    monkeypatch.setattr(step("Traffic"), "undo", undo)
    told: list[str] = []
    two = plan(tmp_path, "two", 1)
    with interrupts() as switch, pytest.raises(error), switch.within(60, "it did not run"):
        claim(two, run_directory("two"), Options(), told.append, switch)
    assert finished
    assert told == ["cleaning up after run `one`, whose launcher was killed"]
    assert all_runs() == [], "the old one is undone, the new one not begun"


def test_the_logs_of_a_start_that_failed_are_kept(tmp_path: Path) -> None:
    state = taken(tmp_path, "one", 1)
    directory = run_directory("one")
    directory.event_log.write_text("it died\n")
    directory.write(state.with_changes(phase=Phase.FAILED, reason="it died"))
    taken(tmp_path, "one", 1)
    assert directory.logs() == []
    assert [run.directory.event_log.read_text() for run in ended()] == ["it died\n"]


def test_a_run_that_cannot_be_undone_keeps_its_name_and_its_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = taken(tmp_path, "one", 1)
    run_directory("one").write(state.with_changes(launcher=ProcessId(os.getpid(), 1)))
    monkeypatch.setattr(step("Engine"), "undo", lambda *_: ["cannot remove x"])
    assert refused(tmp_path, "one", 2).startswith("the clean-up of the last `one` is")
    assert "CPU 1 is in use by run `one`" in refused(tmp_path, "two", 1)
    left = run_directory("one").read()
    assert left
    assert (left.run_id, left.problems) == (state.run_id, ["cannot remove x"])


def test_a_run_whose_notes_are_damaged_keeps_its_name(tmp_path: Path) -> None:
    taken(tmp_path, "one", 1)
    notes = run_directory("one").path / "state.json"
    notes.write_text("{")
    assert "the notes of run `one`" in refused(tmp_path, "one", 1)
    assert notes.read_text() == "{"


@pytest.mark.parametrize("more", [{"later": 1}, {"version": 2}, {"version": None}])
def test_nothing_is_claimed_beside_a_run_of_which_nobody_knows_what_it_has(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    """The run lives, and another version of unis wrote its state."""
    taken(tmp_path, "one", 1)
    notes = run_directory("one").path / "state.json"
    before = notes.read_text()
    notes.write_text(json.dumps({**json.loads(before), **more}))
    said = refused(tmp_path, "two", 1)
    assert "the notes of run `one`" in said
    assert "end it with the `unis` that started it" in said
    notes.write_text(before)
    assert "CPU 1 is in use by run `one`" in refused(tmp_path, "two", 1)
    taken(tmp_path, "three", 2)


def test_a_state_without_a_version_is_read(tmp_path: Path) -> None:
    state = taken(tmp_path, "one", 1)
    data = json.loads(state.text())
    assert data.pop("version") == 1
    assert RunState.parse(json.dumps(data)) == state


CLAIM = """
import sys, time
from pathlib import Path
from typing import Any
sys.path.insert(0, {clone!r})
from tests.python import claiming
from unis.runtime import claim as module, hugepages
from unis.runtime.errors import LaunchError
hugepages.directory = lambda: Path("/dev/hugepages")
hugepages.free_mb = lambda: 1000
original = module._require_no_clash
def slowly(*arguments):
    original(*arguments)
    time.sleep(0.3)
module._require_no_clash = slowly
plan = claiming.plan(Path({folder!r}), sys.argv[1], 1)
print("ready", flush=True)
sys.stdin.readline()
try:
    claiming.claimed(plan)
    print("claimed", flush=True)
except LaunchError as error:
    print(error, flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("names", [("one", "one"), ("one", "two")])
def test_of_two_at_once_one_is_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    """Each finds the CPU free, had it not to wait for the other."""
    code = CLAIM.format(clone=str(Path(__file__).parents[2]), folder=str(tmp_path))
    claimants = [
        subprocess.Popen(
            [sys.executable, "-c", code, name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )
        for name in names
    ]  # fmt: skip
    said: list[str] = []
    for word in ("", "go\n"):
        for claimant in claimants:
            assert claimant.stdin
            claimant.stdin.write(word)
        for claimant in claimants:
            assert claimant.stdout
            if word:
                said.append(claimant.stdout.readline())
            else:
                assert claimant.stdout.readline() == "ready\n"
    for claimant in claimants:
        claimant.communicate("end\n", timeout=30)
    assert sorted(line == "claimed\n" for line in said) == [False, True], said
    loser = next(line for line in said if line != "claimed\n")
    assert "already running" in loser or "in use by run" in loser


def test_the_lock_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    held = pytest.raises(LaunchError, match="another process has held")
    with machine_lock(), held, machine_lock(0.1):
        pass
    with machine_lock(10):  # it was let go
        pass
    assert (tmp_path / "run" / "lock").exists()


def test_nobody_else_may_hold_a_lock_or_read_a_log(tmp_path: Path) -> None:
    """The folder of a run with a `user:` may be entered by all."""
    taken(tmp_path, "one", 1)
    directory = run_directory("one")
    with appending(directory.event_log) as log:
        log.write(b"up\n")
    kernel_settings.ledger().mkdir()
    assert kernel_settings.restore() == []
    files = [base_directory() / "lock", directory.lock, directory.event_log]
    files += [directory.path / "state.json", kernel_settings.ledger()]
    assert [oct(file.stat().st_mode & 0o077) for file in files] == ["0o0"] * len(files)


def test_root_sees_nothing_of_the_environment_that_is_for_a_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "of root")
    log = tmp_path / "log"
    env = {"LD_PRELOAD": "/no/such.so", "DEPTH": "2"}
    one = child.start(
        "it", child.Command(["/usr/bin/env"], env=env, rights=Rights("nobody")), log, "one"
    )
    assert one.process.wait(10) == 0
    said = log.read_text()
    assert said.count("cannot be preloaded") == 1, "by the program itself alone"
    assert "SECRET" not in said
    for line in ("DEPTH=2", "USER=nobody", f"{RUN_MARK}=one"):
        assert line in said.splitlines()


def test_a_run_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    taken(tmp_path, "one", 1)
    run_directory("one").path.chmod(0o770)
    with pytest.raises(NotAllowedError, match="can be changed by another user"):
        all_runs()
    with pytest.raises(LaunchError, match="may be written by others"):
        RunDirectory(run_directory("one").path).make()
    run_directory("one").path.chmod(0o700)
    base_directory().chmod(0o777)
    with pytest.raises(LaunchError, match="may be written by others"), machine_lock():
        pass


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    taken(tmp_path, "one", 1)
    os.chown(run_directory("one").path, 1000, 1000)
    with pytest.raises(NotAllowedError, match="can be changed by another user"):
        all_runs()


def test_logs_of_root_are_not_taken_for_none(tmp_path: Path) -> None:
    taken(tmp_path, "one", 1)
    os.seteuid(65534)
    try:
        with pytest.raises(NotAllowedError, match="only root may look at run `one`"):
            run_directory("one").logs()
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".."])
def test_a_state_with_paths_for_names_is_none(tmp_path: Path, name: str) -> None:
    state = taken(tmp_path, "one", 1)
    text = state.text().replace('"unis-one"', f'"{name}"')
    with pytest.raises(ValueError, match=r".*"):
        RunState.parse(text)
    assert RunState.parse(state.text()) == state


def test_without_root_one_is_told_that_one_may_not_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that there is nothing to see."""
    taken(tmp_path, "one", 1)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    def refuse(_path: Path, **_: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    result = CliRunner().invoke(app, ["ps"])
    assert result.exit_code == 2
    assert "only root may look at run `one`" in result.output

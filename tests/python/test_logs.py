"""`unis logs`, and how logs outlast their run."""

import errno
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.python.claiming import plan
from tests.python.commands import run, stale_run
from unis.cli import logs_command
from unis.runtime import logs
from unis.runtime.child import Child
from unis.runtime.clean_up import clean_up
from unis.runtime.directory import RunDirectory
from unis.runtime.files import appending
from unis.runtime.interrupts import Interrupts
from unis.runtime.launched import LaunchedFunctions
from unis.runtime.logs import LOG_BYTES, shorten
from unis.runtime.process import ProcessId
from unis.runtime.run import Options, Run
from unis.runtime.state import Phase
from unis.runtime.supervisor import Supervisor


def test_logs_outlast_the_run(tmp_path: Path) -> None:
    directory = stale_run(tmp_path)
    directory.function_log("fw").write_text("hello\n")
    assert run("logs", "ghost", "fw") == (0, "hello\n")
    assert run("logs") == (0, "unis | 2026-01-01 it ran\nfw | hello\n")
    assert run("down", "ghost")[0] == 0
    assert run("logs", "ghost", "fw") == (0, "hello\n")
    assert run("logs", "ghost", "nat")[0] == 2
    assert json.loads(run("logs", "--list", "--json")[1])[0]["name"] == "ghost"


@pytest.mark.parametrize("call", ["stat", "open"])
def test_logs_that_move_while_they_are_looked_at_are_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    directory = stale_run(tmp_path)
    original = getattr(Path, call)

    def late(path: Path, *words: Any, **more: Any) -> Any:
        if path == directory.event_log:
            monkeypatch.setattr(Path, call, original)
            assert clean_up(directory, "one") == []
        return original(path, *words, **more)

    monkeypatch.setattr(Path, call, late)
    assert run("logs", "ghost") == (0, "2026-01-01 it ran\n")
    assert not directory.path.exists()


def test_the_last_run_is_the_one_that_ended_last(tmp_path: Path) -> None:
    failed = stale_run(tmp_path, "old", phase=Phase.FAILED, reason="why")
    failed.event_log.write_text("old\n")
    os.utime(failed.event_log, (1, 1))
    assert run("logs") == (0, "old\n")
    assert run("down", stale_run(tmp_path, "new").name)[0] == 0
    assert run("logs") == (0, "2026-01-01 it ran\n")
    live = stale_run(tmp_path, "live", launcher=ProcessId.me())
    live.event_log.write_text("live\n")
    os.utime(live.event_log, (1, 1))
    assert run("logs") == (0, "live\n")


def test_a_log_that_is_shortened_is_written_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with appending(log) as stream:
        for number in range(1000):
            stream.write(b"%04d\n" % number)
        stream.flush()
        shorten(log, 5000)
        assert log.stat().st_size == 5000
        stream.write(b"more\n")
        stream.flush()
        shorten(log, 5000)
        stream.write(b"last\n")
    said = log.read_text()
    assert said.splitlines()[0] == "unis: 3755 bytes before this were left out"
    assert said.endswith("0999\nmore\nlast\n")
    assert said.count("\n") == 1 + 250 + 1


def test_a_run_shortens_the_logs_of_its_functions(tmp_path: Path) -> None:
    one = Run(plan(tmp_path, "one", 1), Options(), print, Interrupts())
    directory = stale_run(tmp_path, "one")
    one._state = directory.read()
    log = directory.function_log("a")
    log.write_bytes(b"x" * (LOG_BYTES + 1))
    with subprocess.Popen(["sleep", "100"]) as sleeper:
        one.functions["a"] = Child("function a", sleeper, log)
        with Supervisor(one, LaunchedFunctions(one)) as supervisor:
            supervisor.wait(0.01)
        sleeper.kill()
    assert log.stat().st_size < LOG_BYTES / 2


def test_faults_that_come_again_at_every_look_are_told_once(tmp_path: Path) -> None:
    told: list[str] = []
    one = Run(plan(tmp_path, "one", 1), Options(), told.append, Interrupts())
    directory = stale_run(tmp_path, "one")
    one._state = directory.read()

    def look(failure: type[Exception]) -> None:
        for doing in ("looking after the run", "showing the run"):
            try:
                raise failure(doing)
            except failure:
                one.fault(doing)

    def traces() -> int:
        return directory.event_log.read_text().count("Traceback")

    for _ in range(3):
        look(ZeroDivisionError)
        assert len(told) == traces() == 2
    assert all("ZeroDivisionError" in line and "the run goes on" in line for line in told)
    look(ValueError)
    assert len(told) == traces() == 4


def test_who_follows_a_log_goes_on_at_its_new_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = stale_run(tmp_path, launcher=ProcessId.me())
    log = directory.event_log
    log.write_text("".join(f"{number:04}\n" for number in range(1000)))

    def later(_seconds: float) -> None:
        if log.stat().st_size == 5000:
            shorten(log, 4000)
            return
        assert log.read_text().count("new") == 0, "it was missed"
        with log.open("a") as stream:
            stream.write("new\n")

    monkeypatch.setattr(time, "sleep", later)
    with log.open() as stream:
        lines = logs_command._lines(directory, {log: stream}, follow=True)
        assert [next(lines)[1] for _ in range(1000)][-1] == "0999"
        assert next(lines) == (log, "new")


def test_logs_that_cannot_be_kept_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: RunDirectory, **_more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    directory = stale_run(tmp_path)
    directory.function_log("fw").write_text("hello\n")
    monkeypatch.setattr(logs, "keep", full)
    code, text = run("down", "ghost")
    assert code == 1
    assert f"cannot keep the logs of `ghost`, which stay in {directory.path}: " in text
    assert run("logs", "ghost", "fw") == (0, "hello\n")
    assert json.loads(run("ps", "--json")[1]) == []
    assert {path.suffix for path in directory.path.iterdir()} == {".log"}

"""`unis logs`, and how logs outlast their run."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.python.commands import run, stale_run
from unis.runtime.clean_up import clean_up
from unis.runtime.process import ProcessId
from unis.runtime.state import Phase

pytestmark = pytest.mark.usefixtures("own_runs")


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

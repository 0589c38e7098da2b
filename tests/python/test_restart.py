"""What is looked at before a chain is ended for another, and what the background is told."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.python.commands import busy_file, run, stale_run
from unis import built
from unis.cli import run_commands
from unis.plan.model import Plan
from unis.runtime import claim, hugepages, launcher


@pytest.mark.parametrize("command", ["up", "restart"])
def test_the_background_may_have_every_cpu_that_we_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    """Though we keep off those of a run that was killed, and that it will undo."""
    before = os.sched_getaffinity(0)
    stale_run(tmp_path)
    asked: list[set[int]] = []

    def start(_: Plan, cpus: Iterable[int], *__: object, **___: object) -> int:
        asked.append({*cpus})
        return 0

    monkeypatch.setattr(launcher, "start_detached", start)
    monkeypatch.setattr(claim, "require_room", lambda *_: None)
    file = busy_file(tmp_path)
    assert run(*(["up", file, "-d"] if command == "up" else ["restart"]))[0] == 0
    assert asked == [before]


def test_restart_ends_no_chain_for_one_that_cannot_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale_run(tmp_path, chain_file=str(busy_file(tmp_path, "/no/such")))
    monkeypatch.setattr(run_commands, "_down", lambda *_: pytest.fail("it was ended"))
    assert run("restart")[0] == 2


@pytest.mark.parametrize(("free", "code"), [(None, 2), (0, 1), (100, 0)])
def test_restart_ends_no_chain_whose_place_is_too_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int | None, code: int
) -> None:
    """What it holds itself is free by then; without a build nothing is."""
    if free is None:
        monkeypatch.setenv("UNIS_BUILD", str(tmp_path / "none"))
    else:
        monkeypatch.setattr(built, "find", lambda *_: Path("/bin/true"))
    directory = stale_run(tmp_path, chain_file=str(busy_file(tmp_path)), hugepages_mb=200)
    monkeypatch.setattr(hugepages, "directory", lambda: Path("/dev/hugepages"))
    monkeypatch.setattr(hugepages, "free_mb", lambda: free or 0)
    monkeypatch.setattr(launcher, "start_detached", lambda *_: 0)
    assert run("restart")[0] == code
    assert directory.path.exists() == (code != 0)

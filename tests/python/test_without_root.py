"""What plans and forecasts may be had by those who may not run them."""

import dataclasses
from pathlib import Path

import pytest

from tests.python.claiming import plan
from tests.python.commands import busy_file, run, stale_run
from unis.runtime.costs import known_costs
from unis.runtime.directory import RunDirectory
from unis.runtime.process import ProcessId


def test_a_plan_says_that_other_runs_could_not_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale_run(tmp_path, "other", launcher=ProcessId.me())

    def refuse(directory: RunDirectory) -> str:
        raise directory._not_allowed()

    monkeypatch.setattr(RunDirectory, "_parsed", refuse)
    code, text = run("config", busy_file(tmp_path))
    assert code == 0, text
    assert "not known here: only root may look at run `other`" in text


def test_the_cost_of_a_program_that_may_not_be_read_is_not_known(tmp_path: Path) -> None:
    one = plan(tmp_path, "one", 1)
    unread = dataclasses.replace(one.functions[0], program=tmp_path)  # root may read any file
    assert known_costs(dataclasses.replace(one, functions=(unread,))) == {}

"""`mode: profile` in a chain file: what `unis up` and `unis config` make of it."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from tests.python.commands import run
from tests.python.planned import small
from unis.chain.model import ChainFile
from unis.cli import profile_chain_command

_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(profile_chain_command.chain).parameters.items()
}
_STATED = {"load": 0.25, "rounds": 3, "window": "200ms", "hot": True, "output": "found"}


def file_of(folder: Path, **parts: object) -> Path:
    data = small(**parts)
    for function in data["functions"].values():
        function["program"] = "/bin/true"
    file = folder / "x.chain"
    file.write_text(json.dumps(data))
    return file


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `unis profile chain` is called with, which measures nothing here."""
    calls: list[Any] = []
    monkeypatch.setattr(
        profile_chain_command, "chain", lambda target, **more: calls.append((target, more))
    )
    return calls


def test_unis_up_profiles_the_chain_as_its_file_says(tmp_path: Path, asked: list[Any]) -> None:
    file = file_of(tmp_path, mode="profile", profile=_STATED)
    assert run("up", file)[0] == 0
    ((target, more),) = asked
    assert target == str(file)
    assert more == {
        "load": 0.25, "rounds": 3, "window": 0.2, "hot": True, "output": tmp_path / "found",
    }  # fmt: skip


def test_without_more_it_has_the_defaults_of_the_command(tmp_path: Path, asked: list[Any]) -> None:
    assert run("up", file_of(tmp_path, mode="profile"))[0] == 0
    assert asked[0][1].items() <= _DEFAULTS.items()


@pytest.mark.parametrize("option", ["--detach", "--wait", "--policy=rr", "--name=y"])
def test_options_of_a_run_are_refused(option: str, tmp_path: Path, asked: list[Any]) -> None:
    code, said = run("up", file_of(tmp_path, mode="profile"), option)
    assert code == 2
    assert "`mode: profile` takes no options of `unis up`" in said
    assert asked == []


@pytest.mark.parametrize("window", ["49ms", "61s", "5"])
def test_a_window_has_bounds(window: str, tmp_path: Path) -> None:
    code, said = run("config", file_of(tmp_path, profile={"window": window}))
    assert code == 2
    assert "profile.window: " in said


def test_config_says_what_will_be_measured(tmp_path: Path) -> None:
    _, said = run("config", file_of(tmp_path, mode="profile", profile=_STATED))
    assert "mode profile: `unis up` measures where the time of a packet goes, at 25%" in said
    assert f"written to {tmp_path / 'found'}" in said
    assert "mode profile" not in run("config", file_of(tmp_path, profile=_STATED))[1]


def test_a_file_runs_unless_it_says_otherwise() -> None:
    assert ChainFile.model_validate(small()).mode == "run"

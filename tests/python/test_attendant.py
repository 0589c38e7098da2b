"""The launcher of attached functions, when the engine cannot be asked just now."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from unis.engine.client import EngineError
from unis.runtime import attendant
from unis.runtime.attendant import Attendant
from unis.runtime.errors import LaunchError, RunFailedError
from unis.runtime.process import ProcessId
from unis.runtime.run import Run
from unis.runtime.state import FunctionProcess

DEAD = FunctionProcess("a", 1, ProcessId(pid=1, start_time=1))


def of(monkeypatch: pytest.MonkeyPatch, error: EngineError) -> tuple[Attendant, list[str]]:
    """One whose engine answers `error` the first time that a function shall be dropped."""
    errors, done = [error], list[str]()

    def drop(_self: Attendant, name: str, patience: float = 0.0) -> None:
        assert patience == 0.0, "it looks after others too"
        if errors:
            raise errors.pop()
        done.append(name)

    monkeypatch.setattr(Attendant, "_drop", drop)
    monkeypatch.setattr(attendant, "_AGAIN_SECONDS", 0.0)
    plan: Any = SimpleNamespace(engine=SimpleNamespace(joins=None), attached=["another"])
    return Attendant(cast("Run", SimpleNamespace(tell=done.append)), plan), done


@pytest.mark.parametrize(
    "why", [EngineError("it died", gone=True), EngineError("wait", grpc.StatusCode.ABORTED)]
)
def test_a_dead_function_is_let_go_of_at_the_next_look(
    monkeypatch: pytest.MonkeyPatch, why: EngineError
) -> None:
    one, done = of(monkeypatch, why)
    one._died_if_free(DEAD)
    assert done == []
    one._died_if_free(DEAD)
    assert done == ["a", "a (pid 1) has ended"]


def test_a_fault_of_ours_ends_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(attendant, "ControlSocket", lambda _: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(attendant, "_AGAIN_SECONDS", 0.0)
    looks = [ZeroDivisionError("one"), ZeroDivisionError("one"), RunFailedError("the end")]
    faults: list[str] = []

    def look(_self: Attendant, _control: object) -> None:
        raise looks.pop(0)

    monkeypatch.setattr(Attendant, "_look", look)
    run = SimpleNamespace(directory=SimpleNamespace(control=tmp_path), fault=faults.append)
    plan: Any = SimpleNamespace(engine=SimpleNamespace(joins=None), attached=["another"])
    with pytest.raises(RunFailedError, match="the end"):
        Attendant(cast("Run", run), plan).wait()
    assert len(faults) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "attach",
        {},
        {"pid": "many"},
        {"paths": [["ring:a"]]},
        {"unknown": 1},
        {"name": "a\0b"},
        {"paths": [["memif:x", "ring:b"]]},
    ],
)
def test_a_malformed_attach_request_is_refused(wrong: Any) -> None:
    asked = {
        "run": "r", "pid": os.getpid(), "name": "a", "cpu": 1, "paths": [["ring:a", "ring:b"]]
    }  # fmt: skip
    if isinstance(wrong, dict):
        wrong = {**asked, **wrong} if wrong else wrong
    plan: Any = SimpleNamespace(engine=SimpleNamespace(joins=None), attached=[], name="r")
    one = Attendant(cast("Run", SimpleNamespace(note=print)), plan)
    with pytest.raises(LaunchError, match="invalid"):
        one._answer({"what": "attach", "attach": wrong}, print)


def test_another_refusal_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = of(monkeypatch, EngineError("what is that"))
    with pytest.raises(EngineError, match="what is that"):
        one._died_if_free(DEAD)

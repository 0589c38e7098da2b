"""The launcher of attached functions, when the engine cannot be asked just now."""

from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from unis.engine.client import EngineError
from unis.runtime import attendant
from unis.runtime.attendant import Attendant
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


def test_another_refusal_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = of(monkeypatch, EngineError("what is that"))
    with pytest.raises(EngineError, match="what is that"):
        one._died_if_free(DEAD)

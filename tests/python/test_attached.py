"""Functions that somebody else started, when the engine cannot be asked just now."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest
import typer

from unis.cli.attach_commands import attach
from unis.engine.client import EngineError
from unis.plan.attached import AttachedFunction
from unis.runtime import attached as attached_module
from unis.runtime import supervisor as supervisor_module
from unis.runtime.attached import AttachedFunctions
from unis.runtime.errors import InterruptedRunError, LaunchError, RunFailedError
from unis.runtime.interrupts import Interrupts
from unis.runtime.process import ProcessId
from unis.runtime.requests import SupervisorRequest
from unis.runtime.run import Run
from unis.runtime.state import FunctionProcess
from unis.runtime.supervisor import Supervisor
from unis.v1 import supervisor_pb2 as pb

DEAD = FunctionProcess("a", 1, ProcessId(pid=1, start_time=1))


def of(monkeypatch: pytest.MonkeyPatch, error: EngineError) -> tuple[AttachedFunctions, list[str]]:
    """Those whose engine answers `error` the first time that a function shall be dropped."""
    errors, done = [error], list[str]()

    def drop(_self: AttachedFunctions, name: str, patience: float = 0.0) -> None:
        assert patience == 0.0, "it looks after others too"
        if errors:
            raise errors.pop()
        done.append(name)

    monkeypatch.setattr(AttachedFunctions, "_drop", drop)
    plan: Any = SimpleNamespace(engine=SimpleNamespace(joins=None), attached=["another"])
    run = SimpleNamespace(
        tell=done.append, guard=None, unisd=None, state=SimpleNamespace(functions=[DEAD])
    )
    return AttachedFunctions(cast("Run", run), plan), done


@pytest.mark.parametrize(
    "why", [EngineError("it died", gone=True), EngineError("wait", grpc.StatusCode.ABORTED)]
)
def test_a_dead_function_is_let_go_of_at_the_next_look(
    monkeypatch: pytest.MonkeyPatch, why: EngineError
) -> None:
    functions, done = of(monkeypatch, why)
    functions.reconcile()
    assert done == []
    assert functions.due() < 1
    functions.reconcile()
    assert done == ["a", "a (pid 1) has ended"]
    assert functions.due() > 1


def test_a_fault_of_ours_ends_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(supervisor_module, "_AGAIN_SECONDS", 0.0)
    looks = [ZeroDivisionError("one"), ZeroDivisionError("one"), RunFailedError("the end")]
    faults: list[str] = []

    def reconcile(_self: AttachedFunctions) -> None:
        raise looks.pop(0)

    monkeypatch.setattr(AttachedFunctions, "reconcile", reconcile)
    monkeypatch.setattr(Supervisor, "_look", lambda _: None)
    directory = SimpleNamespace(requests=lambda _: tmp_path / "x.sock")
    state = SimpleNamespace(run_id="one")
    run: Any = SimpleNamespace(
        directory=directory, state=state, fault=faults.append, switch=Interrupts()
    )
    plan: Any = SimpleNamespace(engine=SimpleNamespace(joins=None), attached=["another"])
    with (
        Supervisor(run, AttachedFunctions(run, plan)) as supervisor,
        pytest.raises(RunFailedError, match="the end"),
    ):
        supervisor.wait()
    assert len(faults) == 2


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": "a\0b"}, "invalid name"),
        ({"paths": [pb.AttachedPath(ingress="memif:x", egress="ring:b")]}, "invalid end"),
        ({"paths": [pb.AttachedPath(ingress="ring:a")]}, "invalid end"),
        ({"pid": 0}, "no process 0"),
        ({"pid": 2**32 - 1}, "no process"),
    ],
)
def test_a_malformed_attach_request_is_refused(wrong: dict[str, Any], why: str) -> None:
    path = pb.AttachedPath(ingress="ring:a", egress="ring:b")
    asked = {"pid": os.getpid(), "name": "a", "cpu": 1, "paths": [path], **wrong}
    plan: Any = SimpleNamespace(engine=SimpleNamespace(joins=None), attached=[], name="r")
    functions = AttachedFunctions(cast("Run", SimpleNamespace(note=print)), plan)
    with pytest.raises(LaunchError, match=why):
        functions.serve(SupervisorRequest("Attach", pb.AttachProcessRequest(**asked)))


def test_another_refusal_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    functions, _ = of(monkeypatch, EngineError("what is that"))
    with pytest.raises(EngineError, match="what is that"):
        functions.reconcile()


@pytest.mark.parametrize("why", [RunFailedError("unisd died"), InterruptedRunError("SIGINT")])
def test_an_attach_that_fails_says_why_and_one_that_is_interrupted_ends_at_once(
    monkeypatch: pytest.MonkeyPatch, why: BaseException
) -> None:
    """Also where nothing can be undone now. Where the run goes on that is tried again."""
    errors = [
        EngineError("unisd did not answer Apply within 10 s", gone=True),
        EngineError("no room", grpc.StatusCode.RESOURCE_EXHAUSTED),
    ]
    dropped: list[str] = []
    told: list[str] = []

    def fail(*_: object) -> None:
        raise why

    def drop(_self: AttachedFunctions, name: str, patience: float = 1.0) -> None:
        dropped.append(name)
        assert patience == (1.0 if len(dropped) == 1 else 0.0)
        if errors:
            raise errors.pop(0)

    function = AttachedFunction("a", os.getpid(), 1, None, ())
    for name, replaced in {
        "function_of": lambda _: function,
        "group_to_join": lambda _: None,
        **dict.fromkeys(("require_nobodys", "claim_more", "keep_off"), lambda *_: None),
    }.items():
        monkeypatch.setattr(attached_module, name, replaced)
    monkeypatch.setattr(AttachedFunctions, "_hold", fail)
    monkeypatch.setattr(AttachedFunctions, "_drop", drop)
    after = SimpleNamespace(disputed=list, cpus=[1])
    plan: Any = SimpleNamespace(
        engine=SimpleNamespace(joins=None), attached=[], name="r", cpus=[0], platform_cpus=[3],
        with_attached=lambda _: after,
    )  # fmt: skip
    living = FunctionProcess("a", 1, ProcessId.me())
    run = SimpleNamespace(
        record=lambda **_: None, plan=plan, tell=told.append, guard=None, unisd=None,
        deployment=str, client=SimpleNamespace(apply=lambda *_: None),
        state=SimpleNamespace(functions=[living], with_function=lambda one: [one]),
    )  # fmt: skip
    functions = AttachedFunctions(cast("Run", run), plan)
    with pytest.raises(type(why), match=str(why)):
        functions.attach(pb.AttachProcessRequest(pid=os.getpid()))
    if isinstance(why, InterruptedRunError):
        assert not dropped
        return
    assert run.plan is plan, "another unisd does not adopt it"
    functions.reconcile()
    assert functions.due() < 1
    functions.reconcile()
    assert functions.due() > 1
    assert dropped == ["a"] * 3
    assert told == [
        "cannot detach a yet: unisd did not answer Apply within 10 s", "a is detached"
    ]  # fmt: skip


def test_the_cpu_of_the_scheduler_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function = SimpleNamespace(name="b", pid=os.getpid(), cpu=1)
    monkeypatch.setattr(attached_module, "function_of", lambda _: function)
    plan: Any = SimpleNamespace(
        engine=SimpleNamespace(joins=None), name="r", cpus=[0], platform_cpus=[1]
    )
    functions = AttachedFunctions(cast("Run", SimpleNamespace()), plan)
    with pytest.raises(LaunchError, match="CPU 1 is the scheduler's of run `r`") as told:
        functions.attach(pb.AttachProcessRequest(pid=os.getpid()))
    assert "give --cpu 0, or `unis down r`" in str(told.value)


def test_how_users_write_it() -> None:
    for text in ("eth1", "unis28ce180ea", "br-lan.3"):
        found = attached_module.END.fullmatch(text)
        assert found
        assert found["interface"] == text
    for text in ("memif", "memif:3", "ring:a"):
        found = attached_module.END.fullmatch(text)
        assert found
        assert found["interface"] is None
    assert not any(
        map(attached_module.END.fullmatch, ("memif:x", "a/b", "", "sixteen-letters-", "a b"))
    )


@pytest.mark.parametrize(
    ("ports", "mend"),
    [
        ([], "wait till it has opened its ports, or name its rings by --ingress ring:NAME"),
        (["eth1", "eth2", "memif:0"], "has eth1, eth2, memif:0: state its ways by --ingress"),
    ],
)
def test_what_to_do_where_the_ways_through_it_are_not_found(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ports: list[str],
    mend: str,
) -> None:
    monkeypatch.setattr(attached_module, "ports_of", lambda _pid: ports)
    with pytest.raises(typer.Exit):
        attach(os.getpid(), 0)
    assert mend in " ".join(capsys.readouterr().err.split())

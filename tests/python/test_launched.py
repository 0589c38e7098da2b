"""What the launcher does when a function dies, with an engine that only answers."""

import errno
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.python.commands import stale_run
from unis.chain.load import load
from unis.engine import names
from unis.engine.client import EngineClient, EngineError
from unis.plan.machine import Machine
from unis.plan.planner import make_plan
from unis.runtime import launched as launched_module
from unis.runtime import supervisor as module
from unis.runtime.child import Child
from unis.runtime.directory import RunDirectory
from unis.runtime.errors import LaunchError, RunFailedError, RunTimeoutError
from unis.runtime.functions import end_functions
from unis.runtime.interrupts import Interrupts, interrupts
from unis.runtime.launched import LaunchedFunctions
from unis.runtime.planning import places
from unis.runtime.process import ProcessId
from unis.runtime.run import Options, Run
from unis.runtime.state import FunctionProcess, Phase
from unis.runtime.steps import start_guard
from unis.runtime.supervisor import Supervisor
from unis.v1 import engine_pb2 as pb

FILE = """
apiVersion: unis/v1
name: two
platform: {cpus: [0]}
functions:
  a: {program: /bin/true, cpu: 1, restart: on-failure}
  b: {program: /bin/true, cpu: 1}
chains:
  c: {path: [a], match: [{dst_port: 53}]}
  d: {path: [b]}
"""


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def run(tmp_path: Path, told: list[str]) -> Iterator[Run]:
    """Two functions run, `a` has just been killed."""
    file = tmp_path / "two.yaml"
    file.write_text(FILE)
    plan = make_plan(load(file), Machine(frozenset({0, 1})), [], places)
    run = Run(plan, Options(), told.append, Interrupts())
    directory = stale_run(tmp_path, "two", phase=Phase.RUNNING, launcher=ProcessId.me())
    run._state = directory.read()
    processes = [subprocess.Popen(["sleep", "100"]) for _ in "ab"]
    try:
        for name, process in zip("ab", processes, strict=True):
            run.functions[name] = Child(f"function {name}", process, directory.function_log(name))
            identity = ProcessId.of(process.pid)
            assert identity
            noted = FunctionProcess(name, 1, identity)
            run.record(functions=run.state.with_function(noted))
        processes[0].kill()
        processes[0].wait()
        yield run
    finally:
        for process in processes:
            process.kill()
            process.wait()


def supervised(run: Run) -> Supervisor:
    return Supervisor(run, LaunchedFunctions(run))


def let_go(monkeypatch: pytest.MonkeyPatch, error: EngineError | None = None) -> list[str]:
    """The calls of Detach, which are answered with `error`."""
    calls: list[str] = []

    def detach(_: EngineClient, function: str, *_args: Any, **_more: Any) -> None:
        calls.append(function)
        if error:
            raise error

    monkeypatch.setattr(EngineClient, "detach", detach)
    return calls


def test_notes_that_cannot_be_written_end_no_run(
    run: Run, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are written as soon as there is room."""
    let_go(monkeypatch)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.05)
    with monkeypatch.context() as full, supervised(run) as supervisor:

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        full.setattr(RunDirectory, "write", refuse)
        supervisor.wait(0.3)
        assert sum("No space left on device" in line for line in told) == 1, told
        assert any("a restarts in" in line for line in told), told
        noted = run.directory.read()
        assert noted
        assert noted.functions[0].ended == ""
        full.undo()
        supervisor.wait(0.3)
    noted = run.directory.read()
    assert noted
    assert noted.functions[0].ended
    assert "b" in run.functions


def test_a_policy_that_is_set_counts_though_it_cannot_be_written(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(EngineClient, "set_policy", lambda *_: None)
    monkeypatch.setattr(RunDirectory, "write", refuse)
    run.set_policy(pb.PolicyRequest(policy=names.policy("rr")))
    assert run.options.policy == "rr"
    assert run.state.policy == "rr"


def test_no_run_ends_because_a_line_cannot_be_told(run: Run) -> None:
    def refuse(_: str) -> None:
        raise OSError(errno.EIO, "the terminal is gone")

    run.report = refuse
    run.tell("a died")
    assert "a died" in run.directory.event_log.read_text()


def test_a_run_that_others_have_undone_ends(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    let_go(monkeypatch)
    run.directory.write(run.state.with_changes(phase=Phase.FAILED, reason="unisd died"))
    with (
        supervised(run) as supervisor,
        pytest.raises(RunFailedError, match="another process has cleaned up `two`"),
    ):
        supervisor.wait(1.0)


def test_a_busy_engine_is_not_asked_all_the_time(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = let_go(monkeypatch, EngineError("busy", grpc.StatusCode.ABORTED))
    with supervised(run) as supervisor:
        supervisor.wait(0.35)
    assert 2 <= len(calls) <= 8, "ten times a second, and once more when the function dies"


def test_a_time_out_during_a_restart_ends_the_run(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go(monkeypatch)
    monkeypatch.setattr("unis.runtime.functions.Backoff.after", lambda *_: 0.0)

    def start(*_: object, **_more: object) -> None:
        signal.raise_signal(signal.SIGALRM)

    monkeypatch.setattr(launched_module, "start_functions", start)
    with (
        interrupts() as switch,
        supervised(run) as supervisor,
        pytest.raises(RunTimeoutError, match="`two` did not come up within 60 s"),
        switch.within(60, "`two` did not come up"),
    ):
        supervisor.wait(1.0)


@pytest.mark.parametrize("failing", [1, 2], ids=["as it is ended", "as its restart has failed"])
def test_a_function_comes_again_whatever_fails_before(
    run: Run, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    let_go(monkeypatch)
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr("unis.runtime.functions.Backoff.after", lambda *_: 0.0)
    dead = run.functions["a"]
    ends: list[str] = []
    starts: list[str] = []

    def end(run: Run, names: list[str], **more: Any) -> list[str]:
        problems = end_functions(run, names, **more)
        ends.extend(names)
        if len(ends) == failing:
            raise OSError(errno.EIO, "a folder cannot be removed")
        return problems

    def start(run: Run, functions: list[Any], **_: object) -> None:
        starts.extend(function.name for function in functions)
        if len(starts) == 1:
            run.functions["a"] = dead
            raise LaunchError("it does not start")

    monkeypatch.setattr(launched_module, "end_functions", end)
    monkeypatch.setattr(launched_module, "start_functions", start)
    with supervised(run) as supervisor:
        supervisor.wait(0.5)
    assert starts == ["a", "a"]


def test_a_guard_that_cannot_be_started_is_no_fault_of_ours(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **_more: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(subprocess, "Popen", fail)
    with pytest.raises(LaunchError, match=r"cannot start the guard, .*: Cannot allocate") as raised:
        start_guard(run)
    assert not raised.value.bad_input

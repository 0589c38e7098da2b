"""How a supervisor is asked, and answers."""

import errno
import json
import os
import pkgutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from unis.engine import names
from unis.plan.difference import Change, Difference
from unis.runtime import requests
from unis.runtime.errors import InterruptedRunError, LaunchError
from unis.runtime.interrupts import interrupts
from unis.runtime.requests import RequestServer, SupervisorClient, SupervisorRequest
from unis.runtime.supervisor import Supervisor
from unis.signals import blocked
from unis.v1 import engine_pb2
from unis.v1 import supervisor_pb2 as pb

SECONDS = 20.0
POLICY = engine_pb2.PolicyRequest(policy=names.policy("rr"))


class Answering:
    """A server, and a thread in the place of the supervisor's loop."""

    def __init__(self, path: Path, do: Callable[[SupervisorRequest], Message]) -> None:
        self.server = RequestServer(path)
        self.noted: list[str] = []
        self._do = do
        self._over = threading.Event()
        self._loop = threading.Thread(target=self._run, daemon=True)
        self._loop.start()

    def _run(self) -> None:
        while not self._over.wait(0.005):
            if request := self.server.take():
                request.serve(self._do, self.noted.append)

    def close(self) -> None:
        self._over.set()
        self._loop.join(SECONDS)
        self.server.close()


Answer = Callable[[Callable[[SupervisorRequest], Message]], Answering]


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Answer]:
    made: list[Answering] = []

    def make(do: Callable[[SupervisorRequest], Message]) -> Answering:
        made.append(Answering(tmp_path / "a.sock", do))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_lines_come_before_the_result(answering: Answer, tmp_path: Path) -> None:
    """The result has every key, also of what is empty: `unis apply --json` prints it."""
    steps = Difference((Change("chain", "c", "added", ("why",)),), started=("a",))

    def do(request: SupervisorRequest) -> Message:
        assert request.message.file == "x.yaml"
        request.say("one")
        request.say("two")
        told = ParseDict(steps.as_dict(), pb.Difference())
        return pb.ApplyFileReply(result=pb.ApplyFileResult(difference=told, seconds=2))

    answering(do)
    said: list[str] = []
    with SupervisorClient(tmp_path / "a.sock") as client:
        result = client.apply(pb.ApplyFileRequest(file="x.yaml"), said.append)
    assert said == ["one", "two"]
    difference = json.loads(json.dumps(steps.as_dict()))
    assert result == {"difference": difference, "notes": [], "applied": False, "seconds": 2.0}


@pytest.mark.parametrize("bad_input", [True, False])
def test_a_refusal_keeps_its_sentence(
    answering: Answer, tmp_path: Path, *, bad_input: bool
) -> None:
    words = "the last words\n" * 3000  # of a program: more than headers hold as gRPC has them

    def do(_: SupervisorRequest) -> Message:
        raise LaunchError(words, bad_input=bad_input)

    answering(do)
    with SupervisorClient(tmp_path / "a.sock") as client, pytest.raises(LaunchError) as caught:
        client.set_policy(POLICY)
    assert str(caught.value) == words
    assert caught.value.bad_input == bad_input


def test_a_fault_of_ours_is_answered_and_logged(answering: Answer, tmp_path: Path) -> None:
    def do(_: SupervisorRequest) -> Message:
        raise ZeroDivisionError("by zero")

    one = answering(do)
    with SupervisorClient(tmp_path / "a.sock") as client, pytest.raises(LaunchError) as caught:
        client.detach("a")
    assert "internal error: ZeroDivisionError('by zero')" in str(caught.value)
    assert not caught.value.bad_input
    assert "Traceback" in one.noted[0]


def test_one_request_after_the_other(answering: Answer, tmp_path: Path) -> None:
    running: list[int] = []

    def do(_: SupervisorRequest) -> Message:
        running.append(1)
        assert len(running) == 1
        threading.Event().wait(0.02)
        running.pop()
        return engine_pb2.Empty()

    one = answering(do)

    def ask() -> None:
        with SupervisorClient(tmp_path / "a.sock") as client:
            client.set_policy(POLICY)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    assert one.noted == []


def test_who_waits_when_the_supervisor_ends_is_told(tmp_path: Path) -> None:
    server = RequestServer(tmp_path / "a.sock")
    errors: list[str] = []

    def ask() -> None:
        with SupervisorClient(tmp_path / "a.sock") as client:
            try:
                client.set_policy(POLICY)
            except LaunchError as error:
                errors.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    while not server.take():
        threading.Event().wait(0.01)
    server.close()
    thread.join(SECONDS)
    assert errors == ["the launcher ended before it answered; see `unis ps`"]


def test_nobody_listens(tmp_path: Path) -> None:
    with (
        SupervisorClient(tmp_path / "none.sock") as client,
        pytest.raises(LaunchError, match="takes no changes") as caught,
    ):
        client.detach("a")
    assert not caught.value.bad_input


def test_a_request_that_comes_as_the_supervisor_ends_is_told(tmp_path: Path) -> None:
    class Context:
        def abort(self, code: grpc.StatusCode, _why: str) -> None:
            raise LaunchError(code.name)

    server = RequestServer(tmp_path / "a.sock")
    server.close()
    context: Any = Context()
    with pytest.raises(LaunchError, match="UNAVAILABLE"):
        list(server.Apply(pb.ApplyFileRequest(), context))


@pytest.mark.parametrize("where", ["os.eventfd", "pathlib.Path.chmod", "grpc._server._start"])
def test_a_signal_while_it_begins_to_listen_leaves_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def signalled(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return begin(*arguments)

    path = tmp_path / "a.sock"
    begin = pkgutil.resolve_name(where)
    monkeypatch.setattr(where, signalled)
    with interrupts(), pytest.raises(InterruptedRunError):
        RequestServer(path)
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(OSError, match=r"refused|No such"):
        client.connect(str(path))


def test_a_signal_as_the_supervisor_ends_does_not_keep_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def blocked_late() -> Any:
        signal.raise_signal(signal.SIGTERM)
        return blocked()

    path = tmp_path / "a.sock"
    with interrupts() as switch:
        run: Any = SimpleNamespace(
            directory=SimpleNamespace(requests=lambda _: path),
            state=SimpleNamespace(run_id="one"), switch=switch,
        )  # fmt: skip
        functions: Any = None
        with Supervisor(run, functions):
            monkeypatch.setattr(requests, "blocked", blocked_late)
        assert switch.heard()
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(OSError, match=r"refused|No such"):
        client.connect(str(path))


def test_a_first_step_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "eventfd", fail)
    with pytest.raises(LaunchError, match="Too many open files"):
        RequestServer(tmp_path / "a.sock")


def test_where_no_thread_can_be_started_it_fails_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(LaunchError, match="can't start new thread"):
            RequestServer(tmp_path / "a.sock")
    server = RequestServer(tmp_path / "b.sock")
    monkeypatch.setattr(threading.Thread, "start", start)
    server.close()

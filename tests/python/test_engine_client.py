"""What the client makes of the engine's answers, over a real Unix socket."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from tests.python.signalling import taken_by_another_thread
from unis.engine.client import EngineClient, EngineError
from unis.runtime.errors import InterruptedRunError, RunFailedError
from unis.runtime.interrupts import interrupts
from unis.runtime.requests import SupervisorClient
from unis.v1 import common_pb2, traffic_pb2
from unis.v1 import engine_pb2 as pb

REFUSED = (("unisd", "refused"),)  # as the engine marks what it says itself
FULL = "rings are full; drain them"
NO_PORT = "function a does not poll; does it use the port it is given?"


class Answers(grpc.GenericRpcHandler):
    """Refuses SetPolicy with a given code, answers GetStats and Watch, measures policy rr whatever
    is asked for, and a second at the rate asked for, half of it lost where arrivals are poisson;
    Attach is refused when its own time is over.
    """

    def __init__(self, code: grpc.StatusCode) -> None:
        self.code = code

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        def refuse(_request: bytes, context: grpc.ServicerContext) -> bytes:
            context.set_trailing_metadata(REFUSED)
            context.abort(self.code, FULL)

        def answer(_request: bytes, _context: grpc.ServicerContext) -> bytes:
            return pb.Stats(decisions=7).SerializeToString()

        def wait(request: bytes, context: grpc.ServicerContext) -> bytes:
            end = time.monotonic() + pb.AttachRequest.FromString(request).timeout_ns / 1e9
            while context.is_active() and time.monotonic() < end:
                time.sleep(0.01)
            context.set_trailing_metadata(REFUSED)
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, NO_PORT)

        def measure(request: bytes, _context: grpc.ServicerContext) -> bytes:
            asked = pb.MeasureRequest.FromString(request)
            offered = round(asked.pps) if asked.HasField("pps") else 1
            lost = offered // 2 if asked.arrivals == traffic_pb2.ARRIVALS_POISSON else 0
            reply = pb.MeasureReply(
                policy=common_pb2.POLICY_RR,
                controller=pb.CONTROLLER_PRIORITY,
                offered=offered,
                delivered=offered - lost,
                dropped=lost,
                scheduler=asked.scheduler if asked.HasField("scheduler") and not lost else None,
            )
            return reply.SerializeToString()

        def watch(_request: bytes, _context: grpc.ServicerContext) -> Iterator[bytes]:
            for decisions in (1, 2, 3):
                yield pb.Stats(decisions=decisions).SerializeToString()

        methods = {
            "SetPolicy": refuse,
            "Detach": refuse,
            "GetStats": answer,
            "Attach": wait,
            "Measure": measure,
        }
        name = handler_call_details.method.rpartition("/")[2]
        if name == "Watch":
            return grpc.unary_stream_rpc_method_handler(watch)
        assert handler_call_details.method == f"/unis.v1.Engine/{name}"
        return grpc.unary_unary_rpc_method_handler(methods[name]) if name in methods else None


@pytest.fixture
def socket(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    code = getattr(request, "param", grpc.StatusCode.INTERNAL)
    server = grpc.server(ThreadPoolExecutor(2), handlers=[Answers(code)])
    path = tmp_path / "engine.sock"
    server.add_insecure_port(f"unix:{path}")
    server.start()
    yield path
    server.stop(0).wait()


@pytest.mark.parametrize("socket", [*grpc.StatusCode][1:], indirect=True)
def test_only_an_invalid_argument_is_bad_input_and_only_aborted_is_busy(
    socket: Path, request: pytest.FixtureRequest
) -> None:
    code = request.node.callspec.params["socket"]
    with EngineClient(socket) as client, pytest.raises(EngineError) as caught:
        client.set_policy(common_pb2.POLICY_RR)
    assert str(caught.value) == FULL
    assert caught.value.exit_code == (2 if code == grpc.StatusCode.INVALID_ARGUMENT else 1)
    assert caught.value.busy == (code == grpc.StatusCode.ABORTED)
    assert not caught.value.gone, "it has just answered"


@pytest.mark.parametrize("socket", [grpc.StatusCode.ABORTED], indirect=True)
def test_a_busy_engine_is_asked_again(socket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr("unis.engine.client.time.sleep", asked.append)
    with EngineClient(socket) as client, pytest.raises(EngineError, match=FULL):
        client.detach("a", patience=0.2)
    assert asked, "it was asked once only"


def test_answers_arrive(socket: Path) -> None:
    with EngineClient(socket) as client:
        client.wait_ready(10, lambda: None)
        assert client.stats().decisions == 7


def test_a_method_that_the_engine_lacks(socket: Path) -> None:
    with EngineClient(socket) as client, pytest.raises(EngineError, match="Method not found"):
        client.trace(0.01)


@pytest.mark.timeout(30, method="thread")  # a channel that is spoilt does not even close
@pytest.mark.parametrize("raise_signal", [signal.raise_signal, taken_by_another_thread])
def test_a_signal_while_a_call_begins_spoils_no_later_call(
    socket: Path, monkeypatch: pytest.MonkeyPatch, raise_signal: Callable[[int], None]
) -> None:
    """gRPC starts a thread for the first call under way, and counts on it afterwards.

    The other thread is of the server: they block no signal.
    """
    start = threading.Thread.start

    def signalled(thread: threading.Thread) -> None:
        if threading.current_thread() is threading.main_thread():  # not of the server beside us
            monkeypatch.undo()
            raise_signal(signal.SIGTERM)
        start(thread)

    with EngineClient(socket) as client, interrupts() as switch:
        client.wait_ready(10, lambda: None)
        monkeypatch.setattr(threading.Thread, "start", signalled)
        with pytest.raises(InterruptedRunError):
            client.stats()
        assert switch.heard()
        assert client.stats().decisions == 7


@pytest.mark.parametrize("make", [EngineClient, SupervisorClient])
def test_a_signal_does_not_cut_the_end_of_a_channel_in_two(
    socket: Path, make: type[EngineClient | SupervisorClient]
) -> None:
    closed: list[bool] = []

    def work() -> None:
        with make(socket) as client:
            client._channel = channel(client._channel)

    def channel(real: grpc.Channel) -> Any:
        def close() -> None:
            signal.raise_signal(signal.SIGTERM)
            real.close()
            closed.append(True)

        return SimpleNamespace(close=close)

    with interrupts(), pytest.raises(InterruptedRunError):
        work()
    assert closed


@pytest.mark.parametrize(
    "call",
    [
        "from unis.engine.client import EngineClient as Client; Client(path).stats()",
        "from unis.runtime.requests import SupervisorClient as Client; Client(path).detach('a')",
    ],
)
def test_threads_of_grpc_take_no_signal(tmp_path: Path, call: str) -> None:
    """Else the kernel has them take what a call blocks, for its handler to run amid that call."""
    code = f"""
import socket, sys
from pathlib import Path
from unis.errors import UnisError
from unis.signals import ENDING
import contextlib, signal
def statuses():
    for status in Path("/proc/self/task").glob("*/status"):
        with contextlib.suppress(OSError):  # the thread has just ended
            yield status.read_text()
numbers = (*ENDING, signal.SIGALRM)
path = Path(sys.argv[1])
with socket.socket(socket.AF_UNIX) as nobody:
    nobody.bind(str(path))  # and does not listen
    try:
        {call}
    except UnisError:
        pass
    masks = [
        int(line.split()[1], 16)
        for status in statuses()
        for line in status.splitlines()
        if line.startswith("SigBlk")
    ]
    print(len(masks) > 1, sum(not mask >> (number - 1) & 1 for mask in masks for number in numbers))
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, tmp_path / "a.sock"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["True", "4"], done.stdout + done.stderr  # the main thread's own


def test_nobody_answers(tmp_path: Path) -> None:
    with EngineClient(tmp_path / "none.sock") as client:
        with pytest.raises(EngineError, match="unisd does not answer on") as caught:
            client.stats()
        assert caught.value.gone
        with pytest.raises(EngineError, match=r"did not answer on .* within 0 s"):
            client.wait_ready(0, lambda: None)


def test_waiting_ends_when_the_function_dies(socket: Path) -> None:
    def dead() -> None:
        raise RunFailedError("function a died")

    with EngineClient(socket) as client, pytest.raises(RunFailedError, match="function a died"):
        client.attach("a", 1, dead)


def test_the_engines_own_words_come_before_the_deadline_of_the_client(socket: Path) -> None:
    with EngineClient(socket) as client, pytest.raises(EngineError) as caught:
        client.attach("a", 2, lambda: None, seconds=0.2)
    assert str(caught.value) == NO_PORT


def a_window(
    policy: common_pb2.Policy = common_pb2.POLICY_RR,
    controller: pb.ControllerKind = pb.CONTROLLER_PRIORITY,
    **more: Any,
) -> pb.MeasureRequest:
    return pb.MeasureRequest(policy=policy, controller=controller, window_ns=1_000_000, **more)


def test_what_was_measured_is_held_against_what_was_asked_for(socket: Path) -> None:
    with EngineClient(socket) as client:
        reply = client.measure(a_window())
        assert reply.delivered == 1
        with pytest.raises(EngineError, match="policy unis was to be measured"):
            client.measure(a_window(policy=common_pb2.POLICY_UNIS))
        with pytest.raises(EngineError, match="controller signal was to be measured"):
            client.measure(a_window(controller=pb.CONTROLLER_SIGNAL))


def test_a_measurement_may_have_a_rate_of_its_own(socket: Path) -> None:
    with EngineClient(socket) as client:
        assert client.measure(a_window(pps=1000)).delivered == 1000
        poisson = a_window(pps=1000, arrivals=traffic_pb2.ARRIVALS_POISSON)
        assert client.measure(poisson).dropped == 500


def test_a_measurement_may_have_settings_of_its_own(socket: Path) -> None:
    settings = common_pb2.SchedulerSettings(gamma=0.5)
    with EngineClient(socket) as client:
        own = a_window(pps=1000, scheduler=settings)
        assert client.measure(own).scheduler.gamma == 0.5
        own.arrivals = traffic_pb2.ARRIVALS_POISSON
        with pytest.raises(EngineError, match=r"gamma: 0\.5"):
            client.measure(own)


def test_watching_ends_with_the_run(socket: Path) -> None:
    with EngineClient(socket) as client:
        assert [stats.decisions for stats in client.watch(1)] == [1, 2, 3]


def test_watching_nobody(tmp_path: Path) -> None:
    with (
        EngineClient(tmp_path / "none.sock") as client,
        pytest.raises(EngineError, match="does not answer"),
    ):
        next(client.watch(1))

"""What the client makes of the engine's answers, over a real Unix socket."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from unis.chain.model import Function
from unis.engine.client import EngineClient, EngineError
from unis.launch import nf
from unis.launch.errors import RunFailedError
from unis.v1 import engine_pb2 as pb


class Answers(grpc.GenericRpcHandler):
    """Refuses SetPolicy with a given code, answers GetStats, never answers Attach."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self.code = code

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        def refuse(_request: bytes, context: grpc.ServicerContext) -> bytes:
            context.abort(self.code, "rings are full; drain them")

        def answer(_request: bytes, _context: grpc.ServicerContext) -> bytes:
            return pb.Stats(ticks=7).SerializeToString()

        def hang(_request: bytes, context: grpc.ServicerContext) -> bytes:
            while context.is_active():
                pass
            return b""

        methods = {"SetPolicy": refuse, "GetStats": answer, "Attach": hang}
        name = handler_call_details.method.rpartition("/")[2]
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


@pytest.mark.parametrize(
    ("socket", "mendable"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, True),
        (grpc.StatusCode.FAILED_PRECONDITION, True),
        (grpc.StatusCode.PERMISSION_DENIED, True),
        (grpc.StatusCode.INTERNAL, False),
    ],
    indirect=["socket"],
)
def test_the_engines_sentence_arrives(socket: Path, mendable: bool) -> None:
    with EngineClient(socket) as client, pytest.raises(EngineError) as caught:
        client.set_policy(pb.POLICY_RR)
    assert str(caught.value) == "rings are full; drain them"
    assert caught.value.exit_code == (2 if mendable else 1)


def test_answers_arrive(socket: Path) -> None:
    with EngineClient(socket) as client:
        client.wait_ready(10, lambda: None)
        assert client.stats().ticks == 7


def test_a_method_that_the_engine_lacks(socket: Path) -> None:
    with EngineClient(socket) as client, pytest.raises(EngineError, match="Method not found"):
        client.trace(0.01)


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


def test_the_command_line_of_a_function() -> None:
    driver = Path("/run/unis/x/librte_net_unis.so")
    function = Function(name="fw", program="firewall", args=["--rules", "r"], cpu=3, yield_every=8)
    port = pb.NfPort(nf="fw", vdev="net_unis0,rx=A,tx=B", lcore=5)
    argv = nf.command(Path("/bin/fw"), function, port, driver, "unis-x")
    separator = argv.index("--")
    assert argv[0] == "/bin/fw"
    assert argv[argv.index("-d") + 1] == str(driver)
    assert argv[argv.index("--lcores") + 1] == "5@3"
    for needed in (
        "--proc-type=secondary",
        "--file-prefix=unis-x",
        "--mbuf-pool-ops-name=lf_stack",
        "--vdev=net_unis0,rx=A,tx=B",
    ):
        assert needed in argv[:separator]
    assert argv[separator + 1 :] == ["--rules", "r", "--yield-every", "8"]

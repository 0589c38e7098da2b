"""Runs whose engines answer, in the test's own process."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from tests.python.commands import stale_run
from unis.runtime.process import ProcessId
from unis.runtime.state import Phase
from unis.v1 import engine_pb2 as pb
from unis.v1 import engine_pb2_grpc


class Answering(engine_pb2_grpc.EngineServicer):
    """An engine that tells its statistics, and nothing else."""

    def __init__(self, told: Callable[[], pb.Stats]) -> None:
        self._told = told

    def GetStats(self, request: Any, _context: Any) -> pb.Stats:  # noqa: N802
        assert request.latency
        return self._told()


def live_run(tmp_path: Path, name: str, **more: Any) -> Path:
    """The notes of a run that is up; its engine's socket, which is not there yet."""
    more = {"phase": Phase.RUNNING, "launcher": ProcessId.me(), "run_id": f"id-{name}", **more}
    return stale_run(tmp_path, name, **more).socket


@contextmanager
def answering(
    tmp_path: Path, name: str, told: Callable[[], pb.Stats], **more: Any
) -> Iterator[None]:
    """A run that is up, and whose engine answers."""
    socket = live_run(tmp_path, name, **more)
    server = grpc.server(ThreadPoolExecutor(1))
    engine_pb2_grpc.add_EngineServicer_to_server(Answering(told), server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        yield
    finally:
        server.stop(0).wait()

"""Requests to the supervisor of a run that is up, over gRPC on a socket in the run's folder.

The server takes requests on threads of its own. The supervisor's loop does them, one by one: it
polls the server's descriptor, and takes what has come.
"""

from __future__ import annotations

import contextlib
import os
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast

import grpc
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from unis import rpc
from unis.errors import UnisError
from unis.runtime.errors import LaunchError, internal_error
from unis.signals import blocked
from unis.v1 import engine_pb2 as engine
from unis.v1 import supervisor_pb2 as pb
from unis.v1 import supervisor_pb2_grpc

Say = Callable[[str], None]

_THREADS = 4  # clients that wait at a time; more wait for these
_STOP_SECONDS = 1.0  # for calls to end that were open
_ENDS = "the launcher ended before it answered; see `unis ps`"
# Bytes, of errors too: the last words of a program are in them.
_METADATA = {"max_metadata_size": 1 << 20, "absolute_max_metadata_size": 1 << 20}


class SupervisorRequest:
    """What a client wants, and how it is answered. A client may go away at any time."""

    def __init__(self, method: str, message: Any) -> None:
        self.method = method  # of the service
        self.message = message
        self.replies: SimpleQueue[Message | grpc.StatusCode | str] = SimpleQueue()

    def say(self, line: str) -> None:
        """Tells what is being done, where the client can be told."""
        if self.method == "Apply":
            self.replies.put(pb.ApplyFileReply(line=line))

    def serve(self, answer: Callable[[SupervisorRequest], Message], note: Say) -> None:
        """Answers with what `answer` returns, or raises; `note` takes the traceback of a fault."""
        try:
            self.replies.put(answer(self))
            self.replies.put(grpc.StatusCode.OK)
        except UnisError as error:
            wrong = grpc.StatusCode.INVALID_ARGUMENT
            self.refuse(wrong if error.bad_input else grpc.StatusCode.FAILED_PRECONDITION, error)
        except Exception as error:
            note(traceback.format_exc())
            sentence = f"{internal_error(error)}; the run goes on, and its log has the traceback"
            self.refuse(grpc.StatusCode.INTERNAL, sentence)

    def refuse(self, code: grpc.StatusCode, why: object) -> None:
        """Ends the call with an error."""
        self.replies.put(str(why))
        self.replies.put(code)


def _with_one_reply(method: str) -> Callable[[Any, Message, grpc.ServicerContext], Message]:
    return lambda server, message, context: next(server._replies(method, message, context))  # noqa: SLF001


class RequestServer(supervisor_pb2_grpc.SupervisorServicer):
    """Takes requests. LaunchError if it cannot listen on `path`."""

    def __init__(self, path: Path) -> None:
        self._waiting: deque[SupervisorRequest] = deque()
        self._open: set[SupervisorRequest] = set()
        self._lock = threading.Lock()
        self._closed = False
        with contextlib.ExitStack() as undo:
            with blocked():  # also in its threads: signals are for the supervisor
                try:
                    self._listen(path, undo)
                except (RuntimeError, OSError) as error:
                    raise LaunchError(f"cannot listen on {path}: {error}") from None
            self._undo = undo.pop_all()  # no signal waits any more

    def _listen(self, path: Path, undo: contextlib.ExitStack) -> None:
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK | os.EFD_SEMAPHORE)
        undo.callback(os.close, self._wake)
        options = {"so_reuseport": 0, **_METADATA}
        server = grpc.server(
            ThreadPoolExecutor(_THREADS),
            options=[(f"grpc.{key}", value) for key, value in options.items()],
        )
        add = cast("Any", supervisor_pb2_grpc.add_SupervisorServicer_to_server)
        add(self, server)
        server.add_insecure_port(f"unix:{path}")
        path.chmod(0o600)
        undo.callback(self._stop, server)  # also where `start` fails, which leaves it half started
        server.start()

    def _stop(self, server: grpc.Server) -> None:
        with self._lock:
            self._closed = True
            for request in list(self._open):
                request.refuse(grpc.StatusCode.UNAVAILABLE, _ENDS)
        with contextlib.suppress(RuntimeError):  # no thread can be started
            server.stop(0).wait(_STOP_SECONDS)

    def fileno(self) -> int:
        """To be polled: readable when a request waits."""
        return self._wake

    def take(self) -> SupervisorRequest | None:
        """The next request, if there is one."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
            return self._waiting.popleft()
        return None

    def close(self) -> None:
        """Ends every call that is open, or that comes."""
        with blocked():
            self._undo.close()

    # The methods of supervisor.proto.

    def Apply(self, message: Message, context: grpc.ServicerContext) -> Iterator[Message]:  # noqa: N802, D102
        return self._replies("Apply", message, context)

    SetPolicy, Attach, Detach = map(_with_one_reply, ("SetPolicy", "Attach", "Detach"))

    def _replies(
        self, method: str, message: Message, context: grpc.ServicerContext
    ) -> Iterator[Message]:
        request = SupervisorRequest(method, message)
        with self._lock:
            if self._closed:
                request.refuse(grpc.StatusCode.UNAVAILABLE, _ENDS)
            else:
                self._open.add(request)
                self._waiting.append(request)
                os.eventfd_write(self._wake, 1)
        try:
            while not isinstance(reply := request.replies.get(), grpc.StatusCode):
                if isinstance(reply, str):
                    context.abort(cast("grpc.StatusCode", request.replies.get()), reply)
                yield reply
        finally:
            self._open.discard(request)


class SupervisorClient:
    """Client of the supervisor at the socket `path`. Every method raises LaunchError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._channel = rpc.open_channel(path, "unis", **_METADATA)
        self._stub: Any = cast("Any", supervisor_pb2_grpc.SupervisorStub)(self._channel)

    def __enter__(self) -> SupervisorClient:
        return self

    def __exit__(self, *_: object) -> None:
        with blocked():
            self._channel.close()

    def apply(self, request: pb.ApplyFileRequest, report: Say) -> dict[str, Any]:
        """The result as plain data; `report` is told what is being done."""
        with self._explained():
            for reply in rpc.answers(lambda: self._stub.Apply(request)):
                if reply.WhichOneof("reply") == "result":
                    return MessageToDict(
                        reply.result,
                        preserving_proto_field_name=True,
                        always_print_fields_with_no_presence=True,
                    )
                report(reply.line)
        raise LaunchError(_ENDS, bad_input=False)

    def set_policy(self, request: engine.PolicyRequest) -> None:
        """Changes policy and controller."""
        with self._explained():
            rpc.answer(self._stub.SetPolicy, request)

    def attach(self, request: pb.AttachProcessRequest) -> list[str]:
        """The functions that are attached then."""
        with self._explained():
            return list(rpc.answer(self._stub.Attach, request).functions)

    def detach(self, function: str) -> list[str]:
        """The functions that are still attached then."""
        with self._explained():
            request = pb.DetachFunctionRequest(function=function)
            return list(rpc.answer(self._stub.Detach, request).functions)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        if not self._path.is_socket():
            raise LaunchError(
                f"the launcher takes no changes ({self._path}: no such socket): it is still "
                "bringing the chains up, or was not started by `unis up`",
                bad_input=False,
            )
        try:
            yield
        except grpc.RpcError as error:
            call = cast("grpc.Call", error)
            gone = call.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
            wrong = call.code() == grpc.StatusCode.INVALID_ARGUMENT
            sentence = _ENDS if gone else call.details() or call.code().name
            raise LaunchError(sentence, bad_input=wrong) from None

"""The launcher's own socket, in the run's folder: how a run that is up is asked to change.

One request, a line of JSON; back come lines of JSON, {"say": …} for what is being done, and at last
{"result": …} or {"error": …, "bad_input": …}. Only root may connect, as to the engine. Every
request is answered, and none ends the run: an exception that is no UnisError is a fault of ours.
"""

import contextlib
import json
import socket
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from unis.errors import UnisError
from unis.runtime.errors import LaunchError, internal_error

Say = Callable[[str], None]
Answer = Callable[[dict[str, Any], Say], dict[str, Any]]
Kind = TypeVar("Kind")

_MOST_BYTES = 1 << 20  # of a request, and of a line back
_REQUEST_SECONDS = 1.0  # the launcher looks after the run and waits for nobody
_SAY_SECONDS = 0.5


class ControlSocket:
    """The launcher's end. LaunchError if there can be none."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            path.unlink(missing_ok=True)
            self._socket.bind(str(path))
            path.chmod(0o600)
            self._socket.listen(8)
        except OSError as error:
            self._socket.close()
            raise LaunchError(f"cannot listen on {path}: {error.strerror}") from None
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """To be polled: readable when somebody has come."""
        return self._socket.fileno()

    def accept(self) -> "Conversation | None":
        """Who has come, if anybody."""
        with contextlib.suppress(OSError):
            return Conversation(self._socket.accept()[0])
        return None

    def close(self) -> None:
        """Refuses connections. The clean-up removes the file: by now another run may have it."""
        self._socket.close()


class Conversation:
    """Somebody who wants something. He may go away at any time: what was begun is done."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._gone = False

    def __enter__(self) -> "Conversation":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def serve(self, answer: Answer, note: Say) -> None:
        """Reads the request, has it done, and answers; `note` takes the traceback of a fault."""
        try:
            self._send({"result": answer(self._request(), self.say)})
        except UnisError as error:
            self._send({"error": str(error), "bad_input": error.bad_input})
        except Exception as error:
            note(traceback.format_exc())
            sentence = f"{internal_error(error)}; the run goes on, and its log has the traceback"
            self._send({"error": sentence, "bad_input": False})

    def say(self, line: str) -> None:
        """What is being done."""
        self._send({"say": line})

    def _request(self) -> dict[str, Any]:
        until = time.monotonic() + _REQUEST_SECONDS
        text = b""
        try:
            while not text.endswith(b"\n") and len(text) <= _MOST_BYTES:
                self._connection.settimeout(max(0.001, until - time.monotonic()))
                received = self._connection.recv(1 << 16)
                if not received:
                    break
                text += received
        except OSError:
            raise LaunchError("the request did not come within a second") from None
        if len(text) > _MOST_BYTES:
            raise LaunchError(f"a request has up to {_MOST_BYTES} bytes")
        with contextlib.suppress(ValueError, RecursionError):
            request = json.loads(text)
            if isinstance(request, dict):
                return request
        raise LaunchError("the request is no JSON object")

    def _send(self, message: dict[str, Any]) -> None:
        if self._gone:
            return
        try:
            self._connection.settimeout(_SAY_SECONDS)
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._gone = True


def parsed(kind: type[Kind], data: object) -> Kind:
    """`data`, from JSON, as a dataclass `kind`. LaunchError names each field that is wrong."""
    try:
        return TypeAdapter(kind).validate_python(data)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'request'}: {one['msg']}" for one in error.errors()
        )
        raise LaunchError(
            f"invalid request ({wrong}): `unis` and the launcher may be of different versions"
        ) from None


def _listen(connection: socket.socket, say: Say) -> dict[str, Any]:
    with connection.makefile("r", errors="replace") as lines:
        while line := lines.readline(_MOST_BYTES):
            message = json.loads(line)
            if "say" in message:
                say(str(message["say"]))
            elif "error" in message:
                raise LaunchError(str(message["error"]), bad_input=bool(message["bad_input"]))
            else:
                result: dict[str, Any] = message["result"]
                return result
    raise ConnectionError


def ask(path: Path, request: dict[str, Any], say: Say) -> dict[str, Any]:
    """Asks the launcher behind `path`, and waits for its answer. UnisError with its sentence."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise LaunchError(
                f"the launcher takes no changes ({path}: {error.strerror}): it is still bringing "
                "the chains up, or was not started by `unis up`",
                bad_input=False,
            ) from None
        with contextlib.suppress(ConnectionError, ValueError):  # it ended in the middle of a word
            return _listen(connection, say)
    raise LaunchError("the launcher ended before it answered; see `unis ps`", bad_input=False)

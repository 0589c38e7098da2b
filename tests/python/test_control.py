"""How a launcher answers on its control socket."""

import json
import socket
from pathlib import Path
from typing import Any

from unis.runtime.control import ControlSocket, Conversation


def test_a_fault_of_ours_is_answered_and_logged() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(b"{}\n")

    def answer(*_: Any) -> dict[str, Any]:
        raise ZeroDivisionError("by zero")

    noted: list[str] = []
    with Conversation(ours) as conversation:
        conversation.serve(answer, noted.append)
    said = json.loads(theirs.recv(1 << 16))
    theirs.close()
    assert "internal error: ZeroDivisionError('by zero')" in said["error"]
    assert not said["bad_input"]
    assert "Traceback" in noted[0]


def test_a_launcher_that_ends_late_leaves_the_socket_of_a_newer_run(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    stopped = ControlSocket(path)
    newer = ControlSocket(path)
    stopped.close()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        conversation = newer.accept()
        assert conversation
        with conversation:
            pass
    newer.close()

"""`unis` run to its end, as a fork of a process that has imported it.

The imports take most of a command's time, and the tests run a thousand commands. What a user
starts is the script `unis`: so do the pages of the documentation (tests/e2e/pages.py), and the
tests in which a command goes on or hears a signal.
"""

import functools
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

# What the commands on runs import. None of it starts a thread or opens a channel.
_IMPORTED = [f"unis.cli.{name}_command" for name in ("apply", "config")]
_IMPORTED += [f"unis.cli.{name}_commands" for name in ("run", "look", "attach")]
_IMPORTED += [f"unis.runtime.{name}" for name in ("launcher", "planning", "requests")]
_MOST_BYTES = 1 << 20  # of a request


def unis(
    words: Sequence[str], folder: Path, seconds: float, *,
    environment: Mapping[str, str] | None = None, nice: int | None = None,
) -> tuple[int, str]:  # fmt: skip
    """Exit code of `unis`, called in `folder`, and all that it said.

    With `nice` it has a session of its own, of that priority. TimeoutExpired: it did not end.
    """
    request = {
        "words": [*words],
        "folder": str(folder),
        "environment": dict(os.environ if environment is None else environment),
        "cpus": sorted(os.sched_getaffinity(0)),
        "nice": nice,
    }
    told, teller = os.pipe()
    with tempfile.TemporaryFile() as said, os.fdopen(told) as ended:
        socket.send_fds(_server(), [json.dumps(request).encode()], [said.fileno(), teller])
        os.close(teller)
        pid = int(ended.readline())
        if not select.select([ended], [], [], seconds)[0]:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired([*words], seconds)
        code = int(ended.readline())
        said.seek(0)
        return code, said.read().decode(errors="replace")


@functools.cache
def _server() -> socket.socket:
    """Ends when this process does."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, its):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
    with its:
        subprocess.Popen(
            [sys.executable, "-P", __file__, str(its.fileno())],
            stdin=subprocess.DEVNULL, pass_fds=[its.fileno()],
        )  # fmt: skip
    return ours


# ------------------------------------------------------------------ in the other process


def _serve(requests: socket.socket) -> None:
    for module in _IMPORTED:
        importlib.import_module(module)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tests', who end us
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, descriptors, *_ = socket.recv_fds(requests, _MOST_BYTES, 2)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            _watch(json.loads(message), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _watch(request: dict[str, Any], output: int, teller: int) -> None:
    """Tells the pid of the command, and its exit code. Returns as the command."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(teller)
        _become(request, output)
    os.close(output)
    os.write(teller, f"{pid}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):
        os.write(teller, f"{code}\n".encode())
    os._exit(0)


def _become(request: dict[str, Any], output: int) -> NoReturn:
    """The command, as if the shell had started it."""
    from unis.cli import main

    if request["nice"] is not None:
        os.setsid()
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(request["nice"]))
    os.sched_setaffinity(0, request["cpus"])
    for there in (1, 2):
        os.dup2(output, there)
    os.close(output)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["unis", *request["words"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main()  # which ends the process
    except BaseException:
        traceback.print_exc()
    os._exit(1)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))

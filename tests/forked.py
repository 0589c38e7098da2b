"""`unis` run to its end, as a fork of a process that has imported it.

The imports take most of a command's time, and the tests run a thousand commands. Users start the
script `unis`. So do the pages of the documentation (tests/e2e/pages.py), and the tests in which a
command goes on or hears a signal.
"""

import functools
import importlib
import itertools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

# What the commands on runs import.
_IMPORTED = [f"unis.cli.{name}_command" for name in ("apply", "config")]
_IMPORTED += [f"unis.cli.{name}_commands" for name in ("run", "look", "attach")]
_IMPORTED += [f"unis.runtime.{name}" for name in ("launcher", "planning", "requests")]
_MOST_BYTES = 1 << 20  # of a request


def unis(
    words: Sequence[str], folder: Path, seconds: float, *,
    environment: Mapping[str, str] | None = None, nice: int | None = None,
) -> tuple[int, str]:  # fmt: skip
    """Exit code of `unis`, called in `folder`, and what it said: all of stdout, then of stderr.

    It returns once nobody can write there any more. With `nice` the command has a session of its
    own, of that priority. What Python reads as it starts (PYTHONPATH, NO_COLOR) `environment` does
    not change. TimeoutExpired: the command did not end, and was killed.
    """
    request = {
        "words": [*words],
        "folder": str(folder),
        "environment": dict(os.environ if environment is None else environment),
        "cpus": sorted(os.sched_getaffinity(0)),
        "nice": nice,
    }
    pipes = [os.pipe() for _ in range(3)]  # stdout, stderr, and what the watcher tells
    said = {reader: b"" for reader, _ in pipes}
    told = pipes[2][0]
    writers = [writer for _, writer in pipes]
    try:
        try:
            socket.send_fds(next(_servers()), [json.dumps(request).encode()], writers)
        finally:
            for writer in writers:
                os.close(writer)
        _read_all(said, time.monotonic() + seconds)
        lines = said[told].split()
        if len(lines) < 2:
            raise RuntimeError("the server of tests/forked.py has ended; see its words above")
        stdout, stderr, _ = said.values()
        return int(lines[1]), (stdout + stderr).decode(errors="replace")
    except BaseException as error:
        lines = said[told].split()
        if len(lines) == 1:  # it runs
            with suppress(ProcessLookupError):
                os.kill(int(lines[0]), signal.SIGKILL)
        if isinstance(error, TimeoutError):
            output = b"".join(said.values())
            raise subprocess.TimeoutExpired([*words], seconds, output) from None
        raise
    finally:
        for reader in said:
            os.close(reader)


def _read_all(said: dict[int, bytes], end: float) -> None:
    """Reads each descriptor till nobody can write there. TimeoutError: not by `end`."""
    with selectors.DefaultSelector() as open_ones:
        for reader in said:
            open_ones.register(reader, selectors.EVENT_READ)
        while open_ones.get_map():
            ready = open_ones.select(max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                part = os.read(key.fd, 1 << 16)
                said[key.fd] += part
                if not part:
                    open_ones.unregister(key.fd)


@functools.cache
def _servers() -> Iterator[socket.socket]:
    """Two in turn, each with its order of sets, as each Python has. They end with this process."""
    return itertools.cycle([_server(), _server()])


def _server() -> socket.socket:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, its):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
    with its:
        subprocess.Popen(
            [sys.executable, "-P", __file__, str(its.fileno())],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[its.fileno()],
            env={**os.environ, "TERM": "dumb"},
        )  # fmt: skip
    return ours


# ------------------------------------------------------------------ in the other process


def _serve(requests: socket.socket) -> None:
    for module in _IMPORTED:
        importlib.import_module(module)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for pytest; we end when the socket closes
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise RuntimeError("an import has started a thread, which no fork has")
    while True:
        message, descriptors, *_ = socket.recv_fds(requests, _MOST_BYTES, 3)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            _watch(json.loads(message), *descriptors)
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def _watch(request: dict[str, Any], stdout: int, stderr: int, teller: int) -> None:
    """Starts the command, and tells its pid and its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(teller)
        _become(request, stdout, stderr)
    os.close(stdout)
    os.close(stderr)
    os.write(teller, f"{pid}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):
        os.write(teller, f"{code}\n".encode())


def _become(request: dict[str, Any], stdout: int, stderr: int) -> NoReturn:
    """The command, as if the shell had started it."""
    from unis.cli import main

    if request["nice"] is not None:
        os.setsid()
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(request["nice"]))
    os.sched_setaffinity(0, request["cpus"])
    for here, there in ((stdout, 1), (stderr, 2)):
        os.dup2(here, there)
        os.close(here)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["unis", *request["words"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main()  # which ends the process, or leaves that to Python
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc()
    os._exit(1)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))

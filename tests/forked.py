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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

# What the commands that tests call often import.
_IMPORTED = [f"unis.cli.{name}_command" for name in ("apply", "config", "simulate")]
_IMPORTED += [f"unis.cli.{name}_commands" for name in ("run", "look", "attach")]
_IMPORTED += [f"unis.runtime.{name}" for name in ("launcher", "planning", "requests")]
_MOST_BYTES = 1 << 20  # of a request


def favour_session(pid: int) -> None:
    """A command comes before the engine on the CPU that they share; else it takes thrice as long.

    The kernel shares a CPU among sessions first (autogroup); unisd's has -3. A run in the
    background has another session than the command.
    """
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text("-8")


def unis(
    words: Sequence[str], folder: Path, seconds: float, *,
    environment: Mapping[str, str] | None = None, favoured: bool = False,
) -> tuple[int, str, str]:  # fmt: skip
    """Exit code, stdout and stderr of `unis`, called in `folder`.

    Returns when every process that writes there has ended. `favoured`: in a session of its own, by
    `favour_session`. `environment` comes too late for what Python reads as it starts: PYTHONPATH,
    NO_COLOR. After `seconds` the command is killed, and TimeoutExpired is raised.
    """
    request = {
        "words": [*words],
        "folder": str(folder),
        "environment": dict(os.environ if environment is None else environment),
        "cpus": sorted(os.sched_getaffinity(0)),
        "favoured": favoured,
    }
    pipes = [os.pipe() for _ in range(3)]  # stdout, stderr, and what the watcher tells
    said = {reader: b"" for reader, _ in pipes}
    stdout, stderr, told = said
    try:
        try:
            message = json.dumps(request).encode()
            socket.send_fds(next(_servers()), [message], [writer for _, writer in pipes])
        finally:
            for _, writer in pipes:
                os.close(writer)
        if not _read_all(said, time.monotonic() + seconds):
            raise subprocess.TimeoutExpired([*words], seconds, said[stdout], said[stderr])
    finally:
        for reader in said:
            os.close(reader)
        if len(words_told := said[told].split()) == 1:  # its pid, and no exit code yet
            with suppress(ProcessLookupError):
                os.kill(int(words_told[0]), signal.SIGKILL)
    if not said[told]:
        raise RuntimeError("the server of tests/forked.py has ended; see its words above")
    output, errors = (said[reader].decode(errors="replace") for reader in (stdout, stderr))
    assert "Traceback" not in output + errors, output + errors
    return int(said[told].split()[1]), output, errors


def _read_all(said: dict[int, bytes], end: float) -> bool:
    """Reads each descriptor to its end. False if `end` came first, a time of `time.monotonic`."""
    with selectors.DefaultSelector() as unfinished:
        for reader in said:
            unfinished.register(reader, selectors.EVENT_READ)
        while unfinished.get_map():
            ready = unfinished.select(max(0.0, end - time.monotonic()))
            if not ready:
                return False
            for key, _ in ready:
                part = os.read(key.fd, 1 << 16)
                said[key.fd] += part
                if not part:
                    unfinished.unregister(key.fd)
    return True


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

    if request["favoured"]:
        os.setsid()
        favour_session(os.getpid())
    os.sched_setaffinity(0, request["cpus"])
    for here, there in ((stdout, 1), (stderr, 2)):
        os.dup2(here, there)
        os.close(here)
    # Those of the server may have been files, which can be sought in.
    sys.stdout, sys.stderr = (open(fd, "w", closefd=False) for fd in (1, 2))  # noqa: SIM115
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["unis", *request["words"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
    sys.exit()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))

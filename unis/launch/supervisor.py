"""`unis up --detach`: the launcher in a session of its own, and the parent that waits for it."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from unis.chain.load import load
from unis.chain.machine import Machine
from unis.errors import EXIT_FAILED, UnisError
from unis.launch.errors import InterruptedRunError
from unis.launch.interrupts import interrupts
from unis.launch.launcher import Options, running
from unis.v1 import engine_pb2 as pb


def start_detached(
    file: Path, name: str | None, policy: str | None, report: Callable[[str], None]
) -> int:
    """Starts the launcher in the background and waits till the chain runs; the exit code."""
    read_end, write_end = os.pipe()
    request = {"file": str(file), "name": name, "policy": policy}
    child = subprocess.Popen(
        [sys.executable, "-m", "unis.launch.supervisor", json.dumps(request), str(write_end)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=[write_end],
        start_new_session=True,
    )
    os.close(write_end)
    try:
        with interrupts(), os.fdopen(read_end) as messages:
            for line in messages:
                message = json.loads(line)
                if "report" in message:
                    report(message["report"])
                else:
                    return int(message["code"])
    except InterruptedRunError:
        child.terminate()
        child.wait()
        return EXIT_FAILED
    child.wait()  # it ended without a word
    report((child.stderr.read() if child.stderr else b"").decode(errors="replace"))
    return EXIT_FAILED


class _Parent:
    """The other end of `start_detached`, which may go away at any time."""

    def __init__(self, descriptor: int) -> None:
        self._stream = os.fdopen(descriptor, "w", buffering=1)

    def report(self, line: str) -> None:
        """A line for the user."""
        self._send({"report": line})

    def finish(self, code: int) -> None:
        """The chain runs (0) or does not; the parent waits no longer."""
        self._send({"code": code})
        with contextlib.suppress(OSError):
            self._stream.close()

    def _send(self, message: dict[str, object]) -> None:
        if not self._stream.closed:
            with contextlib.suppress(OSError):
                self._stream.write(json.dumps(message) + "\n")


def _nothing(_stats: pb.Stats) -> None:
    return


def main() -> int:
    """`python -m unis.launch.supervisor REQUEST DESCRIPTOR`."""
    request = json.loads(sys.argv[1])
    parent = _Parent(int(sys.argv[2]))
    with interrupts() as switch:
        try:
            machine = Machine.this()
            chain = load(Path(request["file"]), machine, request["name"])
            options = Options(policy=request["policy"])
            with running(chain, machine, options, parent.report, switch) as run:
                parent.finish(0)
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, sys.stderr.fileno())  # nobody reads the pipe any more
                run.watch(_nothing)
        except UnisError as error:
            parent.report(str(error))
            parent.finish(error.exit_code)
            return error.exit_code
        except InterruptedRunError:
            parent.finish(EXIT_FAILED)
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

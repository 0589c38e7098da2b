"""`unis up --detach`: the launcher in a session of its own, and the parent that waits for it."""

import contextlib
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from unis.errors import EXIT_FAILED, UnisError
from unis.plan.model import Plan
from unis.runtime.errors import InterruptedRunError, interrupted_code
from unis.runtime.interrupts import Interrupts, interrupts
from unis.runtime.keeper import Keeper
from unis.runtime.options import Options
from unis.runtime.process import keep_to
from unis.runtime.upkeep import Upkeep


@dataclass(frozen=True)
class Request:
    """How the run of a plan is brought up."""

    cpus: list[int]  # those that we may use; who asks has kept off some already
    policy: str | None = None
    controller: str | None = None
    wait: bool = False  # till every chain delivers
    timeout: float | None = None  # seconds until it runs, or delivers


def start_detached(plan: Plan, request: Request, report: Callable[[str], None]) -> int:
    """Starts the launcher in the background and waits till the chain runs; the exit code."""
    module = "unis.runtime.supervisor"
    return start_launcher(module, asdict(request), report, pickle.dumps(plan))


def start_launcher(
    module: str, request: dict[str, Any], report: Callable[[str], None], more: bytes = b""
) -> int:
    """Starts `module` as a launcher in the background, and waits for its word; the exit code.

    It reads `more` from its standard input.
    """
    read_end, write_end = os.pipe()
    words = json.dumps(request)
    child = subprocess.Popen(
        # -P: else what lies in the current folder would be imported, by root.
        [sys.executable, "-P", "-m", module, words, str(write_end)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=[write_end],
        start_new_session=True,
    )
    os.close(write_end)
    with interrupts() as switch:
        try:
            _hand_over(child, more)
            with os.fdopen(read_end) as messages:
                for line in messages:
                    message = json.loads(line)
                    if "report" in message:
                        report(message["report"])
                    else:
                        return int(message["code"])
        except InterruptedRunError as signalled:
            try:  # the terminal may be gone
                report("interrupted: taking down what was started")
            finally:
                _end(child, switch)
            return interrupted_code(signalled)
    child.wait()  # it ended without a word
    report((child.stderr.read() if child.stderr else b"").decode(errors="replace"))
    return EXIT_FAILED


def _hand_over(child: subprocess.Popen[bytes], more: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # it says itself why it has ended
        if child.stdin:
            child.stdin.write(more)
            child.stdin.close()


def _end(child: subprocess.Popen[bytes], switch: Interrupts) -> None:
    """Asks it to end; who interrupts twice hurries it too."""
    child.terminate()
    hurried = False
    while child.poll() is None:
        if switch.forced() and not hurried:
            hurried = True
            child.terminate()
        time.sleep(0.02)


class Parent:
    """The other end of `start_launcher`, which may go away at any time."""

    def __init__(self, descriptor: int) -> None:
        self._stream = os.fdopen(descriptor, "w", buffering=1)

    def report(self, line: str) -> None:
        """A line for the user."""
        self._send({"report": line})

    def finish(self, code: int) -> None:
        """The chain runs (0) or does not; the parent waits no longer, nor does it listen."""
        if self._stream.closed:
            return
        self._send({"code": code})
        with contextlib.suppress(OSError):
            self._stream.close()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stderr.fileno())  # nobody reads the pipe any more
        os.close(null)

    def _send(self, message: dict[str, object]) -> None:
        if not self._stream.closed:
            with contextlib.suppress(OSError):
                self._stream.write(json.dumps(message) + "\n")


def _run(plan: Plan, request: Request, parent: Parent) -> None:
    with interrupts() as switch:
        keep_to(request.cpus)  # not the rest that the parent has kept to
        options = Options(policy=request.policy, controller=request.controller)

        def ready(keeper: Keeper) -> None:
            if request.wait:
                keeper.wait_delivering()

        def serve(keeper: Keeper) -> None:
            parent.finish(0)
            keeper.wait()

        Upkeep(options, parent.report, switch, serve, ready, request.timeout).of(plan)


def main() -> int:
    """`python -P -m unis.runtime.supervisor REQUEST DESCRIPTOR`, with the plan as its input."""
    request = Request(**json.loads(sys.argv[1]))
    parent = Parent(int(sys.argv[2]))
    plan = pickle.load(sys.stdin.buffer)  # noqa: S301 - who started us made it
    return under(parent, lambda: _run(plan, request, parent))


def under(parent: Parent, run: Callable[[], None]) -> int:
    """Runs a launcher to its end, and tells the parent if it never ran; the exit code."""
    try:
        run()
    except UnisError as error:
        parent.report(str(error))
        parent.finish(error.exit_code)
        return error.exit_code
    except InterruptedRunError:
        parent.report("it was taken down before it ran")
        parent.finish(EXIT_FAILED)
    return 0


if __name__ == "__main__":
    sys.exit(main())

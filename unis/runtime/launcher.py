"""`unis up --detach`: the launcher in a session of its own, and the parent that waits for it."""

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

from unis.errors import EXIT_FAILED, UnisError
from unis.plan.model import Plan
from unis.runtime.errors import InterruptedRunError, interrupted_code
from unis.runtime.interrupts import Interrupts, forget_handlers, interrupts
from unis.runtime.process import keep_to
from unis.runtime.run import Options
from unis.runtime.supervisor import Job, Supervisor, supervise
from unis.signals import blocked

_STANDARD = 3  # descriptors: input, output, error


def start_detached(
    plan: Plan,
    cpus: Iterable[int],
    options: Options,
    report: Callable[[str], None],
    *,
    wait: bool = False,
    timeout: float | None = None,
) -> int:
    """Starts the launcher in the background, and waits till the chain runs; the exit code.

    `cpus`: that it may use; who asks has kept off some already. With `wait` the chain runs once
    every chain of it delivers; if it does not after `timeout` seconds, it is taken down.
    """

    def run(parent: Parent) -> None:
        def serve(supervisor: Supervisor) -> None:
            parent.finish(0)
            supervisor.wait()

        with interrupts() as switch:
            keep_to(cpus)
            supervise(plan, Job(options, parent.report, switch, serve, wait, timeout))

    return start_launcher(run, report)


def start_launcher(run: Callable[["Parent"], None], report: Callable[[str], None]) -> int:
    """Starts `run` as a launcher in the background, and waits for its word; the exit code.

    The launcher is a fork: it has imported already what another Python would import again, half a
    second long. This process must have one thread and no gRPC channel.
    """
    listener, speaker = _pipe()
    last_words, error = _pipe()
    pid = 0
    with interrupts() as switch:
        try:
            with blocked():  # until we know its pid, and it has none of our handlers
                pid = os.fork()
                if pid == 0:
                    _become_launcher(run, speaker, error)
            os.close(speaker)
            os.close(error)
            with os.fdopen(listener) as messages, os.fdopen(last_words, errors="replace") as errors:
                for line in messages:
                    if not line.endswith("\n"):  # it was killed meanwhile
                        break
                    message = json.loads(line)
                    if "report" in message:
                        report(message["report"])
                    else:
                        return int(message["code"])
                _, status = os.waitpid(pid, 0)
                if words := errors.read():
                    report(words)
                if os.WIFSIGNALED(status):
                    killer = os.WTERMSIG(status)
                    report(f"the launcher was killed by signal {killer}; see `unis ps`")
                return EXIT_FAILED
        except InterruptedRunError as signalled:
            try:  # the terminal may be gone
                report("interrupted: stopping the run")
            finally:
                if pid:  # it was begun,
                    with contextlib.suppress(ProcessLookupError, ChildProcessError):  # and lives
                        _end(pid, switch)
            return interrupted_code(signalled)


def _pipe() -> tuple[int, int]:
    """Its ends for reading and writing, above standard error, also where that is closed."""
    ends = os.pipe()
    above = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _STANDARD) for end in ends]
    for end in ends:
        os.close(end)
    return above[0], above[1]


def _become_launcher(run: Callable[["Parent"], None], speaker: int, error: int) -> NoReturn:
    """In the fork: a session of its own, and nothing of the terminal."""
    code = EXIT_FAILED
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for here, there in ((null, 0), (null, 1), (error, 2)):
            os.dup2(here, there)
        for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
            if descriptor >= _STANDARD and descriptor != speaker:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        forget_handlers()  # a signal that waits ends us here, where nothing is started yet
        code = _under(Parent(speaker), run)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _end(pid: int, switch: Interrupts) -> None:
    """Asks the child to end. A second interrupt is passed on to the child, which then hurries."""
    os.kill(pid, signal.SIGTERM)
    hurried = False
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if switch.forced() and not hurried:
            hurried = True
            os.kill(pid, signal.SIGTERM)
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
        os.dup2(null, 2)  # nobody reads the pipe any more
        os.close(null)

    def _send(self, message: dict[str, object]) -> None:
        if not self._stream.closed:
            with contextlib.suppress(OSError):
                self._stream.write(json.dumps(message) + "\n")


def _under(parent: Parent, run: Callable[[Parent], None]) -> int:
    """Runs a launcher to its end, and tells the parent if it never ran; the exit code."""
    try:
        run(parent)
    except UnisError as error:
        parent.report(str(error))
        parent.finish(error.exit_code)
        return error.exit_code
    except InterruptedRunError:
        parent.report("the run was stopped before it started")
        parent.finish(EXIT_FAILED)
    return 0

"""Processes of a run: how they are started, and what is said when one ends. No argument ever passes
through a shell.
"""

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from unis.runtime.cgroup import Leaf
from unis.runtime.directory import last_lines
from unis.runtime.errors import LaunchError, RunFailedError
from unis.runtime.files import appending, written
from unis.runtime.privileges import PATH, Rights
from unis.runtime.state import RUN_MARK

_BAD_USAGE = 2  # exit code of a program whose arguments or files are wrong; of any Go panic too


@dataclass(frozen=True)
class Command:
    """What is started, and how."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)  # beside our own
    cwd: Path | None = None
    rights: Rights | None = None  # None: ours
    stdin: str | None = None  # said to it, and then kept open; None: it has none


class Process(Protocol):
    """A `subprocess.Popen`, or who stands in for one."""

    @property
    def pid(self) -> int:
        """Its number."""

    @property
    def returncode(self) -> int | None:
        """What `poll` said last."""

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that killed it; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """The same once it has ended; subprocess.TimeoutExpired after so many seconds."""


@dataclass(frozen=True)
class Child:
    """A process that was started."""

    what: str
    process: Process
    log: Path

    def check(self, *, starting: bool = True) -> None:
        """Raises RunFailedError if it has ended; only while `starting` can that be bad input."""
        if self.ended():
            bad = starting and self.process.returncode == _BAD_USAGE
            raise RunFailedError(self.last_words(), bad_input=bad)

    def ended(self) -> str:
        """How it has ended; empty while it runs."""
        code = self.process.poll()
        if code is None:
            return ""
        return f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"

    def last_words(self) -> str:
        """Who ended how, and the end of its log."""
        sentence = f"{self.what} (pid {self.process.pid}) {self.ended()}"
        if lines := last_lines(self.log):
            sentence += f"; the end of {self.log}:\n{lines}"
        return sentence


def start(
    what: str, command: Command, log: Path, run_id: str, *, leaf: Leaf | None = None
) -> Child:
    """Starts a process of a run: own session, so that the terminal's Ctrl-C does not reach it."""
    own = {**command.env, RUN_MARK: run_id}
    enter = leaf.enter() if leaf else []
    limits = command.rights.before(own) if command.rights else []
    whole = [*enter, *limits, *command.argv]
    as_user = command.rights is not None and command.rights.user is not None
    with written(log):
        stream = appending(log)
    with stream:
        try:
            process = subprocess.Popen(
                whole,
                stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
                stdout=stream,
                stderr=subprocess.STDOUT,
                cwd=command.cwd,
                # As long as it is root, nothing of what the user may say reaches it.
                env={"PATH": PATH, RUN_MARK: run_id} if as_user else {**os.environ, **own},
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchError(f"cannot start {what}, {command.argv[0]}: {error.strerror}") from None
    if process.stdin and command.stdin:
        with contextlib.suppress(BrokenPipeError):  # its end is seen by `check`
            process.stdin.write(command.stdin.encode())
            process.stdin.flush()
    return Child(what, process, log)

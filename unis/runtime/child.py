"""Processes of a run: how they are started, and what is said when one ends."""

import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unis.runtime.cgroup import Leaf
from unis.runtime.directory import last_lines
from unis.runtime.errors import LaunchError, RunFailedError
from unis.runtime.files import appending, written
from unis.runtime.state import RUN_MARK

_BAD_USAGE = 2  # exit code of a program whose arguments or files are wrong


@dataclass(frozen=True)
class Child:
    """A process that was started."""

    what: str
    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raises RunFailedError if it has ended."""
        code = self.process.poll()
        if code is None:
            return
        how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
        sentence = f"{self.what} (pid {self.process.pid}) {how}"
        if lines := last_lines(self.log):
            sentence += f"; the end of {self.log}:\n{lines}"
        raise RunFailedError(sentence, bad_input=code == _BAD_USAGE)


def start(
    what: str,
    argv: Sequence[str],
    log: Path,
    run_id: str,
    *,
    leaf: Leaf | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    user: str | None = None,
) -> Child:
    """Starts a process of a run: own session, so that the terminal's Ctrl-C does not reach it."""
    whole = [*(leaf.enter() if leaf else []), *(_as_user(user) if user else []), *argv]
    with written(log):
        stream = appending(log)
    with stream:
        try:
            process = subprocess.Popen(
                whole,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env={
                    **os.environ,
                    **(_home(user) if user else {}),
                    **(env or {}),
                    RUN_MARK: run_id,
                },
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchError(f"cannot start {what}, {argv[0]}: {error.strerror}") from None
    return Child(what, process, log)


def _as_user(user: str) -> list[str]:
    account = pwd.getpwnam(user)
    return [
        "setpriv",
        f"--reuid={account.pw_uid}",
        f"--regid={account.pw_gid}",
        "--init-groups",
        "--no-new-privs",
        "--",
    ]


def _home(user: str) -> dict[str, str]:
    account = pwd.getpwnam(user)
    return {"HOME": account.pw_dir, "USER": user, "LOGNAME": user}

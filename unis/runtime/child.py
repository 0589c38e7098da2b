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

_PATH = "/usr/local/bin:/usr/bin:/bin"
_BAD_USAGE = 2  # exit code of a program whose arguments or files are wrong; of any Go panic too


@dataclass(frozen=True)
class Child:
    """A process that was started."""

    what: str
    process: subprocess.Popen[bytes]
    log: Path

    def check(self, *, starting: bool = True) -> None:
        """Raises RunFailedError if it has ended; only while `starting` can that be bad input."""
        code = self.process.poll()
        if code is None:
            return
        how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
        sentence = f"{self.what} (pid {self.process.pid}) {how}"
        if lines := last_lines(self.log):
            sentence += f"; the end of {self.log}:\n{lines}"
        raise RunFailedError(sentence, bad_input=starting and code == _BAD_USAGE)


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
    own = {**(env or {}), RUN_MARK: run_id}
    enter = leaf.enter() if leaf else []
    whole = [*enter, *(_as_user(user, own) if user else []), *argv]
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
                # As long as it is root, nothing of what the user may say reaches it.
                env={"PATH": _PATH, RUN_MARK: run_id} if user else {**os.environ, **own},
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchError(f"cannot start {what}, {argv[0]}: {error.strerror}") from None
    return Child(what, process, log)


def _as_user(user: str, env: Mapping[str, str]) -> list[str]:
    """Put before a command line: it becomes the user's, and then gets an environment of its own."""
    account = pwd.getpwnam(user)
    home = {"PATH": _PATH, "HOME": account.pw_dir, "USER": user, "LOGNAME": user}
    return [
        "setpriv",
        f"--reuid={account.pw_uid}",
        f"--regid={account.pw_gid}",
        "--init-groups",
        "--no-new-privs",
        "--",
        *("env", "-i", *(f"{key}={value}" for key, value in {**home, **env}.items())),
    ]

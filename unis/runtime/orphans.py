"""Processes that a function leaves behind: one that daemonises forks, and its first process exits.

The kernel gives such a process to the nearest ancestor that asked for it. That is the launcher, so
it hears how the process ends as it does of those that it has started.
"""

import contextlib
import ctypes
import os
import subprocess
import time
from collections.abc import Collection
from dataclasses import dataclass

from unis.runtime.errors import LaunchError, RunFailedError
from unis.runtime.process import ProcessId, children

FUNCTION_MARK = "UNIS_FUNCTION"  # environment of every process of a function: run id and name
_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_ONE_SECONDS = 5.0  # for one that forks twice to leave one process
_LOOK_SECONDS = 0.01


def adopt_orphans() -> None:
    """From now on processes that we, or those whom we start, leave without a parent are ours."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_CHILD_SUBREAPER, *map(ctypes.c_ulong, (1, 0, 0, 0))) != 0:
        raise LaunchError(
            f"cannot become the parent of background processes: {os.strerror(ctypes.get_errno())}",
            bad_input=False,
        )


@dataclass
class Orphan:
    """A child that we did not start; what of `subprocess.Popen` is needed to look after it."""

    pid: int
    left_by: object  # with it the other end of its standard input would go
    returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that killed it; None while it runs."""
        if self.returncode is None:
            try:
                ended, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # as Popen does where somebody else has reaped it
                self.returncode = 0
            else:
                self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end; subprocess.TimeoutExpired after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(_LOOK_SECONDS)
        return code


def adopted(pid: int, seconds: float) -> bool:
    """Waits till a process whose parent ends is our child."""
    end = time.monotonic() + seconds
    while True:
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            if time.monotonic() > end:
                return False
            time.sleep(_LOOK_SECONDS / 10)
        else:
            return True


def mark_of(run_id: str, function: str) -> str:
    """What `FUNCTION_MARK` says of it."""
    return f"{run_id}.{function}"


def orphans(mark: str) -> list[ProcessId]:
    """The living processes of a function that are our children."""
    return children(os.getpid(), FUNCTION_MARK, mark)


def left_behind(mark: str, by: int) -> ProcessId | None:
    """The process that goes on for a function of which `by` has ended; None: there is none.

    RunFailedError where there are several: nobody knows which of them is the function.
    """
    end = time.monotonic() + _ONE_SECONDS
    looked = False
    while True:
        found = orphans(mark)
        if len(found) == 1:
            return found[0]
        if not found and looked:  # twice: a look takes a while, in which one may fork
            return None
        looked = not found
        if time.monotonic() > end:
            pids = ", ".join(str(process.pid) for process in found)
            raise RunFailedError(
                f"process {by} exited and left several ({pids}); a function that goes into the "
                "background must leave one process"
            )
        time.sleep(_LOOK_SECONDS)


def reap(known: Collection[int]) -> None:
    """Lets go of orphans that have ended, which nobody else waits for."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in known:
                return  # the others at the next look
            os.waitpid(ended.si_pid, os.WNOHANG)

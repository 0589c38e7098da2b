"""Undoes a run whose launcher was killed, or whose engine died and nobody minds.

A process of its own in a session of its own. It sleeps till its standard input closes (the
launcher has died) or unisd dies. The launcher writes `unisd PID` once and `down` at the end.
"""

import os
import select
import signal
import sys
import time
from pathlib import Path

from unis.runtime.clean_up import clean_up
from unis.runtime.directory import RunDirectory, keep_off_functions
from unis.runtime.state import Phase, RunState

# The launcher sees unisd die too, and takes the run down with a better account of it.
_LAUNCHER_SECONDS = 5.0


class _Guard:
    def __init__(self, directory: RunDirectory, run_id: str) -> None:
        self._directory = directory
        self._run_id = run_id
        self._poll = select.poll()
        self._unisd: int | None = None

    def watch(self) -> str | None:
        """Sleeps till something happens; why the run must be undone, None if it was."""
        self._poll.register(0, select.POLLIN | select.POLLHUP)
        unread = b""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._unisd:
                    return "unisd died"
                received = os.read(0, 4096)
                if not received:
                    return "the process that ran `unis up` died"
                *lines, unread = (unread + received).split(b"\n")
                for line in lines:
                    if line == b"down":
                        return None
                    if not self._watch_unisd(int(line.split()[1])):
                        return "unisd died"

    def _watch_unisd(self, pid: int) -> bool:
        try:
            self._unisd = os.pidfd_open(pid)
        except ProcessLookupError:  # it was faster
            return False
        self._poll.register(self._unisd, select.POLLIN)
        return True

    def state(self) -> RunState | None:
        """The state of the run that is guarded; None once it is undone."""
        state = self._directory.read()
        return state if state and state.run_id == self._run_id else None

    def undo(self, reason: str) -> None:
        """Leaves it to the launcher if that lives, else undoes the run."""
        end = time.monotonic() + _LAUNCHER_SECONDS
        while (state := self.state()) and state.live() and time.monotonic() < end:
            time.sleep(0.05)
        if state and state.phase == Phase.STOPPING:  # it did not finish
            reason = state.reason or reason
        keep_off_functions()  # also of runs that came later
        for problem in clean_up(self._directory, self._run_id, reason):
            sys.stderr.write(f"{problem}\n")


def main() -> None:
    """`python -P -m unis.runtime.guard RUN_DIRECTORY RUN_ID`."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    keep_off_functions()
    guard = _Guard(RunDirectory(Path(sys.argv[1])), sys.argv[2])
    if reason := guard.watch():
        guard.undo(reason)


if __name__ == "__main__":
    main()

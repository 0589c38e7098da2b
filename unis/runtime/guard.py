"""Gives functions back when nobody else can, and undoes a run that nobody minds.

A process of its own in a session of its own. It sleeps till its standard input closes (the
launcher has died) or unisd dies; then it undoes the run. The launcher writes `unisd PID` once and
`down` at the end.

Meanwhile it looks, fifty times a second, whether unisd's schedulers go on. Where one stands
still, or unisd has died, every thread that unisd holds is back in its old scheduling class within
100 ms; a unisd that goes on takes them again.

Where the functions are somebody else's, unisd's death undoes nothing: they go on under the kernel,
and the launcher starts another unisd, which the guard looks after then.
"""

import contextlib
import os
import select
import signal
import sys
import time
from datetime import datetime
from pathlib import Path

from unis.runtime.clean_up import clean_up
from unis.runtime.directory import RunDirectory, keep_off_functions
from unis.runtime.held import HeldFile, Stillness
from unis.runtime.state import Phase, RunState

# The launcher sees unisd die too, and takes the run down with a better account of it.
_LAUNCHER_SECONDS = 5.0

_LOOK_EVERY_MS = 20
_PATIENCE = 3  # looks; with what passes before the first of them, at most 80 ms
_PATIENCE_WHILE_CHANGING = 75


class _Guard:
    def __init__(self, directory: RunDirectory, run_id: str) -> None:
        self._directory = directory
        self._run_id = run_id
        self._poll = select.poll()
        self._unisd: int | None = None
        self._held: HeldFile | None = None
        self._unreadable = False
        self._stillness = Stillness(_PATIENCE, _PATIENCE_WHILE_CHANGING)

    def watch(self) -> str | None:
        """Sleeps till something happens; why the run must be undone, None if it was."""
        self._poll.register(0, select.POLLIN | select.POLLHUP)
        unread = b""
        while True:
            ready = self._poll.poll(None if self._unisd is None else _LOOK_EVERY_MS)
            # Lines first: a launcher that names the next unisd has put back what the last one held.
            if any(descriptor == 0 for descriptor, _ in ready):
                received = os.read(0, 4096)
                if not received:
                    return "the process that ran `unis up` died"
                *lines, unread = (unread + received).split(b"\n")
                for line in lines:
                    if line == b"down":
                        return None
                    pid = int(line.split()[1])
                    if not self._watch_unisd(pid) and not self._outlives_unisd():
                        return "unisd died"
            elif ready and not self._outlives_unisd():
                return "unisd died"
            if self._unisd is not None:
                self._look()

    def _outlives_unisd(self) -> bool:
        """Returns the functions if they are somebody else's, and waits for another unisd."""
        state = self.state()
        if state is None or not state.attached:
            return False
        self.put_back("unisd died", dead=True)
        self._forget_unisd()
        return True

    def _forget_unisd(self) -> None:
        if self._unisd is not None:
            self._poll.unregister(self._unisd)
            os.close(self._unisd)
            self._unisd = None
        if self._held:
            self._held.close()
            self._held = None
        self._stillness = Stillness(_PATIENCE, _PATIENCE_WHILE_CHANGING)

    def _watch_unisd(self, pid: int) -> bool:
        self._forget_unisd()
        try:
            self._unisd = os.pidfd_open(pid)
        except ProcessLookupError:  # it was faster
            return False
        self._poll.register(self._unisd, select.POLLIN)
        return True

    def _look(self) -> None:
        """Gives the functions back if a scheduler of unisd stands still."""
        held = self._open()
        if held and self._stillness.look(held.pulse()):
            self.put_back("a scheduler of unisd stands still")
            held.tell_returned()  # only now: from here on unisd may take them again

    def _open(self) -> HeldFile | None:
        if self._held is None and not self._unreadable:
            try:
                self._held = HeldFile.open(self._directory.held)
            except ValueError as error:
                self._unreadable = True
                _note(str(error))
        return self._held

    def put_back(self, reason: str, *, dead: bool = False) -> None:
        """Returns every thread that unisd holds to its class before, and lets it go on.

        From a unisd that is `dead` to its CPUs too, for nobody takes it again.
        """
        held = self._open()
        threads = held.threads() if held else []
        problems = [problem for thread in threads if (problem := thread.put_back(cpus=dead))]
        if threads:
            _note(f"{reason}: the functions have their old scheduling classes again")
        for problem in problems:
            _note(problem)

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
            _note(problem)


def _note(line: str) -> None:
    """Adds to the event log, which is our standard error."""
    now = datetime.now().astimezone().isoformat(timespec="milliseconds")
    sys.stderr.write(f"{now} guard: {line}\n")


def _hurry(wanted: bool) -> None:
    """Goes before all ordinary processes of its CPU, where it may; it never runs for long."""
    policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK if wanted else os.SCHED_OTHER
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, policy, os.sched_param(1 if wanted else 0))


def main() -> None:
    """`python -P -m unis.runtime.guard RUN_DIRECTORY RUN_ID`."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    keep_off_functions()
    guard = _Guard(RunDirectory(Path(sys.argv[1])), sys.argv[2])
    _hurry(True)
    reason = guard.watch()
    if reason:
        guard.put_back(reason, dead=True)
    _hurry(False)
    if reason:
        guard.undo(reason)


if __name__ == "__main__":
    main()

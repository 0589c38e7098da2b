"""Ctrl-C and SIGTERM become an exception, once; a second one makes what undoes the run hurry."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from unis.runtime.errors import InterruptedRunError, RunTimeoutError
from unis.signals import ENDING, postponed


class Interrupts:
    """Raises once; afterwards it only counts."""

    def __init__(self) -> None:
        # Whether a signal raises; else it is only counted. Set it to False by an assignment: at
        # the beginning of a call a handler may still run.
        self.armed = True
        self._count = 0
        self.first = "SIGINT"  # the name of the first signal that was heard
        self._sent_again: set[int] = set()  # signals that are counted, and come once more
        self._expired: RunTimeoutError | None = None
        self._deferring = False
        self._late: BaseException | None = None

    def resume(self) -> None:
        """Signals raise again; what came meanwhile is raised."""
        if self._count:
            raise InterruptedRunError(self.first)
        if self._expired:
            raise self._expired
        self.armed = True

    def forced(self) -> bool:
        """Whether somebody insists: nothing is asked to end politely any more."""
        return self._count > 1

    def heard(self) -> bool:
        """Whether there was a signal, also one that came too late to raise anything."""
        return self._count > 0

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """What would be raised while this lasts is raised at its end: what was begun is done.

        It comes before an exception of the block, which becomes its cause.
        """
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False
            late, self._late = self._late, None
            if late:
                raise late from sys.exception()

    @contextmanager
    def within(self, seconds: float | None, what: str) -> Iterator[None]:
        """Raises RunTimeoutError "`what` within … s" if the block takes longer; None: never."""
        if seconds is None:
            yield
            return

        over = False

        def expire(number: int, _frame: FrameType | None) -> None:
            if not over and not postponed(number):
                self._expired = RunTimeoutError(f"{what} within {seconds:g} s")
                self._raise(self._expired)

        before = signal.signal(signal.SIGALRM, expire)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            over = True
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            self._expired = None

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        late = postponed(number)
        if number in self._sent_again and not late:
            self._sent_again.remove(number)
        else:
            self._count += 1
        if self._count == 1:
            self.first = signal.Signals(number).name
        if late:
            self._sent_again.add(number)
        else:
            self._raise(InterruptedRunError(self.first))

    def _raise(self, error: BaseException) -> None:
        if not self.armed:
            return
        self.armed = False
        if not self._deferring:
            raise error
        self._late = error


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """While this lasts, the first of SIGINT, SIGTERM and SIGHUP raises InterruptedRunError.

    Not those that `nohup`, or `&` in a script, has us ignore; but SIGTERM is how a run is ended.
    """
    switch = Interrupts()
    heard = [
        number
        for number in ENDING
        if number == signal.SIGTERM or signal.getsignal(number) != signal.SIG_IGN
    ]
    before = {number: signal.signal(number, switch._on_signal) for number in heard}  # noqa: SLF001
    try:
        yield switch
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def forget_handlers() -> None:
    """Restores the default action of each signal, in a fork. A pending signal acts at once."""
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*ENDING, signal.SIGALRM))

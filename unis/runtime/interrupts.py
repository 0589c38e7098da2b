"""Ctrl-C and SIGTERM become an exception, once; a second one makes what undoes the run hurry."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from unis.runtime.errors import InterruptedRunError, RunFailedError
from unis.signals import ENDING, postponed


class Interrupts:
    """Raises once; afterwards it only counts."""

    def __init__(self) -> None:
        self._armed = True
        self._count = 0
        self.first = "SIGINT"  # the name of the first signal that was heard
        self._deferring = False
        self._late: BaseException | None = None

    def hold(self) -> None:
        """From now on signals are only counted."""
        self._armed = False

    def resume(self) -> None:
        """They are heard again; what came meanwhile is raised."""
        if self._count:
            raise InterruptedRunError(self.first)
        self._armed = True

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
        """Raises RunFailedError "`what` within … s" if the block takes longer; None: never."""

        def expire(number: int, _frame: FrameType | None) -> None:
            if self._armed and not postponed(number):
                self._raise(RunFailedError(f"{what} within {seconds:g} s"))

        before = signal.signal(signal.SIGALRM, expire)
        signal.setitimer(signal.ITIMER_REAL, seconds or 0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if postponed(number):
            return
        self._count += 1
        if self._count == 1:
            self.first = signal.Signals(number).name
        if self._armed:
            self._armed = False
            self._raise(InterruptedRunError(self.first))

    def _raise(self, error: BaseException) -> None:
        if not self._deferring:
            raise error
        self._late = self._late or error


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

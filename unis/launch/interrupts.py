"""Ctrl-C and SIGTERM become an exception, once; what then undoes the run is not disturbed."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from unis.launch.errors import InterruptedRunError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """The switch of the exception."""

    def __init__(self) -> None:
        self._armed = True
        self.pending = False

    def hold(self) -> None:
        """From now on signals are only noted."""
        self._armed = False

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.pending = True
        if self._armed:
            self._armed = False
            raise InterruptedRunError(signal.Signals(number).name)


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """While this lasts, the first of SIGINT, SIGTERM and SIGHUP raises InterruptedRunError."""
    switch = Interrupts()
    before = {number: signal.signal(number, switch._on_signal) for number in _SIGNALS}  # noqa: SLF001
    try:
        yield switch
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

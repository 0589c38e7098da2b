"""Signals that another thread than the main one takes."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

_SECONDS = 10.0  # a bound, not an expectation


def taken_by_another_thread(number: int) -> None:
    """Call it where this thread, the main one, blocks the signal, and any other does not.

    Returns when the handler has run here, and has sent the signal again to this thread alone.
    """
    assert number in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert not _waits(number), "else nobody sees whether it comes again"
    os.kill(os.getpid(), number)
    assert wait_until(lambda: _waits(number)), "no other thread took it"


def wait_until(true: Callable[[], bool]) -> bool:
    """Whether it is so, soon."""
    end = time.monotonic() + _SECONDS
    while not (so := true()) and time.monotonic() < end:
        time.sleep(0.001)
    return so


def _waits(number: int) -> bool:
    """Whether the kernel keeps the signal for this thread, and not for any of the process."""
    status = Path(f"/proc/self/task/{os.getpid()}/status").read_text()
    return bool(int(status.partition("SigPnd:")[2].split()[0], 16) & 1 << number - 1)

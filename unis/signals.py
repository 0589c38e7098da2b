"""Signals that wait, while what one must not cut in two is done."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # ask a process to end


@contextmanager
def blocked() -> Iterator[None]:
    """Blocks ENDING and SIGALRM, also in a fork or thread begun meanwhile. The kernel keeps them.

    Their handlers run when the block ends; what a handler raises is raised there.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        # Handlers of earlier signals may run, and raise, as this call returns.
        signal.pthread_sigmask(signal.SIG_BLOCK, (*ENDING, signal.SIGALRM))
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

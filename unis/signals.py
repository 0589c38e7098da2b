"""Signals that wait, while what one must not cut in two is done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # ask a process to end


@contextmanager
def blocked() -> Iterator[None]:
    """Blocks ENDING and SIGALRM, also in a fork or thread begun meanwhile. The kernel keeps them.

    Their handlers run when the block ends; what a handler raises is raised there.

    But if any other thread does not block a signal, the kernel has that thread take it, and Python
    runs the handler inside the block. So threads of ours begin in such a block; libraries have
    others, so a handler that raises asks `postponed` first.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        # As this call returns, handlers of earlier signals may run; those of others may raise.
        signal.pthread_sigmask(signal.SIG_BLOCK, (*ENDING, signal.SIGALRM))
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def postponed(number: int) -> bool:
    """Whether a handler runs inside `blocked`, for another thread took the signal; then it returns.

    The signal is sent again, to this thread alone: the handler runs again when the block ends.
    """
    if number not in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
        return False
    signal.pthread_kill(threading.get_ident(), number)
    return True

"""What holds for every test."""

import signal


def pytest_configure() -> None:
    """Ctrl-C reaches what the tests start, also where they run in a shell's background.

    There a shell has SIGINT ignored, and a child that was born so never hears of it.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

"""What holds for every test."""

import signal


def pytest_configure() -> None:
    """Ctrl-C reaches what the tests start, also where they run in a shell's background or by nohup.

    There these signals are ignored, and a child that was born so never hears of them.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

"""What holds for every test. No test asserts how long something takes: machines differ, and others
work on them too.
"""

import signal

from hypothesis import settings

# `pytest --hypothesis-profile=thorough` tries more examples than `make test`, `check` tries fewer.
# Here, since Hypothesis takes that option before it reads the conftest of a folder.
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.register_profile("unis", deadline=None, max_examples=50)
settings.register_profile("check", deadline=None, max_examples=10)
settings.load_profile("unis")


def pytest_configure() -> None:
    """Ctrl-C reaches what the tests start, also where they run in a shell's background or by nohup.

    There these signals are ignored, and a child that was born so never hears of them.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

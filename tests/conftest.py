"""What holds for every test. No test asserts how long something takes, because machines differ and
others work on them too; only test_idle.py does, by a wide share.
"""

import signal

from hypothesis import settings

# `make test` tries the same examples each time, so that it fails for a change and not by chance.
# `pytest --hypothesis-profile=thorough` tries more, and others each time.
# Here, since Hypothesis takes that option before it reads the conftest of a folder.
for name, examples in {"thorough": 100, "unis": 30, "check": 10}.items():
    settings.register_profile(
        name,
        deadline=None,
        max_examples=examples,
        derandomize=name != "thorough",
        print_blob=True,
    )
settings.load_profile("unis")


def pytest_configure() -> None:
    """Ctrl-C reaches what the tests start, also where they run in a shell's background or by nohup.

    There these signals are ignored, and a child that was born so never hears of them.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

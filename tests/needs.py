"""What tests need of the machine. What is missing fails a test in continuous integration (CI=true);
elsewhere it skips the test.
"""

import os

import pytest


def need(there: bool, sentence: str) -> None:
    """Goes on only where it is there."""
    if there:
        return
    if os.environ.get("CI"):
        pytest.fail(sentence)
    pytest.skip(sentence)


def need_root() -> None:
    """For scheduling classes, hugepages and other people's processes."""
    need(os.geteuid() == 0, "needs root")


def need_real_time() -> None:
    """A CPU that real-time threads may keep busy, beside that of the test itself."""
    need(os.geteuid() == 0 and (os.cpu_count() or 1) > 1, "needs root and two CPUs")

"""What tests need of the machine. What is missing fails a test in continuous integration (CI=true);
elsewhere it skips the test.
"""

import os

import pytest

NO_BUILD = "/nonexistent/no-build-in-unit-tests"  # what UNIS_BUILD names in them


def need(there: bool, sentence: str) -> None:
    """Goes on only where it is there. A unit test may need nothing, whatever is there."""
    if os.environ.get("UNIS_BUILD") == NO_BUILD:
        pytest.fail(f"mark this test `system`: it {sentence}")
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

"""One lock for the machine: names, CPUs and hugepages are looked at and claimed in one go."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from unis.runtime.directory import RunDirectory, all_runs, base_directory
from unis.runtime.errors import LaunchError
from unis.runtime.files import own_directory, written
from unis.runtime.state import RunState

_SECONDS = 30.0  # claiming takes milliseconds; undoing what a killed run has left, seconds


@contextmanager
def machine_lock(seconds: float = _SECONDS) -> Iterator[None]:
    """While this lasts no other `unis up` claims anything. LaunchError if another one holds on."""
    own_directory(base_directory(), 0o755)
    path = base_directory() / "lock"
    with ExitStack() as stack:
        with written(path):
            stack.enter_context(locked(path, os.O_RDWR | os.O_CREAT, seconds))
        yield


def settled_runs() -> list[tuple[RunDirectory, RunState]]:
    """Every run, also one that is just being noted: a launcher that brings its run up again puts
    the folder of the last one away before it makes the next. LaunchError as of `machine_lock`.
    """
    if os.geteuid() != 0 or not base_directory().exists():  # whoever claims is root
        return all_runs()
    with machine_lock():
        return all_runs()


@contextmanager
def locked(path: Path, flags: int = os.O_RDONLY, seconds: float = _SECONDS) -> Iterator[None]:
    """Holds the lock of a file or folder. OSError if it cannot be opened; LaunchError: held on."""
    # Whoever may read it may hold it, and hold everybody up.
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        _wait(descriptor, path, seconds)
        yield
    finally:
        os.close(descriptor)


def _wait(descriptor: int, path: Path, seconds: float) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise LaunchError(
                    f"another process has held {path} for {seconds:.0f} s: see which with "
                    f"`fuser {path}`",
                    bad_input=False,
                ) from None
        time.sleep(0.02)

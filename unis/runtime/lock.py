"""One lock for the machine: names, CPUs and hugepages are looked at and claimed in one go."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager

from unis.runtime.directory import base_directory
from unis.runtime.errors import LaunchError
from unis.runtime.files import own_directory

_SECONDS = 30.0  # claiming takes milliseconds; undoing what a killed run has left, seconds


@contextmanager
def machine_lock(seconds: float = _SECONDS) -> Iterator[None]:
    """While this lasts no other `unis up` claims anything. LaunchError if another one holds on."""
    own_directory(base_directory(), 0o755)
    path = base_directory() / "lock"
    end = time.monotonic() + seconds
    with path.open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise LaunchError(
                        f"another `unis up` has held {path} for {seconds:.0f} s: see who with "
                        f"`fuser {path}`",
                        bad_input=False,
                    ) from None
                time.sleep(0.02)
        yield

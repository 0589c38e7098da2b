"""Files that others read while they are written, locks, folders that nobody else may write."""

import contextlib
import fcntl
import os
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from unis.runtime.errors import LaunchError

# To claim takes milliseconds; to undo what a killed run has left, seconds.
LOCK_SECONDS = 30.0


def write_atomically(file: Path, text: str, mode: int = 0o600) -> None:
    """Replaces `file` in one step: readers see the old or the new text. OSError if it cannot."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text)
            os.fchmod(handle, mode)
        Path(name).replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def check_writable(folder: Path) -> None:
    """Makes a folder, unless it is there, and a file in it. OSError if it cannot."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def appending(file: Path) -> BinaryIO:
    """A log to write on: made for us alone, for its folder may be open to a function's user."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    return os.fdopen(os.open(file, flags, 0o600), "ab")


def remove_tree(directory: Path) -> list[str]:
    """Removes a folder and all that is in it, if it is there; what could not be, as sentences.

    By rm(1), which goes as deep as whoever filled it did, and follows no link put there meanwhile.
    """
    done = subprocess.run(
        ["rm", "-rf", "--", directory],
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        errors="replace",
        start_new_session=True,  # a second Ctrl-C does not reach it
        check=False,
    )
    said = [line.removeprefix("rm: ") for line in done.stderr.splitlines()]
    if done.returncode and not said:
        said = [f"cannot remove {directory}: rm ended with {done.returncode}"]
    return said


@contextlib.contextmanager
def written(path: Path) -> Iterator[None]:
    """Makes a LaunchError of an OSError: without its notes no run is started."""
    try:
        yield
    except OSError as error:
        raise LaunchError(
            f"cannot write {path}: {error.strerror}; is there room on its file system?",
            bad_input=False,
        ) from None


@contextlib.contextmanager
def locked(path: Path, flags: int = os.O_RDONLY, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Holds the lock of a file or folder. OSError if it cannot be opened; LaunchError: held on."""
    # Whoever may read it may hold it, and hold everybody up.
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        end = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise LaunchError(
                        f"another process has held {path} for {seconds:.0f} s: see which with "
                        f"`fuser {path}`",
                        bad_input=False,
                    ) from None
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def own_directory(path: Path, mode: int) -> None:
    """Makes `path`, or sees to it that it is ours alone to write; else LaunchError."""
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=mode)
            path.chmod(mode)  # mkdir heeds the umask
        found = path.lstat()
    except OSError as error:
        raise LaunchError(f"cannot make {path}: {error.strerror}") from None
    if trouble := _trouble(found):
        raise LaunchError(
            f"{path} {trouble}, and UNiS runs as root what is noted there: find out who made it, "
            "and remove it"
        )


def is_ours(path: Path) -> bool:
    """Whether it is a folder that only we can have written."""
    try:
        return _trouble(path.lstat()) is None
    except OSError:
        return False


def _trouble(found: os.stat_result) -> str | None:
    if not stat.S_ISDIR(found.st_mode):
        return "is not a folder"
    if found.st_uid != os.geteuid():
        return f"belongs to user {found.st_uid}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "may be written by others"
    return None

"""The logs of runs that have ended: the last few are kept, for `unis logs`."""

import contextlib
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from unis.runtime.directory import RunDirectory, all_runs, base_directory, run_directory
from unis.runtime.errors import LaunchError
from unis.runtime.files import own_directory, remove_tree

KEPT = 10  # runs


@dataclass(frozen=True)
class EndedRun:
    """The logs of one run that is down."""

    name: str
    ended: int  # seconds since 1970
    directory: RunDirectory


def keep(directory: RunDirectory) -> None:
    """Moves the logs of a run where they outlast it, and forgets the oldest."""
    logs = directory.logs()
    if not logs:
        return
    own_directory(_kept(), 0o755)
    # Two runs of one name do not end within a nanosecond.
    place = _kept() / f"{time.time_ns()}.{directory.name}"
    place.mkdir(mode=0o700)
    for log in logs:
        shutil.move(log, place / log.name)
    for old in ended()[KEPT:]:
        shutil.rmtree(old.directory.path, ignore_errors=True)


def put_away(directory: RunDirectory) -> list[str]:
    """Removes the folder of a run that is undone, but for its logs; what could not be done."""
    try:
        keep(directory)
    except (OSError, LaunchError) as error:  # nobody may have read them yet
        problem = f"cannot keep the logs of `{directory.name}`, which stay in {directory.path}"
        return [f"{problem}: {error}", *_remove_but_logs(directory)]
    return remove_tree(directory.path)


def _remove_but_logs(directory: RunDirectory) -> list[str]:
    """Without its state it is no run any more."""
    problems: list[str] = []
    try:
        for path in {*directory.path.iterdir()} - {*directory.logs()}:
            if path.is_dir() and not path.is_symlink():
                problems += remove_tree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        problems.append(f"cannot remove {error.filename}: {error.strerror}")
    return problems


def ended() -> list[EndedRun]:
    """The runs whose logs are kept, the last first."""
    found: list[EndedRun] = []
    with contextlib.suppress(OSError):
        for path in _kept().iterdir():
            nanoseconds, _, name = path.name.partition(".")
            if nanoseconds.isdigit():
                found.append(EndedRun(name, int(nanoseconds) // 10**9, RunDirectory(path)))
    return sorted(found, key=lambda run: run.directory.name, reverse=True)


def latest(name: str | None) -> RunDirectory | None:
    """The logs of the run called `name`, else of the one that runs, or ended last, if any."""
    here = [run_directory(name)] if name else [directory for directory, _ in all_runs()]
    written = [
        (max(log.stat().st_mtime for log in logs), directory.name)
        for directory in here
        if (logs := directory.logs())
    ]
    if written:
        return run_directory(max(written)[1])
    return next((run.directory for run in ended() if name in (None, run.name)), None)


def _kept() -> Path:
    return base_directory() / "ended"

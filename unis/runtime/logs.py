"""The logs of runs that have ended: the last few are kept, for `unis logs`."""

import contextlib
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from unis.runtime.directory import RunDirectory, all_runs, base_directory, run_directory
from unis.runtime.errors import LaunchError
from unis.runtime.files import appending, own_directory, remove_tree

KEPT = 10  # runs
LOG_BYTES = 4 << 20  # of one log: they are in memory, where most have /run


@dataclass(frozen=True)
class EndedRun:
    """The logs of one run that is down."""

    name: str
    ended_ns: int  # since 1970
    directory: RunDirectory

    @property
    def ended(self) -> int:
        """Seconds since 1970."""
        return self.ended_ns // 10**9


def keep(directory: RunDirectory, *, instead: bool = False) -> list[str]:
    """Moves the logs of a run where they outlast it, and forgets the oldest; what could not be.

    `instead` of those of the last run of its name: of many tries that fail alike one is enough.
    """
    logs = directory.logs()
    if not logs:
        return []
    own_directory(_kept(), 0o755)
    # Two runs of one name do not end within a nanosecond.
    same = [old for old in ended() if old.name == directory.name]
    place = _kept() / f"{time.time_ns()}.{directory.name}"
    place.mkdir(mode=0o700)
    for log in logs:
        shutil.move(log, place / log.name)
    forgotten = same[:1] if instead else ended()[KEPT:]
    return [problem for old in forgotten for problem in remove_tree(old.directory.path)]


def shorten(log: Path, most: int = LOG_BYTES) -> None:
    """Leaves the last quarter of `most` of a log that has more, and says so in its first line.

    Who writes on it appends, and goes on at its new end; what is written meanwhile may be lost.
    """
    with contextlib.suppress(OSError):
        size = log.stat().st_size
        if size <= most:
            return
        with log.open("rb") as stream:
            stream.seek(size - most // 4)
            end = stream.read(most // 4)
        os.truncate(log, 0)
        with appending(log) as shorter:
            shorter.write(b"unis: %d bytes before this were left out\n%s" % (size - len(end), end))


def put_away(directory: RunDirectory, *, instead: bool = False) -> list[str]:
    """Removes the folder of a run that is undone, but for its logs; what could not be done.

    `instead`: as for `keep`.
    """
    try:
        problems = keep(directory, instead=instead)
    except (OSError, LaunchError) as error:  # nobody may have read them yet
        problem = f"cannot keep the logs of `{directory.name}`, which stay in {directory.path}"
        return [f"{problem}: {error}", *_remove_but_logs(directory)]
    return problems + remove_tree(directory.path)


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
                found.append(EndedRun(name, int(nanoseconds), RunDirectory(path)))
    return sorted(found, key=lambda run: run.directory.name, reverse=True)


def latest(name: str | None) -> RunDirectory | None:
    """The logs of the run called `name`, else of the one that runs, or ended last, if any."""
    here = [run_directory(name)] if name else [directory for directory, _ in all_runs()]
    found: list[tuple[tuple[bool, int], RunDirectory]] = []
    for directory in here:
        if written := _last_written(directory):
            state = directory.read()
            found.append(((state is not None and state.live(), written), directory))
    found += [((False, run.ended_ns), run.directory) for run in ended() if name in (None, run.name)]
    return max(found, key=lambda entry: entry[0])[1] if found else None


def _last_written(directory: RunDirectory) -> int:
    """When, in ns since 1970; 0 where there are no logs."""
    times = [0]
    for log in directory.logs():
        with contextlib.suppress(FileNotFoundError):  # the run ends just now
            times.append(log.stat().st_mtime_ns)
    return max(times)


def _kept() -> Path:
    return base_directory() / "ended"

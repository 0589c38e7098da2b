"""The open files of a process, seen from outside."""

import contextlib
from pathlib import Path

from unis.runtime.errors import LaunchError

# What UNiS' EAL plug-in shares with the engine (ports/unis_ports/turns_shm.h), in bytes.
_TURNS = "/memfd:unis_turns"
_TURNS_HEAD, _TURNS_PLACE, _TURNS_PLACES = 64, 128, 32


def open_files(pid: int) -> list[tuple[Path, str]]:
    """By their number, and what they are links to; LaunchError if nobody may look."""
    try:
        files = list(Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:
        raise LaunchError(f"there is no process {pid}") from None
    except OSError as error:
        raise LaunchError(f"cannot look at the files of process {pid}: {error.strerror}") from None
    found: list[tuple[Path, str]] = []
    for path in sorted(files, key=lambda path: int(path.name)):
        with contextlib.suppress(OSError):
            found.append((path, str(path.readlink())))
    return found


def sockets_of(pid: int) -> set[int]:
    """The inodes of its sockets; none if nobody may look."""
    with contextlib.suppress(LaunchError):
        targets = [target for _, target in open_files(pid)]
        return {int(target[8:-1]) for target in targets if target.startswith("socket:[")}
    return set()


def has_polled(pid: int) -> bool:
    """Whether a thread of it has polled a port, as UNiS' EAL plug-in notes it: the place of a
    thread begins with its number, a free one with 0.
    """
    with contextlib.suppress(LaunchError, OSError):
        for path, target in open_files(pid):
            if target.startswith(_TURNS):
                with path.open("rb") as file:
                    noted = file.read(_TURNS_HEAD + _TURNS_PLACE * _TURNS_PLACES)
                return any(
                    any(noted[at : at + 4]) for at in range(_TURNS_HEAD, len(noted), _TURNS_PLACE)
                )
    return False

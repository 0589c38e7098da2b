"""Kernel settings that engines which were killed have changed, put back.

The engine notes each change in a ledger and puts it back itself (its format, and who may hold a
lease: engine/controller/kernel_setting.h). This is for those that could not.
"""

import os
from pathlib import Path

from unis.runtime.errors import LaunchError
from unis.runtime.files import is_ours, locked
from unis.runtime.process import ProcessId


def ledger() -> Path:
    """The folder with a file for each setting that is changed. It is the machine's, not a run's."""
    return Path(os.environ.get("UNIS_MACHINE_DIR") or "/run/unis/machine")


def restore() -> list[str]:
    """Puts back what only the dead hold; what could not be, as sentences."""
    if not ledger().exists():
        return []
    if not is_ours(ledger()):
        return [f"{ledger()} is another user's: kernel settings noted there are not put back"]
    problems: list[str] = []
    try:
        ledger().chmod(0o700)  # whoever may open it may hold its lock
        with locked(ledger(), os.O_RDONLY | os.O_DIRECTORY):
            for file in sorted(ledger().iterdir()):
                problems += _restore(file)
    except LaunchError as error:
        problems.append(str(error))
    return problems


def _restore(file: Path) -> list[str]:
    try:
        lines = [line.split(maxsplit=1) for line in file.read_text().splitlines()]
        holders = [ProcessId(*map(int, rest.split())) for key, rest in lines if key == "holder"]
        words = dict(lines)
        path, before, value = Path(words["path"]), words["before"], words["value"]
    except (OSError, KeyError, TypeError, ValueError):
        return []  # half of a file that was being written: nothing was changed yet
    if any(holder.alive() for holder in holders):
        return []  # a run still needs it so
    try:
        # Another number than the run's: somebody has set it since, and it stays.
        if path.read_text().strip() == value:
            path.write_text(before)
        file.unlink()
    except OSError as error:
        return [f"cannot put {path} back to {before}: {error.strerror}"]
    return []

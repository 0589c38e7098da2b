"""Kernel settings that engines which were killed have changed, put back.

The engine notes each change in a ledger and puts it back itself (its format, and who may hold a
lease: engine/controller/kernel_setting.h). This is for those that could not.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

from unis.runtime.errors import LaunchError
from unis.runtime.files import is_ours, locked
from unis.runtime.process import ProcessId


@dataclass
class Changed:
    """One setting of the ledger."""

    path: Path
    before: str
    value: str
    holders: list[ProcessId] = field(default_factory=list)

    def held(self) -> bool:
        """Whether a run still needs it so."""
        return any(holder.alive() for holder in self.holders)


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


def parse(text: str) -> Changed:
    """A file of the ledger; ValueError if it is none."""
    words: dict[str, str] = {}
    holders: list[ProcessId] = []
    for line in text.splitlines():
        key, _, rest = line.partition(" ")
        if key == "holder":
            pid, start_time = map(int, rest.split())
            holders.append(ProcessId(pid, start_time))
        else:
            words[key] = rest
    try:
        return Changed(Path(words["path"]), words["before"], words["value"], holders)
    except KeyError as error:
        raise ValueError(f"no line {error}") from None


def _restore(file: Path) -> list[str]:
    try:
        changed = parse(file.read_text())
    except (OSError, ValueError):
        return []  # half of a file that was being written: nothing was changed yet
    if changed.held():
        return []
    try:
        # Another number than the run's: somebody has set it since, and it stays.
        if changed.path.read_text().strip() == changed.value:
            changed.path.write_text(changed.before)
        file.unlink()
    except OSError as error:
        return [f"cannot put {changed.path} back to {changed.before}: {error.strerror}"]
    return []

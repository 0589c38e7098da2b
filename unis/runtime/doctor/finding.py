"""What `unis doctor` says of one thing that it looked at."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    BLOCKED = "blocked"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    check: str
    level: Level
    found: str
    meaning: str = ""
    mend: str = ""  # a command
    details: Mapping[str, object] = field(default_factory=dict)  # the same for programs


def fine(check: str, found: str) -> Finding:
    """Nothing to mend."""
    return Finding(check, Level.OK, found)


def note(check: str, found: str, meaning: str, mend: str = "") -> Finding:
    """Works; results may be worse or spread more."""
    return Finding(check, Level.NOTE, found, meaning, mend)


def blocked(check: str, found: str, meaning: str, mend: str) -> Finding:
    """`unis up` will not work till it is mended."""
    return Finding(check, Level.BLOCKED, found, meaning, mend)


def content(path: Path) -> str:
    """Of a file of /proc or /sys; empty if it is not there."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""

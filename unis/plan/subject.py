"""What the cost of a function depends on, beside the machine: by it measured costs are kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Subject:
    """A function's program and all that it is started with, but for names of the run."""

    name: str
    program: Path
    words: tuple[str, ...]  # its arguments, as the file says them
    drivers: tuple[str, ...]  # of its ports
    env: Mapping[str, str]  # beside the launcher's own
    user: str | None  # None: root
    capabilities: tuple[str, ...]  # all that it has
    yield_every: int  # bursts; 0: it never yields
    lcores: int
    stdin: str | None  # said to it, and then kept open; None: it has none
    terminal: bool
    cwd: Path

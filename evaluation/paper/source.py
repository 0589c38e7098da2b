"""What is measured: the commit, what was changed since, and the programs as they were built."""

import hashlib
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from unis import built, version

_SECONDS = 30  # for git, which may have to look at every file
# With what is loaded into them: hand-over is in the plug-in.
_PROGRAMS: tuple[Callable[[], Path], ...] = (
    built.unisd,
    built.simulator,
    built.port_driver,
    built.port_plugin,
    lambda: built.reference_function("macswap"),
)


@dataclass(frozen=True)
class Source:
    """Asked for once: it may be another at the end of half an hour."""

    commit: str  # of a clone, else the version
    digest: str  # changes with anything that may change what is measured
    trouble: str = ""  # why git told no commit

    @classmethod
    def this(cls) -> "Source":
        """That which is run here. NotBuiltError where a program is missing."""
        digest = hashlib.sha256()
        for program in _PROGRAMS:
            digest.update(hashlib.sha256(program().read_bytes()).digest())
        told, changes = _of_git()
        digest.update(told.commit.encode() + b"\0" + changes)
        return replace(told, digest=digest.hexdigest())


def _of_git() -> tuple[Source, bytes]:
    """The commit, and what was changed since."""
    root = built.clone()
    # Installed, or unpacked, it may lie in a clone of something else, of which git would tell.
    if not (built.is_clone() and (root / ".git").exists()):
        return Source(f"version {version()}", ""), b""
    try:
        commit = _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
        changes = _git("diff", "HEAD", "--binary", "--no-ext-diff")
        new = _git("ls-files", "--others", "--exclude-standard", "-z", "--", "unis", "evaluation")
        files = [(root / os.fsdecode(name)) for name in new.split(b"\0") if name]
        changes += b"".join(file.read_bytes() for file in files if file.is_file())
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().partition("\n")[0]
        return _unknown(said or str(error)), b""
    except (OSError, subprocess.SubprocessError) as error:
        return _unknown(str(error)), b""
    return Source(commit.decode().strip(), ""), changes


def _unknown(why: str) -> Source:
    return Source(f"unknown, version {version()}", "", f"git tells no commit: {why}")


def _git(*words: str) -> bytes:
    return subprocess.run(
        ["git", "--no-optional-locks", *words],
        cwd=built.clone(), env={**os.environ, "LC_ALL": "C"}, capture_output=True,
        timeout=_SECONDS, check=True,
    ).stdout  # fmt: skip

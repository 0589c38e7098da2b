"""Identifies what is measured: the commit, uncommitted changes, and the built programs."""

import hashlib
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from unis import built, version

_SECONDS = 30  # timeout of git, which may read every file
# With the plug-in, which has the hand-over.
_PROGRAMS: tuple[Callable[[], Path], ...] = (
    built.unisd,
    built.simulator,
    built.port_driver,
    built.mmsg_driver,
    built.port_plugin,
    built.xdp_program,
    lambda: built.reference_function("macswap"),
)


@dataclass(frozen=True)
class Source:
    """Read once at the start: files may change during the measurement."""

    commit: str  # of a clone; else the version
    digest: str  # of everything that may change the result
    trouble: str = ""  # why git gave no commit

    @classmethod
    def this(cls) -> "Source":
        """The source of this process. NotBuiltError if a program is missing."""
        digest = hashlib.sha256()
        for program in _PROGRAMS:
            digest.update(hashlib.sha256(program().read_bytes()).digest())
        source, changes = _of_git()
        digest.update(source.commit.encode() + b"\0" + changes)
        return replace(source, digest=digest.hexdigest())


def _of_git() -> tuple[Source, bytes]:
    """The commit, and the uncommitted changes."""
    root = built.clone()
    # An installed or unpacked UNiS may lie in the clone of another project.
    if not (built.is_clone() and (root / ".git").exists()):
        return Source(f"version {version()}", ""), b""
    try:
        commit = _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
        changes = _git("diff", "HEAD", "--binary", "--no-ext-diff")
        new = _git("ls-files", "--others", "--exclude-standard", "-z", "--", "unis", "evaluation")
        files = [(root / os.fsdecode(name)) for name in new.split(b"\0") if name]
        changes += b"".join(file.read_bytes() for file in files if file.is_file())
    except subprocess.CalledProcessError as error:
        message = error.stderr.decode(errors="replace").strip().partition("\n")[0]
        return _unknown(message or str(error)), b""
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

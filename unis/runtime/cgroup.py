"""A leaf of cgroup v2 for each run: all its processes, also those that nobody noted, end at once.

Made below our own cgroup, so that a unit or a container takes the run with it. No controller is
used. Where the cpu controller is on all the same, a kernel with RT group scheduling may refuse
real-time classes in the leaf: then there is none, and the environment tells what belongs to a run.
"""

import contextlib
import subprocess
import time
from pathlib import Path

from unis.runtime.process import ProcessId

_EMPTY_SECONDS = 2.0
_OWN = Path("/proc/self/cgroup")


def mount() -> Path | None:
    """Where cgroup v2 is mounted."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            _, place, kind, *_ = line.split()
            if kind == "cgroup2":
                return Path(place)
    return None


def leaf_name(run_id: str) -> str | None:
    """Where the leaf of a run would be, below the mount; None where none can be.

    That is without cgroup v2, and where we are outside what of it is mounted, as in a namespace.
    """
    if mount() is None:
        return None
    for line in _OWN.read_text().splitlines():
        if line.startswith("0::/"):
            own = Path(line.removeprefix("0::/"))
            return None if ".." in own.parts else str(own / f"unis-{run_id}")
    return None


class Leaf:
    """The cgroup of one run; ValueError for a name that is not that of a run's leaf."""

    def __init__(self, name: str, run_id: str) -> None:
        where, root = Path(name), mount()
        outside = where.is_absolute() or ".." in where.parts
        if root is None or outside or where.name != f"unis-{run_id}":
            raise ValueError(name)
        self.path = root / where
        self._procs = self.path / "cgroup.procs"  # a process that writes 0 to it moves in

    def make(self) -> bool:
        """Whether it is there and real-time classes are allowed in it."""
        try:
            self.path.mkdir(exist_ok=True)
            if not (self.path / "cgroup.kill").exists():  # Linux 5.14
                raise OSError
            if "cpu" in (self.path / "cgroup.controllers").read_text().split():
                attempt = [*self.enter(), "chrt", "-f", "1", "true"]
                subprocess.run(attempt, capture_output=True, check=True, timeout=10)
        except (OSError, subprocess.SubprocessError):
            self.remove()
            return False
        return True

    def enter(self) -> list[str]:
        """Put before a command line: it moves in before it becomes the program."""
        return ["/bin/sh", "-c", 'echo 0 >"$0" && exec "$@"', str(self._procs)]

    def members(self) -> list[ProcessId]:
        """The processes that are in it."""
        try:
            numbers = [int(line) for line in self._procs.read_text().split()]
        except OSError:
            return []
        return [found for number in numbers if (found := ProcessId.of(number)) and found.alive()]

    def kill(self) -> list[str]:
        """Ends every process in it at once."""
        if not self.path.exists():
            return []
        try:
            (self.path / "cgroup.kill").write_text("1")
        except OSError as error:
            return [f"cannot kill the processes of {self.path}: {error.strerror}"]
        return []

    def remove(self) -> list[str]:
        """Ends who is in it, till it is empty. Who comes later cannot enter, and does not start."""
        end = time.monotonic() + _EMPTY_SECONDS
        # A process that was killed is in its group for a moment yet.
        while (problems := self._remove()) and time.monotonic() < end:
            self.kill()  # who came in meanwhile
            time.sleep(0.01)
        return problems

    def _remove(self) -> list[str]:
        """What its processes have made below it goes first."""
        problems: list[str] = []
        for path in sorted([self.path, *self.path.rglob("*/")], reverse=True):
            try:
                if path.is_dir():
                    path.rmdir()
            except OSError as error:
                problems.append(f"cannot remove cgroup {path}: {error.strerror}")
        return problems

"""Where runs keep state, sockets and logs: a folder each below UNIS_RUN_DIR or /run/unis."""

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unis.runtime.errors import NotAllowedError, as_root
from unis.runtime.files import (
    LOCK_SECONDS,
    is_ours,
    locked,
    own_directory,
    write_atomically,
    written,
)
from unis.runtime.process import keep_off
from unis.runtime.state import RunState

DPDK_RUNTIME = Path("/var/run/dpdk")
_STATE = "state.json"
_GRAIN_NS = 100_000_000  # ten times what the kernel's clock of files needs
_TAIL_BYTES = 1 << 15  # of a log, for an error message
_LINE_LETTERS = 1000  # likewise, of a line
# Lines that EAL writes at every start. They never tell why a program has ended.
_EVERY_START = re.compile(
    r"EAL: (Detected |Multi-process socket |Selected IOVA |VFIO support init)|TELEMETRY: No legacy"
)
_REFUSED_ARGUMENT = re.compile(
    r"(unrecognized|invalid|unknown|ambiguous) option|unrecognized argument"
    r"|option requires an argument",
    re.IGNORECASE,
)


class RunDirectory:
    """The folder of one run. Only its owner may look into it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name  # of the run
        self.socket = path / "engine.sock"  # where unisd listens
        self.event_log = path / "unis.log"  # what the launcher did, one line each
        self.unisd_log = path / "unisd.log"
        self.held = path / "held"  # which threads unisd holds, for the guard
        self.lock = path / "lock"  # held by whoever undoes the run
        self.links = path / "links"  # sockets over which functions connect
        self.crun = path / "crun"  # what crun notes of containers

    def requests(self, run_id: str) -> Path:
        """Where the supervisor listens while the chains run.

        gRPC removes the socket when it stops: it must not be that of a newer run of this name.
        """
        return self.path / f"{run_id[:8]}.sock"

    def function_log(self, function: str) -> Path:
        """What a function says; no name of a function has a dot."""
        return self.path / f"function.{function}.log"

    def container(self, function: str) -> Path:
        """The bundle of a function's container."""
        return self.path / "containers" / function

    def logs(self) -> list[Path]:
        """Every log, the launcher's first. NotAllowedError: they are not ours to read."""
        try:
            files = [path for path in self.path.iterdir() if not path.is_symlink()]
        except PermissionError:
            raise self._not_allowed() from None
        except OSError:
            return []
        found = [path for path in files if path.suffix == ".log"]
        return sorted(found, key=lambda path: (path.name.startswith("function."), path.name))

    def make(self) -> None:
        """LaunchError unless it is ours alone."""
        own_directory(runs_directory(), 0o755)
        own_directory(self.path, 0o700)
        self.links.mkdir(mode=0o700, exist_ok=True)
        self.lock.touch(mode=0o600)

    def remove_shared(self) -> None:
        """What the processes of the run shared: all but state and logs. OSError if it cannot."""
        for socket in self.path.glob("*.sock"):
            socket.unlink(missing_ok=True)
        self.held.unlink(missing_ok=True)
        for folder in (self.links, self.crun, self.path / "containers"):
            shutil.rmtree(folder, ignore_errors=True)

    def read(self) -> RunState | None:
        """The state; None if there is none. NotAllowedError: it is not ours to read."""
        with contextlib.suppress(ValueError):
            return self._parsed()
        return None

    def damage(self) -> str:
        """Why the state cannot be told, and what to do; empty if it can, or if there is none."""
        try:
            self._parsed()
        except ValueError as error:
            return (
                f"the notes of run `{self.name}`, {self.path / _STATE}, cannot be read ({error}): "
                "end it with the `unis` that started it, or end what is left of it "
                f"(`pgrep -af unis-{self.name}`) and remove {self.path}"
            )
        return ""

    def _parsed(self) -> RunState | None:
        try:
            text = (self.path / _STATE).read_text(errors="replace")
        except PermissionError:
            raise self._not_allowed() from None
        except OSError:
            return None
        if not is_ours(self.path):
            raise NotAllowedError(f"{self.path} can be changed by another user, so it is not read")
        return RunState.parse(text)

    def _not_allowed(self) -> NotAllowedError:
        return NotAllowedError(f"only root may look at run `{self.name}`: run `{as_root()}`")

    def version(self) -> tuple[int, ...] | None:
        """Changes when the state is replaced. None: nobody can tell, for there is no state, or it
        is so new that the next one may have the same times.
        """
        try:
            found = (self.path / _STATE).stat()
        except OSError:
            return None
        if time.time_ns() - found.st_mtime_ns < _GRAIN_NS:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def write(self, state: RunState) -> None:
        """Replaces the state."""
        write_atomically(self.path / _STATE, state.text())


def base_directory() -> Path:
    """What UNiS notes about this machine."""
    return Path(os.environ.get("UNIS_RUN_DIR") or "/run/unis").absolute()


def agent_folder(name: str) -> Path:
    """Where a server's agent keeps its notes, made if need be: one for each kind of resctrl.

    LaunchError: it is not ours.
    """
    path = base_directory() / name
    own_directory(path.parent, 0o755)
    own_directory(path, 0o700)
    return path


def runs_directory() -> Path:
    """The folders of the runs."""
    return base_directory() / "runs"


def run_directory(name: str) -> RunDirectory:
    """The folder of the run called `name`, whether or not it exists."""
    return RunDirectory(runs_directory() / name)


def all_runs() -> list[tuple[RunDirectory, RunState]]:
    """Every run that left a state, by name. NotAllowedError as soon as one may not be read."""
    return [(directory, state) for directory in _directories() if (state := directory.read())]


def damages() -> dict[str, str]:
    """A sentence on each run whose state cannot be read, by its name."""
    return {
        directory.name: damage for directory in _directories() if (damage := directory.damage())
    }


@dataclass(frozen=True)
class _LookedAt:
    version: tuple[int, ...] | None  # None: to be read again
    directory: RunDirectory
    state: RunState | None
    damage: str


class KnownRuns:
    """All runs, for who looks each second: a state is read again only once it has changed."""

    def __init__(self) -> None:
        self._known: dict[str, _LookedAt] = {}

    def now(self) -> tuple[list[tuple[RunDirectory, RunState]], dict[str, str]]:
        """What `all_runs` and `damages` tell. NotAllowedError as of `all_runs`."""
        self._known = found = {path.name: self._look(path) for path in _folders()}
        return (
            [(known.directory, known.state) for known in found.values() if known.state],
            {name: known.damage for name, known in found.items() if known.damage},
        )

    def _look(self, path: Path) -> _LookedAt:
        known = self._known.get(path.name)
        directory = known.directory if known else RunDirectory(path)
        version = directory.version()  # before it is read: a later state has another one
        if known and version and known.version == version:
            return known
        return _LookedAt(version, directory, directory.read(), directory.damage())


def telemetry_sockets(state: RunState) -> dict[str, str]:
    """DPDK's own telemetry, where a function has it on: a socket each."""
    sockets = {
        function.name: DPDK_RUNTIME / f"{group}.{function.name}" / "dpdk_telemetry.v2"
        for function in state.functions
        for group in state.groups[:1]  # the engine's
    }
    return {name: str(socket) for name, socket in sockets.items() if socket.is_socket()}


def keep_off_functions() -> None:
    """Keeps us off the CPUs of all functions: nobody who looks or cleans up may wait for them."""
    with contextlib.suppress(NotAllowedError):
        keep_off(function_cpus())


def function_cpus(known: KnownRuns | None = None) -> set[int]:
    """The CPUs of all functions. NotAllowedError as of `all_runs`."""
    found = known.now()[0] if known else all_runs()
    return {cpu for _, state in found if not state.undone() for cpu in state.cpus}


def _directories() -> list[RunDirectory]:
    return [RunDirectory(path) for path in _folders()]


def _folders() -> list[Path]:
    try:
        return sorted(runs_directory().iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise NotAllowedError(f"cannot look into {runs_directory()}: {error.strerror}") from None


@contextlib.contextmanager
def machine_lock(seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """While this lasts no other `unis up` claims anything. LaunchError if another one holds on."""
    own_directory(base_directory(), 0o755)
    path = base_directory() / "lock"
    with contextlib.ExitStack() as stack:
        with written(path):
            stack.enter_context(locked(path, os.O_RDWR | os.O_CREAT, seconds))
        yield


def settled_runs() -> list[tuple[RunDirectory, RunState]]:
    """Every run, also one that is just being noted: a launcher that brings its run up again puts
    the folder of the last one away before it makes the next. LaunchError as of `machine_lock`.
    """
    if os.geteuid() != 0 or not base_directory().exists():  # whoever claims is root
        return all_runs()
    with machine_lock():
        return all_runs()


def last_lines(log: Path, count: int = 8, since: int = 0) -> str:
    """The end of a log, for an error message. Only what was written from byte `since` on.

    Lines that EAL writes at every start are left out, unless there are no others.

    A log that is shorter than `since` was shortened: all of it counts. Where a program that refuses
    an argument ends with its usage, the line before says why: the first such line comes first.
    """
    try:
        with log.open("rb") as stream:
            size = log.stat().st_size
            stream.seek(max(since if since <= size else 0, size - _TAIL_BYTES))
            lines = stream.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    lines = [line for line in lines if not _EVERY_START.match(line)] or lines
    shown = lines[-count:]
    causes = (line for line in lines[:-count] if _REFUSED_ARGUMENT.search(line))
    shown = [*([cause, "…"] if (cause := next(causes, "")) else []), *shown]
    return "\n".join(f"    {line[:_LINE_LETTERS]}" for line in shown)

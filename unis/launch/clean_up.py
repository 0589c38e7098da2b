"""Undoes a run: `unis down`, a failing run, the guard and a later `unis up` all end here.

Idempotent, and it never stops half way: what cannot be undone is reported, and the rest goes on.
"""

import contextlib
import fcntl
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from unis.launch.process import ProcessId, demote, marked, wait_gone
from unis.launch.state import RUN_MARK, Phase, RunDirectory, RunState, all_runs

_GENTLE_SECONDS = 2.0
_KILLED_SECONDS = 3.0


def clean_up(directory: RunDirectory, run_id: str, reason: str | None = None) -> list[str]:
    """Undoes the run if it is still the one called `run_id`; what could not be undone.

    With a `reason` the directory stays, with the logs, for `unis ps` to tell it.
    """
    with _locked(directory):
        state = directory.read()
        if state is None or state.run_id != run_id or state.phase == Phase.FAILED:
            return []
        problems = [
            *_end_processes(state),
            *_remove_cgroups(state.file_prefix),
            *_restore_sysctls(state),
            *_remove_shared_memory(state),
        ]
        problems += _leave_reason(directory, state, reason) if reason else _remove(directory.path)
        return problems


@contextlib.contextmanager
def _locked(directory: RunDirectory) -> Iterator[None]:
    try:
        lock = directory.lock.open()  # not made here: another may be removing the directory
    except OSError:  # no run
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _end_processes(state: RunState) -> list[str]:
    # unisd first: it would go on raising functions; asked politely it puts them back itself.
    problems = _end([state.unisd] if state.unisd else [], "unisd")
    for mount in _freezers():
        problems += _thaw(mount / state.file_prefix)
    # All before any: a killed process cannot die while another spins above it on its CPU. And
    # before the search below, which waits for what a starved process has locked.
    recorded = [nf.process for nf in state.nfs]
    problems += _calm(recorded)
    others = [process for process in marked(RUN_MARK, state.run_id) if process not in recorded]
    problems += _calm(others)
    return problems + _end([*recorded, *others], "function")


def _calm(processes: list[ProcessId]) -> list[str]:
    problems: list[str] = []
    for process in processes:
        problems += demote(process)
        process.send(signal.SIGCONT)
    return problems


def _end(processes: list[ProcessId], what: str) -> list[str]:
    for process in processes:
        process.send(signal.SIGTERM)
    left = wait_gone(processes, _GENTLE_SECONDS)
    for process in left:
        process.send(signal.SIGKILL)
    stuck = wait_gone(left, _KILLED_SECONDS)
    return [f"{what} {process.pid} does not die; look at it with `ps -fp`" for process in stuck]


def _freezers() -> list[Path]:
    """Where freezers are mounted, of cgroup version 1 and 2."""
    mounts: list[Path] = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            _, place, kind, options, *_ = line.split()
            if kind == "cgroup2" or (kind == "cgroup" and "freezer" in options.split(",")):
                mounts.append(Path(place))
    return mounts


def _thaw(group: Path) -> list[str]:
    problems: list[str] = []
    for control, value in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
        for file in [*group.glob(f"*/{control}"), *group.glob(control)]:
            try:
                file.write_text(value)
            except OSError as error:
                problems.append(f"cannot thaw {file.parent}: {error.strerror}")
    return problems


def _remove_cgroups(prefix: str) -> list[str]:
    problems: list[str] = []
    for mount in _freezers():
        group = mount / prefix
        children = [child for child in group.glob("*") if child.is_dir()]
        for directory in [*children, group]:
            if not directory.is_dir():
                continue
            try:
                directory.rmdir()
            except OSError as error:
                problems.append(f"cannot remove cgroup {directory}: {error.strerror}")
    return problems


def _restore_sysctls(state: RunState) -> list[str]:
    others = [other for _, other in all_runs() if other.run_id != state.run_id and other.live()]
    if others:  # the last run to end puts them back
        return []
    problems: list[str] = []
    for path, value in state.sysctls.items():
        try:
            if path.read_text().strip() != value:
                path.write_text(value)
        except OSError as error:
            problems.append(f"cannot put {path} back to {value}: {error.strerror}")
    return problems


def _remove_shared_memory(state: RunState) -> list[str]:
    problems: list[str] = []
    for file in state.hugepage_dir.glob(f"{state.file_prefix}map_*"):
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            problems.append(f"cannot remove {file}: {error.strerror}")
    return problems + _remove(state.runtime_dir)


def _remove(directory: Path) -> list[str]:
    problems: list[str] = []
    if directory.exists():
        shutil.rmtree(
            directory,
            onerror=lambda _call, path, info: problems.append(f"cannot remove {path}: {info[1]}"),
        )
    return problems


def _leave_reason(directory: RunDirectory, state: RunState, reason: str) -> list[str]:
    state.phase, state.reason = Phase.FAILED, reason
    state.unisd, state.guard, state.nfs = None, None, []
    try:
        directory.write(state)
        directory.socket.unlink(missing_ok=True)
    except OSError as error:
        return [f"cannot note in {directory.path} why the run failed: {error.strerror}"]
    return []

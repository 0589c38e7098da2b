"""Undoes a run: `unis down`, a failing run, the guard and a later `unis up` all end here.

Idempotent, and it never stops half way: what cannot be undone is told and noted, the rest goes on.
"""

import contextlib
from collections.abc import Callable, Iterator

from unis.runtime.directory import RunDirectory
from unis.runtime.errors import LaunchError
from unis.runtime.files import locked
from unis.runtime.logs import put_away
from unis.runtime.state import Phase, RunState
from unis.runtime.steps import STEPS


def clean_up(
    directory: RunDirectory,
    run_id: str,
    reason: str | None = None,
    hurry: Callable[[], bool] = lambda: False,
) -> list[str]:
    """Undoes the run if it is still the one called `run_id`; what could not be undone.

    With a `reason`, or where something is left, the folder stays, with the logs, for `unis ps` to
    tell it. `hurry` says that nothing need be asked to end politely any more.
    """
    try:
        with _locked(directory):
            return _undo(directory, run_id, reason, hurry)
    except LaunchError as error:  # of the lock
        return [str(error)]


def _undo(
    directory: RunDirectory, run_id: str, reason: str | None, hurry: Callable[[], bool]
) -> list[str]:
    state = directory.read()
    if state is None or state.run_id != run_id or state.undone():
        return []
    problems: list[str] = []
    for step in reversed(STEPS):
        try:
            problems += step.undo(state, hurry)
        except Exception as error:
            problems.append(f"{step.name} could not be undone: {error!r}")
    reason = reason or state.reason
    if problems or reason:
        return problems + _leave_reason(directory, state, reason, problems)
    return put_away(directory)


def forget(directory: RunDirectory, run_id: str) -> list[str]:
    """Puts away what an undone run has left for `unis ps`; what could not be, as sentences.

    Nothing where the folder is that of another run by now.
    """
    try:
        with _locked(directory):
            state = directory.read()
            if state is None or state.run_id != run_id or not state.undone():
                return []
            # The first is the run that died, the second the first try to bring it up again.
            return put_away(directory, instead=state.failures > 2)
    except LaunchError as error:  # of the lock
        return [str(error)]


@contextlib.contextmanager
def _locked(directory: RunDirectory) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        # Not made here: another may be removing the folder. Without it there is no run.
        with contextlib.suppress(OSError):
            stack.enter_context(locked(directory.lock))
        yield


def _leave_reason(
    directory: RunDirectory, state: RunState, reason: str, problems: list[str]
) -> list[str]:
    ended = state.with_changes(
        phase=Phase.FAILED,
        reason=reason or "it ended, but something of it is left",
        problems=problems,
    )
    if not problems:
        ended = ended.with_changes(unisd=None, guard=None, functions=[], leaf=None, ovs=None)
    try:
        directory.remove_shared()
        directory.write(ended)
    except OSError as error:
        return [f"cannot note in {directory.path} why the run failed: {error.strerror}"]
    return []

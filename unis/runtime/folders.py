"""Folders of functions that run as another user: their memifs' sockets, and what DPDK makes.

Below UNIS_RUN_DIR or /run/unis, and not in the run's own folder, which nobody but root may enter.
Root makes such a folder and all sockets in it while nobody else may enter, then gives it away, and
writes nothing in it any more: its user could have put a link in the place of any file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from unis.runtime.directory import base_directory
from unis.runtime.errors import LaunchError
from unis.runtime.files import own_directory, remove_tree
from unis.runtime.privileges import account_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from unis.plan.model import FunctionPlan
    from unis.runtime.run import Run
    from unis.runtime.state import RunState


def folders_directory() -> Path:
    """Where they are, each called RUN.FUNCTION."""
    return base_directory() / "functions"


def make(function: FunctionPlan) -> None:
    """Makes the folder of `function`, if it is to have one; till `give_away` it is root's."""
    if function.folder:
        own_directory(folders_directory(), 0o711)
        for problem in remove_tree(function.folder):  # of a run that nobody could undo
            raise LaunchError(problem, bad_input=False)
        own_directory(function.folder, 0o700)


def give_away(function: FunctionPlan) -> None:
    """Makes the folder of `function`, and the sockets in it, its user's."""
    if function.folder and function.user:
        account = account_of(function.user)
        owner = (account.pw_uid, account.pw_gid)
        try:
            for entry in function.folder.iterdir():
                _give_socket(entry, owner)
            os.chown(function.folder, *owner)  # last: from here on it may enter
        except OSError as error:
            raise LaunchError(
                f"cannot give {function.folder} to user {function.user}: {error.strerror}",
                bad_input=False,
            ) from None


def _give_socket(entry: Path, owner: tuple[int, int]) -> None:
    """Gives away a socket that root has just made.

    The user of a folder that was given away before may have linked any file of root into it, and
    may put another in its place at any time: so what was looked at is held, and has no other name.
    """
    try:
        held = os.open(entry, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        found = os.fstat(held)
        if stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1:
            os.chown(f"/proc/self/fd/{held}", *owner)
    finally:
        os.close(held)


class Folders:
    """They are made before the engine, which makes its sockets in them."""

    def do(self, run: Run) -> None:
        """Makes them, for root alone."""
        for function in run.plan.functions:
            make(function)

    def undo(self, state: RunState, hurry: Callable[[], bool]) -> list[str]:  # noqa: ARG002
        """Removes them; all processes have ended. A name of a run has no dot."""
        problems: list[str] = []
        for folder in folders_directory().glob(f"{state.name}.*"):
            problems += remove_tree(folder)
        return problems


class Owners:
    """They are given to their users once the engine's sockets are in them."""

    def do(self, run: Run) -> None:
        """Gives them away."""
        for function in run.plan.functions:
            give_away(function)

    def undo(self, state: RunState, hurry: Callable[[], bool]) -> list[str]:  # noqa: ARG002
        """Nothing: the folders are removed."""
        return []

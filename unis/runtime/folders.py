"""Folders that functions of another user may enter: they may not enter the run's own.

All are below UNIS_RUN_DIR or /run/unis. `ports` has, for each run, copies of what programs load
into DPDK: the driver of rings and the plug-in that stands between a program and its ports. EAL
loads nothing from below a folder that everybody may write, such as /tmp, where a build may be.

`functions` has a folder for each function that runs as another user, with the sockets of its memifs
and what DPDK makes. Root makes the folder and all sockets in it while nobody else may enter, then
gives it away, and writes nothing in it any more: its user could have put a link in the place of any
file.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from unis import built
from unis.links.xdp import PROGRAM
from unis.runtime.directory import base_directory
from unis.runtime.errors import LaunchError
from unis.runtime.files import own_directory, remove_tree, written
from unis.runtime.privileges import account_of

if TYPE_CHECKING:
    from unis.plan.model import FunctionPlan


def ports_directory() -> Path:
    """Where the copies of driver and plug-in are, a folder for each run."""
    return base_directory() / "ports"


def port_driver(run: str) -> Path:
    """The copy of the net_unis driver of the run called so."""
    return ports_directory() / run / "librte_net_unis.so"


def mmsg_driver(run: str) -> Path:
    """The same of net_mmsg."""
    return ports_directory() / run / "librte_net_mmsg.so"


def port_plugin(run: str) -> Path:
    """The same of the plug-in."""
    return ports_directory() / run / "librte_unis_ports.so"


def port_parts(run: str) -> dict[Path, Path]:
    """The copies of the run called so, each with its original; NotBuiltError."""
    return {
        port_driver(run): built.port_driver(),
        mmsg_driver(run): built.mmsg_driver(),
        port_plugin(run): built.port_plugin(),
        ports_directory() / run / PROGRAM: built.xdp_program(),
    }


def copy_ports(run: str) -> None:
    """Makes the copies. The folder is root's; everybody may read what is in it."""
    folder = ports_directory() / run
    own_directory(ports_directory(), 0o755)
    own_directory(folder, 0o755)
    with written(folder):
        for copy, part in port_parts(run).items():
            copy.unlink(missing_ok=True)  # it may be mapped by what a killed run has left
            shutil.copyfile(part, copy)
            copy.chmod(0o644)


def folders_directory() -> Path:
    """Where the folders of functions are, each called RUN.FUNCTION."""
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

"""The resctrl file system as one small interface, and the kernel's own.

Paths are relative to its root: `schemata`, `unis-fw/tasks`, `info/L3/cbm_mask`. A group is a
folder: below the root one with a class of service (CLOSID), below `mon_groups` of one a part of
its tasks that is counted apart (RMID). The root is the group of everybody who is in no other.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from unis.errors import UnisError

DEFAULT_PLACE = Path("/sys/fs/resctrl")
MON_GROUPS = "mon_groups"
# Folders that are no groups.
RESERVED = frozenset({"info", "mon_data", MON_GROUPS})
# With these the kernel never came to the command, and `last_cmd_status` is of an earlier one.
_NO_COMMAND = frozenset({errno.ENOENT, errno.EACCES, errno.EEXIST, errno.ENOTDIR, errno.EROFS})


class TreeError(UnisError):
    """The tree refused: `errno` of the call, and `status`, its words in `last_cmd_status`."""

    def __init__(self, label: str, what: str, code: int, status: str) -> None:
        said = status.strip().replace("\n", "; ")
        why = f": {said}" if said and said != "ok" else ""
        super().__init__(f"{label}: cannot {what}: {os.strerror(code)}{why}", bad_input=False)
        self.errno = code
        self.status = said


class NoTreeError(UnisError):
    """There is no resctrl to be had."""


class Tree(Protocol):
    """All that is done to resctrl. Every call but `options` may raise TreeError."""

    @property
    def emulated(self) -> bool:
        """Whether no hardware obeys it."""

    @property
    def label(self) -> str:
        """How outputs and errors call it; an emulation says that it is one."""

    def options(self) -> frozenset[str]:
        """It is mounted with: `cdp`, `cdpl2`, `mba_MBps`."""

    def read(self, path: str) -> str:
        """What a file says."""

    def write(self, path: str, text: str) -> None:
        """One command: it holds whole or, but for several tasks at once, not at all."""

    def make(self, path: str) -> None:
        """A new group."""

    def remove(self, path: str) -> None:
        """Its tasks and CPUs go to the group above it."""

    def folders(self, path: str) -> list[str]:
        """The names of the folders in a folder, in order."""


def control_groups(tree: Tree) -> list[str]:
    """The groups with a class of their own; not the root."""
    return [name for name in tree.folders("") if name not in RESERVED]


def monitor_groups(tree: Tree, group: str) -> list[str]:
    """The groups that only count, below one; none where nothing counts."""
    if MON_GROUPS not in tree.folders(group):
        return []
    return tree.folders(inside(group, MON_GROUPS))


def inside(group: str, name: str) -> str:
    """A file or folder of a group; the root is called by the empty text."""
    return f"{group}/{name}" if group else name


def class_of(place: str) -> str:
    """The control group of a place for threads: of a MON group the one it is in."""
    first, _, _ = place.partition("/")
    return "" if first == MON_GROUPS else first


def tasks(tree: Tree, group: str) -> list[int]:
    """The threads of a group, those of its MON groups among them."""
    return [int(line) for line in tree.read(inside(group, "tasks")).split()]


class KernelTree:
    """The kernel's, where it is mounted."""

    emulated = False

    def __init__(
        self, place: Path = DEFAULT_PLACE, mounts: Path = Path("/proc/self/mounts")
    ) -> None:
        self._place = place
        self._mounts = mounts
        self.label = f"resctrl in {place}"

    def is_mounted(self) -> bool:
        """Whether it can be used."""
        return self._mount_options() is not None

    def options(self) -> frozenset[str]:
        """Of its mount; none where it is not mounted."""
        return self._mount_options() or frozenset()

    def read(self, path: str) -> str:
        """What a file says."""
        with self._errors(f"read {path}"):
            return (self._place / path).read_text()

    def write(self, path: str, text: str) -> None:
        """Writes by one system call, because the kernel takes each write as a command."""
        with self._errors(f"write {text.strip()!r} to {path}"):
            handle = os.open(self._place / path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                if os.write(handle, text.encode()) < len(text):
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
            finally:
                os.close(handle)

    def make(self, path: str) -> None:
        """A new group."""
        with self._errors(f"make the group {path}"):
            (self._place / path).mkdir()

    def remove(self, path: str) -> None:
        """Removes the folder by rmdir(2); the kernel removes the files in it."""
        with self._errors(f"remove the group {path}"):
            (self._place / path).rmdir()

    def folders(self, path: str) -> list[str]:
        """The folders in a folder."""
        with self._errors(f"list {path or 'the root'}"):
            return sorted(file.name for file in (self._place / path).iterdir() if file.is_dir())

    def _mount_options(self) -> frozenset[str] | None:
        try:
            lines = self._mounts.read_text().splitlines()
        except OSError:
            return None
        for line in reversed(lines):
            words = line.split()
            if len(words) > 3 and words[2] == "resctrl" and Path(words[1]) == self._place:
                return frozenset(words[3].split(","))
        return None

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Turns OSError into TreeError, with the kernel's words if it came to the command."""
        try:
            yield
        except OSError as error:
            code, status = error.errno or errno.EIO, ""
            if code not in _NO_COMMAND:
                with suppress(OSError):
                    status = (self._place / "info/last_cmd_status").read_text()
            raise TreeError(self.label, what, code, status) from None


def kernel_tree(place: Path = DEFAULT_PLACE) -> KernelTree:
    """The kernel's, where it is mounted; else NoTreeError, which says what to do."""
    tree = KernelTree(place)
    if tree.is_mounted():
        return tree
    raise NoTreeError(
        f"resctrl is not mounted on {place}: `mount -t resctrl resctrl {place}` does it where the "
        "CPU has cache allocation and the kernel CONFIG_X86_CPU_RESCTRL (`unis doctor` tells); "
        "without them only an emulation works: `uv run python -m evaluation cache`, in a clone"
    )

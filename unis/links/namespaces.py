"""Network namespaces of functions, named as `ip netns` has them: made, entered, removed."""

import contextlib
import ctypes
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from unis.errors import UnisError
from unis.links.netlink import netlink
from unis.signals import blocked

HERE = ""  # the one in which UNiS runs
PLACE = Path("/run/netns")
_THIS_THREADS = Path("/proc/thread-self/ns/net")
_PREFIX = "unis-"
_CLONE_NEWNET = 0x40000000
_MS_BIND, _MS_REC, _MS_SHARED, _MNT_DETACH = 0x1000, 0x4000, 1 << 20, 2  # of mount(2)
_T = TypeVar("_T")


def make(name: str) -> None:
    """Makes it, with its loopback device up. UnisError if it cannot be: then nothing is left."""
    sentence = f"cannot make the network namespace {name}"
    path = PLACE / name
    if os.path.lexists(path):
        raise UnisError(
            f"{sentence}: it is there already, and not of this run; look at it with `ip netns "
            f"exec {name} ip link`, and remove it with `ip netns delete {name}`"
        )
    try:
        _share_place()
        _in_thread(partial(_make, path))
    except OSError as error:
        raise UnisError(
            f"{sentence}: {error.strerror}; `unis doctor` tells what this machine lacks",
            bad_input=False,
        ) from None


def remove(name: str) -> list[str]:
    """Removes it if it is there and ours; a sentence if it cannot be. Processes and devices in it
    are gone before.
    """
    path = PLACE / name
    try:
        if not path.exists() or not _is_ours(name):
            return []
        with contextlib.suppress(OSError):  # none was mounted yet
            _call("umount2", bytes(path), _MNT_DETACH)
        path.unlink()
    except OSError as error:
        return [
            f"cannot remove the network namespace {name}: {error.strerror}; "
            f"`ip netns delete {name}`"
        ]
    return []


def ours() -> Iterator[str]:
    """Those that may be of a run, and can be entered."""
    for path in sorted(PLACE.glob(f"{_PREFIX}*")):
        if os.path.ismount(path):  # that of Path is for folders only
            yield path.name


def inside(name: str, work: Callable[[], _T]) -> _T:
    """What `work` returns, done in a namespace; OSError if there is none."""
    return _in_thread(work, PLACE / name) if name else work()


def inside_that_of(pid: int, work: Callable[[], _T]) -> _T:
    """The same in the namespace of a process."""
    return _in_thread(work, Path(f"/proc/{pid}/ns/net"))


def file_of(name: str) -> Path:
    """What stands for a namespace, wherever it is opened."""
    return PLACE / name if name else Path("/proc/self/ns/net")


def enter(name: str) -> list[str]:
    """Put before a command line that root starts. The program sees /sys as of the namespace; what
    else is mounted below /sys, as cgroups are, it does not see.
    """
    return [shutil.which("ip") or "ip", "netns", "exec", name]


def lacks() -> str:
    """Why none can be made here, and what mends that; empty: one can."""
    try:
        _in_thread(partial(_call, "unshare", _CLONE_NEWNET))
    except OSError as error:
        return f"this kernel refuses a network namespace: {error.strerror}"
    return "" if shutil.which("ip") else "there is no program `ip`; apt-get install iproute2"


def _make(path: Path) -> None:
    """Made and mounted by one thread, which dies with us. A file of that name is a namespace with
    our mark, or empty.
    """
    _call("unshare", _CLONE_NEWNET)
    with netlink() as kernel:
        kernel.link("set", index=1, state="up", ifalias=_mark(path.name))
    path.touch(mode=0o444, exist_ok=False)
    try:
        _call("mount", bytes(_THIS_THREADS), bytes(path), b"none", _MS_BIND, None)
    except OSError:
        path.unlink()
        raise


def _is_ours(name: str) -> bool:
    """By the mark on its loopback device; or an empty file, of one that was killed meanwhile."""

    def marked() -> bool:
        with netlink() as kernel:
            (device,) = kernel.get_links(1)
            return bool(device.get("ifalias") == _mark(name))

    if not os.path.ismount(PLACE / name):
        return (PLACE / name).stat().st_size == 0
    return inside(name, marked)


def _mark(name: str) -> str:
    return f"unis namespace {name}"


def _share_place() -> None:
    """As `ip netns` does: what is mounted there comes and goes in all mount namespaces."""
    PLACE.mkdir(mode=0o755, exist_ok=True)
    place = bytes(PLACE)
    try:
        _call("mount", b"", place, b"none", _MS_SHARED | _MS_REC, None)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        _call("mount", place, place, b"none", _MS_BIND | _MS_REC, None)
        _call("mount", b"", place, b"none", _MS_SHARED | _MS_REC, None)


def _in_thread(work: Callable[[], _T], namespace: Path | None = None) -> _T:
    """A thread has its own namespace, and takes it along when it ends."""

    def entered() -> _T:
        if namespace:
            descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _call("setns", descriptor, _CLONE_NEWNET)
            finally:
                os.close(descriptor)
        return work()

    with blocked(), ThreadPoolExecutor(1) as thread:
        return thread.submit(entered).result()


def _call(name: str, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))

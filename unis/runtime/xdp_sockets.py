"""AF_XDP sockets of a process, seen from outside: on which queue of which interface each is.

Most kernels tell nobody (CONFIG_XDP_SOCKETS_DIAG). But a socket without buffers of its own may
share those of another one on the same queue of the same interface, and nowhere else. So one that is
made for that in the network namespace, bound, and closed again changes nothing of the other.
"""

import contextlib
import ctypes
import errno
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from unis.links.namespaces import inside_that_of
from unis.runtime.errors import LaunchError
from unis.runtime.open_files import open_files

_AF_XDP, _SOL_XDP, _RX_RING, _SHARED_UMEM = 44, 283, 2, 1
_PROBE_SLOTS = 64
_PIDFD_GETFD = 438  # on every architecture
_PROTOCOL = "system.sockprotoname"  # of a socket
_LOOK_EVERY_SECONDS = 0.02
_OPENED_SECONDS = 20.0  # for a program to open its ports


def on_interfaces(pid: int, queues: Mapping[int, int]) -> dict[int, list[int]]:
    """The inodes of its AF_XDP sockets by the number of their interface, of those that have so many
    `queues`. For a thread in its network namespace.
    """
    found: dict[int, list[int]] = {}
    with contextlib.ExitStack() as held:
        own = _duplicates(pid, held)
        for index, count in queues.items() if own else ():
            on_it = [
                inode
                for queue in range(count)
                for inode, duplicate in own.items()
                if _is_on(duplicate, index, queue)
            ]
            if on_it:
                found[index] = on_it
    return found


def of_ports(
    whose: Callable[[], int], devices: Mapping[int, str], alive: Callable[[], None]
) -> dict[int, int]:
    """The inode of the socket that a program has on each of `devices`, once it has opened them all.
    LaunchError if it does not; `whose` tells its process, and `alive` raises if that ended.
    """
    until = time.monotonic() + _OPENED_SECONDS
    found: dict[int, int] = {}
    while len(found) < len(devices):
        pid, why = whose(), ""
        try:
            found = inside_that_of(pid, partial(_on_devices, pid, devices))
        except LaunchError as error:
            why = f": {error}"
        except OSError as error:  # also where it ends, or enters its namespace just now
            why = f": {error.strerror or error}"
        if len(found) < len(devices):
            alive()
            if time.monotonic() > until:
                missing = ", ".join(name for at, name in devices.items() if at not in found)
                raise LaunchError(
                    f"after {_OPENED_SECONDS:g} s it has no AF_XDP socket on {missing}"
                    + (why or "; does it use the ports that it is given?"),
                    bad_input=False,
                )
            time.sleep(_LOOK_EVERY_SECONDS)
    return found


def _on_devices(pid: int, devices: Mapping[int, str]) -> dict[int, int]:
    indexes = {at: socket.if_nametoindex(name) for at, name in devices.items()}
    on_it = on_interfaces(pid, dict.fromkeys(indexes.values(), 1))
    return {at: on_it[index][0] for at, index in indexes.items() if index in on_it}


def _sockets(pid: int) -> Iterator[tuple[int, int]]:
    """Inode and descriptor of each."""
    for path, target in open_files(pid):
        with contextlib.suppress(OSError):
            if target.startswith("socket:[") and os.getxattr(path, _PROTOCOL) == b"XDP\0":
                yield int(target[8:-1]), int(path.name)


def _duplicates(pid: int, held: contextlib.ExitStack) -> dict[int, int]:
    """Descriptors of ours by inode, of those that are open still. OSError: the kernel refuses."""
    found: dict[int, int] = {}
    process: int | None = None
    for inode, at in _sockets(pid):
        if process is None:
            process = os.pidfd_open(pid)
            held.callback(os.close, process)
        library = ctypes.CDLL(None, use_errno=True)
        ours = library.syscall(_PIDFD_GETFD, process, at, 0)
        if ours < 0:
            if (code := ctypes.get_errno()) == errno.EBADF:  # it has been closed meanwhile
                continue
            raise OSError(code, os.strerror(code))
        held.callback(os.close, ours)
        if os.fstat(ours).st_ino == inode:  # else the number is another file's by now
            found[inode] = ours
    return found


def _is_on(other: int, index: int, queue: int) -> bool:
    address = struct.pack("=HHIIi", _AF_XDP, _SHARED_UMEM, index, queue, other)
    with socket.socket(_AF_XDP, socket.SOCK_RAW) as probe:
        probe.setsockopt(_SOL_XDP, _RX_RING, struct.pack("=I", _PROBE_SLOTS))
        return bool(ctypes.CDLL(None).bind(probe.fileno(), address, len(address)) == 0)

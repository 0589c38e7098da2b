"""The memifs of a process, seen from outside: their memory, and which end the process has.

A memif's memory is an anonymous file that both its programs keep open. Which of them is the server,
the memory does not tell; the control connection does, for the server's end of it has the name of
the socket on which it listens.
"""

import contextlib
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unis.plan.attached import MemifEnd
from unis.runtime.errors import LaunchError
from unis.runtime.open_files import open_files, sockets_of
from unis.runtime.process import all_pids

# The layout of engine/platform/links/memif_region.cc.
_COOKIE = struct.pack("=I", 0x3E31F20)
_RING_HEADER, _DESCRIPTOR = 128, 16
_MOST_SLOTS_LOG2 = 14
_MOST_RINGS = 32
_SERVER, _CLIENT = "server", "client"
_MEMORY = "/memfd:"  # what an anonymous file is a link to


@dataclass(frozen=True)
class Memory:
    """What a memif's memory tells of it."""

    inode: int
    slots: int
    buffer_bytes: int
    rings: int  # both ways together


def find_end(
    pid: int, position: int, role: str | None, queues: tuple[int, int] | None = None
) -> MemifEnd:
    """The end that a process has of its memif of that position among its open files.

    `role`: server or client, and `queues`: by how many the process receives and sends, where the
    user says it. LaunchError if there is none, or what the user did not say cannot be told.
    """
    memories = list(_memories(pid))
    if position >= len(memories):
        raise LaunchError(
            f"memif:{position} does not exist: process {pid} has {len(memories)} connected memifs, "
            "counted from 0 in the order of its open files"
        )
    memory = memories[position]
    role = role or _role(pid, memory)
    if role is None:
        raise LaunchError(
            f"whether process {pid} is the server or the client of memif:{position} cannot be "
            f"told from outside: say memif:{position}:server or memif:{position}:client"
        )
    receives, sends = queues or _queues(pid, position, role, memory.rings)
    if receives + sends != memory.rings:
        raise LaunchError(
            f"memif:{position} of process {pid} has {memory.rings} queues, and "
            f"{receives} to receive by and {sends} to send by are {receives + sends}"
        )
    client = role == _CLIENT
    to_server, to_client = (sends, receives) if client else (receives, sends)
    return MemifEnd(memory.inode, memory.slots, memory.buffer_bytes, client, to_server, to_client)


def count(pid: int) -> int:
    """How many a process has that are connected."""
    return len(list(_memories(pid)))


def _queues(pid: int, position: int, role: str, rings: int) -> tuple[int, int]:
    """To receive by and to send by. The memory has the rings of both ways one behind the other, all
    alike: nothing in it says where those of the other way begin.
    """
    if rings == 2:
        return 1, 1
    raise LaunchError(
        f"memif:{position} of process {pid} has {rings} queues, and by how many it receives and "
        f"sends cannot be told from outside: say both, as memif:{position}:{role}:1,{rings - 1} "
        f"if it receives by 1 and sends by {rings - 1}"
    )


def _memories(pid: int) -> Iterator[Memory]:
    seen: set[int] = set()
    for path, target in open_files(pid):
        with contextlib.suppress(OSError):
            found = _memory(path) if target.startswith(_MEMORY) else None
            if found and found.inode not in seen:
                seen.add(found.inode)
                yield found


def _memory(path: Path) -> Memory | None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not _is_ring(descriptor, 0):
            return None
        for slots in (1 << log2 for log2 in range(_MOST_SLOTS_LOG2 + 1)):
            ring = _RING_HEADER + _DESCRIPTOR * slots
            if not _is_ring(descriptor, ring):
                continue
            rings = sum(_is_ring(descriptor, at * ring) for at in range(_MOST_RINGS))
            buffers, rest = divmod(status.st_size - rings * ring, rings * slots)
            if rest == 0 and buffers > 0:
                return Memory(status.st_ino, slots, buffers, rings)
        return None
    finally:
        os.close(descriptor)


def _is_ring(descriptor: int, at: int) -> bool:
    return os.pread(descriptor, len(_COOKIE), at) == _COOKIE


# ------------------------------------------------------------------ who is the server


def _role(pid: int, memory: Memory) -> str | None:
    """What the control connections between the process and the other one say; None: not enough."""
    others = {other for other in all_pids() if other != pid and _has(other, memory.inode)}
    mine = sockets_of(pid)
    theirs = {inode for other in others for inode in sockets_of(other)}
    connections = _connections()
    roles = {
        _SERVER if named else _CLIENT
        for inode, (peer, named) in connections.items()
        if inode in mine and peer in theirs and named != connections.get(peer, (0, named))[1]
    }
    return roles.pop() if len(roles) == 1 else None


def _has(pid: int, inode: int) -> bool:
    with contextlib.suppress(LaunchError):
        for path, target in open_files(pid):
            with contextlib.suppress(OSError):
                if target.startswith(_MEMORY) and path.stat().st_ino == inode:
                    return True
    return False


def _connections() -> dict[int, tuple[int, bool]]:
    """Each connected Unix socket by its inode: its peer's, and whether it has a name."""
    from pyroute2 import DiagSocket, NetlinkError
    from pyroute2.netlink.diag import SS_ESTABLISHED, UDIAG_SHOW_NAME, UDIAG_SHOW_PEER

    try:
        with DiagSocket() as asked:
            asked.bind()
            answers = asked.get_sock_stats(
                states=1 << SS_ESTABLISHED, show=UDIAG_SHOW_NAME | UDIAG_SHOW_PEER
            )
    except (OSError, NetlinkError):  # the kernel may be without unix_diag
        return {}
    return {
        answer["udiag_ino"]: (peer, answer.get_attr("UNIX_DIAG_NAME") is not None)
        for answer in answers
        if (peer := answer.get_attr("UNIX_DIAG_PEER"))
    }

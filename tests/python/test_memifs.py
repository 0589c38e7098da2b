"""Memifs of a process, read from its open files."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from unis.plan.attached import MemifEnd
from unis.runtime.errors import LaunchError
from unis.runtime.memifs import find_end

SLOTS, BUFFER = 256, 2112


@contextmanager
def memory(rings: int) -> Iterator[None]:
    """As a client of net_memif makes it, among our own open files."""
    ring = 128 + 16 * SLOTS
    descriptor = os.memfd_create("memif")
    try:
        os.ftruncate(descriptor, rings * (ring + SLOTS * BUFFER))
        for at in range(rings):
            os.pwrite(descriptor, (0x3E31F20).to_bytes(4, "little"), at * ring)
        yield
    finally:
        os.close(descriptor)


def test_a_memif_of_two_queues_has_one_each_way() -> None:
    with memory(2):
        end = find_end(os.getpid(), 0, "client")
    assert end == MemifEnd(end.inode, SLOTS, BUFFER, client=True)
    assert (end.queues_to_server, end.queues_to_client) == (1, 1)


@pytest.mark.parametrize("role", ["server", "client"])
def test_which_of_more_queues_are_for_which_way_must_be_said(role: str) -> None:
    """{rx: 1, tx: 3} has as many rings as {rx: 2, tx: 2}."""
    with memory(4):
        with pytest.raises(LaunchError, match=f"has 4 queues, .*: say .* memif:0:{role}:1,3 "):
            find_end(os.getpid(), 0, role)
        end = find_end(os.getpid(), 0, role, (1, 3))
    to = {"server": end.queues_to_server, "client": end.queues_to_client}
    assert to.pop(role) == 1
    assert to.popitem()[1] == 3
    message = end.message().memif
    assert message.queues_to_server == end.queues_to_server
    assert message.queues_to_client == end.queues_to_client


def test_queues_that_a_memif_does_not_have_are_refused() -> None:
    with (
        memory(3),
        pytest.raises(LaunchError, match=r"has 3 queues, and 2 to .* by and 2 to .* are 4"),
    ):
        find_end(os.getpid(), 0, "client", (2, 2))


def test_the_control_connection_tells_server_from_client(tmp_path: Path) -> None:
    """The kernel names the server's end of it after the socket on which the server listens."""
    with memory(2), socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "memif.sock"))
        listening.listen()
        child = os.fork()
        if not child:
            listening.close()
            with socket.socket(socket.AF_UNIX) as control:
                control.connect(str(tmp_path / "memif.sock"))
                control.recv(1)  # until the server closes
            os._exit(0)
        with listening.accept()[0]:
            ends = [find_end(pid, 0, None) for pid in (os.getpid(), child)]
        os.waitpid(child, 0)
    assert [end.client for end in ends] == [False, True]

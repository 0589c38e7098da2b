"""Memifs of a process, read from its open files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

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


@pytest.mark.parametrize("rings", [2, 4, 32])
def test_a_memif_has_half_of_its_queues_each_way(rings: int) -> None:
    with memory(rings):
        end = find_end(os.getpid(), 0, "client")
    assert (end.slots, end.buffer_bytes, end.queues, end.client) == (
        SLOTS,
        BUFFER,
        rings // 2,
        True,
    )


def test_an_odd_number_of_queues_is_refused() -> None:
    with memory(3), pytest.raises(LaunchError, match="has 3 queues; those of each way cannot be"):
        find_end(os.getpid(), 0, "client")

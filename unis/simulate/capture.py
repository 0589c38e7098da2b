"""Packet sizes of a capture, for the simulator; the engine replays captures with its own reader."""

import struct
from collections.abc import Iterator
from pathlib import Path

_FCS = 4  # bytes; captures leave it out, sizes here have it
_PCAPNG_ENHANCED, _PCAPNG_SIMPLE = 6, 3  # block types that hold a packet


def packet_sizes(file: Path) -> Iterator[int]:
    """Bytes with FCS of each packet in a pcap or pcapng file."""
    data = file.read_bytes()
    lengths = _pcapng(data) if data[:4] == b"\x0a\x0d\x0d\x0a" else _pcap(data)
    for length in lengths:
        yield max(64, length + _FCS)


def mean_size(file: Path) -> int:
    """The mean size of a packet, bytes with FCS; ValueError if the file holds none."""
    sizes = list(packet_sizes(file))
    if not sizes:
        raise ValueError(f"{file} holds no packets")
    return round(sum(sizes) / len(sizes))


def _pcap(data: bytes) -> Iterator[int]:
    order = "<" if data[:1] in (b"\xd4", b"\x4d") else ">"
    at = 24
    while at + 16 <= len(data):
        captured, length = struct.unpack_from(order + "II", data, at + 8)
        yield length
        at += 16 + captured


def _pcapng(data: bytes) -> Iterator[int]:
    at, order = 0, "<"
    while at + 12 <= len(data):
        if data[at : at + 4] == b"\x0a\x0d\x0d\x0a":  # each section has its own byte order
            order = "<" if data[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
        kind, size = struct.unpack_from(order + "II", data, at)
        if size < 12 or at + size > len(data):
            return
        if kind == _PCAPNG_ENHANCED:
            yield struct.unpack_from(order + "I", data, at + 24)[0]
        elif kind == _PCAPNG_SIMPLE:
            yield struct.unpack_from(order + "I", data, at + 8)[0]
        at += size

"""Packet sizes of a capture, for the simulator. Read by libpcap, as the engine reads it: what the
one takes the other takes.
"""

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

from unis.errors import UnisError

_FCS = 4  # bytes; captures leave it out, sizes here have it
_SMALLEST = 64
_HEADER, _ROOM = 14, 2048  # bytes of a frame that the engine replays, at least and at most
_LIBRARIES = ("libpcap.so.0.8", "libpcap.so.1")
_ETHERNET = 1  # DLT_EN10MB
_ERROR_BYTES = 256  # PCAP_ERRBUF_SIZE
_PACKET, _END = 1, -2  # results of pcap_next_ex


class CaptureError(UnisError):
    """A capture that cannot be read; the text says why."""


class _Header(ctypes.Structure):
    _fields_ = (
        ("seconds", ctypes.c_long),
        ("fraction", ctypes.c_long),
        ("captured", ctypes.c_uint32),
        ("length", ctypes.c_uint32),
    )


def packet_sizes(file: Path) -> Iterator[int]:
    """Bytes with FCS of each packet that the engine replays of a pcap or pcapng file.

    Raises CaptureError if it is neither, or damaged.
    """
    library = _library()
    error = ctypes.create_string_buffer(_ERROR_BYTES)
    capture = library.pcap_open_offline(os.fsencode(file), error)
    if not capture:
        raise CaptureError(f"cannot read {file}: {error.value.decode(errors='replace')}")
    try:
        if library.pcap_datalink(capture) != _ETHERNET:
            raise CaptureError(
                f"{file} holds no Ethernet frames; name a capture of an Ethernet link"
            )
        header = ctypes.POINTER(_Header)()
        data = ctypes.c_void_p()
        while (
            result := library.pcap_next_ex(capture, ctypes.byref(header), ctypes.byref(data))
        ) == _PACKET:
            captured = header.contents.captured
            if _HEADER <= captured <= _ROOM:
                yield max(_SMALLEST, captured + _FCS)
        if result != _END:
            why = library.pcap_geterr(capture).decode(errors="replace")
            raise CaptureError(f"capture {file} is damaged: {why}; capture it again")
    finally:
        library.pcap_close(capture)


def mean_size(file: Path) -> int:
    """The mean size of a packet, bytes with FCS; CaptureError if the file holds none."""
    count = total = 0
    for size in packet_sizes(file):
        count += 1
        total += size
    if not count:
        raise CaptureError(f"{file} holds no packet that fits a buffer; name another capture")
    return round(total / count)


def _library() -> ctypes.CDLL:
    for name in _LIBRARIES:
        with contextlib.suppress(OSError):
            return _declared(ctypes.CDLL(name))
    raise CaptureError("libpcap is missing, which reads captures: run `make setup`")


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    library.pcap_open_offline.restype = ctypes.c_void_p
    library.pcap_open_offline.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    library.pcap_next_ex.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    library.pcap_datalink.argtypes = [ctypes.c_void_p]
    library.pcap_geterr.restype = ctypes.c_char_p
    library.pcap_geterr.argtypes = [ctypes.c_void_p]
    library.pcap_close.argtypes = [ctypes.c_void_p]
    return library

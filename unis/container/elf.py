"""What an ELF file needs, read from the file. ldd would run code that the file names."""

import itertools
import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_IDENT = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_LOAD, _DYNAMIC, _INTERP = 1, 2, 3  # types of segments
_NEEDED, _STRTAB, _RPATH, _RUNPATH = 1, 5, 15, 29  # tags of the dynamic segment
_MOST_BYTES = 1 << 20  # of a segment that is read
_MOST_LETTERS = 4096  # of a name, as PATH_MAX


@dataclass(frozen=True)
class Elf:
    """A program or library."""

    machine: int
    interpreter: Path | None = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()  # folders, also for what its libraries need
    runpath: tuple[str, ...] = ()  # folders


@dataclass(frozen=True)
class _ProgramHeader:
    kind: int
    offset: int
    address: int
    size: int


def read_elf(file: Path) -> Elf | None:
    """None: it is no ELF file of this kind, or it is damaged. OSError."""
    # Not blocking: else to open a FIFO would wait.
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return None
        try:
            return _read(stream)
        except (struct.error, ValueError, OverflowError, OSError):  # of what its tables say
            return None


def _read(stream: BinaryIO) -> Elf | None:
    head = stream.read(64)
    if not head.startswith(_IDENT):
        return None
    (machine,) = struct.unpack_from("<H", head, 18)
    (table,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    segments: list[_ProgramHeader] = []
    for at in range(count):
        entry = _bytes(stream, table + at * size, 40)
        kind, _, offset, address, _, length = struct.unpack("<IIQQQQ", entry)
        segments.append(_ProgramHeader(kind, offset, address, length))
    interpreter, tags = None, []
    for segment in segments:
        if segment.kind == _INTERP:
            interpreter = Path(_name(stream, segment.offset))
        elif segment.kind == _DYNAMIC:
            data = _bytes(stream, segment.offset, min(segment.size, _MOST_BYTES) // 16 * 16)
            tags = list(itertools.takewhile(lambda tag: tag[0], struct.iter_unpack("<QQ", data)))
    strings = next((_offset(segments, value) for tag, value in tags if tag == _STRTAB), 0)

    def names(wanted: int) -> list[str]:
        return [_name(stream, strings + value) for tag, value in tags if tag == wanted]

    def folders(wanted: int) -> tuple[str, ...]:
        return tuple(folder for name in names(wanted) for folder in name.split(":") if folder)

    return Elf(machine, interpreter, tuple(names(_NEEDED)), folders(_RPATH), folders(_RUNPATH))


def _offset(segments: list[_ProgramHeader], address: int) -> int:
    """Where in the file the content of an address is."""
    for part in segments:
        if part.kind == _LOAD and part.address <= address < part.address + part.size:
            return address - part.address + part.offset
    raise ValueError("an address that is in no segment")


def _bytes(stream: BinaryIO, offset: int, size: int) -> bytes:
    stream.seek(offset)
    return stream.read(size)


def _name(stream: BinaryIO, offset: int) -> str:
    name, end, _ = _bytes(stream, offset, _MOST_LETTERS).partition(b"\0")
    if not end:
        raise ValueError("a name without an end")
    return name.decode(errors="surrogateescape")

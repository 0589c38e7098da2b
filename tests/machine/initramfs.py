"""The first file system of the emulated machine: an archive of the form `newc`, and in it the
kernel's modules in the order in which they load.
"""

import lzma
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """A file, folder or device of the archive."""

    name: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def folder(name: str) -> Entry:
    return Entry(name, stat.S_IFDIR | 0o755)


def program(name: str, content: bytes) -> Entry:
    return Entry(name, stat.S_IFREG | 0o755, content)


def link(name: str, target: str) -> Entry:
    return Entry(name, stat.S_IFLNK | 0o777, target.encode())


def archive(entries: Iterable[Entry]) -> bytes:
    """The archive. A folder comes before what is in it."""
    numbered = enumerate([*entries, Entry("TRAILER!!!", 0)], start=1)
    return b"".join(_record(number, entry) for number, entry in numbered)


def _record(number: int, entry: Entry) -> bytes:
    name = entry.name.encode() + b"\0"
    # inode, mode, owner, group, links, time, size, device, device of a node, length of name, sum
    fields = [number, entry.mode, 0, 0, 1, 0, len(entry.content), 0, 0, *entry.device, len(name), 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return _padded(head) + _padded(entry.content)


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 4)


@dataclass(frozen=True)
class Module:
    """A module of the kernel."""

    name: str
    content: bytes

    @property
    def needs(self) -> list[str]:
        """The modules that must be there before it."""
        found = re.search(rb"\0depends=([^\0]*)\0", self.content)
        return _known_as(found[1].decode()).split(",") if found and found[1] else []


def modules(kernel: Path, wanted: Iterable[str]) -> list[Module]:
    """Those that are wanted and what they need, each behind what it needs itself.

    `kernel`: its folder below `lib/modules`. What is built in is left out. KeyError: unknown.
    """
    files = {_known_as(path.name.split(".ko")[0]): path for path in kernel.rglob("*.ko*")}
    built_in = {
        _known_as(Path(line).stem) for line in (kernel / "modules.builtin").read_text().split()
    }
    there: dict[str, Module] = {}

    def add(name: str) -> Iterator[Module]:
        if name in there or name in built_in:
            return
        content = files[name].read_bytes()
        module = Module(name, lzma.decompress(content) if files[name].suffix == ".xz" else content)
        there[name] = module
        for needed in module.needs:
            yield from add(needed)
        yield module

    return [module for name in wanted for module in add(_known_as(name))]


def _known_as(name: str) -> str:
    """Files have dashes where the kernel has underscores."""
    return name.replace("-", "_")

"""The last-level caches of this machine, as the kernel tells them without resctrl."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CPUS = Path("/sys/devices/system/cpu")
_LEVEL = "3"
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class LastLevelCache:
    """One of them."""

    id: int
    size: int  # bytes
    ways: int
    cpus: frozenset[int]

    @property
    def way_bytes(self) -> int:
        """Of one way."""
        return self.size // self.ways


def last_level_caches(root: Path = _CPUS) -> dict[int, LastLevelCache]:
    """By cache ID, as `schemata` has them; what the kernel does not tell whole is left out."""
    found: dict[int, LastLevelCache] = {}
    for number, folder in _folders(root):
        try:
            if (folder / "level").read_text().strip() != _LEVEL:
                continue
            size, ways = bytes_of(folder / "size"), _number(folder / "ways_of_associativity")
            ident = _number(folder / "id")
        except (OSError, ValueError):
            continue
        if size and ways:
            cpus = found[ident].cpus if ident in found else frozenset()
            found[ident] = LastLevelCache(ident, size, ways, cpus | {number})
    return found


def _folders(root: Path) -> Iterator[tuple[int, Path]]:
    for folder in root.glob("cpu[0-9]*/cache/index[0-9]*"):
        number = folder.parents[1].name.removeprefix("cpu")
        if number.isdigit():
            yield int(number), folder


def _number(file: Path) -> int:
    return int(file.read_text())


def bytes_of(file: Path) -> int:
    """As sysfs writes a size: 33792K. OSError, ValueError where it tells none."""
    text = file.read_text().strip()
    return int(text.rstrip("KMG")) * _UNITS.get(text[-1:], 1)

"""The caches of a core of this machine, as Linux tells them, and those of the paper's."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unis.errors import UnisError

LINE = 64  # bytes
_SYSFS = Path("/sys/devices/system/cpu")


class CacheError(UnisError):
    """Caches that cannot be told, or not be modelled; the text says why."""


@dataclass(frozen=True)
class CacheLevel:
    """One cache: `sets` of `ways` lines of 64 bytes."""

    sets: int
    ways: int

    @property
    def way_bytes(self) -> int:
        """What one way holds."""
        return self.sets * LINE

    def __str__(self) -> str:
        return f"{self.sets}x{self.ways}"  # as unis-cache takes it


@dataclass(frozen=True)
class Caches:
    """What a core has for itself, and the last level, which cores share."""

    name: str
    l1: CacheLevel  # for data
    l2: CacheLevel
    llc: CacheLevel


# Intel Xeon E5-2695 v4 (ResQ, section 4.1): 32 KB and 256 KB of 8 ways a core, 45 MB of 20 ways.
# Its 18 slices of 2048 sets are taken for one cache of 36864.
PAPER = Caches("Xeon E5-2695 v4", CacheLevel(64, 8), CacheLevel(512, 8), CacheLevel(36864, 20))


def read_caches(cpu: int = 0, sysfs: Path = _SYSFS) -> Caches:
    """The caches of a CPU. CacheError where sysfs tells none, or lines are not of 64 bytes."""
    folder = sysfs / f"cpu{cpu}" / "cache"
    levels: dict[int, CacheLevel] = {}
    for index in sorted(folder.glob("index*")):
        told = _read(index)
        if told.get("type") == "Instruction":
            continue
        try:
            numbers = {key: int(told[key]) for key in _NUMBERS}
        except (KeyError, ValueError):
            raise CacheError(
                f"{index} does not tell {', '.join(_NUMBERS)}, as virtual machines may not; give "
                "the geometry of a machine that is known"
            ) from None
        if numbers["coherency_line_size"] != LINE:
            raise CacheError(
                f"{index}: lines of {numbers['coherency_line_size']} bytes; the model knows {LINE}"
            )
        levels[numbers["level"]] = CacheLevel(
            numbers["number_of_sets"], numbers["ways_of_associativity"]
        )
    if not levels.keys() >= {1, 2, 3}:
        raise CacheError(
            f"{folder} tells levels {sorted(levels) or 'none'}; the model needs 1, 2 and 3"
        )
    return Caches(f"CPU {cpu} of this machine", levels[1], levels[2], levels[max(levels)])


_NUMBERS = ("level", "number_of_sets", "ways_of_associativity", "coherency_line_size")


def _read(index: Path) -> Mapping[str, str]:
    try:
        return {file.name: file.read_text().strip() for file in index.iterdir() if file.is_file()}
    except OSError as error:
        raise CacheError(f"cannot read {index}: {error.strerror}", bad_input=False) from None

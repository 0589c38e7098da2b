"""The files that a program of this machine needs to run elsewhere: libraries, DPDK's drivers."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from unis import links
from unis.container.model import ImageError

_NEEDED = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_MISSING = re.compile(r"^\s*(\S+) => not found$", re.MULTILINE)
_EAL = re.compile(r"librte_eal\.so\.\d+")
# Beside the drivers of links: the bus of virtual devices, and what packet memory is made of.
_DRIVERS = ("bus_vdev", "bus_pci", "mempool_ring", "mempool_stack")
_CACHE = Path("/etc/ld.so.cache")  # by which the loader finds libraries in their folders


def files_needed(programs: Sequence[Path], loaded: Sequence[Path] = ()) -> tuple[Path, ...]:
    """All files that the programs need beside themselves, as the loader names them: one file may
    have two names. Also what is `loaded` later needs libraries. ImageError: some are missing.
    """
    for program in programs:
        if _magic(program) != b"\x7fELF":
            raise ImageError(
                f"{program} is a script or the like, so UNiS cannot tell what it needs; name an "
                "image that has it: container: {image: FOLDER}"
            )
    found = _libraries([*programs, *loaded])
    eal = next((path for path in found if _EAL.fullmatch(path.name)), None)
    if eal:
        drivers = [*_drivers(eal.resolve().parent)]
        found |= dict.fromkeys([*drivers, *_libraries(drivers)])
    cache = [_CACHE] if _CACHE.is_file() else []
    return (*found, *cache)


def _magic(program: Path) -> bytes:
    try:
        with program.open("rb") as stream:
            return stream.read(4)
    except OSError as error:
        raise ImageError(f"cannot read {program}: {error.strerror}") from None


def _libraries(files: Sequence[Path]) -> dict[Path, None]:
    if not files:
        return {}
    try:
        told = subprocess.run(
            ["ldd", "--", *files], capture_output=True, text=True, check=False, errors="replace"
        )
    except OSError as error:
        raise ImageError(f"cannot run ldd: {error.strerror}") from None
    if missing := sorted({*_MISSING.findall(told.stdout)}):
        raise ImageError(f"{files[0]} needs {', '.join(missing)}, which this machine lacks")
    return dict.fromkeys(map(Path, _NEEDED.findall(told.stdout)))


def _drivers(libraries: Path) -> Iterator[Path]:
    """EAL loads every file of the folder that it was built with, which Debian has beside the
    libraries, by their path without links.
    """
    names = sorted({*_DRIVERS, *(kind.driver for kind in links.KINDS.values())})
    for name in names:
        yield from sorted(libraries.glob(f"dpdk/pmds-*/librte_{name}.so.*"))

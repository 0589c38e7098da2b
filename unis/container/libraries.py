"""The files that a program of this machine needs to run elsewhere: libraries, DPDK's drivers."""

import contextlib
import functools
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from unis import links
from unis.container.elf import Elf, read_elf
from unis.container.model import ImageError

_Read = Callable[[Path], Elf | None]
_CACHED = re.compile(r"^\t(\S+) \(.*\) => (/.*)$", re.MULTILINE)
_HWCAPS = "/glibc-hwcaps/"  # folders of libraries for newer CPUs
_DEFAULT = [f"/lib/{platform.machine()}-linux-gnu", "/lib64", "/lib", "/usr/lib64", "/usr/lib"]
_EAL = re.compile(r"librte_eal\.so\.\d+")
# Beside the drivers of links: the bus of virtual devices, and what packet memory is made of.
_DRIVERS = ("bus_vdev", "bus_pci", "mempool_ring", "mempool_stack")
_CACHE = Path("/etc/ld.so.cache")  # by which the loader finds libraries in their folders


def files_needed(programs: Sequence[Path], loaded: Sequence[Path] = ()) -> tuple[Path, ...]:
    """All files that the programs need beside themselves, as the loader names them: one file may
    have two names. Also what is `loaded` later needs libraries. ImageError: some are missing.
    """
    for program in programs:
        if not _is_elf(program):
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


def _is_elf(program: Path) -> bool:
    try:
        return read_elf(program) is not None
    except OSError as error:
        raise ImageError(f"cannot read {program}: {error.strerror}") from None


def _libraries(files: Sequence[Path]) -> dict[Path, None]:
    """As the loader finds them without LD_LIBRARY_PATH, which a container does not inherit."""
    cached = _cached_places() if files else {}
    read = functools.cache(_elf)
    return dict.fromkeys(place for file in files for place in _libraries_of(file, read, cached))


def _libraries_of(file: Path, read: _Read, cached: Mapping[str, Sequence[str]]) -> Iterator[Path]:
    first = read(file)
    if first is None:
        return
    if first.interpreter and read(first.interpreter):
        yield first.interpreter
    known: set[str] = set()  # the loader loads a library once, from where it is found first
    left: list[tuple[Path, Elf, Sequence[str]]] = [(file, first, ())]
    for path, elf, inherited in left:  # grows meanwhile
        own = [*_folders(elf.runpath or elf.rpath, path)]
        handed_on = inherited if elf.runpath else [*own, *inherited]
        search = own if elf.runpath else handed_on
        for name in elf.needed:
            if name in known or name.startswith("ld-linux") or _is_relative(name):
                continue
            known.add(name)
            places = [f"{folder}/{name}" for folder in search] + [
                *(place for place in cached.get(name, ()) if _HWCAPS not in place),
                *(f"{folder}/{name}" for folder in _DEFAULT),
            ]
            for place in map(Path, [os.path.normpath(name)] if "/" in name else places):
                library = read(place)
                if library and library.machine == first.machine:
                    break
            else:
                raise ImageError(
                    f"{file} needs {name}, which is in no folder that its loader searches"
                )
            yield place
            others = [Path(other) for other in cached.get(name, ()) if _HWCAPS in other]
            yield from filter(read, others)
            left.append((place, library, handed_on))


def _folders(stated: Sequence[str], file: Path) -> Iterator[str]:
    for folder in stated:
        for word in ("$ORIGIN", "${ORIGIN}"):
            folder = folder.replace(word, str(file.parent))
        if not _is_relative(f"{folder}/"):
            yield os.path.normpath(folder)


def _is_relative(name: str) -> bool:
    """To the folder in which the program runs, which the container has anyway."""
    return "/" in name and not name.startswith("/")


def _elf(path: Path) -> Elf | None:
    with contextlib.suppress(OSError):
        return read_elf(path)
    return None


def _cached_places() -> dict[str, list[str]]:
    """Where the loader's cache has libraries, by their names; first what it takes first."""
    try:
        told = subprocess.run(
            ["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False, errors="replace"
        )
    except OSError as error:
        raise ImageError(f"cannot run ldconfig: {error.strerror}") from None
    found: dict[str, list[str]] = {}
    for name, place in _CACHED.findall(told.stdout):
        found.setdefault(name, []).append(place)
    return found


def _drivers(libraries: Path) -> Iterator[Path]:
    """EAL loads every file of the folder that it was built with, which Debian has beside the
    libraries, by their path without links.
    """
    names = sorted({*_DRIVERS, *(kind.driver for kind in links.KINDS.values())})
    for name in names:
        yield from sorted(libraries.glob(f"dpdk/pmds-*/librte_{name}.so.*"))

"""The root of a container: an empty folder into which all that it sees is mounted."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from unis.container.bundle import within
from unis.container.model import Mount


def assemble(image: Path | None, root: Path, places: Sequence[Path]) -> tuple[Mount, ...]:
    """Makes `root` anew, and says what of the root file system `image` is to be mounted there.

    Nothing is written into the image: a folder of it in which something else has its place, one of
    `places`, is made in `root`, and what is in it is mounted piece by piece. OSError.
    """
    root.mkdir()
    return tuple(_pieces(image, root, places, Path("/"))) if image else ()


def _pieces(image: Path, root: Path, places: Sequence[Path], folder: Path) -> Iterator[Mount]:
    source = image / folder.relative_to("/")
    with os.scandir(source) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        inside = folder / entry.name
        here = root / inside.relative_to("/")
        if entry.is_symlink():
            here.symlink_to(Path(entry.path).readlink())
        elif inside in places:
            continue  # it is covered
        elif entry.is_dir() and any(within(place, inside) for place in places):
            here.mkdir()
            yield from _pieces(image, root, places, inside)
        else:
            yield Mount(Path(entry.path), inside)

"""The containers of functions: their images, and what they see of this machine.

Needs the machine's files.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from unis import links
from unis.chain.model import ChainFile, Container, Function
from unis.chain.problem import Location, Problem
from unis.container.bundle import FIXED, ordered, within
from unis.container.image import Image, find_in, open_image, other_architecture
from unis.container.model import ContainerPlan, ImageError, Mount
from unis.links.kind import LinkPlan
from unis.plan.wiring import Wiring


def image_of(container: Container, directory: Path) -> Image | None:
    """None: the container has a program of this machine. ImageError."""
    return open_image(directory / container.image) if container.image else None


def program_in(function: Function, directory: Path) -> Path | None:
    """Where the program is in the image that the file names; None: it is not, or no image is."""
    if function.container is None or function.container.image is None:
        return None
    try:
        return find_in(open_image(directory / function.container.image), function.executable)
    except ImageError:  # `container_problems` tells it
        return None


def container_plan(function: Function, directory: Path) -> ContainerPlan | None:
    """The container that the file asks for, but for the run's folders; ImageError."""
    if function.container is None:
        return None
    image = image_of(function.container, directory)
    own = [] if directory == Path("/") else [_mounted(directory)]
    return ContainerPlan(
        image=image.folder if image else None,
        digest=image.digest if image else "",
        env=image.env if image else {},
        mounts=ordered([*own, *_stated(function.container, directory)]),
    )


def with_folders(
    plan: ContainerPlan | None, own: Path | None, ports: Path, links: list[LinkPlan]
) -> ContainerPlan | None:
    """The same with what the run hands in: its `own` folder, that of drivers and plug-in, and those
    of its links' sockets. DPDK's net_memif refuses a folder that it may not write, also as client.
    """
    if plan is None:
        return None
    sockets = [link.details.folder for link in links if link.details and link.details.folder]
    shared = [*sockets, *([own] if own else [])]
    handed = [_mounted(ports), *(_mounted(place, writable=True) for place in shared)]
    return ContainerPlan(plan.image, plan.digest, plan.env, ordered([*plan.mounts, *handed]))


def container_problems(
    file: ChainFile, wiring: Wiring, directory: Path, programs: Mapping[str, Path]
) -> Iterator[Problem]:
    """What is wrong with the containers that the file asks for; `programs` are those found."""
    writable = [
        (name, mount.source)
        for name, function in file.functions.items()
        if function.container
        for mount in _stated(function.container, directory)
        if mount.writable
    ]
    for name, function in file.functions.items():
        if function.container is None:
            continue
        where = ("functions", name)
        if wiring.shares_memory(name):
            yield Problem(
                (*where, "container"),
                f"`{name}` is on rings, which are memory that it would share with the engine; "
                f"let the link to `{name}` state another kind, or leave the container out",
            )
        for port in wiring.ports.get(name, ()):
            if not links.KINDS[port.kind].in_containers:
                yield Problem(
                    (*where, "container"),
                    f"`{name}` is on a link of kind {port.kind}, whose device file no container "
                    "has; let its links state another kind, or leave the container out",
                )
                break
        yield from _image_problems(where, function, directory)
        hidden = next((path for path in FIXED if within(path, directory)), None)
        if hidden and directory != Path("/"):
            yield Problem(
                (*where, "container"),
                f"the function would see {directory}, the folder of this file, in the place of its "
                f"own {hidden}; put the file into another folder",
            )
        for at, mount in enumerate(_stated(function.container, directory)):
            place = (*where, "container", "mounts", at)
            if not mount.source.exists():
                yield Problem(place, f"there is no {mount.source}; name a file or folder")
            if taken := next((path for path in FIXED if _overlap(mount.inside, path)), None):
                yield Problem(place, f"{taken} is each container's own; mount it elsewhere")
        yield from _replaceable(where, function, directory, programs.get(name), writable)


def _overlap(one: Path, other: Path) -> bool:
    return within(one, other) or within(other, one)


def _replaceable(
    where: tuple[str, ...],
    function: Function,
    directory: Path,
    program: Path | None,
    writable: Sequence[tuple[str, Path]],
) -> Iterator[Problem]:
    """What a function could replace by a link to any place, which would be mounted at a restart."""
    container = function.container
    if container is None:
        return
    sources: list[tuple[Location, Path]] = [((*where, "container"), _real(directory))]
    for at, mount in enumerate(_stated(container, directory)):
        sources.append(((*where, "container", "mounts", at), mount.source))
    if container.image:
        sources.append(((*where, "container", "image"), _real(directory / container.image)))
    elif program:
        key = "program" if function.program else "command"
        links = (_real(program.parent) / program.name, _real(program))
        sources += [((*where, key), place) for place in links]
    for place, source in sources:
        for name, folder in writable:
            if source != folder and within(source, folder):
                yield Problem(
                    place,
                    f"{source} is in {folder}, so `{name}`, which may write there, could put a "
                    f"link to any file in its place; let `{name}` write to another folder",
                )
                return


def _image_problems(
    where: tuple[str, ...], function: Function, directory: Path
) -> Iterator[Problem]:
    container = function.container
    if container is None or container.image is None:
        return
    try:
        image = open_image(directory / container.image)
        program = find_in(image, function.executable)
    except ImageError as error:
        yield Problem((*where, "container", "image"), str(error))
        return
    key = "program" if function.program else "command"
    if program is None:
        searched = "" if "/" in function.executable else f" on its PATH, {':'.join(image.search)}"
        yield Problem(
            (*where, key),
            f"there is no program `{function.executable}` in {image.folder}{searched}; name a file "
            "of the image that can be executed",
        )
    elif other := other_architecture(image, program):
        yield Problem(
            (*where, "container", "image"),
            f"{program} of {image.folder} is for {other}; name an image for this machine",
        )


def _stated(container: Container, directory: Path) -> list[Mount]:
    found: list[Mount] = []
    for words in container.mounts:
        source, inside, *writable = words.split(":")
        found.append(_mounted(directory / source, Path(inside), writable=bool(writable)))
    return found


def _mounted(source: Path, inside: Path | None = None, *, writable: bool = False) -> Mount:
    """The place to which links lead now: the start follows no link that comes later."""
    return Mount(_real(source), inside or source, writable)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))

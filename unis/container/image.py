"""Images: a folder with a root file system, or with an image layout of the OCI."""

import functools
import gzip
import hashlib
import io
import json
import os
import platform
import posixpath
import shutil
import stat
import struct
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from unis.container.bundle import PATH
from unis.container.model import ImageError

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_MACHINES = {62: "amd64", 183: "arm64", 3: "386", 40: "arm", 243: "riscv64"}  # of ELF
_INDEX = "application/vnd.oci.image.index.v1+json"
_LAYERS = tuple(f"application/vnd.oci.image.layer.v1.tar{end}" for end in ("", "+gzip"))
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_MOST_LINKS = 40  # on the way to a file, as the kernel allows
_PIECE = 1 << 20
_GZIP = b"\x1f\x8b"  # with which it begins
_HINT = (
    "name a folder with an OCI image layout, as `unis image` makes it, or with a root file system"
)


@dataclass(frozen=True)
class Image:
    """An image that is there."""

    folder: Path
    digest: str = ""  # of the manifest; empty for a root file system
    layers: tuple[Path, ...] = ()  # blobs, each upon the one before
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def search(self) -> list[str]:
        """The folders of its PATH."""
        return self.env.get("PATH", PATH).split(":")


def this_architecture() -> str:
    """As the OCI calls it."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def open_image(folder: Path) -> Image:
    """The image in a folder. ImageError: there is none, or it is not for this machine."""
    if not folder.is_dir():
        raise ImageError(f"there is no folder {folder}; {_HINT}")
    if not (folder / "oci-layout").exists():
        if any((folder / name).is_dir() for name in ("bin", "usr", "lib")):
            return Image(folder.resolve())
        raise ImageError(f"{folder} has neither a file `oci-layout` nor bin, usr or lib; {_HINT}")
    try:
        return _of_layout(folder.resolve())
    except OSError as error:
        raise ImageError(
            f"{folder} is damaged: cannot read {error.filename}: {error.strerror}"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ImageError(f"{folder} is no OCI image layout: {error!r}; {_HINT}") from None


def find_in(image: Image, program: str) -> Path | None:
    """The place of a program in an image: of a name, where the image's PATH has it."""
    look = _entries(image)
    names = [program] if "/" in program else [f"{place}/{program}" for place in image.search]
    for name in names:
        place = _from_root(name)
        found = _follow(look, place)
        if found and found.executable:
            return Path(place)
    return None


def other_architecture(image: Image, program: Path) -> str:
    """For which other architecture the program of a root file system is; empty: for ours."""
    if image.layers:
        return ""  # its configuration was asked
    found = _follow(_entries(image), str(program))
    try:
        head = found.file.open("rb").read(20) if found and found.file else b""
    except OSError:
        return ""
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return ""
    (machine,) = struct.unpack_from("<H", head, 18)
    name = _MACHINES.get(machine, f"machine {machine}")
    return "" if name == this_architecture() else name


def unpack(image: Image, into: Path) -> None:
    """Makes the root file system of a layout; `into` is there, and empty. ImageError, OSError."""
    for blob in image.layers:
        with blob.open("rb") as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            # What is unpacked is what is hashed: the file may change meanwhile.
            stream = _Hashed(file)
            # Not tarfile's own gzip: of a stream it reads the first member only.
            plain = gzip.GzipFile(fileobj=stream) if packed else stream
            try:
                with tarfile.open(blob.name, "r|", plain) as layer:
                    for member in layer:
                        _put(layer, member, into)
            except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ImageError(f"layer {blob} is damaged: {error}") from None
            while stream.read(_PIECE):
                pass
        _check(blob, stream.digest.hexdigest())


# ------------------------------------------------------------------ image layouts


def _of_layout(folder: Path) -> Image:
    manifests = json.loads((folder / "index.json").read_text())["manifests"]
    while manifests and all(entry.get("mediaType") == _INDEX for entry in manifests):
        manifests = [
            inner for entry in manifests for inner in _json(folder, entry["digest"])["manifests"]
        ]
    ours = this_architecture()
    found: dict[str, tuple[Any, Any]] = {}
    others: set[str] = set()
    for entry in manifests:
        manifest = _json(folder, entry["digest"])
        settings = _json(folder, manifest["config"]["digest"])
        if settings["architecture"] == ours:
            found[entry["digest"]] = (manifest, settings)
        else:
            others.add(settings["architecture"])
    if not found:
        are = ", ".join(sorted(others))
        said = f"is for {are}, and this machine is {ours}" if are else "has no image"
        raise ImageError(f"{folder} {said}; name an image for {ours}")
    if len(found) > 1:
        raise ImageError(f"{folder} has {len(found)} images for {ours}; name a folder with one")
    ((digest, (manifest, settings)),) = found.items()
    for layer in manifest["layers"]:
        if layer["mediaType"] not in _LAYERS:
            raise ImageError(
                f"{folder} has a layer of type {layer['mediaType']}; UNiS reads tar and tar+gzip"
            )
    env = dict(line.split("=", 1) for line in settings.get("config", {}).get("Env") or [])
    layers = tuple(_blob(folder, layer["digest"]) for layer in manifest["layers"])
    return Image(folder, digest, layers, env)


def _json(folder: Path, digest: str) -> Any:
    blob = _blob(folder, digest)
    data = blob.read_bytes()
    _check(blob, hashlib.sha256(data).hexdigest())
    return json.loads(data)


def _blob(folder: Path, digest: str) -> Path:
    algorithm, _, number = digest.partition(":")
    if algorithm != "sha256" or len(number) != 64 or not number.isalnum():
        raise ValueError(f"digest {digest}")
    return folder / "blobs" / algorithm / number


def _check(blob: Path, digest: str) -> None:
    if digest != blob.name:
        raise ImageError(f"{blob} is damaged: its content has another digest")


class _Hashed(io.RawIOBase):
    """A stream, and the digest of what was read of it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.digest.update(data)
        return data


# ------------------------------------------------------------------ layers become folders


def _put(layer: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> None:
    """What is in a layer stays in `root`, wherever links of the image lead."""
    parts = [part for part in PurePosixPath(member.name).parts if part not in ("/", ".")]
    if not parts:
        return
    if ".." in parts:
        raise ImageError(f"layer {layer.name!s} has an entry {member.name}")
    folder = root.joinpath(*parts[:-1])
    inside = Path(os.path.realpath(folder))
    if not inside.is_relative_to(os.path.realpath(root)):
        raise ImageError(f"layer {layer.name!s}: {member.name} is outside, by a link")
    inside.mkdir(parents=True, exist_ok=True)
    name = parts[-1]
    if name == _OPAQUE:
        for entry in inside.iterdir():
            _remove(entry)
        return
    if name.startswith(_WHITEOUT):
        _remove(inside / name.removeprefix(_WHITEOUT))
        return
    target = inside / name
    if not (member.isdir() and target.is_dir() and not target.is_symlink()):
        _remove(target)
    if member.islnk():
        source = Path(os.path.realpath(root / PurePosixPath(member.linkname.lstrip("/"))))
        if not source.is_relative_to(os.path.realpath(root)):
            raise ImageError(f"layer {layer.name!s}: {member.name} links to what is outside")
        target.hardlink_to(source)
    elif member.isfile() or member.isdir() or member.issym():
        member.name = str(target.relative_to(os.path.realpath(root)))
        layer.extract(member, os.path.realpath(root), numeric_owner=True)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# ------------------------------------------------------------------ files of an image


@dataclass(frozen=True)
class _Entry:
    link: str | None = None  # where a symbolic link leads
    executable: bool = False  # a file that can be started
    file: Path | None = None  # where it is here, in a root file system


_Look = Callable[[str], _Entry | None]


def _from_root(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))


def _follow(look: _Look, path: str) -> _Entry | None:
    """What is at an absolute path, by the links of the image alone."""
    place = _real(look, path)
    return look(place) if place else None


def _real(look: _Look, path: str) -> str | None:
    """A path without links, of what need not be there; None: the links go round in a circle."""
    left, at, followed = _parts(path), "/", 0
    while left:
        part = left.pop()
        here = posixpath.dirname(at) if part == ".." else posixpath.join(at, part)
        entry = look(here)
        if entry is None or entry.link is None:
            at = here
            continue
        followed += 1
        if followed > _MOST_LINKS:
            return None
        at = "/" if entry.link.startswith("/") else at
        left += _parts(entry.link)
    return at


def _parts(path: str) -> list[str]:
    """The last first."""
    return [part for part in path.split("/") if part not in ("", ".")][::-1]


def _entries(image: Image) -> _Look:
    if not image.layers:
        return functools.partial(_of_folder, image.folder)
    return _of_layers(image.layers).get


def _of_folder(root: Path, path: str) -> _Entry | None:
    place = root / path.lstrip("/")
    try:
        mode = place.lstat().st_mode
        if stat.S_ISLNK(mode):
            return _Entry(link=str(place.readlink()))
    except OSError:
        return None
    return _Entry(executable=stat.S_ISREG(mode) and bool(mode & 0o111), file=place)


@functools.lru_cache(maxsize=4)
def _of_layers(layers: Sequence[Path]) -> dict[str, _Entry]:
    """A blob is called after its content, so what was read of it once stays true."""
    found: dict[str, _Entry] = {}
    for blob in layers:
        try:
            with tarfile.open(blob, "r:*") as layer:
                for member in layer:
                    _add(found, member)
        except (OSError, tarfile.TarError, EOFError) as error:
            raise ImageError(f"layer {blob} cannot be read: {error}") from None
    return found


def _add(found: dict[str, _Entry], member: tarfile.TarInfo) -> None:
    folder, name = posixpath.split(_from_root(member.name))
    folder = _real(found.get, folder) or folder
    path = posixpath.join(folder, name)
    if name == _OPAQUE:
        _forget(found, folder)
        path, entry = folder, _Entry()
    elif name.startswith(_WHITEOUT):
        _forget(found, posixpath.join(folder, name.removeprefix(_WHITEOUT)))
        path, entry = folder, _Entry()
    elif member.isdir():
        before = found.get(path)
        entry = _Entry() if before is None or before.link or before.executable else before
    else:
        _forget(found, path)
        entry = _Entry(executable=member.isfile() and bool(member.mode & 0o111))
        if member.issym():
            entry = _Entry(link=member.linkname)
        elif member.islnk():
            entry = _follow(found.get, _from_root(member.linkname)) or _Entry()
    for parent in PurePosixPath(path).parents:
        found.setdefault(str(parent), _Entry())
    found[path] = entry


def _forget(found: dict[str, _Entry], path: str) -> None:
    for other in [other for other in found if f"{other}/".startswith(f"{path.rstrip('/')}/")]:
        del found[other]

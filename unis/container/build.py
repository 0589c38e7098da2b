"""Makes an image of programs of this machine: an image layout of the OCI, of one layer.

The same files make the same image.
"""

import hashlib
import json
import shutil
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from unis.container.bundle import PATH
from unis.container.image import this_architecture
from unis.container.libraries import files_needed
from unis.container.model import ImageError

PROGRAMS = PurePosixPath("/usr/local/bin")
_TYPE = "application/vnd.oci.image.{}.v1"


def build_image(programs: Mapping[str, Path], loaded: Sequence[Path], folder: Path) -> str:
    """Writes an image of programs, by the names that they are to have, into `folder`, with what
    they need and what that needs which is `loaded` into them. Its digest; ImageError, OSError.
    """
    if folder.exists() and not (folder / "oci-layout").exists() and any(folder.iterdir()):
        raise ImageError(f"{folder} has something else in it than an image; name another folder")
    needed = files_needed([*programs.values()], loaded)
    files = {PurePosixPath(path): path for path in needed}
    files |= {PROGRAMS / name: path for name, path in programs.items()}
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    layer = _layer(files, blobs)
    config = {
        "architecture": this_architecture(),
        "os": "linux",
        "config": {"Env": [f"PATH={PATH}"]},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    manifest: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": _TYPE.format("manifest") + "+json",
        "config": _blob(blobs, config, _TYPE.format("config") + "+json"),
        "layers": [layer],
    }
    entry = _blob(blobs, manifest, _TYPE.format("manifest") + "+json")
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (folder / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
    kept = {part["digest"].partition(":")[2] for part in (layer, manifest["config"], entry)}
    for old in [blob for blob in blobs.iterdir() if blob.name not in kept]:
        old.unlink()  # of the image that was there before
    return str(entry["digest"])


def _layer(files: Mapping[PurePosixPath, Path], blobs: Path) -> dict[str, Any]:
    """A file with several names becomes hard links: the loader must not load a library twice."""
    partly = blobs / ".layer"
    placed: dict[Path, PurePosixPath] = {}
    with tarfile.open(partly, "w") as layer:
        for folder in _folders(files):
            entry = tarfile.TarInfo(str(folder).lstrip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(entry)
        for inside, path in sorted(files.items()):
            file = path.resolve()
            entry = tarfile.TarInfo(str(inside).lstrip("/"))
            entry.mode = 0o755
            if file in placed:
                entry.type, entry.linkname = tarfile.LNKTYPE, str(placed[file]).lstrip("/")
                layer.addfile(entry)
                continue
            placed[file] = inside
            entry.size = file.stat().st_size
            with file.open("rb") as stream:
                layer.addfile(entry, stream)
    with partly.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    size = partly.stat().st_size
    shutil.move(partly, blobs / digest)
    return {"mediaType": _TYPE.format("layer") + ".tar", "digest": f"sha256:{digest}", "size": size}


def _folders(files: Iterable[PurePosixPath]) -> list[PurePosixPath]:
    return sorted({parent for file in files for parent in file.parents} - {PurePosixPath("/")})


def _blob(blobs: Path, content: Mapping[str, Any], kind: str) -> dict[str, Any]:
    data = json.dumps(content, sort_keys=True).encode()
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

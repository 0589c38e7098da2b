"""Chain files that clients have sent, a file for each run, and chain files as objects."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unis.chain.document import digest_of, document_of, read_document
from unis.chain.load import load
from unis.chain.problem import ChainFileError
from unis.runtime.directory import base_directory, run_directory
from unis.runtime.files import own_directory, write_atomically
from unis.runtime.state import RunState, is_name
from unis.serve.operations import environment
from unis.serve.problems import API_VERSION, ApiError, StatusReason

if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST = 1 << 20  # bytes, as of any chain file
_HALF_LETTER = re.compile(rb"\\u[dD][89abAB]")
_LONGEST_NAME = 200  # letters; a file is called so
_OLD_SECONDS = 3600.0  # no request takes so long
_MOST_KNOWN = 64  # files of which the content is kept in memory


class SentFile:
    """A chain file that was sent, and may become that of the run."""

    def __init__(self, path: Path, name: str, resource_version: str | None) -> None:
        self.path = path
        self.name = name  # of the run
        self.resource_version = resource_version  # that the client has seen; None: it does not say


class DesiredFiles:
    """The folder of those files. Only root may look into it."""

    def __init__(self) -> None:
        self.folder = base_directory() / "desired"
        self._known: dict[tuple[str, str, str], tuple[dict[str, Any] | None, str]] = {}

    def make(self) -> None:
        """LaunchError: it is not ours alone."""
        own_directory(self.folder.parent, 0o755)
        own_directory(self.folder, 0o700)
        for path in self.folder.glob(".*.yaml"):  # of a server that was killed
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _OLD_SECONDS:
                    path.unlink()

    def path(self, run: str) -> Path:
        """Of the run's file, whether it is there or not."""
        return self.folder / f"{run}.yaml"

    def restore(self, run: str, content: bytes | None) -> None:
        """Puts the file of before back; None: there was none, and it stays only if a run has it."""
        path = self.path(run)
        state = run_directory(run).read()
        if content is not None:
            write_atomically(path, content.decode(errors="surrogateescape"))
        elif state is None or Path(state.chain_file) != path:
            path.unlink(missing_ok=True)

    def identity(self, run: str) -> tuple[int, int] | None:
        """Another one for another file of the same name; None: there is none."""
        try:
            status = self.path(run).stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns

    def remove(self, run: str) -> None:
        """Nothing where there is none."""
        self.path(run).unlink(missing_ok=True)

    @contextlib.contextmanager
    def sent(
        self, run: str | None, body: bytes, variables: Mapping[str, str]
    ) -> Iterator[SentFile]:
        """A file with what was sent: a chain file, or an object of kind Run. It is removed at the
        end unless it was moved to `path`. ApiError: it is no valid chain file of the name `run`,
        or of any where that is None.

        `variables`: those that the run has, for `${…}`.
        """
        if run is not None and not (is_name(run) and len(run) <= _LONGEST_NAME):
            told = f"invalid run name `{run}`: begin with a letter or digit; then letters, digits, "
            told += "dots, dashes and underscores"
            raise ApiError(StatusReason.INVALID, told)
        called = run or "file"
        handle, name = tempfile.mkstemp(suffix=".yaml", prefix=f".{called}.", dir=self.folder)
        path = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(_with_whole_letters(body))
            with _explained(path, called):
                text, version = _chain_file(path, run)
                path.write_text(text)
                loaded = load(path, None, {**variables, **environment()})
            if run is not None and loaded.file.name != run:
                told = f"the file names the run `{loaded.file.name}`, and the path `{run}`"
                raise ApiError(StatusReason.INVALID, f"{told}: write the same name")
            yield SentFile(path, loaded.file.name, version)
        finally:
            path.unlink(missing_ok=True)

    def content(self, state: RunState) -> tuple[dict[str, Any] | None, str]:
        """A run's chain file as it is now, as plain data, and its digest; (None, "") where it
        cannot be read.
        """
        path = Path(state.chain_file)
        text = _text_of(path, state.digest)
        if text is None:
            return None, ""
        key = (str(path), text, json.dumps(state.variables))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = _plain(path, text, state.variables)
        return found


def _text_of(path: Path, digest: str) -> str | None:
    """Of a chain file; None where it cannot be read, or where somebody else than root has put
    another text there: what the server reads as root all may see who may look.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with os.fdopen(handle, "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            return None
        try:
            text = stream.read(LARGEST).decode()
        except (OSError, UnicodeDecodeError):
            return None
    return text if status.st_uid == 0 or digest_of(text) == digest else None


def _with_whole_letters(body: bytes) -> bytes:
    """JSON may write a letter as two halves (`\\ud83d\\ude00`), which YAML does not know."""
    if not _HALF_LETTER.search(body):
        return body
    try:
        return json.dumps(json.loads(body), indent=1, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # it is told as YAML
        return body


def _plain(
    path: Path, text: str, variables: Mapping[str, str]
) -> tuple[dict[str, Any] | None, str]:
    try:
        document = document_of(path, text, {**environment(), **variables})
        if not isinstance(document.data, dict):
            return None, ""
        return json.loads(json.dumps(document.data, default=str)), document.digest
    except (ChainFileError, ValueError, TypeError):
        return None, ""


def _chain_file(path: Path, run: str | None) -> tuple[str, str | None]:
    """The text of the chain file that was sent in one of two forms, and a version that the client
    has seen. ChainFileError.
    """
    text = path.read_text()
    document = read_document(path, _AnyVariable())
    data = document.data
    if not (isinstance(data, dict) and data.get("kind") == "Run"):
        return text, None
    metadata, spec = data.get("metadata", {}), data.get("spec")
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        told = "an object of kind Run has `metadata` and, in `spec`, the chain file"
        raise ApiError(StatusReason.INVALID, told)
    named = metadata.get("name", run)
    if run is not None and named != run:
        told = f"metadata.name is `{named}`, and the path names `{run}`: write the same name"
        raise ApiError(StatusReason.INVALID, told)
    chain = {"apiVersion": data.get("apiVersion", API_VERSION), "name": named, **spec}
    version = metadata.get("resourceVersion")
    if version is not None and not isinstance(version, str):
        told = "metadata.resourceVersion is the text that the server gave"
        raise ApiError(StatusReason.INVALID, told)
    text = json.dumps(_mapped(chain, _escaped), indent=1, default=str, ensure_ascii=False)
    return text + "\n", version


class _AnyVariable(Mapping[str, str]):
    """Leaves each `${NAME}` as it stands: values of an object are filled in by its sender."""

    def __getitem__(self, name: str) -> str:
        return f"${{{name}}}"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _escaped(text: str) -> str:
    return text.replace("$", "$$")


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case dict():
            return {key: _mapped(part, change) for key, part in value.items()}
        case list():
            return [_mapped(part, change) for part in value]
    return value


@contextlib.contextmanager
def _explained(path: Path, run: str) -> Iterator[None]:
    """Without the name of the folder, which the client has never seen."""
    try:
        yield
    except ChainFileError as error:
        causes = str(error).replace(str(path), run).splitlines()
        told = causes[0] if len(causes) == 1 else f"{len(causes)} faults in the chain file"
        raise ApiError(StatusReason.INVALID, told, causes) from None
    except (ValueError, TypeError):  # bytes, half letters, or keys that are no text
        told = "the body is not UTF-8 text with keys of text; send a chain file as YAML or JSON"
        raise ApiError(StatusReason.INVALID, told) from None

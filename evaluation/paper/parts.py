"""What an evaluation has in its directory: the lock, earlier results, and what was measured of it.

A file for each case, as it is measured, so that an interrupted call can be gone on with.
"""

import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pydantic import BaseModel

from evaluation.paper.case import Case
from evaluation.paper.measured import Measured
from unis.errors import UnisError
from unis.runtime.errors import LaunchError
from unis.runtime.files import locked, write_atomically

FOLDER = ".unis-parts"
# A machine that others share may run at another speed tomorrow.
_OLDEST = 86_400.0  # seconds
_DIGITS = 16  # of what a part is of, in its name
_NAME = re.compile(rf"\.?[\w-]+\.[\w-]*\.[0-9a-f]{{{_DIGITS}}}\.json(\.\w+)?")


class _Key(BaseModel):
    key: str


class _Earlier(BaseModel):
    """Of results, what a later call must know."""

    settings: dict[str, object]
    figures: list[_Key]


@contextmanager
def only_ours(directory: Path) -> Iterator[None]:
    """Makes it; while this lasts no other evaluation writes to it. UnisError if another does."""
    with ExitStack() as stack:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(directory, os.O_RDONLY | os.O_DIRECTORY, 0))
        except OSError as error:
            raise UnisError(f"cannot write in {directory}: {error.strerror}") from None
        except LaunchError:
            raise UnisError(
                f"another `python -m evaluation paper` writes to {directory}: wait until it has "
                "ended, or give another directory with -o",
                bad_input=False,
            ) from None
        yield


def refuse_to_lose(results: Path, figures: Collection[str] | None, *, quick: bool) -> None:
    """UnisError if there are results of more than a call for these figures (None: all) has."""
    elsewhere = "give another directory with -o"
    try:
        earlier = _Earlier.model_validate_json(results.read_text())
    except FileNotFoundError:
        return
    except OSError as error:
        raise UnisError(f"cannot read {results}: {error.strerror}; {elsewhere}") from None
    except ValueError:  # also of bytes that are no text
        raise UnisError(
            f"{results} is there, and not of `python -m evaluation paper`: {elsewhere}, or "
            "remove it"
        ) from None
    if quick and earlier.settings.get("extent") != "quick":
        raise UnisError(f"{results} is of a run that was not --quick: {elsewhere}")
    keys = [one.key for one in earlier.figures]
    if figures and (more := [key for key in keys if key not in figures]):
        raise UnisError(f"{results} has {', '.join(more)}, which would be lost: {elsewhere}")


class Parts:
    """Of one call, which are good as long as nothing else is wanted, and for a day."""

    def __init__(self, directory: Path, what: Mapping[str, object]) -> None:
        """`what`: whatever must be the same for a part to be taken over, as JSON has it."""
        self.folder = directory / FOLDER
        text = json.dumps(what, sort_keys=True)
        self._identity = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
        self._there: set[Path] = set()

    @property
    def count(self) -> int:
        """How many there are of this call."""
        return len(self._there)

    def make(self) -> None:
        """Before anything is read or measured. UnisError if none can be written; old ones go."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
            for file in self.folder.iterdir():
                if _NAME.fullmatch(file.name) and _is_old(file):
                    file.unlink()
        except OSError as error:
            raise UnisError(f"cannot write in {self.folder}: {error.strerror}") from None

    def read(self, case: Case) -> Measured | None:
        """None if it was not measured, or for something else, or what is there cannot be read."""
        file = self._file(case)
        try:
            found = Measured.model_validate_json(file.read_text())
        except (OSError, ValueError):  # also of bytes that are no text
            return None
        self._there.add(file)
        return found

    def write(self, case: Case, measured: Measured) -> None:
        """UnisError if it cannot."""
        file = self._file(case)
        try:
            write_atomically(file, measured.model_dump_json())
        except OSError as error:
            raise UnisError(f"cannot write {file}: {error.strerror}", bad_input=False) from None
        self._there.add(file)

    def remove(self) -> str:
        """Those of this call, once the results are there; what could not be, as a sentence."""
        try:
            for file in self._there:
                file.unlink(missing_ok=True)
            self._there.clear()
            if not any(self.folder.iterdir()):
                self.folder.rmdir()
        except OSError as error:
            return f"cannot remove {self.folder}: {error.strerror}"
        return ""

    def _file(self, case: Case) -> Path:
        return self.folder / f"{case.key}.{'-'.join(case.sets)}.{self._identity}.json"


def _is_old(file: Path) -> bool:
    return time.time() - file.stat().st_mtime > _OLDEST

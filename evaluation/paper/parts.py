"""The output directory of an evaluation: its lock, earlier results, and saved cases.

Each measured case is saved in a file, so that the command can continue after an interrupt.
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
# A shared machine may run at another speed tomorrow.
_MAX_AGE = 86_400.0  # seconds
_DIGITS = 16  # of the hash of the conditions, in a file's name
_NAME = re.compile(rf"\.?[\w-]+\.[\w-]*\.[0-9a-f]{{{_DIGITS}}}\.json(\.\w+)?")


class _Key(BaseModel):
    key: str


class _Earlier(BaseModel):
    """The part of results.json that a later call needs."""

    settings: dict[str, object]
    figures: list[_Key]


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Creates and locks the directory. UnisError if another evaluation writes to it."""
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


def refuse_to_overwrite(results: Path, figures: Collection[str] | None, *, quick: bool) -> None:
    """UnisError if the results contain more than a call for these figures (None: all) gives."""
    elsewhere = "give another directory with -o"
    try:
        earlier = _Earlier.model_validate_json(results.read_text())
    except FileNotFoundError:
        return
    except OSError as error:
        raise UnisError(f"cannot read {results}: {error.strerror}; {elsewhere}") from None
    except ValueError:  # or not UTF-8
        raise UnisError(
            f"{results} is not from `python -m evaluation paper`: {elsewhere}, or remove it"
        ) from None
    if quick and earlier.settings.get("extent") != "quick":
        raise UnisError(f"{results} is from a call without --quick: {elsewhere}")
    keys = [figure.key for figure in earlier.figures]
    if figures and (more := [key for key in keys if key not in figures]):
        raise UnisError(f"{results} also has {', '.join(more)}, which would be lost: {elsewhere}")


class Parts:
    """The saved cases of a call. They can be used again for a day under the same conditions."""

    def __init__(self, directory: Path, conditions: Mapping[str, object]) -> None:
        """`conditions`: what must be the same for a part to be used again, as JSON values."""
        self.folder = directory / FOLDER
        text = json.dumps(conditions, sort_keys=True)
        self._identity = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
        self._there: set[Path] = set()

    @property
    def count(self) -> int:
        """The number of saved cases of this call."""
        return len(self._there)

    def make(self) -> None:
        """Creates the folder and removes old files. UnisError if files cannot be written."""
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
        """None: not measured, measured under other conditions, or unreadable."""
        file = self._file(case)
        try:
            found = Measured.model_validate_json(file.read_text())
        except (OSError, ValueError):  # or not UTF-8
            return None
        self._there.add(file)
        return found

    def write(self, case: Case, measured: Measured) -> None:
        """Saves a case. UnisError if that fails."""
        file = self._file(case)
        try:
            write_atomically(file, measured.model_dump_json())
        except OSError as error:
            raise UnisError(f"cannot write {file}: {error.strerror}", bad_input=False) from None
        self._there.add(file)

    def remove(self) -> str:
        """Removes the cases of this call. Returns a sentence if that fails, else an empty text."""
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
    return time.time() - file.stat().st_mtime > _MAX_AGE

"""How commands speak: results on stdout, what happens and what is wrong on stderr."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.text import Text

from unis.errors import EXIT_BAD_INPUT, EXIT_FAILED, UnisError
from unis.runtime.errors import interrupted_code

if TYPE_CHECKING:
    from rich.table import Table


class _Stderr(Console):
    """Drops what cannot be written, and goes quiet once nobody reads it: no run ends for that."""

    def _check_buffer(self) -> None:
        try:
            super()._check_buffer()
        except OSError as error:  # as on a full disk; rich would write it again
            self._buffer.clear()
            if error.errno == errno.EIO:  # the terminal is closed
                self.on_broken_pipe()

    def on_broken_pipe(self) -> None:
        self.quiet = True
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stderr.fileno())  # else Python fails to flush it at its end
        os.close(null)


_PIPE_WIDTH = 160  # columns where no terminal says how many it has
out = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
err = _Stderr(stderr=True, highlight=False, markup=False)


@dataclass
class Voice:
    """How much is said, as the options -q and -v of `unis` set it."""

    quiet: bool = False
    verbose: bool = False
    started: float = field(default_factory=time.monotonic)


voice = Voice()


def say(line: str) -> None:
    """A line on what is going on."""
    if voice.verbose:
        line = f"{time.monotonic() - voice.started:7.3f} {line}"
    if not voice.quiet:
        err.print(line, soft_wrap=True)


def print_line(line: str | Text, style: str = "") -> None:
    """A line of a result."""
    out.print(line, style=style, soft_wrap=True)


def warn(line: str, style: str = "red") -> None:
    """A line on what is wrong, or was noticed beside a result."""
    err.print(line, style=style, soft_wrap=True)


def table_of(
    title: str,
    first: str,
    numbers: Sequence[str] = (),
    words: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> Table:
    """Columns of names, of numbers and of words; those in `whole` are never wrapped."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, title=title or None, title_justify="left")
    table.add_column(first, no_wrap=first in whole)
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    for column in words:
        table.add_column(column, no_wrap=column in whole)
    return table


def fail(sentence: str, code: int = EXIT_BAD_INPUT) -> typer.Exit:
    """Prints what is wrong; raise what it returns."""
    warn(sentence)
    return typer.Exit(code)


def moved(old: str, new: str) -> typer.Exit:
    """Says that `old` is now the command `new` of the evaluation; to be raised."""
    return fail(f"`{old}` is now `uv run python -m evaluation {new}`, in a clone of UNiS")


def told(error: BaseException) -> typer.Exit:
    """Prints what went wrong with a run, or that it was interrupted; raise what it returns."""
    if not isinstance(error, UnisError):
        return fail("interrupted", interrupted_code(error))
    if voice.verbose:
        err.print_exception()
    return fail(str(error), error.exit_code)


def write_result(file: Path, text: str) -> None:
    """Writes what was measured; exits with a sentence where there is no room for it."""
    try:
        file.write_text(text)
    except OSError as error:
        raise fail(f"cannot write {file}: {error.strerror}", EXIT_FAILED) from None


def writable(file: Path) -> Path:
    """Sees to it, before any work is done, that a result can be written there; else exits."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        existed = file.exists()
        with file.open("a"):
            pass
        if not existed:
            file.unlink()
    except (FileExistsError, NotADirectoryError):
        raise fail(f"cannot write {file}: {file.parent} is not a directory") from None
    except OSError as error:
        raise fail(f"cannot write {file}: {error.strerror}") from None
    return file

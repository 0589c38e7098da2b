"""How commands speak: results on stdout, what happens and what is wrong on stderr."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from unis.errors import EXIT_BAD_INPUT, EXIT_FAILED, UnisError
from unis.launch.errors import InterruptedRunError

_PIPE_WIDTH = 160  # columns where no terminal says how many it has
out = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
err = Console(stderr=True, highlight=False)


def say(line: str) -> None:
    """A line on what is going on."""
    err.print(line, markup=False, soft_wrap=True)


def fail(sentence: str, code: int = EXIT_BAD_INPUT) -> typer.Exit:
    """Prints what is wrong; raise what it returns."""
    err.print(sentence, style="red", markup=False, soft_wrap=True)
    return typer.Exit(code)


@contextmanager
def errors_told() -> Iterator[None]:
    """Turns everything that can go wrong with a run into a sentence and an exit code."""
    try:
        yield
    except UnisError as error:
        raise fail(str(error), error.exit_code) from None
    except InterruptedRunError:
        raise typer.Exit(EXIT_FAILED) from None

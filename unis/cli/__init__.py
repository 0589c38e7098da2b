"""The command `unis`."""

import atexit
import importlib
import os
import signal
import sys
from contextlib import suppress
from io import TextIOWrapper
from types import FrameType

from unis.signals import postponed


def main() -> None:
    """Entry point."""
    try:
        run_app("unis.cli.app")
    except SystemExit as ended:
        # Ending the interpreter is slow, above all after a fork. Libraries still tidy up: else
        # matplotlib leaves a folder.
        if isinstance(ended.code, int):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            atexit._run_exitfuncs()  # noqa: SLF001
            with suppress(OSError, ValueError):  # a full disk: Python reports it
                for stream in filter(None, (sys.stdout, sys.stderr)):
                    stream.flush()
                os._exit(ended.code)
        raise


def run_app(module: str) -> None:
    """Calls `run` of a module; says what to do where the generated code is missing."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files need be no text
    try:
        importlib.import_module(module).run()  # each command imports its own
    except ImportError as error:
        if error.name is None or not error.name.startswith("unis.v1"):
            raise
        sys.stderr.write("unis: the code of proto/unis/v1 is not generated: run `make build`\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    """As Python's own handler, but it does not cut `blocked` in two."""
    if not postponed(number):
        raise KeyboardInterrupt

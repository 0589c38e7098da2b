"""The command `unis`."""

import importlib
import signal
import sys
from types import FrameType

from unis.signals import postponed


def main() -> None:
    """Entry point."""
    run_app("unis.cli.app")


def run_app(module: str) -> None:
    """Calls `run` of a module; says what to do where the generated code is missing."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
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

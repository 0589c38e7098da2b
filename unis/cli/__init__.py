"""The command `unis`."""

import importlib
import sys


def main() -> None:
    """Entry point."""
    run_app("unis.cli.app")


def run_app(module: str) -> None:
    """Calls `run` of a module; says what to do where the generated code is missing."""
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

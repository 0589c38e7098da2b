"""The command `unis`."""

import sys


def main() -> None:
    """Entry point; says what to do where the generated half of the package is missing."""
    try:
        from unis.cli.app import run

        run()  # each command imports its own
    except ImportError as error:
        if error.name is None or not error.name.startswith("unis.v1"):
            raise
        sys.stderr.write("unis: the code of proto/unis/v1 is not generated: run `make build`\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)

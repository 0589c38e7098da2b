"""What several of these commands have in common."""

import os

from unis import built

VERDICT_STYLES = {"holds": "green", "does not hold": "red", "too close to tell": "yellow"}


def find_fetched_programs() -> None:
    """Puts what tools/third-party has fetched on PATH: Open vSwitch, if it is not installed."""
    fetched = built.build_directory() / "third-party" / "bin"
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(fetched)])

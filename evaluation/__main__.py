"""`python -m evaluation`."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the current folder: root must not import from there

from unis.cli import run_app

run_app("evaluation.app")

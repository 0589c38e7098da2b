"""`python -m evaluation`."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the current folder: root would run what lies there

from unis.cli import run_app

run_app("evaluation.app")

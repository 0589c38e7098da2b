"""`python -m evaluation`."""

from unis.cli import run_app

run_app("evaluation.app")

"""The examples become what they became before: links, ports and command lines."""

from pathlib import Path

from tests.python.plan_table import table


def test_the_plans_of_the_examples_are_those_that_were_written_down() -> None:
    """Meant to be another? `uv run python -m tests.python.plan_table > tests/python/plans.txt`."""
    assert table() == (Path(__file__).parent / "plans.txt").read_text()

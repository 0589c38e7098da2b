"""Chains and functions that share a CPU get their shares of it, under the engine's own policies."""

import json
from pathlib import Path

import pytest

from tests.e2e.machine import Json, Machine

# An idle machine shows 0.97 to 1.03 (`python -m evaluation fairness`). Here neither chain may have
# twice what the other has, whatever else the machine does.
LEAST, MOST = 0.5, 2


@pytest.mark.long
def test_equal_chains_pass_as_much_and_none_of_sixteen_functions_starves(
    machine: Machine, tmp_path: Path
) -> None:
    file = tmp_path / "fairness.json"
    machine.evaluation(
        "fairness", "--rounds", "4", "--window", "0.1", "--seconds", "1", "--functions", "16",
        "--json", str(file),
    )  # fmt: skip
    result = json.loads(file.read_text())

    def by_controller(part: str) -> dict[str, Json]:
        return {row["controller"]: row for row in result[part]}

    assert by_controller("two_chains").keys() == {"handover", "priority"}
    for name, pair in by_controller("two_chains").items():
        assert LEAST < pair["ratio"]["median"] < MOST, (name, pair)
        assert pair["worst"] > 0, (name, pair)
    for name, many in by_controller("many_functions").items():
        assert many["windows"] == 1
        assert many["least_turns"] > 1, (name, many)
        assert many["least_packets"] > 0, (name, many)
        assert many["longest_gap_us"] is not None, "the trace holds all of it"

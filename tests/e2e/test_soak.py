"""Random operations over the API leave the machine as the model says."""

import json
from pathlib import Path

import pytest

from tests.e2e.machine import Machine


def test_random_operations_leave_the_machine_as_the_model_says(
    machine: Machine, tmp_path: Path
) -> None:
    file = tmp_path / "soak.json"
    said = machine.evaluation("soak", "--operations", "25", "--seed", "3", "--json", str(file))
    found = json.loads(file.read_text())
    assert sum(found["operations"].values()) == 25
    assert sum(found["killed"].values()) > 0
    assert found["left"] == []
    assert "nothing is left of the runs" in said
    machine.assert_clean()


@pytest.mark.long
def test_one_run_is_changed_and_never_ends(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "soak.json"
    machine.evaluation(
        "soak", "--operations", "24", "--seed", "3", "--one-run", "--json", str(file)
    )
    found = json.loads(file.read_text())
    assert {*found["killed"]} <= {"functions"}
    assert found["left"] == []
    machine.assert_clean()

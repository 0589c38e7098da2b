"""A short form of `python -m evaluation faults`, and what it draws."""

import json
from pathlib import Path

import pytest

from evaluation.faults import PARTS, SOURCE, TARGETS
from tests.e2e.machine import Machine


@pytest.mark.long
def test_ten_faults_end_as_they_should(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    machine.evaluation("faults", "--faults", "10", "--seed", "9", "--json", str(file))
    result = json.loads(file.read_text())
    assert result["faults"] == 10
    assert result["failures"] == []
    struck = " ".join(result["kinds"])
    for outlived in ("kill struck", f"kill {TARGETS[-1]}", f"kill {SOURCE}"):
        assert outlived in struck, "seed 9 is to have these, which the run outlives"
    assert any(part in struck for part in PARTS), "and one that it does not"

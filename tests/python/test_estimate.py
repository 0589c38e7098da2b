"""`unis estimate`, but for the estimating."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from unis.cli.app import app
from unis.runtime import running as running_module
from unis.runtime.costs import Cost

FUNCTION = {"program": "/bin/true", "cpu": 1, "cost_ns": 50}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that the engine was asked for; the machine is let be."""
    asked: list[str] = []
    costs: dict[str, Cost] = {}

    def estimate(names: list[str]) -> None:
        asked.extend(names)
        costs.update(dict.fromkeys(names, Cost(ns=7, ns_q1=7, ns_q3=7, cycles=7)))

    @contextmanager
    def running(*_: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(estimate=estimate, costs=costs)

    monkeypatch.setattr(running_module, "running", running)
    return asked


def test_functions_with_a_memif_to_another_are_measured_alone(
    tmp_path: Path, measured: list[str]
) -> None:
    """The engine refuses them, and all others with them. Those that are alike share a run."""
    file = tmp_path / "x.yaml"
    ends = ("a", "b"), ("b", "c")
    content = {
        "apiVersion": "unis/v1",
        "name": "x",
        "functions": {**dict.fromkeys("abd", FUNCTION), "c": {**FUNCTION, "args": ["-x"]}},
        "links": [
            {"from": origin, "to": to, "kind": "memif"} for origin, to in (*ends, ("c", "d"))
        ],
        "chains": {"c": {"path": ["a", "b", "c", "d"]}},
    }
    file.write_text(json.dumps(content))
    result = CliRunner().invoke(app, ["estimate", str(file), "--json"])
    assert result.exit_code == 0, result.output
    assert sorted(measured) == ["a", "b", "c"]  # and d as b, whose ends are alike
    assert sorted(json.loads(result.stdout)) == ["a", "b", "c", "d"]
    assert "b has a memif to another function" in result.stderr

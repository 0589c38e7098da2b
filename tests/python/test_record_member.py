"""What the agent's model records of a function: what the chain file of its run says."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluation.caches.references import Recorded, RecordingError
from evaluation.emulation import counters
from evaluation.emulation.counters import record_member
from tests.python.commands import stale_run
from unis.agent.watch import Member
from unis.plan.model import FunctionPlan, Plan

pytestmark = pytest.mark.system


@pytest.fixture
def run_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path / "run"))

    def make(**state: Any) -> None:
        stale_run(tmp_path, "edge", **state)

    return make


def written(folder: Path, function: dict[str, Any]) -> None:
    content = {
        "apiVersion": "unis/v1",
        "name": "as-in-the-file",
        "traffic": {"source": {"kind": "synthetic", "size": 64, "flows": 100}},
        "functions": {"fw": {"cpu": 1, **function}},
        "chains": {"c": {"path": ["fw"]}},
    }
    (folder / "edge.yaml").write_text(json.dumps(content))


def test_what_is_recorded_is_what_the_run_s_file_says(
    run_of: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also by an agent that keeps off the functions' CPUs, and has one left."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    recorded = Recorded("macswap", tmp_path, 10, 5)
    asked: list[tuple[str, str, tuple[str, ...]]] = []

    def record_function(
        plan: Plan, function: FunctionPlan, report: Callable[[str], None]
    ) -> Recorded:
        report("recording")
        asked.append((plan.name, function.program.name, tuple(function.words)))
        return recorded

    monkeypatch.setattr(counters, "record_function", record_function)
    written(tmp_path, {"program": "macswap", "args": ["--cost", "100"]})
    run_of()
    fw = Member("edge", "fw", 1, frozenset([1]))
    told: list[str] = []
    assert record_member(fw, told.append) == recorded
    assert told == ["recording"]
    assert asked == [("edge", "macswap", ("--cost", "100"))]
    with pytest.raises(RecordingError, match="no longer has function gone"):
        record_member(replace(fw, function="gone"))
    with pytest.raises(RecordingError, match="`none` has ended"):
        record_member(replace(fw, run="none"))


def test_programs_of_others_are_not_recorded(run_of: Callable[..., None], tmp_path: Path) -> None:
    fw = Member("edge", "fw", 1, frozenset([1]))
    for attached, function, why in (
        (False, {"command": ["sleep", "1"]}, "`fw` is a command of others"),
        (True, {"program": "macswap"}, "not attached ones"),
    ):
        written(tmp_path, function)
        run_of(attached=attached)
        with pytest.raises(RecordingError, match=why):
            record_member(fw)

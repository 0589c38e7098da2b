"""`evaluation goals`: what is said of a chain that has a goal, and of one that is refused."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluation import goals
from evaluation.app import app
from evaluation.goals import GoalKept, GoalRow, GoalSettings, measure, result
from unis.bench.synthetic import macswap_chain
from unis.chain.load import LoadedChain
from unis.chain.problem import Problem
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Quartiles
from unis.plan.machine import Machine

MACHINE = Machine(cpus=frozenset({0, 1}))
SETTINGS = GoalSettings("light", 3, ("20us", "1ms", "none"), ("handover", "priority"), 4, 0.1)
KEPT = GoalKept(
    notes=["some way off"],
    slots=512,
    expected_p95_us=87,
    latency_us={"p5": 10, "p50": 44, "p95": 63, "p99": 70},
    mpps=Quartiles(median=6.9, q1=6.8, q3=7),
    windows=4,
    windows_kept=3,
    disturbed=Disturbance(windows=4, disturbed=0, stolen=0, worst=0),
)


@pytest.fixture
def brought_up(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """Controller and goal of the chains that were; 20 us cannot be met."""
    seen: list[tuple[str, str | None]] = []

    def bring_up(make: object, *_: object) -> GoalKept:
        assert callable(make)
        file = make().file
        slo = file.chains["chain"].slo
        seen.append((file.scheduler.controller, slo.p95_latency if slo else None))
        return KEPT

    def plan(chain: object, *_: object) -> None:
        assert isinstance(chain, LoadedChain)
        slo = chain.file.chains["chain"].slo
        if slo and slo.p95_latency == "20us":
            raise chain.error([Problem((), "cannot be met")])

    monkeypatch.setattr(goals, "brought_up", bring_up)
    monkeypatch.setattr(goals, "plan_chain", plan)
    return seen


def test_costs_are_known_before_a_goal_is_held_against_them(
    brought_up: list[tuple[str, str | None]],
) -> None:
    rows = list(measure(SETTINGS, MACHINE, lambda _: None))
    each = [None, "1ms", None]
    assert brought_up == [(name, goal) for name in ("handover", "priority") for goal in each]
    assert [(row.goal, row.refused, row.kept) for row in rows[:3]] == [
        ("20us", "cannot be met", None), ("1ms", None, KEPT), ("none", None, KEPT),
    ]  # fmt: skip
    assert result(rows, SETTINGS, MACHINE).length == 3


def test_the_goal_is_that_of_the_chain_and_the_rings_are_auto() -> None:
    chain = macswap_chain("x", "light", 3, 1, goal="1ms").file.chains["chain"]
    assert chain.slo
    assert chain.slo.p95_ns == 1e6
    assert chain.ring == "auto"
    assert macswap_chain("x", "light", 3, 1).file.chains["chain"].slo is None


@pytest.mark.usefixtures("brought_up")
def test_what_is_shown_and_written(tmp_path: Path) -> None:
    written = tmp_path / "goals.json"
    arguments = ["goals", "--goal", "20us,1ms", "--json", str(written)]
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 0, told.output
    assert "3 of 4" in told.output
    assert "handover, 20us: refused: cannot be met" in told.output
    rows = goals.GoalsResult.model_validate_json(written.read_text()).rows
    assert [row.goal for row in rows] == ["20us", "1ms"]
    assert rows[1] == GoalRow(controller="handover", goal="1ms", refused=None, kept=KEPT)


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--goal", "soon", "a duration"),
        ("--goal", "0us", "a duration"),
        ("--controllers", "best", "there is no"),
        ("--length", "2,3", "one of them"),
    ],
)
def test_what_cannot_be_asked_for(option: str, value: str, told: str) -> None:
    answer = CliRunner().invoke(app, ["goals", option, value])
    assert answer.exit_code == 2
    assert told in answer.output

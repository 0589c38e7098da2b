"""`unis estimate`, but for the estimating."""

import dataclasses
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tests.python.planned import EIGHT_CPUS, places
from unis.chain.document import Document
from unis.chain.load import load
from unis.chain.problem import ChainFileError, Problem
from unis.cli.app import app
from unis.plan.model import Plan
from unis.plan.planner import make_plan
from unis.runtime import running as running_module
from unis.runtime.costs import Cost, alike, known_costs
from unis.runtime.interrupts import Interrupts
from unis.runtime.run import Options, Run
from unis.v1 import costs_pb2 as pb

FUNCTION = {"program": "/bin/true", "cpu": 1, "cost_ns": 50}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that the engine was asked for; the machine is let be."""
    asked: list[str] = []
    costs: dict[str, Cost] = {}

    def estimate(_run: object, names: list[str]) -> None:
        asked.extend(names)
        costs.update(dict.fromkeys(names, Cost.followed(7)))

    @contextmanager
    def running(*_: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(costs=costs)

    monkeypatch.setattr(running_module, "running", running)
    monkeypatch.setattr(running_module, "estimate", estimate)
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
    assert "b has a link to another function" in result.stderr


def test_of_functions_that_are_alike_one_is_measured(tmp_path: Path, measured: list[str]) -> None:
    file = tmp_path / "x.yaml"
    functions = {**dict.fromkeys("abc", FUNCTION), "d": {**FUNCTION, "args": ["-x"]}}
    content = {"apiVersion": "unis/v1", "name": "x", "functions": functions}
    file.write_text(json.dumps({**content, "chains": {"c": {"path": [*functions]}}}))
    result = CliRunner().invoke(app, ["estimate", str(file), "--json"])
    assert result.exit_code == 0, result.output
    assert measured == ["a", "d"]
    assert {name: cost["ns"] for name, cost in json.loads(result.stdout).items()} == dict.fromkeys(
        functions, 7.0
    )
    assert "b, c: cost taken from a" in result.stderr


def test_where_the_first_of_them_is_not_measured_the_next_one_is(
    tmp_path: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.yaml"
    function = {"program": "/bin/true", "cpu": 1}
    functions = dict.fromkeys("abc", function)
    content = {"apiVersion": "unis/v1", "name": "x", "functions": functions}
    file.write_text(json.dumps({**content, "chains": {"c": {"path": [*functions]}}}))
    plan = make_plan(load(file), EIGHT_CPUS, [], places)
    estimate = running_module.estimate
    monkeypatch.setattr(
        running_module, "estimate",
        lambda run, names: estimate(run, [name for name in names if name != "a"]),
    )  # fmt: skip
    costs = running_module.measure_costs(plan, alike(plan, "abc"), Options(), print, Interrupts())
    assert (measured, sorted(costs)) == (["b"], ["b", "c"])


@pytest.fixture
def program_gone(tmp_path: Path) -> Plan:
    """A plan whose program was removed since, as at a replacement by a package manager."""
    program, file = tmp_path / "program", tmp_path / "x.yaml"
    shutil.copy("/bin/true", program)
    function = {"program": "./program", "cpu": 1}
    chains = {"c": {"path": ["a", "b"]}}
    content = {"apiVersion": "unis/v1", "name": "x", "functions": dict.fromkeys("ab", function)}
    file.write_text(json.dumps({**content, "chains": chains}))
    plan = make_plan(load(file), EIGHT_CPUS, [], places)
    program.unlink()
    return plan


def test_a_program_that_is_gone_ends_no_run(
    program_gone: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    run = Run(program_gone, Options(), said.append, Interrupts())
    estimates = [pb.FunctionEstimate(function=name, ns=7) for name in "ab"]
    estimates.append(pb.FunctionEstimate(function="c", not_measured="two threads poll"))
    monkeypatch.setattr(run.client, "estimate", lambda *_: estimates)
    running_module.estimate(run, ["a", "b", "c"])
    assert [run.costs[name].ns for name in "ab"] == [7, 7]
    assert said[1:] == [
        "a: 7.0 ns a packet", "b: 7.0 ns a packet",
        "c is not measured: two threads poll; state its cost_ns",
    ]  # fmt: skip
    assert "c" not in run.costs
    assert known_costs(program_gone) == {}


def test_programs_that_are_gone_are_measured_each(program_gone: Plan, measured: list[str]) -> None:
    plan = dataclasses.replace(
        program_gone, linked=frozenset("ab"), make_solo=lambda _: program_gone
    )
    costs = running_module.measure_costs(plan, alike(plan, "ab"), Options(), print, Interrupts())
    assert measured == ["a", "b"]  # whether they are alike cannot be told
    assert {name: cost.ns for name, cost in costs.items()} == {"a": 7, "b": 7}


def test_what_cannot_run_by_itself_is_told_of_and_left_out(
    program_gone: Plan, measured: list[str]
) -> None:
    said: list[str] = []

    def refused(_: str) -> Plan:
        raise ChainFileError([Document(Path("x.yaml")).located(Problem((), "why"))])

    plan = dataclasses.replace(program_gone, linked=frozenset("b"), make_solo=refused)
    costs = running_module.measure_costs(
        plan, alike(plan, "ab"), Options(), said.append, Interrupts()
    )
    assert (measured, list(costs)) == (["a"], ["a"])
    assert "b is not measured, because it cannot run alone: x.yaml" in said[-1]


def test_only_what_must_be_measured_is_measured_before_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[list[list[str]]] = []

    def measure(_plan: Plan, groups: list[list[str]], *_: object) -> dict[str, Cost]:
        measured.append(groups)
        return {name: Cost.followed(7) for names in groups for name in names}

    kept = {"a": Cost.followed(5)}
    monkeypatch.setattr(running_module, "measure_costs", measure)
    monkeypatch.setattr(running_module, "known_costs", lambda *_: kept)

    def before(options: Options, cost: str = "online") -> dict[str, float]:
        functions = {name: {"program": "/bin/true", "cpu": 1} for name in "ab"}
        functions["c"] = FUNCTION
        content = {"apiVersion": "unis/v1", "name": "x", "functions": functions}
        content["scheduler"] = {"cost": cost}
        file = tmp_path / "x.yaml"
        file.write_text(json.dumps({**content, "chains": {"c": {"path": ["a", "b", "c"]}}}))
        plan = make_plan(load(file), EIGHT_CPUS, [], places)
        costs = running_module.known_before(plan, options, print, Interrupts())
        return {name: cost.ns for name, cost in costs.items()}

    assert before(Options()) == {"a": 5}
    assert before(Options(costs="unknown"), "static") == {}
    assert measured == []
    assert before(Options(), "static") == {"a": 5, "b": 7}
    assert before(Options(costs="measured")) == {"a": 5, "b": 7}
    assert before(Options(costs="anew")) == {"a": 7, "b": 7}
    assert measured == [[["b"]], [["b"]], [["a", "b"]]], "alike ones together"

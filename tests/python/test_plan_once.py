"""A chain file is walked once, from its graph to the plan."""

from pathlib import Path

import pytest

from tests.python.commands import busy_file
from unis.chain.load import load
from unis.plan import planner
from unis.runtime import costs, planning


def test_a_file_is_planned_once_and_its_programs_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def counted(module: object, name: str) -> None:
        real = getattr(module, name)

        def call(*args: object, **more: object) -> object:
            calls.append(name)
            return real(*args, **more)

        monkeypatch.setattr(module, name, call)

    for module, name in ((planner, "wire"), (planner, "name_links"), (costs, "cost_key")):
        counted(module, name)
    plan = planning.plan_chain(load(busy_file(tmp_path)))
    assert sorted(calls) == sorted(["wire", "name_links", *["cost_key"] * len(plan.functions)])

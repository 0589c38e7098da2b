"""Runs that are claimed on a machine of eight CPUs with hugepages, in a folder of their own."""

from pathlib import Path

import pytest

from tests.needs import need_root
from unis.chain.load import load
from unis.plan.machine import Machine
from unis.plan.model import Plan
from unis.plan.planner import make_plan
from unis.runtime import hugepages
from unis.runtime.claim import Report, claim
from unis.runtime.directory import run_directory
from unis.runtime.interrupts import Interrupts
from unis.runtime.planning import places
from unis.runtime.run import Options
from unis.runtime.state import RunState

FILE = """
apiVersion: unis/v1
name: {name}
platform: {{cpus: [{platform}]}}
functions:
  a: {{program: /bin/true, cpu: {cpu}}}
chains:
  c: {{path: [a]}}
"""


def hugepages_there(monkeypatch: pytest.MonkeyPatch) -> None:
    need_root()
    monkeypatch.setattr(hugepages, "directory", lambda: Path("/dev/hugepages"))
    monkeypatch.setattr(hugepages, "free_mb", lambda: 1000)


def plan(tmp_path: Path, name: str, cpu: int, platform: int = 0) -> Plan:
    file = tmp_path / f"{name}.yaml"
    file.write_text(FILE.format(name=name, cpu=cpu, platform=platform))
    return make_plan(load(file), Machine(frozenset(range(8))), [], places)


def claimed(plan: Plan, report: Report = print) -> RunState:
    return claim(plan, run_directory(plan.name), Options(), report, Interrupts())


def taken(tmp_path: Path, name: str, cpu: int, platform: int = 0) -> RunState:
    return claimed(plan(tmp_path, name, cpu, platform))

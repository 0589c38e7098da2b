"""What a plan needs of the machine, and of the policy in force, is asked before anything is started
or ended for it.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.python.claiming import hugepages_there
from tests.python.commands import busy_file, run, stale_run
from tests.python.planned import small
from unis import built, links
from unis.chain.load import load
from unis.cli import run_commands
from unis.engine import names
from unis.links import namespaces
from unis.plan.machine import Machine
from unis.plan.model import Plan
from unis.plan.planner import make_plan
from unis.runtime import change, folders, launcher, running
from unis.runtime.claim import claim, claim_more
from unis.runtime.directory import all_runs, run_directory
from unis.runtime.errors import LaunchError
from unis.runtime.interrupts import Interrupts
from unis.runtime.planning import places
from unis.runtime.run import Options, Run
from unis.v1 import engine_pb2 as engine
from unis.v1 import supervisor_pb2 as pb

pytestmark = pytest.mark.system

EIGHT = frozenset(range(8))
MMSG = {"from": "fw", "to": "nat", "kind": "veth", "driver": "mmsg"}


@pytest.fixture(autouse=True)
def _hugepages(monkeypatch: pytest.MonkeyPatch) -> None:
    hugepages_there(monkeypatch)


def chain(tmp_path: Path, name: str = "x", **parts: Any) -> Path:
    file = tmp_path / f"{name}.yaml"
    file.write_text(json.dumps({**small(**parts), "name": name}))
    return file


def planned(tmp_path: Path, name: str = "x", **parts: Any) -> Plan:
    return make_plan(load(chain(tmp_path, name, **parts)), Machine(EIGHT), [], places)


def claimed(plan: Plan) -> Any:
    return claim(plan, run_directory(plan.name), Options(), print, Interrupts())


# ------------------------------------------------------------------ the policy in force


def waiting(policy: str = "other") -> dict[str, Any]:
    return {"links": [{**MMSG, "wait": True}], "scheduler": {"policy": policy}}


def test_functions_that_wait_do_not_start_under_a_policy_that_has_them_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "known_before", lambda *_: pytest.fail("costs are measured"))
    sentence = "a link of nat has `wait`: under policy unis .* such as --policy other"
    plan, options = planned(tmp_path, **waiting()), Options(policy="unis")
    with (
        pytest.raises(LaunchError, match=sentence),
        running.running(plan, options, print, Interrupts()),
    ):
        pytest.fail("it runs")
    assert all_runs() == []


def test_who_typed_a_policy_is_told_what_to_type(tmp_path: Path) -> None:
    run = Run(planned(tmp_path, **waiting()), Options(), print, Interrupts())
    with pytest.raises(LaunchError, match="such as `unis policy other x`") as refused:
        run.set_policy(engine.PolicyRequest(policy=names.policy("unis")))
    assert "scheduler.policy" not in str(refused.value)


@pytest.mark.parametrize("policy", ["other", "batch"])
@pytest.mark.parametrize("dry_run", [False, True])
def test_no_change_brings_functions_that_wait_under_such_a_policy(
    tmp_path: Path, policy: str, dry_run: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `unis up` or `unis policy` said goes before any file."""
    monkeypatch.setattr(change, "claim_more", lambda *_: pytest.fail("it was begun"))
    plan = planned(tmp_path, links=[MMSG], scheduler={"policy": "other"})
    run = Run(plan, Options(policy="unis"), print, Interrupts())
    file = str(chain(tmp_path, **waiting(policy)))
    request = pb.ApplyFileRequest(file=file, cpus=EIGHT, dry_run=dry_run)
    with pytest.raises(LaunchError, match=r"has `wait`: .* `unis policy other x`"):
        change.apply_file(run, (), request, print)
    assert run.plan is plan


# ------------------------------------------------------------------ the machine


def no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links.KINDS["ovs"], "hindrance", lambda: "no ovs-vswitchd here")


def no_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "lacks", lambda: "there is no program `ip`")


NEEDS = pytest.mark.parametrize(
    ("lacking", "parts", "sentence"),
    [
        (
            no_program,
            {"links": [{"from": "fw", "to": "nat", "kind": "ovs"}]},
            "links of kind ovs cannot be made: no ovs-vswitchd here",
        ),
        (
            no_namespaces,
            {"links": [{"from": a, "to": b, "kind": "veth"} for a, b in
                       (("ingress", "fw"), ("fw", "nat"), ("nat", "monitor"),
                        ("monitor", "egress"))],
             "defaults": {"cpu": 1, "namespace": "own"}},
            "functions with `namespace: own` cannot start: there is no program `ip`",
        ),
        (
            lambda _: None,
            {"traffic": {"source": {"kind": "interface", "interface": "nothing"},
                         "sink": {"kind": "interface", "interface": "nothing"}}},
            "there is no interface nothing here",
        ),
    ],
)  # fmt: skip


@NEEDS
def test_what_the_machine_lacks_is_told_before_the_start_and_before_a_change(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lacking: Callable[[pytest.MonkeyPatch], None],
    parts: dict[str, Any],
    sentence: str,
) -> None:
    before = claimed(planned(tmp_path, "y"))
    lacking(monkeypatch)
    plan = planned(tmp_path, **{"defaults": {"cpu": 2}, **parts})
    with pytest.raises(LaunchError, match=sentence):
        claimed(plan)
    with pytest.raises(LaunchError, match=sentence):
        claim_more(plan, before, lambda **_: pytest.fail("it was noted"))


def test_restart_ends_no_chain_for_one_that_the_machine_cannot_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(built, "find", lambda *_: Path("/bin/true"))
    monkeypatch.setattr(links.KINDS["ring"], "hindrance", lambda: "no rings here")
    monkeypatch.setattr(run_commands, "_down", lambda *_: pytest.fail("it was ended"))
    monkeypatch.setattr(launcher, "start_detached", lambda *_: pytest.fail("it was started"))
    monkeypatch.setattr(folders, "ports_directory", lambda: tmp_path / "ports")
    stale_run(tmp_path, chain_file=str(busy_file(tmp_path)), hugepages_mb=200)
    code, told = run("restart")
    assert code == 1
    assert "links of kind ring cannot be made: no rings here" in told


# ------------------------------------------------------------------ the CPU of Open vSwitch


def on_ovs(cpu: int, functions: int) -> dict[str, Any]:
    link = {"from": "fw", "to": "nat", "kind": "ovs"}
    return {"links": [link], "ovs": {"cpu": cpu}, "defaults": {"cpu": functions}}


def test_no_function_gets_the_cpu_of_another_runs_switch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though each was planned without the other, as two that start at once are."""
    monkeypatch.setattr(links.KINDS["ovs"], "hindrance", lambda: "")
    claimed(planned(tmp_path, "y", **on_ovs(4, functions=5)))
    with pytest.raises(LaunchError, match="CPU 4 is in use by run `y`"):
        claimed(planned(tmp_path, defaults={"cpu": 4}))
    with pytest.raises(LaunchError, match="CPU 5 is in use by run `y`"):
        claimed(planned(tmp_path, **on_ovs(5, functions=6)))
    state = claimed(planned(tmp_path, **on_ovs(4, functions=6)))
    noted: dict[str, Any] = {}
    claim_more(planned(tmp_path, **on_ovs(7, functions=6)), state, noted.update)
    assert noted["switch_cpus"] == [4, 7]

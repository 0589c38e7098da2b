"""Links that are bridges of Open vSwitch: their devices, and how its process runs."""

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.needs import need_root
from tests.python.planned import planned, small, told
from tests.python.strategies import Data
from unis.chain.load import load
from unis.chain.problem import ChainFileError
from unis.errors import UnisError
from unis.links import ovs as links_ovs
from unis.links.bridge import Bridge
from unis.links.kind import LinkPlan, LinkSpec
from unis.links.ovs import Ovs, OvsPlan, find
from unis.links.veth import Veth
from unis.plan.difference import difference
from unis.plan.machine import Machine, OtherRun
from unis.runtime import ovs
from unis.runtime.errors import RunFailedError
from unis.runtime.process import ProcessId
from unis.runtime.state import FunctionProcess, RunState

DEVICES = Path("/sys/class/net")
TWO_CPUS = Machine(frozenset(range(2)))
ENDS = [("ingress", "fw"), ("fw", "nat"), ("nat", "monitor"), ("monitor", "egress")]


def on_ovs(**parts: object) -> Data:
    return small(links=[{"from": a, "to": b, "kind": "ovs"} for a, b in ENDS], **parts)


def a_link(folder: Path) -> LinkPlan:
    spec = LinkSpec("r" * 64, "c" * 24, 256, engine=True, folder=folder, directory=folder)
    return LinkPlan("c.1", "ovs", 256, Ovs().details(spec, 0))


def details(link: LinkPlan) -> OvsPlan:
    assert isinstance(link.details, OvsPlan)
    return link.details


@pytest.fixture
def made(tmp_path: Path) -> Iterator[LinkPlan]:
    need_root()
    link = a_link(tmp_path)
    try:
        Ovs().make(link)
        yield link
    finally:
        assert Ovs().remove(Ovs().made(link)) == []


def test_the_engine_is_told_whose_the_ports_are(tmp_path: Path) -> None:
    link = a_link(tmp_path)
    settings = link.message().veth
    assert (settings.device0, settings.device1) == details(link).devices
    assert (settings.port0, settings.port1) == details(link).ports
    assert settings.switch_pid_file == str(tmp_path / "ovs" / "vswitchd.pid")
    names = {*details(link).devices, *details(link).ports, Ovs().made(link)}
    assert len(names) == 5
    assert max(map(len, names)) <= 15


def test_other_kinds_of_the_same_name_have_other_devices(tmp_path: Path) -> None:
    spec = LinkSpec("r" * 64, "c" * 24, 256, engine=True, folder=tmp_path)
    devices = [kind.details(spec, 0).devices for kind in (Veth(), Bridge(), Ovs())]
    assert len({name for pair in devices for name in pair}) == 6


@pytest.mark.system
def test_four_devices_are_made_and_removed(made: LinkPlan) -> None:
    names = [*details(made).devices, *details(made).ports]
    for name in names:
        assert (DEVICES / name / "mtu").read_text() == "1504\n"
        assert int((DEVICES / name / "flags").read_text(), 16) & 1
    assert Ovs().remove(Ovs().made(made)) == []
    assert not any((DEVICES / name).exists() for name in names)


# ------------------------------------------------------------------ plans


@pytest.mark.parametrize(
    ("stated", "cpus", "kernel"),
    [
        ({}, (0,), {}),
        ({"cpu": 0}, (0,), {}),
        ({"cpu": 1}, (1,), {"policy": "fifo", "priority": 49}),
        ({"cpu": 1, "kernel": {"policy": "idle"}}, (1,), {"policy": "idle"}),
        ({"cpu": 1, "kernel": {"policy": "rr"}}, (1,), {"policy": "rr", "priority": 49}),
        ({"kernel": {"policy": "fifo"}}, (0,), {"policy": "fifo", "priority": 1}),
        ({"kernel": {"policy": "rr", "priority": 7}}, (0,), {"policy": "rr", "priority": 7}),
    ],
)  # fmt: skip
def test_among_functions_it_is_above_them(stated: Data, cpus: tuple[int], kernel: Data) -> None:
    switch = planned(on_ovs(ovs=stated), TWO_CPUS).switch
    assert switch
    assert switch.cpus == cpus
    assert switch.kernel.model_dump(exclude_none=True) == kernel


def test_the_platform_leaves_it_the_cpu_that_is_stated() -> None:
    plan = planned(on_ovs(ovs={"cpu": 0}), Machine(frozenset(range(4))))
    assert plan.platform_cpus == (2,)


@pytest.mark.parametrize("there", [None, 0])
def test_where_only_its_cpu_is_free_the_platform_says_that_it_shares_it(there: int | None) -> None:
    before = None if there is None else planned(on_ovs(), TWO_CPUS)
    plan = planned(on_ovs(ovs={"cpu": 0}), TWO_CPUS, there=before)
    assert plan.platform_cpus == (0,)
    (note,) = plan.notes
    assert note.startswith("traffic and scheduler share CPU 0 with Open vSwitch (ovs.cpu)")
    assert not planned(on_ovs(ovs={"cpu": 0}, platform={"cpus": [0]}), TWO_CPUS).notes


def test_without_such_links_there_is_none() -> None:
    assert planned(small()).switch is None


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (on_ovs(ovs={"cpu": 9}), "('ovs', 'cpu') CPU 9 does not exist here (0-1); choose another"),
        (small(ovs={"cpu": 1}), "('ovs', 'cpu') applies to links of kind: ovs, and there is none; "
         "leave it out"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_with_the_mend(data: Data, sentence: str) -> None:
    assert sentence in told(data, TWO_CPUS)


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        ({"nice": 3}, "ovs.kernel: names no policy; state `policy: fifo`, or another"),
        ({"policy": "other", "priority": 3}, "ovs.kernel.priority: is for rr and fifo; write nice "
         "for the others"),
        ({"policy": "other", "slice_ms": 3}, "ovs.kernel.slice_ms: is for functions; leave it out"),
    ],
)  # fmt: skip
def test_a_class_that_cannot_be_is_told_with_the_mend(
    tmp_path: Path, kernel: Data, sentence: str
) -> None:
    file = tmp_path / "chain.yaml"
    file.write_text(json.dumps(on_ovs(ovs={"kernel": kernel})))
    with pytest.raises(ChainFileError, match=re.escape(sentence)):
        load(file)


def test_a_cpu_of_another_runs_functions_is_refused() -> None:
    other = OtherRun("other", frozenset({3}), frozenset({4}), 0)
    assert told(on_ovs(ovs={"cpu": 3}), Machine(frozenset(range(8))), other) == [
        "('ovs', 'cpu') CPU 3 is that of functions of run `other`; choose another"
    ]


def test_a_change_of_its_cpu_is_a_change() -> None:
    old, new = (planned(on_ovs(ovs=stated), TWO_CPUS) for stated in ({}, {"cpu": 1}))
    (change,) = difference(old, new).changes
    assert change.part == "platform"
    assert change.why == ("ovs: CPU 0 → CPU 1, policy fifo, priority 49",)
    assert not difference(old, old)


# ------------------------------------------------------------------ programs


def test_where_it_is_not_installed_the_mend_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(links_ovs, "_SYSTEM", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Ovs().hindrance().startswith("no ovs-vswitchd on PATH")
    with pytest.raises(UnisError, match="apt-get install openvswitch-switch"):
        ovs._needed("ovs-vswitchd")
    folder = tmp_path / "sbin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for name in links_ovs._PROGRAMS:
        (folder / name).touch(mode=0o755)
    assert Ovs().hindrance().startswith("no vswitch.ovsschema")
    schema = tmp_path / "share" / "openvswitch" / "vswitch.ovsschema"
    schema.parent.mkdir(parents=True)
    schema.touch()
    assert Ovs().hindrance() == ""
    assert find("vswitch.ovsschema") == schema


# ------------------------------------------------------------------ its process


def test_its_process_is_noted_and_read_again() -> None:
    me = FunctionProcess("ovs-vswitchd", 0, ProcessId.me(), 2)
    state = RunState("id", "run", "", [], [1], [0], 0, ProcessId.me(), ovs=me)
    assert RunState.parse(state.text()) == state


@pytest.mark.system
def test_how_it_runs_is_what_the_kernel_says() -> None:
    need_root()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        process_id = ProcessId.of(process.pid)
        assert process_id
        os.sched_setaffinity(process.pid, {0})
        flagged = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(process.pid, flagged, os.sched_param(3))
        noted = FunctionProcess("ovs-vswitchd", 1, process_id, 4)
        told = ovs.observed(noted)
        process.kill()
    assert told == {
        "pid": process_id.pid, "restarts": 4, "ended": "",
        "cpus": [0], "policy": "fifo", "priority": 3, "nice": 0,
    }  # fmt: skip
    assert ovs.observed(noted)["pid"] is None


class Database:
    """Of Open vSwitch, as its tools show and change it."""

    def __init__(self) -> None:
        self.bridges: list[str] = []
        self.flows: list[str] = []
        self.unusable: list[str] = []  # ports
        self.late = False  # whether the next change is made, but told to have failed

    def tool(self, _program: str, *words: str, said: str = "") -> str:
        if "list-br" in words:
            return "\n".join(self.bridges)
        if "find" in words:
            return "".join(f'{port},"no such device, or worse"\n' for port in self.unusable)
        if said:
            self.flows.append(words[2])
            return ""
        for word, name in itertools.pairwise(words):
            if word == "add-br" and name not in self.bridges:
                self.bridges.append(name)
            if word == "del-br":
                self.bridges.remove(name)
        if self.late:
            self.late = False
            raise RunFailedError("ovs-vsctl: timed out")
        return ""


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    found = Database()
    monkeypatch.setattr(ovs.SwitchProcesses, "_tool", lambda _self, *w, **k: found.tool(*w, **k))
    return found


def switch_in(folder: Path) -> ovs.SwitchProcesses:
    directory = SimpleNamespace(links=folder, path=folder)
    return ovs.SwitchProcesses(SimpleNamespace(directory=directory))  # type: ignore[arg-type]


@pytest.mark.parametrize("late", [True, False])
def test_what_a_change_that_failed_has_left_is_no_later_changes_fault(
    tmp_path: Path, database: Database, late: bool
) -> None:
    """Its tool may fail though the change was made, or a port of it cannot be used."""
    one, both = (
        planned(small(links=[{"from": a, "to": b, "kind": "ovs"} for a, b in ends]))
        for ends in (ENDS[:1], ENDS[:2])
    )
    switch = switch_in(tmp_path)
    switch._join(one, only=False)
    (first,) = database.bridges
    database.late = late
    unusable = [port for link in both.links for port in getattr(link.details, "ports", ())][2]
    database.unusable = [] if late else [unusable]
    reason = "timed out" if late else f"cannot use {unusable}: no such device, or worse;"
    with pytest.raises(RunFailedError, match=reason):
        switch._join(both, only=False)
    assert len(database.bridges) == 2
    switch._join(one, only=False)
    switch._join(one, only=True)  # the way back
    assert database.bridges == [first]
    database.unusable = ["of-another-link"]
    switch._join(both, only=False)
    assert len({*database.flows}) == len(database.bridges) == 2


@pytest.mark.system
def test_a_class_that_the_file_no_longer_states_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_root()
    switch = switch_in(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(switch, "_children", [SimpleNamespace(process=process)])
        for kernel, nice in (({"policy": "other", "nice": 7}, 7), ({"policy": "other"}, 0)):
            switch._settle(planned(on_ovs(ovs={"cpu": 0, "kernel": kernel}), TWO_CPUS))
            assert os.getpriority(os.PRIO_PROCESS, process.pid) == nice
        process.kill()

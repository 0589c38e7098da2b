"""What a kind of link makes on the machine is noted before it is made, and undone."""

from dataclasses import replace
from typing import Any

import pytest

from tests.python.planned import planned, small
from unis import links
from unis.errors import UnisError
from unis.links import namespaces
from unis.links.kind import LinkPlan
from unis.links.memif import Memif
from unis.plan.model import Plan
from unis.runtime.interrupts import Interrupts
from unis.runtime.process import ProcessId
from unis.runtime.state import RunState
from unis.runtime.steps import make_links, remove_links


class Devices(Memif):
    """A memif for which a device is made."""

    capabilities = ("net_raw",)

    def __init__(self, broken: str = "") -> None:
        self.there: list[str] = []
        self.broken = broken

    def made(self, link: LinkPlan) -> str:
        return f"dev-{link.name}"

    def make(self, link: LinkPlan) -> None:
        if link.name == self.broken:
            raise UnisError("the kernel refuses it")
        self.there.append(self.made(link))

    def remove(self, name: str) -> list[str]:
        if name in self.there:
            self.there.remove(name)
        return []


def a_state(made: list[tuple[str, str]] | None = None) -> RunState:
    return RunState(
        run_id="1", name="x", chain_file="", groups=[], cpus=[], platform_cpus=[],
        hugepages_mb=0, launcher=ProcessId.me(), made=made or [],
    )  # fmt: skip


class Noting:
    """A run that only notes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.switch = Interrupts()
        self.state: RunState = a_state()

    def record(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)


@pytest.fixture
def plan() -> Plan:
    return planned(small(links=[{"from": "nat", "to": "monitor", "kind": "memif"}]))


def test_devices_are_made_noted_and_removed(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = Devices()
    monkeypatch.setitem(links.KINDS, "memif", devices)
    run = Noting(plan)
    make_links(run, plan)  # type: ignore[arg-type]
    assert devices.there == ["dev-c.3", "dev-c.4"]
    make_links(run, plan)  # type: ignore[arg-type]
    assert devices.there == ["dev-c.3", "dev-c.4"], "each once"
    noted = RunState.parse(run.state.text())
    assert noted.made == [("memif", "dev-c.3"), ("memif", "dev-c.4")]
    assert remove_links(noted.made) == []
    assert devices.there == []
    assert remove_links(noted.made) == [], "what is gone is no problem"


def test_what_could_not_be_made_is_not_ours_to_remove(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(links.KINDS, "memif", Devices(broken="c.4"))
    run = Noting(plan)
    with pytest.raises(UnisError, match="refuses"):
        make_links(run, plan)  # type: ignore[arg-type]
    assert run.state.made == [("memif", "dev-c.3")]


def test_what_is_of_no_known_kind_keeps_nothing_else_from_being_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    devices = Devices()
    devices.there = ["dev-c.3"]
    monkeypatch.setitem(links.KINDS, "memif", devices)
    (problem,) = remove_links([("memif", "dev-c.3"), ("later", "x")])
    assert "no kind of link `later`" in problem
    assert devices.there == []


def test_what_fails_keeps_nothing_else_from_being_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_name: str) -> list[str]:
        raise OSError(16, "Device or resource busy")

    devices = Devices()
    devices.there = ["dev-c.3"]
    monkeypatch.setitem(links.KINDS, "memif", devices)
    monkeypatch.setattr(links.KINDS["veth"], "remove", refuse)
    removed: list[str] = []

    def remove(name: str) -> list[str]:
        removed.append(name)
        return []

    monkeypatch.setattr(namespaces, "remove", remove)
    made = [("namespace", "unis-x.a"), ("memif", "dev-c.3"), ("veth", "dev-c.4")]
    (problem,) = remove_links(made)
    assert "cannot remove dev-c.4: OSError(16" in problem
    assert (devices.there, removed) == ([], ["unis-x.a"])


def test_a_note_that_names_no_name_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid name"):
        a_state([("memif", "../x")])


def test_functions_have_the_capabilities_that_their_ports_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(links.KINDS, "memif", Devices())
    plan = planned(small(links=[{"from": "nat", "to": "monitor", "kind": "memif"}]))
    assert "net_raw" in plan.function("monitor").capabilities
    assert "net_raw" not in plan.function("nat").capabilities

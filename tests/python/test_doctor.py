"""What `unis doctor` finds of the machine."""

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from tests.python.commands import stale_run
from unis.runtime import cgroup
from unis.runtime.doctor import kernel, machine, software
from unis.runtime.doctor.finding import Level


def far(monkeypatch: pytest.MonkeyPatch, took: dict[int, float | None]) -> None:
    """Lets a cache line take so many ns from CPU 0 to another."""
    monkeypatch.setattr(machine, "line_transfer_ns", lambda first, cpu: took[first + cpu])


def test_the_farthest_cpu_tells_and_one_that_cannot_be_measured_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    far(monkeypatch, {1: 30.0, 2: 60.0, 3: None})
    near = machine.distance(frozenset({0, 1, 2, 3}))
    assert near.level == Level.OK
    assert "CPU 0 to 2: a cache line takes 60 ns" in near.found
    far(monkeypatch, {1: 30.0, 2: 170.0})
    away = machine.distance(frozenset({0, 1, 2}))
    assert away.level == Level.NOTE
    assert "CPU 0 to 2: a cache line takes 170 ns" in away.found


def test_what_cannot_be_measured_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    far(monkeypatch, {1: None})
    for cpus in ({0}, {0, 1}):
        found = machine.distance(frozenset(cpus))
        assert (found.level, found.found) == (Level.NOTE, "cannot be measured now")


def test_chains_that_run_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far(monkeypatch, {})
    stale_run(tmp_path)  # on CPUs 0 and 1
    assert machine.distance(frozenset({0, 1})).found == "not measured: chains run"


def test_a_budget_of_0_counts_only_where_the_kernel_refuses_the_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.rt_runtime_us").write_text("0\n")
    monkeypatch.setattr(kernel, "_cpu_cgroup", lambda: tmp_path)
    asked: list[int] = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda _pid, policy, _: asked.append(policy))
    granted = kernel.rt_groups()
    assert granted.level is Level.OK
    assert "grants real-time classes" in granted.found
    assert asked == [os.SCHED_RR, os.sched_getscheduler(0)], "back to what it was"

    def refuse(_pid: int, policy: int, _: object) -> None:
        if policy == os.SCHED_RR:
            raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert kernel.rt_groups().level is Level.BLOCKED


def test_timers_that_end_late_are_told() -> None:
    late = machine.timers(lambda seconds: time.sleep(seconds + 0.0003))
    assert late.level is Level.NOTE
    assert "max_delay_us" in late.meaning
    assert machine.timers(lambda _: None).level is Level.OK, "a sleep that ends at once"


def test_another_user_is_sent_to_the_same_command_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "access", lambda path, _mode: path == "/opt/unis")
    monkeypatch.setattr(sys, "argv", ["/opt/unis", "doctor"])
    monkeypatch.setattr(cgroup, "mount", lambda: Path("/sys/fs/cgroup"))
    monkeypatch.setattr(cgroup, "leaf_name", lambda _run: "mine/unis-doctor")
    assert kernel.run_group().mend == "sudo /opt/unis doctor"
    monkeypatch.setattr(kernel, "needed", lambda: [kernel.Needed("cap_of_later", 63, "why", False)])
    for blocked in (kernel.permission(), kernel.capabilities()):
        assert blocked.mend == "sudo /opt/unis up FILE", "as root, `unis doctor` would mend nothing"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert kernel.capabilities().mend == "--cap-add=CAP_OF_LATER", "it is root already"


@pytest.mark.system
def test_dpdk_without_development_files_tells_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the Debian package has it."""
    with_pkg_config = software.dpdk_version()
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert software.dpdk_version() == with_pkg_config
    assert software.dpdk().level == Level.OK


def test_a_machine_without_dpdk_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(software, "_LIBRARIES", tmp_path)
    (tmp_path / "x86").mkdir()
    (tmp_path / "x86" / "librte_eal.so.23").write_text("no library")
    assert software.dpdk_version() == ""
    assert software.dpdk().level == Level.BLOCKED

"""After a crash nothing is left: real processes that spin at real-time priority on CPU 1."""

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.needs import need, need_real_time
from tests.python.place import step
from tests.python.spinning import CPU, SPIN, identity, process
from unis.runtime import cgroup, files, hugepages, kernel_settings, steps
from unis.runtime import clean_up as clean_up_module
from unis.runtime.clean_up import clean_up, forget
from unis.runtime.directory import RunDirectory, all_runs
from unis.runtime.logs import KEPT, ended, latest
from unis.runtime.process import ProcessId, keep_off
from unis.runtime.state import FunctionProcess, Phase, RunState

pytestmark = pytest.mark.system

STUBBORN = (
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\n"
    "time.sleep(20)"
)


@pytest.fixture(autouse=True)
def _fit() -> None:
    keep_off({CPU})


def make_run(
    tmp_path: Path, *children: subprocess.Popen[bytes], run_id: str = "one", **more: Any
) -> RunDirectory:
    """A run whose launcher is dead. Its DPDK group is one that no other run has."""
    directory = RunDirectory(tmp_path / "run" / "runs" / "test")
    directory.make()
    dead = ProcessId(pid=os.getpid(), start_time=1)  # our number, another process
    state = RunState(
        run_id=run_id, name="test", chain_file="x.yaml", groups=["unis-pytest"], cpus=[CPU],
        platform_cpus=[0], hugepages_mb=0, launcher=dead,
        functions=[
            FunctionProcess(name=f"nf{i}", cpu=CPU, process=identity(child))
            for i, child in enumerate(children)
        ],
    )  # fmt: skip
    directory.write(state.with_changes(**more))
    directory.event_log.write_text("it ran\n")
    directory.socket.write_text("")
    return directory


@pytest.fixture
def _hugepages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files of the group, and others, where EAL would have left them."""
    for name in ("huge", "dpdk/unis-pytest"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "dpdk" / "unis-pytest" / "config").write_text("x")
    (tmp_path / "huge" / "unis-pytestmap_0").write_text("x")
    for other in (
        "othermap_0",
        "unis-pytestmap_0.b",
        "unis-pytest.fwmap_0",
        "unis-pytestmap_xmap_0",
    ):
        (tmp_path / "huge" / other).write_text("x")
    monkeypatch.setattr(hugepages, "mounts", lambda: {tmp_path / "huge": 2048})
    monkeypatch.setattr(steps, "DPDK_RUNTIME", tmp_path / "dpdk")


@pytest.mark.usefixtures("_hugepages")
def test_a_mount_that_cannot_be_read_keeps_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = make_run(tmp_path).read()
    assert state
    gone = tmp_path / "gone"
    mounts = {gone: 2048} | hugepages.mounts()
    monkeypatch.setattr(hugepages, "mounts", lambda: mounts)
    problems = step("Engine").undo(state, lambda: True)
    assert problems == [f"cannot look for packet memory in {gone}: No such file or directory"]
    assert not (tmp_path / "huge" / "unis-pytestmap_0").exists()
    assert not (tmp_path / "dpdk" / "unis-pytest").exists()


def test_real_time_spinners_are_demoted_and_ended(tmp_path: Path) -> None:
    need_real_time()
    # The higher one keeps the lower from dying, and from anything else.
    with process(SPIN, real_time=20) as high, process(SPIN, real_time=10) as low:
        os.kill(low.pid, signal.SIGSTOP)
        directory = make_run(tmp_path, low, high)
        assert clean_up(directory, "one") == []
        assert high.wait(1) == low.wait(1) == -signal.SIGTERM
    assert not directory.path.exists()


@pytest.mark.usefixtures("_hugepages")
def test_what_was_made_is_removed(tmp_path: Path) -> None:
    directory = make_run(tmp_path)
    assert clean_up(directory, "one") == []
    assert not (tmp_path / "huge" / "unis-pytestmap_0").exists()
    assert len(list((tmp_path / "huge").iterdir())) == 4, "those of other groups"
    assert not (tmp_path / "dpdk" / "unis-pytest").exists()
    assert not directory.path.exists()
    assert clean_up(directory, "one") == []  # a second time there is nothing to do


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    with process(STUBBORN) as child:
        assert clean_up(make_run(tmp_path, child), "one") == []
        assert child.wait(1) == -signal.SIGKILL


def test_a_number_that_is_used_again_is_left_alone(tmp_path: Path) -> None:
    with process(SPIN) as bystander:
        theirs = identity(bystander)
        other = ProcessId(pid=theirs.pid, start_time=theirs.start_time - 1)
        directory = make_run(tmp_path, functions=[FunctionProcess("nf", CPU, other)])
        assert clean_up(directory, "one") == []
        time.sleep(0.1)
        assert bystander.poll() is None


def test_a_process_started_just_before_the_crash_is_found(tmp_path: Path) -> None:
    with process(SPIN, run_id="one") as unrecorded, process(SPIN, run_id="two") as other:
        assert clean_up(make_run(tmp_path), "one") == []
        assert unrecorded.wait(1) == -signal.SIGTERM
        assert other.poll() is None


def test_a_newer_run_of_the_same_name_is_left_alone(tmp_path: Path) -> None:
    with process(SPIN) as child:
        directory = make_run(tmp_path, child, run_id="new")
        assert clean_up(directory, "old") == []
        assert child.poll() is None
        assert directory.read()


def test_only_the_run_that_was_meant_is_forgotten(tmp_path: Path) -> None:
    directory = make_run(tmp_path, run_id="new", phase=Phase.FAILED, reason="why")
    assert forget(directory, "old") == []
    assert directory.read()
    directory = make_run(tmp_path, run_id="new", phase=Phase.RUNNING)
    assert forget(directory, "new") == []
    assert directory.read(), "it is not undone"
    directory = make_run(tmp_path, run_id="new", phase=Phase.FAILED, reason="why")
    assert forget(directory, "new") == []
    assert not directory.path.exists()
    assert ended()[0].name == "test"


def test_clean_up_waits_for_nobody_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = make_run(tmp_path)
    soon = functools.partial(files.locked, seconds=0.05)
    monkeypatch.setattr(clean_up_module, "locked", soon)
    with files.locked(directory.lock):
        assert f"has held {directory.lock}" in clean_up(directory, "one")[0]
    kernel_settings.ledger().mkdir()
    monkeypatch.setattr(kernel_settings, "locked", soon)
    with files.locked(kernel_settings.ledger()):
        assert f"has held {kernel_settings.ledger()}" in kernel_settings.restore()[0]
    assert clean_up(directory, "one") == []


def test_the_reason_is_kept(tmp_path: Path) -> None:
    directory = make_run(tmp_path)
    assert clean_up(directory, "one", "function nf0 died") == []
    state = directory.read()
    assert state
    assert (state.phase, state.reason) == (Phase.FAILED, "function nf0 died")
    assert not directory.socket.exists()
    assert [found.name for _, found in all_runs()] == ["test"]


@pytest.mark.usefixtures("_hugepages")
def test_what_cannot_be_undone_is_noted_and_tried_again(tmp_path: Path) -> None:
    stuck = tmp_path / "huge" / "unis-pytestmap_0"
    stuck.unlink()
    stuck.mkdir()
    directory = make_run(tmp_path)
    told = clean_up(directory, "one")
    assert len(told) == 1
    assert str(stuck) in told[0]
    assert not (tmp_path / "dpdk" / "unis-pytest").exists(), "the rest goes on"
    state = directory.read()
    assert state
    assert (state.phase, state.problems) == (Phase.FAILED, told)
    assert not state.undone()
    stuck.rmdir()
    assert clean_up(directory, "one") == []
    state = directory.read()
    assert state
    assert state.undone()


def test_a_step_that_raises_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> list[str]:
        raise RuntimeError("oh")

    monkeypatch.setattr(step("Traffic"), "undo", fail)
    with process(SPIN) as child:
        told = clean_up(make_run(tmp_path, child), "one")
        assert child.wait(5) == -signal.SIGTERM
    assert told == ["Traffic could not be undone: RuntimeError('oh')"]


def test_logs_are_kept_of_the_last_runs(tmp_path: Path) -> None:
    for number in range(KEPT + 2):
        directory = make_run(tmp_path)
        directory.event_log.write_text(f"run {number}\n")
        assert clean_up(directory, "one") == []
    runs = ended()
    assert [run.name for run in runs] == ["test"] * KEPT
    found = latest("test")
    assert found
    assert found.event_log.read_text() == f"run {KEPT + 1}\n"
    assert latest("other") is None


def test_of_many_tries_to_bring_a_run_up_again_the_first_and_the_last_are_kept(
    tmp_path: Path,
) -> None:
    for number in range(KEPT + 2):
        directory = make_run(tmp_path)
        directory.event_log.write_text(f"try {number}\n")
        if number == 0:
            assert clean_up(directory, "one") == []
            continue
        assert clean_up(directory, "one", "it died") == []
        state = directory.read()
        assert state
        directory.write(state.with_changes(failures=number))
        assert forget(directory, "one") == []
    said = [run.directory.event_log.read_text() for run in ended()]
    assert said == [f"try {number}\n" for number in (KEPT + 1, 1, 0)]


def need_leaf(run_id: str) -> cgroup.Leaf:
    name = cgroup.leaf_name(run_id)
    leaf = cgroup.Leaf(name, run_id) if name else None
    need(leaf is not None and leaf.make(), "needs a cgroup v2 that we may write")
    assert leaf
    return leaf


def test_a_cgroup_ends_what_shook_off_its_mark(tmp_path: Path) -> None:
    leaf = need_leaf("pytest")
    child = subprocess.Popen(
        [*leaf.enter(), "env", "-i", "setsid", "sh", "-c", "trap '' TERM; sleep 100 & wait"]
    )
    try:
        while len(leaf.members()) < 2:
            time.sleep(0.01)
        name = cgroup.leaf_name("pytest")
        directory = make_run(tmp_path, run_id="pytest", leaf=name)
        assert clean_up(directory, "pytest") == []
        assert child.wait(5) != 0
        assert not leaf.path.exists()
    finally:
        leaf.kill()
        child.wait()
        leaf.remove()


def test_who_comes_into_the_cgroup_late_does_not_stay(tmp_path: Path) -> None:
    """As what a launcher has started the instant before it was killed: it has no mark yet."""
    leaf = need_leaf("pytest")
    late = ["sh", "-c", 'sleep 0.5; exec "$@"', "x", *leaf.enter(), "sleep", "100"]
    child = subprocess.Popen(late, start_new_session=True)
    try:
        name = cgroup.leaf_name("pytest")
        assert clean_up(make_run(tmp_path, run_id="pytest", leaf=name), "pytest") == []
        assert child.wait(20) not in (0, -signal.SIGTERM)
        assert not leaf.path.exists()
    finally:
        child.kill()
        child.wait()
        leaf.remove()


def test_who_is_in_the_cgroup_when_it_goes_is_ended() -> None:
    leaf = need_leaf("pytest")
    child = subprocess.Popen([*leaf.enter(), "sleep", "100"])
    try:
        while not leaf.members():
            time.sleep(0.01)
        assert leaf.remove() == []
        assert child.wait(20) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()


def test_what_left_the_cgroup_is_known_by_its_mark(tmp_path: Path) -> None:
    """As a function does, and what it starts, that the engine's controller has moved."""
    leaf = need_leaf("pytest")
    try:
        with process(SPIN, run_id="pytest") as child:
            name = cgroup.leaf_name("pytest")
            assert clean_up(make_run(tmp_path, run_id="pytest", leaf=name), "pytest") == []
            assert child.wait(1) == -signal.SIGTERM
    finally:
        leaf.remove()


@pytest.mark.parametrize("name", ["/etc", "../unis-one", "a/../../unis-one", "unis-two", ""])
def test_only_the_leaf_of_the_run_itself_is_touched(name: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        cgroup.Leaf(name, "one")


@pytest.mark.parametrize(
    ("own", "name"), [("/", "unis-one"), ("/../x", None), ("/a", "a/unis-one")]
)
def test_there_is_no_leaf_outside_what_is_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, name: str | None
) -> None:
    """In a cgroup namespace that was made elsewhere."""
    monkeypatch.setattr(cgroup, "mount", lambda: tmp_path)
    monkeypatch.setattr(cgroup, "_OWN", tmp_path / "cgroup")
    (tmp_path / "cgroup").write_text(f"1:cpu:/\n0::{own}\n")
    assert cgroup.leaf_name("one") == name


def ledger_of(tmp_path: Path, *holders: ProcessId) -> Path:
    setting = tmp_path / "sysctl"
    setting.write_text("-1\n")
    folder = tmp_path / "run" / "machine"
    folder.mkdir(parents=True, mode=0o700)
    lines = [f"path {setting}", "before 950000", "value -1"]
    lines += [f"holder {holder.pid} {holder.start_time}" for holder in holders]
    (folder / "rt_runtime").write_text("\n".join(lines) + "\n")
    return setting


def test_the_ledger_is_the_machines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = kernel_settings.ledger()
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path / "elsewhere"))
    assert kernel_settings.ledger() == before


def test_a_setting_that_only_the_dead_hold_is_put_back(tmp_path: Path) -> None:
    setting = ledger_of(tmp_path, ProcessId(os.getpid(), 1))
    assert clean_up(make_run(tmp_path), "one") == []
    assert setting.read_text().strip() == "950000"
    assert list(kernel_settings.ledger().iterdir()) == []


def test_a_setting_that_another_run_holds_stays(tmp_path: Path) -> None:
    setting = ledger_of(tmp_path, ProcessId(os.getpid(), 1), ProcessId.me())
    assert kernel_settings.restore() == []
    assert setting.read_text().strip() == "-1"


def test_a_setting_that_somebody_else_has_set_since_stays(tmp_path: Path) -> None:
    setting = ledger_of(tmp_path)
    setting.write_text("3\n")
    assert kernel_settings.restore() == []
    assert setting.read_text() == "3\n"
    assert list(kernel_settings.ledger().iterdir()) == [], "it is nobody's any more"


def test_a_setting_that_cannot_be_put_back_is_told(tmp_path: Path) -> None:
    setting = ledger_of(tmp_path)
    setting.unlink()
    setting.mkdir()
    assert "sysctl back to 950000" in kernel_settings.restore()[0]
    setting.rmdir()
    setting.write_text("-1")
    assert kernel_settings.restore() == []
    assert setting.read_text() == "950000"


def test_a_ledger_of_somebody_else_is_not_believed(tmp_path: Path) -> None:
    setting = ledger_of(tmp_path)
    kernel_settings.ledger().chmod(0o777)
    assert "another user's" in kernel_settings.restore()[0]
    assert setting.read_text().strip() == "-1"


def test_the_guard_cleans_up_when_the_launcher_is_killed(tmp_path: Path) -> None:
    need_real_time()
    with process(SPIN, real_time=10) as nf:
        directory = make_run(tmp_path, nf)
        launcher = subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE)
        guard = start_guard(directory, stdin=launcher)
        time.sleep(0.3)
        assert nf.poll() is None
        assert guard.poll() is None
        launcher.kill()
        launcher.wait()
        assert nf.wait(10) == -signal.SIGTERM
        assert guard.wait(10) == 0
    state = directory.read()
    assert state
    assert state.phase == Phase.FAILED
    assert "died" in state.reason


def test_the_guard_cleans_up_when_unisd_dies(tmp_path: Path) -> None:
    with process(SPIN) as nf, process(SPIN) as unisd:
        directory = make_run(tmp_path, nf)
        guard = start_guard(directory)
        assert guard.stdin
        guard.stdin.write(f"unisd {unisd.pid}\n".encode())
        guard.stdin.flush()
        time.sleep(0.3)
        assert nf.poll() is None
        unisd.kill()
        unisd.wait()
        assert nf.wait(10) == -signal.SIGTERM
        assert guard.wait(10) == 0
        guard.stdin.close()


def test_the_guard_leaves_a_run_that_went_down_alone(tmp_path: Path) -> None:
    with process(SPIN) as nf:
        guard = start_guard(make_run(tmp_path, nf))
        guard.communicate(b"down\n", timeout=10)
        assert guard.returncode == 0
        assert nf.poll() is None


def start_guard(
    directory: RunDirectory, stdin: subprocess.Popen[bytes] | None = None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "unis.runtime.guard", directory.path, "one"],
        stdin=stdin.stdout if stdin else subprocess.PIPE,
        start_new_session=True,
    )

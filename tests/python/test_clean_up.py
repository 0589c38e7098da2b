"""After a crash nothing is left: real processes that spin at real-time priority on CPU 1."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from unis.launch.clean_up import clean_up
from unis.launch.process import ProcessId, demote, keep_off, marked, wait_gone
from unis.launch.state import (
    RUN_MARK,
    NfProcess,
    Phase,
    RunDirectory,
    RunState,
    all_runs,
    last_lines,
)

SPIN = (
    "import time\nprint('up', flush=True)\nend = time.monotonic() + 20\n"
    "while time.monotonic() < end: pass"
)
STUBBORN = (
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\n"
    "time.sleep(20)"
)
CPU = 1


@pytest.fixture(autouse=True)
def _fit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path / "run"))
    before = os.sched_getaffinity(0)
    keep_off({CPU}, before)
    yield
    os.sched_setaffinity(0, before)


def need_real_time() -> None:
    if os.geteuid() == 0 and (os.cpu_count() or 1) > 1:
        return
    if os.environ.get("CI") == "true":
        pytest.fail("needs root and two CPUs")
    pytest.skip("needs root and two CPUs")


@contextlib.contextmanager
def process(code: str, run_id: str = "", real_time: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, RUN_MARK: run_id} if run_id else None,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        # Only in its loop may it starve: while it starts it holds locks that all need.
        assert child.stdout
        assert child.stdout.readline() == b"up\n"
        if real_time:
            os.sched_setaffinity(child.pid, {CPU})
            os.sched_setscheduler(child.pid, os.SCHED_RR, os.sched_param(real_time))
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.sched_setscheduler(child.pid, os.SCHED_OTHER, os.sched_param(0))
            child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()


def identity(child: subprocess.Popen[bytes]) -> ProcessId:
    found = ProcessId.of(child.pid)
    assert found is not None
    return found


def make_run(
    tmp_path: Path, *children: subprocess.Popen[bytes], run_id: str = "one"
) -> RunDirectory:
    directory = RunDirectory(tmp_path / "run" / "test")
    directory.path.mkdir(parents=True, exist_ok=True)
    for name in ("huge", "dpdk"):
        (tmp_path / name).mkdir(exist_ok=True)
    (tmp_path / "dpdk" / "config").write_text("x")
    (tmp_path / "huge" / "unis-pytestmap_0").write_text("x")
    (tmp_path / "huge" / "othermap_0").write_text("x")
    (tmp_path / "sysctl").write_text("-1\n")
    dead = ProcessId(pid=os.getpid(), start_time=1)  # our number, another process
    directory.write(
        RunState(
            run_id=run_id, name="test", chain_file="x.yaml", file_prefix="unis-pytest",
            hugepage_dir=tmp_path / "huge", runtime_dir=tmp_path / "dpdk", cpus=[CPU],
            platform_cpus=[0], supervisor=dead, sysctls={tmp_path / "sysctl": "950000"},
            nfs=[
                NfProcess(name=f"nf{i}", cpu=CPU, process=identity(child))
                for i, child in enumerate(children)
            ],
        )
    )  # fmt: skip
    directory.socket.write_text("")
    return directory


def test_real_time_spinners_are_demoted_and_ended(tmp_path: Path) -> None:
    need_real_time()
    # The higher one keeps the lower from dying, and from anything else.
    with process(SPIN, real_time=20) as high, process(SPIN, real_time=10) as low:
        os.kill(low.pid, signal.SIGSTOP)
        directory = make_run(tmp_path, low, high)
        assert clean_up(directory, "one") == []
        assert high.wait(1) == low.wait(1) == -signal.SIGTERM
    assert not directory.path.exists()


def test_what_was_changed_is_put_back(tmp_path: Path) -> None:
    directory = make_run(tmp_path)
    assert clean_up(directory, "one") == []
    assert (tmp_path / "sysctl").read_text().strip() == "950000"
    assert not (tmp_path / "huge" / "unis-pytestmap_0").exists()
    assert (tmp_path / "huge" / "othermap_0").exists()
    assert not (tmp_path / "dpdk").exists()
    assert not directory.path.exists()
    assert clean_up(directory, "one") == []  # a second time there is nothing to do


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    with process(STUBBORN) as child:
        assert clean_up(make_run(tmp_path, child), "one") == []
        assert child.wait(1) == -signal.SIGKILL


def test_a_number_that_is_used_again_is_left_alone(tmp_path: Path) -> None:
    with process(SPIN) as bystander:
        directory = make_run(tmp_path, bystander)
        state = directory.read()
        assert state
        theirs = state.nfs[0].process
        state.nfs[0].process = ProcessId(pid=theirs.pid, start_time=theirs.start_time - 1)
        directory.write(state)
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


def test_the_reason_is_kept(tmp_path: Path) -> None:
    directory = make_run(tmp_path)
    assert clean_up(directory, "one", "function nf0 died") == []
    state = directory.read()
    assert state
    assert (state.phase, state.reason) == (Phase.FAILED, "function nf0 died")
    assert not directory.socket.exists()
    assert [found.name for _, found in all_runs()] == ["test"]


def test_what_cannot_be_undone_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    directory = make_run(tmp_path)
    (tmp_path / "sysctl").unlink()
    (tmp_path / "sysctl").mkdir()
    told = clean_up(directory, "one")
    assert len(told) == 1
    assert "sysctl back to 950000" in told[0]
    assert not directory.path.exists()


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
        [sys.executable, "-m", "unis.launch.guard", directory.path, "one"],
        stdin=stdin.stdout if stdin else subprocess.PIPE,
        start_new_session=True,
    )


def test_process_identity() -> None:
    with process(SPIN) as child:
        me = identity(child)
        assert me.alive()
        assert me.threads() == [child.pid]
        assert demote(me) == []
        child.kill()
        assert wait_gone([me], 5) == []  # a zombie is gone
        assert not me.alive()
        assert me.threads() == []
        assert demote(me) == []
        me.send(signal.SIGKILL)
    assert ProcessId.of(child.pid) != me


def test_marked_finds_only_the_same_mark() -> None:
    with process(SPIN, run_id="abc") as child:
        assert [found.pid for found in marked(RUN_MARK, "abc")] == [child.pid]
        assert marked(RUN_MARK, "ab") == []


def test_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(map(str, range(20))))
    assert last_lines(log, 2) == "    18\n    19"
    assert last_lines(tmp_path / "none") == ""

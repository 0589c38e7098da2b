"""The process in which an agent's recordings are made."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evaluation.emulation.worker import IdleWorker, WorkError
from unis.errors import UnisError
from unis.runtime.process import ProcessId


@pytest.fixture
def worker() -> Iterator[IdleWorker]:
    made = IdleWorker()
    yield made
    made.shutdown()


def long_work(folder: Path) -> None:
    """As a recording: a folder, and a program."""
    with tempfile.TemporaryDirectory(dir=folder):
        subprocess.run(
            ["sh", "-c", "echo $$ > pid.new && mv pid.new pid && exec sleep 60"],
            cwd=folder, check=False,
        )  # fmt: skip


def seen(path: Path) -> str:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    return path.read_text()


def is_alive(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def policies() -> list[int]:
    code = "import os; print(os.sched_getscheduler(0))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return [os.sched_getscheduler(0), int(told.stdout)]


def talks(report: Callable[[str], None]) -> str:
    report("one")
    report("two")
    return "three"


def fails(kind: str) -> None:
    if kind == "unis":
        raise UnisError("a sentence")
    raise ValueError("no such thing")


def test_an_end_does_not_wait_for_what_is_being_done(tmp_path: Path) -> None:
    """Else a signal would end the agent only when a recording has ended."""
    worker = IdleWorker()
    doing, queued = worker.submit(long_work, tmp_path), worker.submit(os.getpid)
    program = ProcessId.of(int(seen(tmp_path / "pid")))
    worker.shutdown(cancel_futures=True)
    with pytest.raises(WorkError, match="has ended"):
        doing.result()
    assert queued.cancelled()
    while program and program.alive():  # a zombie is not
        time.sleep(0.01)
    assert [one.name for one in tmp_path.iterdir()] == ["pid"]


def test_it_takes_no_time_from_others(worker: IdleWorker) -> None:
    assert worker.submit(policies).result() == [os.SCHED_IDLE, os.SCHED_IDLE]
    assert os.sched_getscheduler(0) != os.SCHED_IDLE


def test_what_it_says_is_heard_here(worker: IdleWorker) -> None:
    told: list[str] = []
    assert worker.submit(talks, report=told.append).result() == "three"
    assert told == ["one", "two"]


def test_a_listener_that_fails_does_not_mix_up_answers(worker: IdleWorker) -> None:
    def deaf(sentence: str) -> None:
        raise UnicodeEncodeError("ascii", sentence, 0, 1, "no such letter")

    assert worker.submit(talks, report=deaf).result() == "three"
    assert worker.submit(policies).result()[0] == os.SCHED_IDLE


def test_a_second_signal_does_not_stop_its_cleaning_up(tmp_path: Path) -> None:
    """As of systemd, which signals all processes, and then of the agent."""
    worker = IdleWorker()
    pid = worker.submit(os.getpid).result()
    worker.submit(long_work, tmp_path)
    seen(tmp_path / "pid")
    for _ in range(20):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.002)
    worker.shutdown()
    assert [one.name for one in tmp_path.iterdir()] == ["pid"]


def test_errors_are_sentences(worker: IdleWorker) -> None:
    for kind, said, bad_input in (
        ("unis", "a sentence", True),
        ("", "ValueError: no such thing", False),
    ):
        with pytest.raises(WorkError, match=said) as found:
            worker.submit(fails, kind).result()
        assert found.value.bad_input == bad_input


def test_after_it_was_killed_there_is_another(worker: IdleWorker) -> None:
    pid = worker.submit(os.getpid).result()
    doing = worker.submit(time.sleep, 60)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkError, match="has ended"):
        doing.result()
    assert worker.submit(os.getpid).result() not in (pid, os.getpid())


def test_it_ends_with_its_owner() -> None:
    code = (
        "import os, time\n"
        "from evaluation.emulation.worker import IdleWorker\n"
        "worker = IdleWorker()\n"
        "print(worker.submit(os.getpid).result(), flush=True)\n"
        "worker.submit(time.sleep, 60).result()\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert owner.stdout
    pid = int(owner.stdout.readline())
    owner.kill()
    owner.wait()
    owner.stdout.close()
    end = time.monotonic() + 30
    while is_alive(pid):
        assert time.monotonic() < end
        time.sleep(0.02)

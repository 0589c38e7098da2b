"""Processes are told from others that got their number, and found by their mark."""

import errno
import math
import os
import signal
import termios
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.python.spinning import SPIN, identity, process
from unis.runtime import child
from unis.runtime import process as processes
from unis.runtime.child import Command, start
from unis.runtime.directory import last_lines
from unis.runtime.errors import LaunchError
from unis.runtime.process import ProcessId, marked, unblock, wait_gone
from unis.runtime.state import RUN_MARK
from unis.signals import ENDING


def test_process_identity() -> None:
    with process(SPIN) as child:
        me = identity(child)
        assert me.alive()
        assert me.threads() == [child.pid]
        assert unblock([me]) == []
        child.kill()
        assert wait_gone([me], 5) == []  # a zombie is gone
        assert not me.alive()
        assert me.threads() == []
        assert unblock([me]) == []
        me.send(signal.SIGKILL)
    assert ProcessId.of(child.pid) != me


def test_marked_finds_only_the_same_mark() -> None:
    with process(SPIN, run_id="abc") as child:
        assert [found.pid for found in marked(RUN_MARK, "abc")] == [child.pid]
        assert marked(RUN_MARK, "ab") == []


def test_a_process_that_starts_a_program_is_found() -> None:
    """It has no environment for a moment: here it is in execve most of the time."""
    again = 'exec sh -c "$0" "$0"'
    starts = f"print('up', flush=True)\nimport os; os.execvp('sh', ['sh', '-c', *{[again] * 2}])"
    with process(starts, run_id="abc") as child:
        for _ in range(300):
            assert [found.pid for found in marked(RUN_MARK, "abc")] == [child.pid]


def test_a_process_without_an_environment_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_EXEC_SECONDS", math.inf)
    starts = "print('up', flush=True)\nimport os; os.execve('/bin/sleep', ['sleep', '60'], {})"
    with process(starts, run_id="abc") as child:
        while marked(RUN_MARK, "abc"):  # it is Python yet
            time.sleep(0.01)
        assert child.poll() is None


def test_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(map(str, range(20))))
    assert last_lines(log, 2) == "    18\n    19"
    assert last_lines(tmp_path / "none") == ""
    usage = [f"  --option{number}" for number in range(100)]
    log.write_text("\n".join(["x: unrecognized option '--a --b'", *usage]))
    assert last_lines(log, 2) == (
        "    x: unrecognized option '--a --b'\n    …\n      --option98\n      --option99"
    )
    log.write_text("\n".join(["EAL: Cannot open /dev/x: Invalid argument", *usage]))
    assert last_lines(log, 1) == "      --option99", "any program may read EINVAL"
    log.write_text("of the old one\nEAL: Detected CPU lcores: 2\nno such rule\n")
    assert last_lines(log, since=15) == "    no such rule"
    assert last_lines(log, since=1000).startswith("    of the old one"), "it was shortened"
    log.write_text("EAL: Detected CPU lcores: 2\n")
    assert last_lines(log) == "    EAL: Detected CPU lcores: 2", "it said no more"
    log.write_bytes(b"x" * 10**6)
    assert len(last_lines(log)) < 10**4, "it is for a message"


def test_the_thread_of_a_terminal_takes_no_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = child._relay
    masks: list[set[int]] = []

    def see(*words: Any) -> None:
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        relay(*words)

    monkeypatch.setattr(child, "_relay", see)
    started = start("it", Command(["true"], terminal=True), tmp_path / "log", "id")
    started.process.wait()
    assert started.relay
    started.relay.join()
    assert masks[0] >= {*ENDING, signal.SIGALRM}


@pytest.mark.parametrize(
    ("where", "name", "error"),
    [
        (os, "fchown", OSError(errno.EPERM, "not here")),
        (termios, "tcsetattr", termios.error(errno.EIO, "not here")),
        (threading.Thread, "start", RuntimeError("not here")),
    ],
)
def test_a_terminal_that_cannot_be_made_is_no_fault_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: object, name: str, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(where, name, fail)
    before = sorted(Path("/proc/self/fd").iterdir())
    with pytest.raises(LaunchError, match="cannot make a terminal for it: not here") as raised:
        start("it", Command(["true"], terminal=True), tmp_path / "log", "id")
    assert not raised.value.bad_input
    assert sorted(Path("/proc/self/fd").iterdir()) == before

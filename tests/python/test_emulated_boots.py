"""What `python -m tests.machine` says of a machine that hangs, ends early or fails a test."""

import json
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.machine.__main__ import answer, one_by_one
from tests.machine.machine import Booted

_SILENCE = 0.2
Message = dict[str, object]
Script = list[Message | None]
READY: Message = {"what": "ready", "seconds": 1.0, "words": "1 tests"}
RUNNING: Message = {"what": "running", "test": "a"}
END: Message = {"what": "end", "code": 0}
HANGS = None  # instead of ending


def ended(outcome: str) -> Message:
    told: Message = {"test": "a", "seconds": 1.0, "facts": [], "words": ""}
    return {"what": "test", "outcome": outcome, **told}


GOOD: Script = [READY, RUNNING, ended("passed"), END]


class Boots:
    """Machines that say what is written down for each boot."""

    def __init__(self, *scripts: Script) -> None:
        self.left = list(scripts)

    def __call__(self) -> AbstractContextManager[Booted]:
        return self._boot(self.left.pop(0))

    @contextmanager
    def _boot(self, script: Script) -> Iterator[Booted]:
        ours, its = socket.socketpair()
        with ours, its:
            for message in script:
                if message:
                    its.sendall(json.dumps(message).encode() + b"\n")
            if HANGS not in script:
                its.close()
            yield Booted(subprocess.Popen(["true"]), ours, [], [])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "serial.log"
    path.write_text("the kernel's last words\n")
    return path


def said_of(boots: Boots, log: Path, minutes: float = 1.0) -> int:
    return answer(boots, log, minutes, boot_silence=_SILENCE)


def test_a_boot_that_hangs_before_any_test_is_repeated(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said_of(Boots([HANGS], GOOD), log) == 0
    said = capsys.readouterr().out
    assert "boot 1 of at most 3 hung before any test" in said
    assert "the kernel's last words" in said


def test_boots_that_hang_are_bounded_and_no_answer(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    boots = Boots([HANGS], [HANGS], [HANGS], GOOD)
    assert said_of(boots, log) == 2
    assert boots.left == [GOOD]
    assert "no answer" in capsys.readouterr().out


@pytest.mark.parametrize(
    "script", [[READY, RUNNING], [], [READY, RUNNING, ended("passed")]], ids=len
)
def test_a_machine_that_ends_early_is_not_booted_again(log: Path, script: Script) -> None:
    boots = Boots(script, GOOD)
    assert said_of(boots, log) == 2
    assert boots.left == [GOOD]


def test_a_test_that_hangs_is_named_and_nothing_is_repeated(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.machine.__main__._SILENCE", _SILENCE)
    boots = Boots([READY, RUNNING, HANGS], GOOD)
    assert said_of(boots, log) == 2
    assert boots.left == [GOOD]
    assert "while a ran" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (GOOD, 0),
        ([READY, RUNNING, ended("failed"), END], 1),
        ([READY, RUNNING, ended("skipped"), END], 1),
        ([READY, END], 1),
        ([READY, ended("passed"), {"what": "end", "code": 3}], 1),
    ],
)
def test_what_ends_has_an_answer(log: Path, script: Script, code: int) -> None:
    assert said_of(Boots(script), log) == code


def test_a_lost_timer_is_told_and_excuses_nothing(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_text("rcu: \tPossible timer handling issue on cpu=1 timer-softirq=18697\n")
    assert said_of(Boots([READY, ended("failed"), END]), log) == 1
    assert "lost the timer" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("codes", "code"), [([0, 0, 0], 0), ([0, 2, 0], 2), ([2, 1, 0], 1), ([0, 0, 1], 1)]
)
def test_a_file_that_fails_keeps_no_other_from_running(
    codes: list[int], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = list(codes)
    asked: list[tuple[Sequence[str], Path]] = []

    def run(words: Sequence[str], folder: Path, minutes: float) -> int:
        assert 0 < minutes <= 1
        asked.append((words, folder))
        return left.pop(0)

    files = [tmp_path / f"test_{name}.py" for name in "abc"]
    assert one_by_one(run, files, tmp_path, 1.0) == code
    assert asked == [([str(file)], tmp_path / file.stem) for file in files]
    said = capsys.readouterr().out
    for file, each in zip(files, codes, strict=True):
        assert f"{('passed', 'failed', 'no answer')[each]:9}  {file.stem}" in said


def test_files_that_time_did_not_reach_have_no_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: object) -> int:
        raise AssertionError

    assert one_by_one(run, [tmp_path / "test_a.py"], tmp_path, 0.0) == 2
    assert "no answer  test_a" in capsys.readouterr().out

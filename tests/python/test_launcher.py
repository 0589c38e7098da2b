"""The launcher that a command leaves in the background."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

_START = """
import json, os, sys
from pathlib import Path
from unis.runtime.launcher import start_launcher

def run(parent):
    {run}

said = []
code = start_launcher(run, said.append)
print(json.dumps([code, said, os.getsid(0)]))
"""


def started(run: str, *words: str) -> tuple[int, list[str], int]:
    """The exit code, what was reported, and the session of who called."""
    # Not in this process, which may have threads.
    done = subprocess.run(
        [sys.executable, "-P", "-c", _START.format(run=run), *words],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    code, said, session = json.loads(done.stdout)
    return code, said, session


def test_one_that_fails_says_why() -> None:
    code, said, _ = started("parent.report('starting'); 1 / 0")
    assert code == 1
    assert said[0] == "starting"
    assert said[1].endswith("ZeroDivisionError: division by zero\n")


def test_one_that_runs_lets_the_command_end_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "went-on"
    run = (
        "parent.report('it runs'); parent.finish(0); "
        "open(sys.argv[1], 'w').write(str(os.getsid(0)) + ' whole'); os.rename(sys.argv[1], "
        "sys.argv[1] + '.done')"
    )
    code, said, session = started(run, str(file))
    assert (code, said) == (0, ["it runs"])
    done = file.with_name("went-on.done")
    while not done.exists():  # the time limit of the test ends it
        time.sleep(0.02)
    assert done.read_text() not in ("", f"{session} whole"), "a session of its own"


def test_it_keeps_nothing_of_who_called(tmp_path: Path) -> None:
    file = tmp_path / "open"
    file.touch()
    run = (
        "ends = [os.readlink(one) for one in Path('/proc/self/fd').iterdir() if one.exists()]; "
        "parent.report(json.dumps(ends)); parent.finish(0)"
    )
    kept = _START.replace("said = []", "kept = open(sys.argv[1])\nsaid = []").format(run=run)
    done = subprocess.run(
        [sys.executable, "-P", "-c", kept, str(file)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    _, (ends,), _ = json.loads(done.stdout)
    assert str(file) not in ends
    null, also_null, *pipes = sorted(json.loads(ends))
    assert null == also_null == "/dev/null", "input and output"
    assert [pipe.partition(":")[0] for pipe in pipes] == ["pipe", "pipe"], "error, and its word"


@pytest.mark.parametrize("closed", ["2", "1 2", "0 1 2"])
def test_it_goes_on_where_who_called_has_no_terminal(tmp_path: Path, closed: str) -> None:
    file = tmp_path / "went-on"
    run = "parent.report('it runs'); parent.finish(0); print('x', file=sys.stderr); "
    run += "open(sys.argv[1], 'w').write('whole')"
    code = _START.format(run=run).rpartition("print(")[0] + "sys.exit(code)"
    close = " ".join(f"{number}>&-" for number in closed.split())
    subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {close}', "sh", sys.executable, "-P", "-c", code, str(file)],
        check=True, timeout=60,
    )  # fmt: skip
    while not (file.exists() and file.read_text() == "whole"):
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_signal_is_lost_while_it_begins(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "ran"
    run = "import time; time.sleep(2); open(sys.argv[1], 'w')"
    struck = f"""
os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})  # the launcher has not begun
fork = os.fork
def struck():
    pid = fork()
    if pid:
        os.kill(os.getpid(), {int(number)})
    return pid
os.fork = struck
said = []"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _START.format(run=run).replace("said = []", struck), file],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    code, said, _ = json.loads(done.stdout)
    assert (code, said) == (128 + number, ["interrupted: stopping the run"])
    assert not file.exists(), "it was ended before it ran"
    assert done.stderr == ""


@pytest.mark.parametrize("before", ["pass", "os.write(parent._stream.fileno(), b'{\"rep')"])
def test_one_that_is_killed_leaves_a_sentence(before: str) -> None:
    code, said, _ = started(f"{before}; os.kill(os.getpid(), 9)")
    assert (code, said) == (1, ["the launcher was killed by signal 9; see `unis ps`"])


@pytest.mark.parametrize(
    "struck",
    [
        """
def struck():
    os.kill(os.getpid(), 15)
    raise OSError
os.fork = struck""",
        """
wait = os.waitpid
def struck(*words):
    ended = wait(*words)
    os.kill(os.getpid(), 15)
    return ended
os.waitpid = struck""",
    ],
    ids=["before it is there", "after it has ended"],
)
def test_a_signal_while_there_is_no_launcher(struck: str) -> None:
    code = _START.replace("said = []", f"{struck}\nsaid = []").format(run="os._exit(1)")
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout)[:2] == [128 + 15, ["interrupted: stopping the run"]]

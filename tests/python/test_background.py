"""Functions that go into the background, and functions that have a terminal."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.python.place import Place, wait_for
from tests.python.test_live import kill, log, row, write
from unis.runtime import child
from unis.runtime.child import Command, start

pytestmark = pytest.mark.system

# What the process that goes on leaves a note of.
NOTE = "echo $$ >noted; exec sleep 1000"


def noted(place: Place) -> int:
    return int((place.folder / "noted").read_text())


@pytest.mark.parametrize(
    "script",
    [
        f"sh -c '{NOTE}' &",
        f"setsid sh -c '{NOTE}' & sleep 0.2",
        f"( ( setsid sh -c '{NOTE}' & ) & )",
    ],
    ids=["at once", "after a while", "it forks twice"],
)
def test_one_that_goes_into_the_background_is_followed(place: Place, script: str) -> None:
    place.program("functions/daemon", script)
    place.unis("up", write(place, a={"program": "daemon", "restart": "on-failure"}), "-d")
    before = row(place)["functions"]["a"]
    assert before == noted(place)
    assert "a goes on in the background" in log(place)
    kill(place, "a")
    last = f"{before}\n"

    def is_followed() -> bool:
        now = (place.folder / "noted").read_text()
        return now != last and now == f"{row(place)['functions']['a']}\n"

    wait_for(is_followed)
    assert "was killed by signal 9" in log(place)
    place.unis("down", "live")
    assert not Path(f"/proc/{noted(place)}").exists()
    place.assert_nothing_left()


@pytest.mark.parametrize("code", [0, 1])
def test_how_it_ends_is_heard_as_of_any_other(place: Place, code: int) -> None:
    place.program("functions/ends", f"while ! [ -e now ]; do sleep 0.02; done; exit {code}")
    place.program("functions/daemon", f"{place.folder}/build/functions/ends &")
    place.unis("up", write(place, a={"program": "daemon", "restart": "on-failure"}), "-d")
    (place.folder / "now").touch()
    again = "restarts in"
    wait_for(lambda: (again if code else "one is down: restart of a") in log(place))
    assert f"exited with code {code}" in log(place)
    assert (again in log(place)) == (code != 0)


def test_what_a_process_that_it_leaves_behind_leaves_ends_too(place: Place) -> None:
    """A monitor with a worker: the worker is ours only once the monitor is dead."""
    place.program("functions/worker", "exec sleep 1000")
    place.program(
        "functions/monitor", f"{place.folder}/build/functions/worker & echo $! > worker; wait"
    )
    place.program(
        "functions/ends",
        f"{place.folder}/build/functions/monitor & while ! [ -s worker ]; do sleep 0.02; done; "
        "while ! [ -e now ]; do sleep 0.02; done; exit 1",
    )
    place.unis("up", write(place, a={"program": "ends"}), "-d")
    worker = int((place.folder / "worker").read_text())
    (place.folder / "now").touch()
    wait_for(lambda: "one is down: restart of a" in log(place))
    wait_for(lambda: not Path(f"/proc/{worker}").exists())


def test_nobody_knows_which_of_two_is_the_function(place: Place) -> None:
    place.program("functions/daemon", "sleep 1000 & sleep 1000 &")
    said = place.unis("up", write(place, a={"program": "daemon"}), "-d", code=1)
    assert "exited and left several" in said
    place.assert_nothing_left()


def test_a_launcher_that_is_killed_leaves_nothing_in_the_background(place: Place) -> None:
    place.program("functions/daemon", f"setsid sh -c '{NOTE}' &")
    place.unis("up", write(place, a={"program": "daemon"}), "-d")
    os.kill(row(place)["launcher"]["pid"], signal.SIGKILL)
    place.assert_nothing_left()


def test_what_a_dead_function_leaves_behind_goes_with_it(place: Place) -> None:
    place.program("functions/parent", f"sh -c '{NOTE}' & exec sleep 1000")
    place.unis("up", write(place, a={"program": "parent"}), "-d")
    wait_for((place.folder / "noted").exists)
    kill(place, "a")
    wait_for(lambda: not Path(f"/proc/{noted(place)}").exists())
    assert row(place)["functions"]["b"]


TALKS = """[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo "is a terminal of $(stty size)"
while read line; do echo "heard $line"; done; echo "end of input"; exec sleep 1000"""


def talker(place: Place, **more: Any) -> Path:
    """A run of one function that repeats what it is told."""
    place.program("talker", TALKS)
    command = [str(place.folder / "build/talker"), "{eal}"]
    content = {
        "apiVersion": "unis/v1",
        "name": "live",
        "functions": {"a": {"command": command, "cpu": 1, "cost_ns": 50, **more}},
        "chains": {"one": {"path": ["a"]}},
    }
    path = place.folder / "live.yaml"
    path.write_text(json.dumps(content))
    return path


def of_function(place: Place) -> str:
    return place.unis("logs", "live", "a")


def test_a_terminal_is_one_and_what_is_typed_comes_in(place: Place) -> None:
    lines = [f"line {number}" for number in range(5000)]  # more than a terminal holds
    file = talker(place, terminal=True, stdin="\n".join([*lines, "the end", ""]))
    place.unis("up", file, "-d")
    wait_for(lambda: "heard the end" in of_function(place))
    said = of_function(place)
    assert "is a terminal of 24 80" in said
    assert [line for line in said.splitlines() if "heard line" in line] == [
        f"heard {line}" for line in lines
    ], "each once: nothing is echoed, lost, or ends in a carriage return"
    assert "end of input" not in said, "it stays open"
    pid = row(place)["functions"]["a"]
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    assert stat[4] == "0", "no signal comes from it, for it is no controlling terminal"
    place.unis("down", "live")
    place.assert_nothing_left()


def test_without_one_there_is_none(place: Place) -> None:
    place.unis("up", talker(place, stdin="hello\n"), "-d")
    wait_for(lambda: "heard hello" in of_function(place))
    assert "is a terminal" not in of_function(place)


def test_what_is_typed_has_its_bounds(place: Place) -> None:
    said = place.unis("up", talker(place, stdin="x" * 70000), "-d", code=2)
    assert "functions.a.stdin: has 70000 bytes, and a program is told 65536 at most" in said
    said = place.unis("up", talker(place, terminal=True, stdin="x" * 5000), "-d", code=2)
    assert "has a line of 5000 bytes, and a terminal takes 4095 at most" in said


def test_last_words_said_to_a_terminal_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = child._relay

    def late(*words: Any) -> None:
        time.sleep(0.3)
        relay(*words)

    monkeypatch.setattr(child, "_relay", late)
    command = Command(["sh", "-c", "echo my last words"], terminal=True)
    ended = start("it", command, tmp_path / "log", "id")
    ended.process.wait()
    assert "my last words" in ended.last_words()

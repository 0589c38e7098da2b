"""The life of a run with an engine that carries no packets: whatever ends it, nothing is left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python.place import SECONDS, Place, wait_for
from unis.runtime.files import locked
from unis.runtime.process import ProcessId

pytestmark = pytest.mark.system

CALLS = ["Deploy", "Attach", "Estimate", "Start"]


def test_up_ps_restart_down(place: Place) -> None:
    place.unis("up", place.file(), "--wait", "--policy", "rr")
    (row,) = place.ps()
    assert (row["name"], row["phase"], row["policy"]) == ("life", "running", "rr")
    assert not place.called("Estimate"), "the scheduler finds the costs"
    assert "exact" in place.unis("account")
    chain = json.loads(place.unis("inspect"))["stats"]["chains"][0]
    assert chain["latency"]["value_ns"] == [1000]
    first = row["unisd"]
    assert "running under policy rr" in place.unis("restart")
    (row,) = place.ps()
    assert row["policy"] == "rr"
    assert row["unisd"] != first
    assert "7 delivered" in place.unis("down", "life.yaml")
    assert place.ps() == []
    place.assert_nothing_left()
    assert "starting unisd" in place.unis("logs", "life", "unis")


def test_two_at_once_of_one_name(place: Place) -> None:
    file = place.file()
    both = [place.start("up", file, "-d") for _ in range(2)]
    said = [process.communicate(timeout=SECONDS)[0] for process in both]
    assert sorted(process.returncode for process in both) == [0, 1], said
    assert "Traceback" not in "".join(said)
    assert [row["phase"] for row in place.ps()] == ["running"]


def test_two_at_once_of_two_names(place: Place) -> None:
    files = [place.file("one"), place.file("two")]
    both = [place.start("up", file, "-d") for file in files]
    said = [process.communicate(timeout=SECONDS)[0] for process in both]
    assert sorted(process.returncode for process in both) == [0, 1], said
    assert "in use by run" in "".join(said)


TWICE = """
import os, sys
from pathlib import Path
from unis.runtime.interrupts import interrupts
from unis.runtime.planning import plan_file
from unis.runtime.run import Options
from unis.runtime.running import running
for file in sys.argv[1:]:
    with interrupts() as switch, running(plan_file(Path(file)), Options(), print, switch):
        print("without", sorted({0, 1} - os.sched_getaffinity(0)), flush=True)
"""


def test_one_process_runs_two_chains_one_after_the_other(place: Place) -> None:
    files = [place.file("one"), place.file("two")]
    done = subprocess.run(
        [sys.executable, "-P", "-c", TWICE, *files],
        env=place.environment, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.stdout.count("without [1]") == 2, done.stdout + done.stderr


@pytest.mark.parametrize("call", CALLS)
def test_a_signal_during_each_call_of_the_engine(place: Place, call: str) -> None:
    process = place.start("up", place.file(cost="static"), FAKE_HANG=call)
    wait_for(lambda: place.called(call))
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=SECONDS)
    assert "Traceback" not in said
    assert process.returncode == 128 + signal.SIGTERM
    assert place.ps() == []
    place.assert_nothing_left()


@pytest.mark.parametrize("call", CALLS)
def test_an_engine_that_dies_in_each_call(place: Place, call: str) -> None:
    said = place.unis("up", place.file(cost="static"), "-d", code=1, FAKE_DIE=call)
    assert "unisd (pid" in said or "unisd does not answer" in said
    assert [row["phase"] for row in place.ps()] == ["failed"]
    place.assert_nothing_left()


def test_ps_tells_of_a_run_that_is_brought_up_again(place: Place) -> None:
    """Its engine finds no way to come up any more: the launcher tries and tries."""
    file = place.file()
    file.write_text(
        json.dumps({**json.loads(file.read_text()), "platform": {"restart": "on-failure"}})
    )
    place.unis("up", file, "-d")
    (row,) = place.ps()
    launcher = ProcessId.of(row["launcher"]["pid"])
    assert not row["comes_again"]
    place.program("engine/unisd", "exit 1")
    os.kill(row["unisd"]["pid"], signal.SIGKILL)
    wait_for(lambda: [row["comes_again"] for row in place.ps()] == [True])
    logs = place.folder / "run" / "ended"
    wait_for(lambda: logs.exists() and len(list(logs.iterdir())) == 2)
    wait_for(lambda: "failed, and is brought up again (`unis down life`" in place.unis("ps"))
    place.unis("down", "life")
    wait_for(lambda: ProcessId.of(row["launcher"]["pid"]) != launcher)
    assert place.ps() == []


@pytest.mark.parametrize(
    ("code", "again"),
    [
        ("FAILED_PRECONDITION", True),
        ("RESOURCE_EXHAUSTED", True),
        ("UNAVAILABLE", True),
        ("NOT_FOUND", True),
        ("INVALID_ARGUMENT", False),
    ],
)
def test_a_refusal_after_a_restart_ends_the_run_only_if_the_file_is_wrong(
    place: Place, code: str, again: bool
) -> None:
    file = place.file()
    file.write_text(
        json.dumps({**json.loads(file.read_text()), "platform": {"restart": "on-failure"}})
    )
    refuse = place.folder / "refuse"
    place.unis("up", file, "-d", FAKE_REFUSE_ONCE=str(refuse))
    (row,) = place.ps()
    launcher = ProcessId.of(row["launcher"]["pid"])
    refuse.write_text(code)
    os.kill(row["unisd"]["pid"], signal.SIGKILL)
    wait_for(lambda: not refuse.exists())
    if again:
        wait_for(lambda: bool((now := place.ps()) and now[0]["phase"] == "running"))
        place.unis("down", "life")
    else:
        wait_for(lambda: ProcessId.of(row["launcher"]["pid"]) != launcher)
        assert "not now" in place.unis("ps")


@pytest.mark.parametrize(
    ("code", "exit_code"), [("RESOURCE_EXHAUSTED", 1), ("INVALID_ARGUMENT", 2)]
)
def test_the_exit_code_of_a_refused_deployment(place: Place, code: str, exit_code: int) -> None:
    """docs/unis@.service starts a run again after 1, and not after 2."""
    refuse = place.folder / "refuse"
    refuse.write_text(code)
    said = place.unis("up", place.file(), code=exit_code, FAKE_REFUSE_ONCE=str(refuse))
    # What is wrong with the file is told, and nothing was started that could tell more.
    assert ("the logs are kept: `unis logs life`" in said) == (exit_code == 1)
    assert [row["phase"] for row in place.ps()] == ["failed"] * (exit_code == 1)
    assert "not now" in place.unis("logs", "life")


@pytest.mark.parametrize(
    "words", [["down"], ["down", "life"], ["down", "--all"], ["ps"], ["ps", "life"]], ids=" ".join
)
def test_a_run_that_is_just_being_noted_again_is_found(place: Place, words: list[str]) -> None:
    """Its launcher has put the last one's folder away, and has not yet made the next."""
    place.unis("up", place.file(), "-d")
    noted, away = place.folder / "run/runs/life", place.folder / "away"
    with locked(place.folder / "run/lock"):
        noted.rename(away)
        command = place.start(*words)
        with pytest.raises(subprocess.TimeoutExpired):
            command.wait(1.0)
        away.rename(noted)
    said, _ = command.communicate(timeout=SECONDS)
    assert command.returncode == 0, said
    assert "life: " in said
    place.unis("down", "--all")
    assert place.ps() == []
    place.assert_nothing_left()


@pytest.mark.parametrize("victim", ["launcher", "unisd", "a", "launcher and guard"])
def test_a_killed_process_takes_the_run_with_it(place: Place, victim: str) -> None:
    place.unis("up", place.file(), "-d")
    (row,) = place.ps()
    victims = [row["launcher"]["pid"]] if "launcher" in victim else []
    victims += [row["functions"]["a"]] if victim == "a" else []
    victims += [row["unisd"]["pid"]] if victim == "unisd" else []
    if "guard" in victim:
        state = json.loads((place.folder / "run/runs/life/state.json").read_text())
        victims.append(state["guard"]["pid"])
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    if "guard" in victim:
        wait_for(lambda: [row["phase"] for row in place.ps()] == ["stale"])
        said = place.unis("up", place.file(), "-d")
        assert "cleaning up after run `life`" in said, "though its CPU was kept off"
        place.unis("down")
    place.assert_nothing_left()


@pytest.mark.parametrize("words", [[], ["--wait"]], ids=["here", "detached"])
def test_a_second_signal_makes_it_hurry(place: Place, words: list[str]) -> None:
    hang = {"FAKE_HANG": "Stop", "FAKE_STUBBORN": "1", "FAKE_DRY": "1"}
    process = place.start("up", place.file(), *words, **hang)
    wait_for(lambda: place.called("Start"))
    wait_for(lambda: [row["phase"] for row in place.ps()] == ["running"])
    process.send_signal(signal.SIGINT)
    wait_for(lambda: place.called("Stop"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SECONDS)
    assert place.ps() == []
    assert not place.called("StopWaitedFor")


def test_a_function_that_dies_is_told_with_its_last_words(place: Place) -> None:
    said = place.unis("up", place.file(program="dies", function="slow"), "-d", code=1)
    assert "function slow (pid" in said
    assert "last words" in said
    assert "last words" in place.unis("logs", "life", "slow")


@pytest.mark.parametrize(("function", "code"), [("slow", 2), ("a", 1)])
def test_exit_code_2_is_bad_input_only_while_a_chain_starts(
    place: Place, function: str, code: int
) -> None:
    """A Go program that panics ends with it too; systemd shall bring it up again."""
    process = place.start("up", place.file(program="panics", function=function))
    ready = "Attach" if code == 2 else "Start"
    wait_for(lambda: place.called(ready))
    if code == 1:
        wait_for(lambda: [row["phase"] for row in place.ps()] == ["running"])
    (place.folder / "now").touch()
    said, _ = process.communicate(timeout=SECONDS)
    assert "exited with code 2" in said
    assert process.returncode == code


def test_the_engines_words_on_a_function_that_does_not_poll(place: Place) -> None:
    said = place.unis("up", place.file(function="mute"), "-d", code=1)
    assert said.strip().splitlines()[-1] == "mute does not poll"


def test_clean_up_that_fails_in_the_background_is_told(place: Place) -> None:
    place.unis("up", place.file(), "-d")
    stuck = Path("/dev/hugepages/unis-lifemap_0")
    stuck.mkdir()
    try:
        said = place.unis("down", code=1)
        assert str(stuck) in said
        (row,) = place.ps()
        assert row["problems"]
        assert place.unis("ps", code=1)
        assert "starting unisd" in place.unis("logs", "life", "unis")
    finally:
        stuck.rmdir()
    place.unis("down")
    assert place.ps() == []


def test_a_chain_that_does_not_deliver_in_time_is_given_up(place: Place) -> None:
    said = place.unis("up", place.file(), "--wait", "--timeout", "3", code=1, FAKE_DRY="1")
    assert "run `life` did not come up within 3 s" in said
    place.assert_nothing_left()


def test_root_imports_nothing_from_the_current_folder(place: Place) -> None:
    for name in ("grpc.py", "json.py", "unis.py", "sitecustomize.py"):
        (place.folder / name).write_text("open('ran', 'w')\n")
    place.unis("up", place.file(), "-d")
    assert not (place.folder / "ran").exists()


def test_ps_goes_on_while_an_engine_hangs(place: Place) -> None:
    place.unis("up", place.file(), "-d", FAKE_HANG="GetStats")
    said = place.unis("ps", code=1)
    assert "did not answer GetStats" in said
    assert "did not answer GetStats" in place.unis("inspect", code=1)


def test_top_takes_the_difference_of_what_it_watched(place: Place) -> None:
    place.unis("up", place.file(), "-d")
    assert "life: policy unis" in place.unis("top", "--count", "2", "--interval", "0.1")
    lines = place.unis("top", "--count", "2", "--interval", "0.1", "--json").splitlines()
    assert [json.loads(line)["run"] for line in lines] == ["life", "life"]

"""What happens to a run while it lives, with an engine that carries no packets: functions die and
come back, files are applied. What the packets have of it, tests/e2e/test_live.py tells.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.python.place import SECONDS, Place, wait_for
from unis.runtime.errors import LaunchError
from unis.runtime.requests import SupervisorClient
from unis.v1 import supervisor_pb2 as pb

pytestmark = pytest.mark.system

ALIVE = ["a", "b"]


def write(place: Place, *, name: str = "live", **parts: Any) -> Path:
    """Two chains with a function each; `parts` stand in for those of a function or the file."""
    functions = {key: {"program": "sleeper", "cpu": 1} for key in ALIVE}
    for key in [key for key in parts if key in functions]:
        functions[key] |= parts.pop(key)
    content = {
        "apiVersion": "unis/v1",
        "name": name,
        "functions": functions,
        "chains": {"one": {"match": [{"dst_port": 80}], "path": ["a"]}, "two": {"path": ["b"]}},
        **parts,
    }
    path = place.folder / "live.yaml"
    path.write_text(json.dumps(content))
    return path


def with_third(place: Place, **more: Any) -> Path:
    """The same and a chain of a third function."""
    functions = {key: {"program": "sleeper", "cpu": 1} for key in (*ALIVE, "c")}
    functions["c"] |= more
    chains = {
        "one": {"match": [{"dst_port": 80}], "path": ["a"]},
        "three": {"match": [{"dst_port": 53}], "path": ["c"]},
        "two": {"path": ["b"]},
    }
    return write(place, functions=functions, chains=chains)


def row(place: Place) -> dict[str, Any]:
    (found,) = place.ps()
    return found


def kill(place: Place, function: str) -> int:
    pid: int = row(place)["functions"][function]
    os.kill(pid, signal.SIGKILL)
    return pid


def log(place: Place) -> str:
    return place.unis("logs", "live", "unis")


def test_a_dead_function_takes_its_chain_down_and_no_other(place: Place) -> None:
    place.unis("up", write(place), "-d")
    kill(place, "a")
    wait_for(lambda: "a" in row(place)["exited"])
    now = row(place)
    assert now["phase"] == "running"
    assert now["exited"] == {"a": "was killed by signal 9"}
    assert now["functions"]["a"] is None
    assert now["functions"]["b"]
    assert place.called("Detach-a")
    said = place.unis("ps", "live")
    assert "exited" in said
    assert "was killed by signal 9" in said
    kill(place, "b")
    wait_for(lambda: row(place)["phase"] == "failed")
    assert "function b (pid" in row(place)["reason"]
    place.assert_nothing_left()


def has_come_back(place: Place, function: str, times: int) -> bool:
    """So often."""
    return log(place).count(f"{function} runs again") == times


def test_a_function_comes_back_and_its_deaths_are_counted(place: Place) -> None:
    place.unis("up", write(place, a={"restart": "on-failure"}), "-d")
    seen = set()
    for deaths in (1, 2):
        seen.add(kill(place, "a"))
        wait_for(partial(has_come_back, place, "a", deaths))
        assert row(place)["functions"]["a"] not in (None, *seen)
        assert row(place)["restarts"]["a"] == deaths
        assert row(place)["exited"] == {}
    assert "restarts in 0.2 s" in log(place)
    assert place.calls.read_text().split().count("Attach") == 4
    state = json.loads((place.folder / "run/runs/live/state.json").read_text())
    assert len(state["functions"]) == 2, "the dead are replaced"


@pytest.mark.parametrize("code", [0, 1])
def test_a_function_that_ends_by_itself_with_code_0_is_let_go(
    place: Place,
    code: int,
) -> None:
    place.program("functions/ends", f"while ! [ -e now ]; do sleep 0.02; done; exit {code}")
    place.unis("up", write(place, a={"program": "ends", "restart": "on-failure"}), "-d")
    (place.folder / "now").touch()
    wait_for(lambda: "exited with code" in log(place))
    assert ("restarts in" in log(place)) == (code != 0)


def test_a_variable_keeps_the_value_of_the_run_unless_it_is_set(place: Place) -> None:
    file = write(place, a={"args": ["${SPEED}"]})
    place.unis("up", file, "-d", SPEED="1")
    assert "live: nothing to change" in place.unis("apply", file)
    said = place.unis("apply", file, "--dry-run", SPEED="2")
    assert "the run had other values of these variables: SPEED" in said
    assert "started anew" in said
    place.unis("apply", file, SPEED="2")
    assert "live: nothing to change" in place.unis("apply", file)
    place.unis("restart", "live")
    assert "live: nothing to change" in place.unis("apply", file, SPEED="2")


def test_one_that_dies_again_and_again_is_waited_for_longer(place: Place) -> None:
    place.program("functions/ends", "while ! [ -e now ]; do sleep 0.02; done; exit 1")
    place.unis("up", write(place, a={"program": "ends", "restart": "on-failure"}), "-d")
    (place.folder / "now").touch()
    wait_for(lambda: "in 0.8 s" in log(place))
    assert row(place)["functions"]["b"]
    (place.folder / "now").unlink()
    wait_for(lambda: "a runs again" in log(place).splitlines()[-1])


def test_a_launcher_that_is_killed_while_a_function_comes_back_leaves_nothing(
    place: Place,
) -> None:
    place.unis("up", write(place, a={"restart": "on-failure"}), "-d", FAKE_SLOW_SECOND="1")
    kill(place, "a")
    wait_for(lambda: place.calls.read_text().split().count("Attach") == 3)
    os.kill(row(place)["launcher"]["pid"], signal.SIGKILL)
    place.assert_nothing_left()


def test_a_chain_is_added_and_removed_again(place: Place) -> None:
    first = write(place)
    place.unis("up", first, "-d")
    before = row(place)
    file = with_third(place)
    said = place.unis("apply", file, "--dry-run")
    assert "three" in said
    assert "added" in said
    assert row(place)["functions"] == before["functions"]
    assert not place.called("Apply")
    assert "2 changes" in place.unis("apply", file)
    now = row(place)
    assert [chain["name"] for chain in now["stats"]["chains"]] == ["one", "three", "two"]
    assert {key: now["functions"][key] for key in ALIVE} == before["functions"]
    pid = now["functions"]["c"]
    assert "nothing to change" in place.unis("apply", file)
    result = json.loads(place.unis("-q", "apply", write(place), "--json"))
    assert result["applied"]
    assert result["difference"]["ended"] == ["c"]
    assert row(place)["functions"] == before["functions"]
    assert not Path(f"/proc/{pid}").exists()
    calls = place.calls.read_text().split()
    assert calls.count("Apply") == 3, "a chain that goes is let run empty first"


def test_a_goal_that_the_rings_that_are_there_do_not_keep_is_told(place: Place) -> None:
    """A chain that runs keeps its rings."""
    place.unis("up", write(place), "-d")
    chains = {
        "one": {"match": [{"dst_port": 80}], "path": ["a"], "slo": {"p95_latency": "1us"}},
        "two": {"path": ["b"]},
    }
    for more in (["--dry-run"], []):
        said = place.unis("apply", write(place, chains=chains), *more)
        assert said.count("a p95 latency of 1us will not be kept") == 1
    result = json.loads(place.unis("-q", "apply", write(place, chains=chains), "--json"))
    assert result["notes"] == [], "told once"


def test_other_arguments_and_another_policy(place: Place) -> None:
    place.unis("up", write(place), "-d")
    before = row(place)["functions"]
    place.unis("apply", write(place, a={"args": ["x"]}, scheduler={"policy": "rr"}))
    now = row(place)
    assert now["policy"] == "rr"
    assert now["functions"]["a"] != before["a"]
    assert now["functions"]["b"] == before["b"]
    assert place.called("Detach-a")
    assert not place.called("Detach-b")


def test_a_dead_function_is_brought_back_by_the_same_file(place: Place) -> None:
    file = write(place)
    place.unis("up", file, "-d")
    kill(place, "a")
    wait_for(lambda: "a" in row(place)["exited"])
    assert "it ended" in place.unis("apply", file, "--dry-run")
    place.unis("apply", file)
    assert row(place)["exited"] == {}
    assert row(place)["functions"]["a"]


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        ("sleeper", "no room for slow"),
        ("dies", "last words"),
    ],
)
def test_what_fails_is_gone_back(
    place: Place,
    program: str,
    wanted: str,
) -> None:
    refuse = "slow" if program == "sleeper" else ""
    place.unis("up", write(place, b={"restart": "on-failure"}), "-d", FAKE_REFUSE=refuse)
    before = row(place)
    functions = {
        "b": {"program": "sleeper", "cpu": 1, "args": ["x"]},
        "slow": {"program": program, "cpu": 1},
    }
    chains = {"three": {"match": [{"dst_port": 53}], "path": ["slow"]}, "two": {"path": ["b"]}}
    code = 1  # the engine may have room another time
    said = place.unis("apply", write(place, functions=functions, chains=chains), code=code)
    assert wanted in said
    assert "the change was rolled back" in said
    now = row(place)
    assert [chain["name"] for chain in now["stats"]["chains"]] == ["one", "two"]
    assert set(now["functions"]) == {"a", "b"}
    assert None not in now["functions"].values()
    assert now["cpus"] == before["cpus"]
    kill(place, "b")  # it is looked after as before
    wait_for(lambda: row(place)["restarts"]["b"] == 1)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"platform": {"cpus": [1]}}, "traffic and scheduler need another"),
    ({"traffic": {"sink": {"kind": "port", "device": "net_null0"}}}, "traffic.sink stays"),
    ({"a": {"program": "no-such"}}, "there is no program `no-such`"),
    ({"a": {"cpu": 99}}, "CPU 99 does not exist here"),
]


def test_what_cannot_be_is_refused_and_changes_nothing(place: Place) -> None:
    place.unis("up", write(place), "-d")
    before = row(place)
    for parts, wanted in REFUSED:
        assert wanted in place.unis("apply", write(place, **parts), code=2)
    assert row(place)["functions"] == before["functions"]
    assert not place.called("Apply")


def test_an_apply_that_is_interrupted_goes_on(place: Place) -> None:
    place.program("functions/late", "sleep 1; exec sleep 1000")
    place.unis("up", write(place), "-d", FAKE_SLOW="Apply")
    process = place.start("apply", with_third(place))
    wait_for(lambda: place.called("Apply"))
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; the change goes on by itself" in said
    wait_for(lambda: "c" in row(place)["functions"])
    wait_for(lambda: "is applied" in log(place))


def test_a_run_in_the_foreground_is_changed_too(place: Place) -> None:
    process = place.start("up", write(place))
    wait_for(lambda: [it["phase"] for it in place.ps()] == ["running"])
    place.unis("apply", with_third(place))
    assert row(place)["functions"]["c"]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0


NONSENSE = [b"", b"{", b"GET / HTTP/1.1\r\n\r\n", b"x" * (2 << 20)]


def test_nonsense_on_its_socket_harms_nobody(place: Place) -> None:
    place.unis("up", write(place), "-d")
    path = requests(place)
    assert path.stat().st_mode & 0o777 == 0o600
    for words in NONSENSE:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(str(path))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(words)
                connection.shutdown(socket.SHUT_WR)
                connection.makefile("rb").read()
    assert row(place)["phase"] == "running"
    place.unis("apply", with_third(place))


def requests(place: Place) -> Path:
    (path,) = {*(place.folder / "run/runs/live").glob("*.sock")} - {
        place.folder / "run/runs/live/engine.sock"
    }
    return path


@pytest.mark.parametrize(
    ("wrong", "wanted"),
    [
        (pb.ApplyFileRequest(cpus=[0, 1]), "cannot be read"),
        (pb.ApplyFileRequest(file="a\0b", cpus=[0, 1]), "cannot be read"),
        (pb.ApplyFileRequest(file="live.yaml"), "CPU"),
    ],
)
def test_a_malformed_request_is_answered(
    place: Place, wrong: pb.ApplyFileRequest, wanted: str
) -> None:
    file = write(place)
    if wrong.file == "live.yaml":
        wrong = pb.ApplyFileRequest(file=str(file), cpus=wrong.cpus)
    place.unis("up", file, "-d")
    with (
        SupervisorClient(requests(place)) as supervisor,
        pytest.raises(LaunchError, match=wanted),
    ):
        supervisor.apply(wrong, print)
    assert row(place)["phase"] == "running"
    place.unis("apply", with_third(place))


def test_nul_in_a_file_is_refused_and_ends_nothing(place: Place) -> None:
    place.unis("up", write(place), "-d")
    for wrong in (write(place, a={"args": ["x\0y"]}), write(place, a={"env": {"A\0": "x"}})):
        assert "NUL" in place.unis("apply", wrong, code=2)
    assert row(place)["phase"] == "running"


FAULTY = """
from unis.runtime import child
start = child.start
def faulty(what, *words, **more):
    return start(what, *words, **more) if what != "function c" else 1 / 0
child.start = faulty
"""


def test_an_exception_that_is_no_unis_error_is_gone_back(place: Place, tmp_path: Path) -> None:
    """The launcher of this test cannot start function c, for a fault of its own."""
    (tmp_path / "sitecustomize.py").write_text(FAULTY)
    up = place.start("up", write(place), "-d", PYTHONPATH=str(tmp_path))
    said, _ = up.communicate(timeout=SECONDS)
    assert "Traceback" not in said, said
    assert up.returncode == 0, said
    before = row(place)
    said = place.unis("apply", with_third(place), code=1)
    assert "internal error: ZeroDivisionError" in said
    assert "the change was rolled back" in said
    assert "Traceback" in (place.folder / "run/runs/live/unis.log").read_text()
    now = row(place)
    assert now["phase"] == "running"
    assert now["functions"] == before["functions"]
    assert now["cpus"] == before["cpus"]
    kill(place, "b")  # the run is looked after as before
    wait_for(lambda: row(place)["functions"]["b"] is None)


def test_a_benchmark_s_run_takes_no_changes(place: Place) -> None:
    """It would measure another chain than it says."""
    code = (
        "import sys, time; from pathlib import Path\n"
        "from unis.runtime.interrupts import interrupts\n"
        "from unis.runtime.planning import plan_file\n"
        "from unis.runtime.run import Options\n"
        "from unis.runtime.running import running\n"
        "with interrupts() as switch:\n"
        "    with running(plan_file(Path(sys.argv[1])), Options(), print, switch):\n"
        "        time.sleep(1000)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code, write(place)], env=place.environment,
        stdout=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        wait_for(lambda: [it["phase"] for it in place.ps()] == ["running"])
        assert "takes no changes" in place.unis("apply", with_third(place), code=1)
        process.terminate()


AGAIN: dict[str, Any] = {"platform": {"restart": "on-failure"}}


def test_a_run_comes_again_with_its_engine(place: Place) -> None:
    place.unis("up", write(place, **AGAIN), "-d")
    before = row(place)
    wait_for(lambda: place.called("GetStats"))
    os.kill(before["unisd"]["pid"], signal.SIGKILL)
    wait_for(lambda: [it["phase"] for it in place.ps()] == ["running"] and row(place) != before)
    wait_for(lambda: row(place)["unisd"] not in (None, before["unisd"]))
    now = row(place)
    assert now["launcher"] == before["launcher"]
    assert not set(now["functions"].values()) & set(before["functions"].values())
    kill(place, "a")
    wait_for(lambda: "a" in row(place)["exited"])
    kill(place, "b")  # this is no death of the engine's
    wait_for(lambda: row(place)["phase"] == "failed")
    place.assert_nothing_left()


def test_down_ends_a_run_that_would_come_again(place: Place) -> None:
    place.unis("up", write(place, **AGAIN), "-d")
    os.kill(row(place)["unisd"]["pid"], signal.SIGKILL)
    place.unis("down", "--all")
    wait_for(lambda: not place.left(), lambda: str(place.left()))
    assert place.ps() == []


def test_a_run_that_does_not_come_again_at_first_is_tried_again(place: Place) -> None:
    place.unis("up", write(place, **AGAIN), "-d")
    before = row(place)
    engine = place.folder / "build/engine/unisd"
    good = engine.read_text()
    engine.write_text("#!/bin/sh\nexit 3\n")
    os.kill(before["unisd"]["pid"], signal.SIGKILL)
    wait_for(lambda: "exited with code 3" in (row(place)["reason"] or ""))
    engine.write_text(good)
    wait_for(lambda: row(place)["phase"] == "running")
    assert row(place)["launcher"] == before["launcher"]
    place.unis("down")
    place.assert_nothing_left()


def test_a_policy_set_later_outlives_the_engine_and_the_run(place: Place) -> None:
    place.unis("up", write(place, **AGAIN), "-d")
    place.unis("policy", "rr", "--controller", "signal")
    before = row(place)
    assert before["policy"] == "rr"
    os.kill(before["unisd"]["pid"], signal.SIGKILL)
    wait_for(lambda: [it["phase"] for it in place.ps()] == ["running"])
    wait_for(lambda: row(place)["unisd"] not in (None, before["unisd"]))
    wait_for(lambda: row(place)["policy"] == "rr")
    place.unis("restart", "live")
    assert row(place)["policy"] == "rr"
    state = json.loads((place.folder / "run/runs/live/state.json").read_text())
    assert (state["policy"], state["controller"]) == ("rr", "signal")


def test_a_run_of_which_nothing_comes_back_ends(place: Place) -> None:
    """b would, but connects to a, which does not."""
    command = {"program": None, "command": [str(place.folder / "build/functions/sleeper")],
               "cost_ns": 50}  # fmt: skip
    chains = {"one": {"match": [{"dst_port": 80}], "path": ["a", "b"]}, "two": {"path": ["b"]}}
    file = write(place, a=command, b={**command, "restart": "on-failure"}, chains=chains)
    place.unis("up", file, "-d")
    pids = row(place)["functions"]
    for name in ("b", "a"):
        os.kill(pids[name], signal.SIGKILL)
    wait_for(lambda: row(place)["phase"] == "failed")
    assert "b stays down with a" in row(place)["reason"]
    place.assert_nothing_left()

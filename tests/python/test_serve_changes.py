"""Changes over `unis serve` that need no run: what is refused, operations, dry runs, events."""

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.python.answering import answering, live_run
from tests.python.asgi import ask, runs_below, served
from tests.python.commands import stale_run
from tests.python.test_serve_objects import CHAIN, noted, some_stats
from unis.chain.document import read_document
from unis.runtime.asked import AskedRun
from unis.runtime.process import ProcessId
from unis.runtime.state import FunctionProcess, Phase, RunState
from unis.serve.desired import DesiredFiles
from unis.serve.events import Broker, SeenRun, happenings
from unis.serve.operations import Operation, OperationPhase, Operations
from unis.serve.problems import ApiError
from unis.v1 import engine_pb2 as pb

SECONDS = 60.0  # a bound, not an expectation
OBJECT = {
    "apiVersion": "unis/v1", "kind": "Run", "metadata": {"name": "a"},
    "spec": {"functions": {"fw": {"program": "macswap", "cpu": 1, "args": ["$x"]}},
             "chains": {"edge": {"path": ["fw"]}}},
}  # fmt: skip


@pytest.fixture(autouse=True)
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs_below(tmp_path, monkeypatch)


def folder(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "run" / "desired").iterdir())


@pytest.mark.parametrize(
    ("run", "body", "told"),
    [
        ("a", "name: a\n", "a:1: apiVersion"),
        ("b", CHAIN, "names the run `a`, and the path `b`"),
        ("a", "a: [", "is not YAML"),
        ("a", b"\xff\xfe", "UTF-8"),
        ("a", "", "is not a chain file"),
        ("-a", CHAIN, "invalid run name"),
        ("a", {**OBJECT, "metadata": {"name": "b"}}, "metadata.name is `b`"),
        ("a", {**OBJECT, "spec": 1}, "has `metadata` and, in `spec`"),
        ("a", {**OBJECT, "metadata": {"resourceVersion": 7}}, "resourceVersion"),
        ("a", CHAIN.replace("macswap", "'${SECRET_OF_SERVER}'"), "SECRET_OF_SERVER is not set"),
    ],
)
def test_what_is_no_chain_file_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str, body: Any, told: str
) -> None:
    monkeypatch.setenv("SECRET_OF_SERVER", "macswap")
    for query in ("", "?dryRun=All"):
        answer = ask(served(), "PUT", f"/v1/runs/{run}{query}", body)
        assert (answer.status, answer.data["reason"]) == (422, "Invalid")
        causes = [cause["message"] for cause in answer.data["details"]["causes"]]
        assert told in "\n".join([answer.data["message"], *causes])
        assert str(tmp_path) not in answer.body.decode()
    assert folder(tmp_path) == []


def test_bodies_that_are_too_large_or_of_another_kind(tmp_path: Path) -> None:
    app = served()
    large = ask(app, "PUT", "/v1/runs/a", b"#" * ((1 << 20) + 1))
    assert (large.status, large.data["reason"]) == (413, "RequestEntityTooLarge")
    other = ask(app, "PUT", "/v1/runs/a", CHAIN, content_type="application/xml")
    assert (other.status, other.data["reason"]) == (415, "UnsupportedMediaType")
    for query in ("dryRun=Some", "waitSeconds=31", "waitSeconds=nan", "waitSeconds=x"):
        assert ask(app, "PUT", f"/v1/runs/a?{query}", CHAIN).status == 422, query
    assert folder(tmp_path) == []


@pytest.mark.system
def test_a_dry_run_is_what_config_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNIS_BUILD", raising=False)
    app = served(cpus=tuple(os.sched_getaffinity(0)))
    answer = ask(app, "PUT", "/v1/runs/a?dryRun=All", CHAIN, content_type="application/yaml")
    if answer.status == 422:  # on one CPU
        assert "CPU" in answer.data["message"]
    else:
        assert (answer.status, answer.data["kind"]) == (200, "Plan")
        assert answer.data["result"]["name"] == "a"
        planned = ask(app, "POST", "/v1/plans", CHAIN)
        assert planned.data["metadata"] == {"name": "a"}
        assert planned.data["result"]["functions"] != []
    assert folder(tmp_path) == []


def test_changes_of_runs_that_are_not_there_or_not_settled(tmp_path: Path) -> None:
    live_run(tmp_path, "early", phase=Phase.STARTING)
    app = served()
    text = CHAIN.replace("name: a", "name: early")
    busy = ask(app, "PUT", "/v1/runs/early", text)
    assert (busy.status, busy.data["reason"]) == (409, "Conflict")
    changes: list[tuple[str, str, str | dict[str, str]]] = [
        ("DELETE", "/v1/runs/none", ""), ("POST", "/v1/runs/none/restart", ""),
        ("PUT", "/v1/runs/none/policy", {"policy": "rr"}), ("POST", "/v1/runs/none/account", ""),
        ("DELETE", "/v1/runs/none/functions/f", ""), ("DELETE", "/v1/operations/none", ""),
        ("DELETE", "/v1/runs/early/functions/--all", ""),
    ]  # fmt: skip
    for method, path, body in changes:
        assert ask(app, method, path, body).status == 404, path
    wrong = ask(app, "PUT", "/v1/runs/early/policy", {"policy": "best"})
    assert (wrong.status, "there are unis" in wrong.data["message"]) == (422, True)


def test_who_has_not_seen_the_last_change_is_refused(tmp_path: Path) -> None:
    app = served()
    with answering(tmp_path, "a", some_stats, **noted(tmp_path)):
        seen = ask(app, "GET", "/v1/runs/a").data["metadata"]["resourceVersion"]
        (tmp_path / "chain.yaml").write_text(CHAIN + "\n")
        stale = {**OBJECT, "metadata": {"name": "a", "resourceVersion": seen}}
        assert ask(app, "PUT", "/v1/runs/a", stale).status == 409
        assert ask(app, "PUT", "/v1/runs/a", CHAIN, if_match=f'"{seen}"').status == 412
    assert ask(app, "PUT", "/v1/runs/b", CHAIN.replace("name: a", "name: b"), if_match="*"
               ).status == 412  # fmt: skip


# ------------------------------------------------------------------ files and objects

names = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
values = st.one_of(st.integers(0, 9), st.text(st.characters(codec="utf-8", exclude_characters="\0"),
                                              max_size=9))  # fmt: skip


@given(args=st.lists(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]),
                             min_size=1, max_size=9), max_size=3))  # fmt: skip
def test_an_object_comes_back_as_it_was_sent(
    tmp_path_factory: pytest.TempPathFactory, args: list[str]
) -> None:
    """Also where values have what YAML or variables would take for something else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNIS_RUN_DIR", str(tmp_path_factory.mktemp("r") / "run"))
        files = DesiredFiles()
        files.make()
        functions = {"fw": {"program": "macswap", "cpu": 1, "args": args}}
        body = json.dumps({**OBJECT, "spec": {**OBJECT["spec"], "functions": functions}})  # type: ignore[dict-item]
        with files.sent("a", body.encode(), {}) as sent:
            data = read_document(sent.path, {}).data
    assert data["functions"] == functions
    assert data["name"] == "a"


# ------------------------------------------------------------------ operations


def operations(told: list[tuple[str, str]] | None = None) -> Operations:
    note = told if told is not None else []
    return Operations(os.sched_getaffinity(0), lambda one: note.append((one.verb, one.phase)))


def test_an_operation_is_a_command() -> None:
    told: list[tuple[str, str]] = []
    known = operations(told)
    done = known.begin(["version", "--json"], "", changes=False)
    assert done.wait(SECONDS)
    assert (done.phase, done.code, [*done.result]) == (OperationPhase.SUCCEEDED, 0, ["unis"])
    failed = known.begin(["config", "/none.yaml", "--json"], "", changes=False)
    assert failed.wait(SECONDS)
    assert (failed.phase, failed.code) == (OperationPhase.FAILED, 2)
    assert "none.yaml" in failed.lines()[-1]
    assert told == [("version", "Running"), ("version", "Succeeded"),
                    ("config", "Running"), ("config", "Failed")]  # fmt: skip
    assert [one.name for one in known.all()] == [done.name, failed.name]


def test_one_change_of_a_run_at_a_time_and_it_can_be_cancelled(tmp_path: Path) -> None:
    known = operations()
    waits, asked_for = threading.Event(), threading.Event()

    def stats() -> pb.Stats:
        asked_for.set()
        waits.wait(SECONDS)
        return some_stats()

    with answering(tmp_path, "a", stats):
        slow = known.begin(["inspect", "a"], "a", changes=True)  # till its engine answers
        with pytest.raises(ApiError, match=f"operation {slow.name}"):
            known.begin(["inspect", "a"], "a", changes=True)
        assert known.begin(["version"], "a", changes=False).wait(SECONDS)
        assert known.begin(["version"], "b", changes=True).wait(SECONDS)
        process = slow._process
        assert process
        # Not before it can hear it.
        assert asked_for.wait(SECONDS)
        slow.cancel()
        assert slow.wait(SECONDS)
        waits.set()
    assert slow.phase == OperationPhase.CANCELLED
    assert known.begin(["version"], "a", changes=True).wait(SECONDS)


def test_old_operations_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unis.serve.operations._KEPT", 2)
    known = operations()
    begun = [known.begin(["version"], "", changes=False) for _ in range(4)]
    assert all(one.wait(SECONDS) for one in begun)
    assert len(known.all()) == 2


# ------------------------------------------------------------------ events


def asked(tmp_path: Path, *, stats: pb.Stats | None = None, **more: Any) -> AskedRun:
    live_run(tmp_path, "a", **more)
    from unis.runtime.directory import all_runs

    (found,) = [state for _, state in all_runs() if state.name == "a"]
    assert isinstance(found, RunState)
    return AskedRun(found, stats)


def reasons(before: AskedRun | None, after: AskedRun | None) -> list[tuple[str, bool]]:
    looks = [{"a": SeenRun(one)} if one else {} for one in (before, after)]
    return [(one.reason, one.bad) for one in happenings(*looks)]


def test_what_is_told_of_a_run(tmp_path: Path) -> None:
    fw = FunctionProcess("fw", 1, ProcessId.me())
    goals = {"edge": 3e6}
    up = asked(tmp_path, stats=some_stats(), functions=[fw], goals_ns=goals)
    down_stats = some_stats()
    down_stats.chains[0].down = "fw was killed"
    down_stats.chains[0].latency.count[1] = 90
    down_stats.chains[0].latency.value_ns[1] = 4_000_000
    ended = FunctionProcess("fw", 1, ProcessId.me(), ended="was killed by signal 9")
    down = asked(tmp_path, stats=down_stats, functions=[ended], goals_ns=goals)
    again = FunctionProcess("fw", 1, ProcessId.me(), restarts=1)
    mended = asked(tmp_path, stats=some_stats(), functions=[again], goals_ns=goals)
    failed = asked(tmp_path, phase=Phase.FAILED, reason="unisd died")
    assert reasons(None, up) == [("RunAdded", False)]
    assert reasons(up, up) == []
    assert reasons(up, down) == [
        ("FunctionEnded", True), ("ChainDown", True), ("PromiseBroken", True),
    ]  # fmt: skip
    assert reasons(down, mended) == [
        ("FunctionRestarted", True), ("ChainUp", False), ("PromiseKept", False),
    ]  # fmt: skip
    assert reasons(up, failed)[0] == ("PhaseChanged", True)
    assert reasons(up, None) == [("RunRemoved", False)]
    other = asked(tmp_path, stats=some_stats(), run_id="another")
    assert reasons(up, other) == [("RunAdded", False)]


def test_who_comes_again_gets_what_was_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unis.serve.events._STREAM_SECONDS", 0.2)
    broker = Broker(list)
    for verb in ("up", "down"):
        operation = Operation(verb, "a")
        broker.operation(operation)

    async def stream(after: int | None) -> list[str]:
        parts = [part.decode() async for part in broker.stream(after)]
        return [part.partition("\n")[0] for part in parts if part.startswith("id: ")]

    assert asyncio.run(stream(0)) == ["id: 1", "id: 2"]
    assert asyncio.run(stream(1)) == ["id: 2"]
    assert asyncio.run(stream(None)) == []
    assert asyncio.run(stream(99)) == []  # of a server before: begin anew


def test_a_stale_run_can_be_looked_at(tmp_path: Path) -> None:
    stale_run(tmp_path, "a", phase=Phase.RUNNING)
    functions = ask(served(), "GET", "/v1/functions").data["items"]
    assert all(one["status"]["pid"] is None for one in functions)

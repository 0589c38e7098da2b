"""Runs as objects: what they tell, and that all of it is what `/metrics` tells."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.python.answering import answering, live_run
from tests.python.asgi import ask, runs_below, served
from tests.python.commands import stale_run
from unis.counters.metric import MetricKind
from unis.counters.samples import samples
from unis.runtime.process import ProcessId
from unis.runtime.state import FunctionProcess, Phase
from unis.serve.objects import RunObject, Transitions, counters
from unis.v1 import engine_pb2 as pb

CHAIN = """apiVersion: unis/v1
name: a
functions:
  fw: {program: macswap, cpu: 1}
chains:
  edge: {path: [fw], slo: {p95_latency: 1ms}}
"""


def some_stats(run: str = "a") -> pb.Stats:
    """Of a chain of two functions."""
    latency = pb.ChainStats().latency
    latency.value_ns.extend([100_000, 2_000_000])
    latency.count.extend([90, 10])
    link = pb.LinkStats(name="edge.0", packets=8, capacity=16)
    return pb.Stats(
        run=run,
        chains=[pb.ChainStats(name="edge", functions=["fw", "nat"], offered=120, delivered=100,
                              latency=latency, dropped_ingress_full=20)],
        functions=[
            pb.FunctionStats(name="fw", cpu=1, pid=7, switched_in=5, time=pb.FunctionTime(
                busy_ns=10, spinning_ns=20, run_delay_ns=30, blocked_ns=40),
                paths=[pb.PathStats(chain="edge", ingress=link, rx_packets=3, received_known=True)])
        ],
        cores=[pb.CoreStats(cpu=1, switches=9)],
        account=pb.Account(offered=120, delivered=100),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs_below(tmp_path, monkeypatch)


def noted(tmp_path: Path, text: str = CHAIN) -> dict[str, Any]:
    """What a run that is up notes of its file."""
    from unis.chain.document import digest_of

    file = tmp_path / "chain.yaml"
    file.write_text(text)
    fw = FunctionProcess("fw", 1, ProcessId.me(), restarts=2)
    return {
        "chain_file": str(file), "digest": digest_of(text), "functions": [fw], "cpus": [1],
        "goals_ns": {"edge": 1e6}, "generation": 3,
    }  # fmt: skip


def test_a_run_and_its_parts(tmp_path: Path) -> None:
    app = served()
    with answering(tmp_path, "a", some_stats, **noted(tmp_path)):
        run = ask(app, "GET", "/v1/runs/a").data
        lists = {
            kind: ask(app, "GET", f"/v1/{kind}").data
            for kind in ("runs", "chains", "functions", "links", "cores", "promises")
        }
        for kind, found in lists.items():
            (item,) = found["items"]
            name = item["metadata"]["name"]
            one = ask(
                app, "GET", f"/v1/runs/{name}" if kind == "runs" else f"/v1/runs/a/{kind}/{name}"
            )
            assert one.data == item, kind
    assert run["spec"]["chains"]["edge"]["path"] == ["fw"]
    assert (run["metadata"]["generation"], run["status"]["observedGeneration"]) == (3, 3)
    held = {one["type"]: (one["status"], one["reason"]) for one in run["status"]["conditions"]}
    assert held == {"Ready": ("True", "Running"), "Applied": ("True", "SpecApplied")}
    items = {kind: found["items"][0] for kind, found in lists.items()}
    assert items["chains"]["status"]["latency"] == {
        "packets": 100, "p50": 1e-4, "p95": 2e-3, "p99": 2e-3,
    }  # fmt: skip
    assert items["chains"]["spec"] == {"functions": ["fw", "nat"], "edges": [], "p95Seconds": 1e-3}
    assert items["functions"]["status"]["restarts"] == 2
    assert items["links"]["metadata"]["name"] == "edge.0"
    assert items["cores"]["status"]["functions"] == ["fw"]
    kept = items["promises"]["status"]
    assert (kept["seconds"], kept["conditions"][0]["reason"]) == (2e-3, "AboveGoal")


def test_each_counter_of_the_metrics_is_in_one_object() -> None:
    stats = some_stats()
    told = sorted(
        (name, value.value)
        for found in counters(stats).values()
        for name, values in found.items()
        for value in values
    )
    metrics = sorted(
        (sample.name, sample.value)
        for metric, found in samples(stats)
        if metric.kind is not MetricKind.HISTOGRAM
        for sample in found
    )
    assert told == metrics
    assert len(told) > 30


def test_a_file_that_changed_is_a_generation_that_is_not_observed(tmp_path: Path) -> None:
    app = served()
    with answering(tmp_path, "a", some_stats, **noted(tmp_path)):
        first = ask(app, "GET", "/v1/runs/a").data["metadata"]["resourceVersion"]
        (tmp_path / "chain.yaml").write_text(CHAIN.replace("1ms", "2ms"))
        run = ask(app, "GET", "/v1/runs/a").data
        assert (run["metadata"]["generation"], run["status"]["observedGeneration"]) == (4, 3)
        assert run["metadata"]["resourceVersion"] != first
        applied = run["status"]["conditions"][1]
        assert (applied["status"], applied["reason"]) == ("False", "FileChanged")
        (tmp_path / "chain.yaml").unlink()
        run = ask(app, "GET", "/v1/runs/a").data
        assert run["spec"] is None
        assert run["status"]["conditions"][1]["status"] == "Unknown"


def test_runs_that_are_not_up(tmp_path: Path) -> None:
    live_run(tmp_path, "deaf")
    stale_run(tmp_path, "stale", phase=Phase.RUNNING)
    stale_run(tmp_path, "failed", phase=Phase.FAILED, reason="no hugepages")
    found = ask(served(), "GET", "/v1/runs").data["items"]
    reasons = {run["metadata"]["name"]: run["status"]["conditions"][0] for run in found}
    assert {name: one["reason"] for name, one in reasons.items()} == {
        "deaf": "EngineSilent", "stale": "Stale", "failed": "Failed",
    }  # fmt: skip
    assert reasons["failed"]["message"] == "no hugepages"
    assert all(one["status"] == "False" for one in reasons.values())


@pytest.mark.parametrize(
    "path",
    ["/v1/runs/b", "/v1/runs/b/chains", "/v1/runs/../a", "/v1/runs/b/links/x", "/v1/operations/x",
     "/v1/runs/a%00/logs", "/v1/runs/b/trace", "/v1/none", "/page/../app.py"],
)  # fmt: skip
def test_what_is_not_there(path: str) -> None:
    answer = ask(served(), "GET", path)
    assert (answer.status, answer.data["reason"]) == (404, "NotFound")


def test_the_logs(tmp_path: Path) -> None:
    directory = stale_run(tmp_path, "a")
    (directory.path / "unis.log").write_text("one\ntwo\nthree\n")
    (directory.path / "function.fw.log").write_text("said\n")
    app = served()
    assert ask(app, "GET", "/v1/runs/a/logs?lines=2").data["logs"] == {
        "unis": ["two", "three"], "fw": ["said"],
    }  # fmt: skip
    assert ask(app, "GET", "/v1/runs/a/logs?who=fw").data["logs"] == {"fw": ["said"]}
    assert ask(app, "GET", "/v1/runs/a/logs?who=../../x").status == 404


def test_since_when_a_condition_holds() -> None:
    def seen(now: str, status: str) -> str:
        run = RunObject.model_validate({
            "metadata": {"name": "a", "uid": "u"},
            "status": {"phase": "running", "observed_generation": 1, "conditions": [
                {"type": "Ready", "status": status, "reason": "Running"}]},
        })  # fmt: skip
        transitions.stamp([run], now)
        return run.status.conditions[0].last_transition_time

    transitions = Transitions()
    assert [seen("1", "True"), seen("2", "True"), seen("3", "False"), seen("4", "False")] == [
        "1", "1", "3", "3",
    ]  # fmt: skip
    transitions.forget([])
    assert seen("5", "False") == "5"


def test_the_description_has_the_schema_of_the_chain_file() -> None:
    from unis.cli.about_commands import schema_text

    described = ask(served(), "GET", "/openapi.json").data
    schema = json.loads(schema_text())
    assert described["components"]["schemas"]["ChainFile"]["properties"].keys() == (
        schema["properties"].keys()
    )
    text = json.dumps(described)
    for name in {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in described["components"]["schemas"]

"""Metrics of a live run: they are the counters of `unis ps`, and a real Prometheus takes them."""

import http.client
import json
import signal
import socket
import subprocess
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics import parser

from tests.e2e.machine import Json, Machine, macswap
from tests.e2e.test_live import assert_delivers, kill
from tests.e2e.third_party import SLOWLY, a_testpmd, third_party
from tests.serving import SECONDS, answered, over_unix, serving
from tools.dashboard import PANELS
from unis.built import clone

Told = dict[tuple[str, frozenset[tuple[str, str]]], float]
parse: Any = parser.text_string_to_metric_families
OPEN = "application/openmetrics-text;version=1.0.0"
MONITORING = clone() / "docs" / "monitoring"


@pytest.fixture
def run(machine: Machine) -> Machine:
    """Two chains, one with a goal that it keeps."""
    chains = {
        "web": {"match": [{"dst_port": 80}], "path": ["a", "b"], "slo": {"p95_latency": "1s"}},
        "dns": {"match": [{"dst_port": 53}], "path": ["c"]},
    }
    functions = {name: macswap() for name in "abc"}
    machine.up(machine.chain_file(functions, chains=chains, traffic={"rate": "20kpps"}))
    assert_delivers(machine, "web", "dns")
    return machine


def scraped(path: Path) -> Told:
    status, text = answered(over_unix(path), path="/metrics", accept=OPEN)
    assert status == 200, text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def of(found: Told, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def by_name(parts: list[Json], name: str) -> Json:
    return next(part for part in parts if part["name"] == name)


def counters(stats: Json) -> dict[tuple[str, str], float]:
    """Some of all places, from what `unis ps --json` has."""
    function, chain = by_name(stats["functions"], "a"), by_name(stats["chains"], "web")
    busy = function["time"]["busy_ns"] + function["time"]["spinning_ns"]
    reasons = sum(reason["switches"] for core in stats["cores"] for reason in core["reasons"])
    return {
        ("unis_chain_packets_total", "delivered"): chain["delivered"],
        ("unis_chain_offered_packets_total", ""): chain["offered"],
        ("unis_function_received_packets_total", ""): function["paths"][0]["rx_packets"],
        ("unis_function_turns_total", ""): function["switched_in"],
        ("unis_function_cpu_seconds_total", "busy spinning"): busy / 1e9,
        ("unis_switches_total", ""): reasons,
        ("unis_packets_total", "delivered"): stats["account"]["delivered"],
        ("unis_decisions_total", ""): stats["decisions"],
        ("unis_engine_cpu_seconds_total", ""): stats["engine_cpu_ns"] / 1e9,
    }


def same_of(found: Told, name: str, values: str) -> float:
    """Of function a and chain web, as far as the metric has these labels."""
    only = {"function": {"a"}, "chain": {"web"}, "outcome": {values}, "state": {*values.split()}}
    return sum(
        value
        for (metric, labels), value in found.items()
        if metric == name and all(of in only.get(label, {of}) for label, of in labels)
    )


def test_counters_are_those_of_ps_and_only_grow(run: Machine, tmp_path: Path) -> None:
    with serving(tmp_path) as (_, path):
        before = counters(run.ps()["stats"])
        found = scraped(path)
        after = counters(json.loads(run.unis("ps", "--json"))[0]["stats"])
        for (name, values), least in before.items():
            told = same_of(found, name, values)
            assert least <= told <= after[name, values], name
        assert of(found, "unis_run_up", run=run.name) == 1
        assert of(found, "unis_chain_goal_kept", run=run.name, chain="web") == 1
        later = scraped(path)
    grown = [key for key, value in found.items() if later[key] > value]
    assert ("unis_decisions_total", frozenset({("run", run.name)})) in grown
    counted = ("_total", "_bucket", "_count", "_sum")
    shrunk = [
        key for key, value in found.items() if key[0].endswith(counted) and later[key] < value
    ]
    assert shrunk == []


def test_promtool_has_nothing_to_say(run: Machine, tmp_path: Path) -> None:
    with serving(tmp_path) as (_, path):
        text = answered(over_unix(path), path="/metrics")[1]
    assert f'unis_run_up{{run="{run.name}"}} 1.0' in text
    done = subprocess.run(
        [third_party("promtool"), "check", "metrics"],
        input=text, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_scrapes_go_on_while_an_engine_dies_and_a_run_ends(run: Machine, tmp_path: Path) -> None:
    with serving(tmp_path) as (process, path):
        scraped(path)
        run.kill(run.pid_of("unisd"))
        states = set()
        end = False
        while not end:
            found = scraped(path)
            states |= {value for key, value in found.items() if key[0] == "unis_run_up"}
            end = ("unis_run_phase", frozenset({("run", run.name), ("phase", "failed")})) in found
        assert 0 in states
        run.down()
        run.wait_for(
            lambda: all(("run", run.name) not in labels for _, labels in scraped(path)),
            "it is still told of",
        )
        assert process.poll() is None


def test_dpdk_s_telemetry_answers_also_after_a_death(machine: Machine) -> None:
    function = a_testpmd(telemetry=True, restart="on-failure")
    machine.up(machine.chain_file({"a": function, "b": a_testpmd()}, traffic=SLOWLY))

    def asked() -> Json:
        found = json.loads(machine.unis("ps", "--json"))[0]["telemetry"]
        assert [*found] == ["a"], "b has none"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.settimeout(SECONDS)
            client.connect(found["a"])
            told: Json = json.loads(client.recv(1 << 16))
            client.send(b"/ethdev/list")
            assert json.loads(client.recv(1 << 16)) == {"/ethdev/list": [0, 1]}
            client.send(b"/eal/lcore/usage")
            told |= json.loads(client.recv(1 << 16))
        return told

    def busy(told: Json) -> int:
        """Cycles of its one lcore that polls, which can be no more than all."""
        usage: dict[str, list[int]] = told["/eal/lcore/usage"]
        assert [len(each) for each in usage.values()] == [1, 1, 1]
        assert 0 < usage["busy_cycles"][0] < usage["total_cycles"][0]
        return usage["busy_cycles"][0]

    first = machine.pid_of("a")
    assert_delivers(machine, "chain")
    told = asked()
    assert told["pid"] == first
    assert_delivers(machine, "chain")
    assert busy(asked()) > busy(told)
    kill(machine, "a")
    machine.wait_for(lambda: machine.pid_of("a") != first, "it comes back")
    assert_delivers(machine, "chain")
    assert asked()["pid"] == machine.pid_of("a")


# ------------------------------------------------------------------ Prometheus


def a_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Asked:
    """A Prometheus that runs."""

    def __init__(self, port: int) -> None:
        self._port = port

    def get(self, what: str, **parameters: str) -> Any:
        """OSError: it is not up yet."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=SECONDS)
        status, text = answered(
            connection, path=f"/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        )
        if status == http.HTTPStatus.SERVICE_UNAVAILABLE:  # it listens before it is ready
            raise OSError(text)
        told = json.loads(text) if status == 200 else {"status": text}
        assert told["status"] == "success", (parameters, told)
        return told["data"]

    def values(self, expression: str) -> list[float]:
        return [float(it["value"][1]) for it in self.get("query", query=expression)["result"]]

    def firing(self) -> set[str]:
        alerts = self.get("alerts")["alerts"]
        return {it["labels"]["alertname"] for it in alerts if it["state"] == "firing"}


@contextmanager
def prometheus(tmp_path: Path) -> Iterator[Asked]:
    """One that scrapes what `serve.json` names each second, with the rules of the documentation."""
    content = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(MONITORING / "alerts.yml")],
        "scrape_configs": [
            {"job_name": "unis", "file_sd_configs": [{"files": [str(tmp_path / "serve.json")]}]}
        ],
    }
    config = tmp_path / "prometheus.yml"
    config.write_text(json.dumps(content))  # JSON is YAML
    port = a_port()
    words = [str(third_party("prometheus")), f"--config.file={config}", "--log.level=error",
             f"--storage.tsdb.path={tmp_path / 'data'}",
             f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
    with subprocess.Popen(words, cwd=tmp_path) as process:
        try:
            yield Asked(port)
        finally:
            process.send_signal(signal.SIGTERM)


def test_a_prometheus_scrapes_draws_and_alerts(run: Machine, tmp_path: Path) -> None:
    third_party("promtool")
    with (
        serving(tmp_path, "--metrics-listen", "127.0.0.1:0"),
        prometheus(tmp_path) as asked,
    ):
        delivered = 'rate(unis_chain_packets_total{chain="web",outcome="delivered"}[10s])'

        def draws() -> bool:
            try:
                return any(value > 0 for value in asked.values(delivered))
            except OSError:
                return False

        run.wait_for(draws, "Prometheus sees packets")
        assert asked.values('up{job="unis"}') == [1]
        empty = [
            expression
            for panel in PANELS
            for _, shown in panel.shown
            for expression in [shown.replace("$run", ".*").replace("$__rate_interval", "10s")]
            if not asked.values(expression)
        ]
        assert empty == []
        assert asked.firing() == set()
        kill(run, "c")
        run.wait_for(lambda: asked.firing() == {"UnisChainDown"}, "the alert fires")
        assert asked.values("unis_chain_up == 0") == [0]
        assert_delivers(run, "web")

"""What `/metrics` tells of runs: valid in both formats, whatever the runs do meanwhile."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from tests.python.answering import answering, live_run
from tests.python.commands import stale_run
from tests.python.test_declared import flat, statistics
from unis.counters import runs
from unis.counters.declared import METRICS
from unis.runtime import asked
from unis.runtime.asked import AskedRun
from unis.runtime.process import ProcessId
from unis.runtime.state import FunctionProcess, Phase, RunState
from unis.serve.exposition import exposition
from unis.serve.scraper import Scrape, ScrapedRun, Scraper
from unis.v1 import common_pb2
from unis.v1 import engine_pb2 as pb

OPEN = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
Told = dict[tuple[str, frozenset[tuple[str, str]]], float]


def told(text: str, parse: Any = open_metrics) -> Told:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def of(found: Told, name: str, **labels: str) -> float | None:
    return found.get((name, frozenset(labels.items())))


def state_of(name: str, **more: Any) -> RunState:
    return RunState(
        run_id=f"id-{name}", name=name, chain_file="x.yaml", groups=["unis-x"], cpus=[1],
        platform_cpus=[0], hugepages_mb=2, launcher=ProcessId.me(), phase=Phase.RUNNING, **more,
    )  # fmt: skip


@given(statistics(pb.Stats.DESCRIPTOR))
def test_whatever_the_statistics_both_formats_are_valid_and_agree(stats: pb.Stats) -> None:
    scrape = Scrape((ScrapedRun(AskedRun(state_of("demo"), stats), 0.01),))
    newer, _ = exposition(scrape, OPEN)
    older, _ = exposition(scrape, "text/plain")
    found = told(newer)
    assert found == told(older, plain_text)
    for name, labels, value in flat(stats):
        assert of(found, name, **dict(labels)) == pytest.approx(float(value))
    assert of(found, "unis_run_up", run="demo") == 1


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (OPEN, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        (
            "application/openmetrics-text;q=0, text/plain",
            "text/plain; version=0.0.4; charset=utf-8",
        ),
        ("text/html", "text/plain; version=0.0.4; charset=utf-8"),
    ],
)
def test_the_client_says_which_format(accept: str, content_type: str) -> None:
    text, said = exposition(Scrape(), accept)
    assert said.startswith(content_type)
    assert text.endswith("# EOF\n") == ("openmetrics" in said)
    assert "unis_build_info{version=" in text


def test_a_promise_is_told_as_goal_and_as_packets_within_it() -> None:
    latency = common_pb2.LatencyHistogram(value_ns=[10_000, 50_000, 90_000], count=[80, 15, 5])
    stats = pb.Stats(run="demo", chains=[pb.ChainStats(name="edge", latency=latency)])

    def kept(goal_ns: float) -> list[float | None]:
        state = state_of("demo", goals_ns={"edge": goal_ns})
        found = told(exposition(Scrape((ScrapedRun(AskedRun(state, stats)),)), OPEN)[0])
        names = ("unis_chain_goal_seconds", "unis_chain_within_goal_packets_total",
                 "unis_chain_goal_kept")  # fmt: skip
        return [of(found, name, run="demo", chain="edge") for name in names]

    assert kept(50_000) == [5e-5, 95, 1]
    assert kept(49_000) == [pytest.approx(4.9e-5), 80, 0]


def test_the_names_of_what_is_told_of_runs() -> None:
    names = [metric.name for metric in (*METRICS, *runs.RUNS)]
    assert len({*names}) == len(names)
    assert all(metric.help.endswith(".") and "`" not in metric.help for metric in runs.RUNS)


# ------------------------------------------------------------------ runs that come and go


@pytest.fixture
def scraper() -> Iterator[Scraper]:
    made = Scraper()
    yield made
    made.close()


def scraped(scraper: Scraper, *, again: bool = True) -> Told:
    if again:
        scraper._until = 0
    return told(exposition(scraper.scrape(), OPEN)[0])


def counting(name: str) -> Any:
    counted = pb.Stats(run=name)

    def now() -> pb.Stats:
        counted.decisions += 1
        return counted

    return now


def test_one_run_that_is_silent_hides_no_other(tmp_path: Path, scraper: Scraper) -> None:
    hangs = threading.Event()

    def wait() -> pb.Stats:
        hangs.wait()
        return pb.Stats()

    function = FunctionProcess("fw", 1, ProcessId.me(), restarts=3)
    with ExitStack() as stack:
        stack.enter_context(answering(tmp_path, "good", counting("good"), functions=[function]))
        stack.enter_context(answering(tmp_path, "slow", wait))
        stack.callback(hangs.set)
        live_run(tmp_path, "deaf")  # nobody listens there
        stale_run(tmp_path, "stale", phase=Phase.RUNNING)
        stale_run(tmp_path, "failed", phase=Phase.FAILED)
        (stale_run(tmp_path, "broken").path / "state.json").write_text("{")
        found = scraped(scraper)
    up = {name: of(found, "unis_run_up", run=name) for name in
          ("good", "slow", "deaf", "stale", "failed", "broken")}  # fmt: skip
    assert up == {"good": 1, "slow": 0, "deaf": 0, "stale": 0, "failed": 0, "broken": 0}
    for name, phase in [("good", "running"), ("slow", "running"), ("stale", "stale"),
                        ("failed", "failed"), ("broken", "damaged")]:  # fmt: skip
        assert of(found, "unis_run_phase", run=name, phase=phase) == 1, name
    assert of(found, "unis_decisions_total", run="good") == 1
    assert of(found, "unis_function_up", run="good", function="fw") == 1
    assert of(found, "unis_function_restarts_total", run="good", function="fw") == 3


def test_an_engine_that_dies_in_a_scrape_is_told_and_its_next_is_asked(
    tmp_path: Path, scraper: Scraper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked, "ANSWER_SECONDS", 30.0)  # the machine may have other work
    with answering(tmp_path, "a", counting("a")):
        assert of(scraped(scraper), "unis_decisions_total", run="a") == 1
        assert of(scraped(scraper), "unis_decisions_total", run="a") == 2
    found = scraped(scraper)  # its connection is known, and broken
    assert of(found, "unis_run_up", run="a") == 0
    assert of(found, "unis_decisions_total", run="a") is None
    with answering(tmp_path, "a", counting("a"), run_id="another"):
        assert of(scraped(scraper), "unis_decisions_total", run="a") == 1
    assert list(scraper._clients) == ["another"]


def test_a_run_that_ended_is_gone(tmp_path: Path, scraper: Scraper) -> None:
    with answering(tmp_path, "a", counting("a")):
        scraped(scraper)
    for file in (tmp_path / "run" / "runs" / "a").iterdir():
        if file.is_file():
            file.unlink()
    assert [key for key in scraped(scraper) if ("run", "a") in key[1]] == []
    assert scraper._clients == {}


def test_a_run_that_begins_to_end_while_it_is_asked(tmp_path: Path, scraper: Scraper) -> None:
    def leave() -> pb.Stats:
        live_run(tmp_path, "a", phase=Phase.STOPPING)
        raise RuntimeError

    with answering(tmp_path, "a", leave):
        found = scraped(scraper)
    assert of(found, "unis_run_phase", run="a", phase="stopping") == 1


def test_who_asks_too_often_costs_the_engines_nothing(tmp_path: Path, scraper: Scraper) -> None:
    with answering(tmp_path, "a", counting("a")):
        scraped(scraper)
        scraper._until = float("inf")
        found = [scraped(scraper, again=False) for _ in range(3)]
    assert [of(one, "unis_decisions_total", run="a") for one in found] == [1, 1, 1]

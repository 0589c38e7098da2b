"""`evaluation scrapes`: its verdict, and what it does when a scrape fails."""

import threading
from pathlib import Path

import pytest

from evaluation import scrapes
from evaluation.scrapes import ScrapeCost, ScrapeSettings
from tests.python.answering import live_run
from tests.python.commands import evaluation
from tests.serving import SECONDS, serving
from unis.errors import UnisError
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Quartiles, Ratio
from unis.measure.summary import MachineSummary


def cost_of(ratio: Ratio | None) -> ScrapeCost:
    mpps = Quartiles(median=9.1, q1=9.0, q3=9.2)
    return ScrapeCost(
        machine=MachineSummary.this(2), cost="light", length=3, every_s=1, window_s=2, windows=30,
        mpps={"no scrapes": mpps, "scrapes": mpps}, ratio=ratio, scrapes=60, scraped_s=60,
        text_bytes=19_000,
        server_cpu={"no scrapes": 0.001, "scrapes": 0.004},
        disturbed=Disturbance(windows=60, disturbed=0, stolen=0, worst=0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lo", "hi", "kept", "said"),
    [
        (0.996, 1.001, True, "a scrape each second costs under 0.5 %"),
        (0.990, 0.994, False, "costs more than 0.5 %"),
        (0.990, 1.001, None, "cannot be told"),
    ],
)
def test_the_verdict_is_that_of_the_whole_interval(
    lo: float, hi: float, kept: bool | None, said: str, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    result = cost_of(Ratio(median=(lo + hi) / 2, lo=lo, hi=hi))
    assert result.kept is kept
    asked: list[ScrapeSettings] = []

    def measure(settings: ScrapeSettings, *_: object) -> ScrapeCost:
        asked.append(settings)
        return result

    monkeypatch.setattr(scrapes, "measure", measure)
    file = tmp_path / "out.json"
    code, output = evaluation("scrapes", "--rounds", "7", "--json", file)
    assert (code, asked) == (0, [ScrapeSettings("light", 3, 1.0, 7, 2.0)])
    assert said in output
    assert f"{lo:.4f}–{hi:.4f}" in output
    assert ScrapeCost.model_validate_json(file.read_text()) == result


def test_of_more_scrapes_the_verdict_is_on_one_a_second() -> None:
    more = cost_of(Ratio(median=0.99, lo=0.98, hi=1.0)).model_copy(
        update={"every_s": 0.2, "scrapes": 300}
    )
    assert more.each_second is not None
    assert more.each_second.model_dump() == pytest.approx({"median": 0.998, "lo": 0.996, "hi": 1})
    assert more.kept is True
    worse = Ratio(median=0.97, lo=0.96, hi=0.97)
    assert more.model_copy(update={"ratio": worse}).kept is False


def test_without_packets_there_is_no_verdict() -> None:
    assert cost_of(None).kept is None


def test_a_scrape_that_fails_ends_it(tmp_path: Path) -> None:
    live_run(tmp_path, "bench-scrapes")  # nobody answers for it
    with serving(tmp_path) as (_, path), scrapes._Client(path, 0.01) as client:
        client.check()
        client.asks = True
        threads = [thread for thread in threading.enumerate() if thread is client._thread]
        for thread in threads:
            thread.join(SECONDS)
        with pytest.raises(UnisError, match="a scrape failed: status 200"):
            client.check()

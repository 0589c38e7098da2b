"""The report is one file that needs nothing else, and says what was measured."""

import functools
import io
import json
import math
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tests.python import measured
from unis.bench import demo
from unis.cli import demo_command
from unis.cli.app import app
from unis.cli.demo_command import print_result
from unis.measure.paired import Quartiles
from unis.measure.summary import MachineSummary, Summary, ratio, summarise
from unis.measure.windows import mpps
from unis.report import colours, plots
from unis.report.page import headline, notes_of_bars, report_page

TUNING = {"rr": "slices of 100 ms", "cooperative": "a yield every 8 bursts"}
MACHINE = MachineSummary(cpu_model="A <fast> CPU", cpus=2, kernel="6.18", dpdk="22.11.11")


def summary(unaccounted: int = 0) -> Summary:
    return summarise(
        measured.rounds(), measured.POLICIES, measured.account(unaccounted),
        {"firewall": 61.0, "nat": 55.5, "monitor": 40.25}, MACHINE, {"γ": 0.75}, TUNING,
    )  # fmt: skip


@functools.cache
def usual_page() -> str:
    return page(summary())


def page(whole: Summary, duration_ms: float = 20.0) -> str:
    rounds = measured.rounds()
    return report_page(
        "firewall → nat → monitor on one CPU",
        whole,
        rounds,
        {policy: measured.trace(policy, duration_ms) for policy in measured.POLICIES},
        duration_ms,
        measured.FUNCTIONS,
    )


class Page(HTMLParser):
    VOID = frozenset({"meta", "br", "img", "link", "input", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "data", "action", "srcset"):
                self.references.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    text = usual_page()
    parsed = Page(text)
    assert not parsed.open
    assert parsed.tags.count("svg") == 3
    assert all(reference.startswith("#") for reference in parsed.references)
    assert {reference[1:] for reference in parsed.references} <= set(parsed.ids)
    assert not {"script", "link", "iframe", "img"} & set(parsed.tags)
    assert "@import" not in text
    assert "url(http" not in text


def test_the_page_says_what_was_measured() -> None:
    whole = summary()
    text = Page(usual_page()).text
    for policy in measured.POLICIES:
        assert f"{whole.policies[policy].mpps.median:.3f}" in text
    assert "A <fast> CPU" in text
    assert "firewall 61.0 ns" in text
    assert "offered = delivered + dropped + in flight" in text


def test_summary() -> None:
    whole = summary()
    assert whole.accounted
    assert not summary(unaccounted=1).accounted
    data = json.loads(whole.model_dump_json())
    for policy, (rate, latency, _, _) in measured.SHAPES.items():
        entry = data["policies"][policy]
        assert entry["mpps"]["q1"] <= entry["mpps"]["median"] <= entry["mpps"]["q3"]
        assert entry["mpps"]["median"] == pytest.approx(rate, rel=0.3)
        assert entry["latency_us"]["p50"] == pytest.approx(latency, rel=0.2)
        assert list(entry["latency_us"]) == ["p5", "p50", "p95", "p99"]
        assert entry["drops"]["dropped"] == 6000
        assert entry["drops"]["per_second"] == pytest.approx(5000)
    assert data["policies"]["cooperative"]["ratio_to_cooperative"]["median"] == 1
    times = whole.times("rr")
    assert times is not None
    assert f"{times.median:,.0f} times the kernel's rr" in headline(whole)


def test_one_figure_for_one_claim() -> None:
    whole = summary()
    times = whole.times("rr")
    assert times is not None
    text = Page(usual_page()).text
    said = f"{times.median:,.0f}"
    assert f"{said} times the kernel's rr" in text  # headline
    assert f"{said} [{times.low:,.0f}–{times.high:,.0f}]" in text  # table
    # The plot's letters are paths: what it is given is looked at.
    assert notes_of_bars(whole)["rr"] == f"unis: {said} times as much"


def test_the_result_says_how_its_baselines_were_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of 100 ms is the kernel's default, and no good one for rings of 2048."""
    whole = summary()
    shown = io.StringIO()
    monkeypatch.setattr(demo_command, "out", Console(file=shown, width=200))
    print_result(whole)
    table, told = shown.getvalue(), headline(whole)
    assert "times the kernel's rr (slices of 100 ms)" in told
    assert "rewritten to co-operate (a yield every 8 bursts)" in told
    row = table[table.index("\nrr") :].splitlines()[2]
    assert row.strip() == "slices of 100 ms"
    assert whole.tuning_of("rr/signal") == "slices of 100 ms"
    assert whole.tuning_of("other") == ""
    cells = Page(page(whole)).text
    assert "rr slices of 100 ms" in cells
    assert json.loads(whole.model_dump_json())["tuning"] == TUNING


def test_the_heading_depends_on_the_account() -> None:
    assert "Every packet is accounted for" in usual_page()
    for account, told in (
        (measured.account(unaccounted=3), "3 packets are missing"),
        (measured.account(exact=False), "did not drain"),
    ):
        whole = summarise(
            measured.rounds(), measured.POLICIES, account, {}, MACHINE, {}, {}
        )  # fmt: skip
        text = Page(report_page("x", whole, measured.rounds(1), {}, 20.0, [])).text
        assert "Every packet is accounted for" not in text
        assert told in text


def test_the_account_has_the_names_of_the_terminal_and_no_rows_of_zero() -> None:
    text = usual_page()
    rows = text[text.index('<table class="narrow">') :]
    for name, count in {
        "offered": "1,000,000",
        "dropped: a link full": "40,000",
        "in flight": 0,
    }.items():
        assert f"<tr><td>{name}</td><td>{count}</td></tr>" in rows
    assert "copied" not in rows
    assert "by functions" not in rows


def test_switches_that_the_engine_does_not_count_are_no_zero() -> None:
    rounds = measured.rounds(2)
    for windows in rounds:
        windows["rr"].switches = 0
    whole = summarise(rounds, measured.POLICIES, measured.account(), {}, MACHINE, {}, {})
    cells = report_page("x", whole, rounds, {}, 20.0, [])
    row = cells[cells.index("</i>rr ") :].partition("</tr>")[0]
    assert row.count("<td>–</td>") == 1


def test_a_recording_that_was_full_is_told() -> None:
    traces = {policy: measured.trace(policy) for policy in ("unis", "cooperative")}
    whole, rounds = summary(), measured.rounds()
    assert "was full" not in report_page("x", whole, rounds, traces, 20.0, measured.FUNCTIONS)
    traces["cooperative"].dropped_events = 1
    told = report_page("x", whole, rounds, traces, 20.0, measured.FUNCTIONS)
    assert "The recording of cooperative was full before its end." in told


def test_what_comes_from_outside_is_escaped() -> None:
    whole = summary().model_copy(update={"settings": {"traffic": "<script>x</script>"}})
    text = report_page("x", whole, measured.rounds(1), {}, 20.0, [])
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_the_page_has_a_dark_mode_that_its_plots_follow() -> None:
    text = usual_page()
    assert "prefers-color-scheme: dark" in text
    assert "var(--ink)" in text[text.index("<svg") :]
    for stand_in in (colours.INK, colours.FAINT, colours.PAPER):
        assert stand_in not in text


def test_no_two_functions_have_one_colour() -> None:
    for count in (1, 7, 8, 31):
        names = [f"f{index}" for index in range(count)]
        shades = colours.of_functions(names)
        assert list(shades) == names
        assert len(set(shades.values())) == count
    arms = ["unis", "unis/signal", "unis/handover", "rr", "rr/signal"]
    assert len({colours.of_arm(arm) for arm in arms}) == len(arms)


def test_ratios_pair_windows_of_a_round() -> None:
    rounds = measured.rounds(2)
    paired = ratio(rounds, "unis", "cooperative")
    assert paired
    assert (paired.q1 + paired.q3) / 2 == pytest.approx(
        sum(mpps(r["unis"]) / mpps(r["cooperative"]) for r in rounds) / 2
    )
    rounds[0]["cooperative"].delivered = 0
    paired = ratio(rounds, "unis", "cooperative")
    assert paired
    assert (paired.rounds, paired.left_out) == (1, 1)
    assert Quartiles.of([3.0]) == Quartiles(median=3, q1=3, q3=3)


def test_nothing_delivered_is_shown_as_that() -> None:
    rounds = measured.rounds(2)
    for windows in rounds:
        windows["rr"].delivered = 0
        windows["rr"].ClearField("latency")
    whole = summarise(rounds, measured.POLICIES, measured.account(), {}, MACHINE, {}, {})
    assert whole.times("rr") is None
    assert whole.policies["rr"].latency_us["p50"] is None
    text = Page(report_page("x", whole, rounds, {}, 20.0, [])).text
    assert "rr: in 2 of its windows (0.2 s each) no packet arrived" in text


def test_plots_are_well_formed() -> None:
    svgs = [
        plots.throughput({"unis": [1.0, 2.0], "rr": [0.001, 0.0], "fifo": [0.0]}, {"rr": "1/1000"}),
        plots.latency({"unis": [(1.0, 0.5), (2.0, 1.0)], "rr": []}),
        plots.timeline(
            {"unis": measured.trace("unis", cpus=(1, 2))}, measured.FUNCTIONS, 20.0, 1.0
        ),
        plots.timeline({}, [], 20.0, 1.0),
    ]
    for svg in svgs:
        root = ElementTree.fromstring(svg)  # noqa: S314  our own
        assert root.get("width") is None
        _, _, width, height = map(float, str(root.get("viewBox")).split())
        assert width > height > 0
        assert math.isfinite(width)


def test_the_terminal_too_tells_of_rounds_that_were_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = measured.rounds()
    rounds[0]["rr"].delivered = 0
    whole = summarise(rounds, measured.POLICIES, measured.account(0), {}, MACHINE, {}, {})
    shown = io.StringIO()
    monkeypatch.setattr(demo_command, "out", Console(file=shown, width=200))
    print_result(whole)
    assert "rr: in 1 of its windows (0.2 s each) no packet arrived" in shown.getvalue()


def test_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "run_demo", lambda *_: demo.DemoResult(summary(), "a page"))
    (tmp_path / "summary.json").symlink_to("/dev/full")
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 1
    assert "summary.json: No space left on device" in result.output
    assert "UNiS delivers" in result.output, "what was measured is told all the same"
    assert (tmp_path / "report.html").read_text() == "a page"

"""Dashboard and alert rules: of metrics that exist, and such that Prometheus takes them."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.needs import need
from tools import dashboard
from unis.built import clone
from unis.counters import runs
from unis.counters.declared import METRICS
from unis.counters.metric import MetricKind

MONITORING = clone() / "docs" / "monitoring"
ALERTS = MONITORING / "alerts.yml"
CASES = Path(__file__).parents[1] / "data" / "alerts_test.yml"


def known() -> set[str]:
    names: set[str] = set()
    for metric in (*METRICS, *runs.RUNS):
        several = metric.kind is MetricKind.HISTOGRAM
        names |= (
            {f"{metric.name}_{end}" for end in ("bucket", "count", "sum")}
            if several
            else {metric.name}
        )
    return names


def used(text: str) -> set[str]:
    return {*re.findall(r"\bunis_\w+", text)}


def test_the_dashboard_is_current_and_of_metrics_that_exist() -> None:
    text = (MONITORING / "dashboard.json").read_text()
    assert text == dashboard.dashboard(), "run `make docs`"
    panels = json.loads(text)["panels"]
    found = {name for panel in panels for it in panel["targets"] for name in used(it["expr"])}
    assert len(found) > 15
    assert found - known() == set()
    corners = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(corners) == len(panels)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def test_alerts_and_page_name_metrics_that_exist() -> None:
    rules = ALERTS.read_text()
    expressions = re.findall(r"expr: (\|(?:\n {10}.*)+|.*)", rules)
    assert len(expressions) == rules.count("- alert:") == 11
    assert used("\n".join(expressions)) - known() == set()
    page = (clone() / "docs" / "metrics.md").read_text()
    assert used(page) - known() == set()


def test_every_alert_is_tried_both_ways() -> None:
    cases = CASES.read_text()
    for name in re.findall(r"- alert: (\w+)", ALERTS.read_text()):
        assert len(re.findall(rf"alertname: {name}\b", cases)) >= 2, name


@pytest.mark.system
def test_promtool_takes_the_rules_and_they_fire_as_they_should() -> None:
    promtool = clone() / "build" / "third-party" / "bin" / "promtool"
    need(promtool.exists(), "needs promtool: run tools/third-party prometheus")
    for verb, file in (("check", ALERTS), ("test", CASES)):
        done = subprocess.run(
            [promtool, verb, "rules", file], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

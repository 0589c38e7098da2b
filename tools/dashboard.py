"""docs/monitoring/dashboard.json, for Grafana: its panels, explained by what the counters say.

`make docs` writes it; a test holds it current.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unis.counters import runs
from unis.counters.declared import METRICS

_SAYS = {metric.name: metric.help for metric in (*METRICS, *runs.RUNS)}
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS, _HEIGHT = 24, 8


@dataclass(frozen=True)
class Panel:
    """What it shows, by which expressions: legend and expression of each. `says`: a metric."""

    title: str
    says: str
    unit: str  # Grafana's name of it
    shown: tuple[tuple[str, str], ...]
    width: int = 12
    kind: str = "timeseries"
    stacked: bool = False
    most: float | None = None


def _quantile(share: float) -> str:
    rates = _rate("unis_chain_latency_seconds_bucket", "run, chain, le")
    return f"histogram_quantile({share:g}, {rates})"


def _rate(metric: str, by: str = "") -> str:
    """Of `metric`, which may end in matchers of its own."""
    name, _, more = metric.partition("{")
    matchers = f'run=~"$run"{"," + more.removesuffix("}") if more else ""}'
    rate = f"rate({name}{{{matchers}}}[$__rate_interval])"
    return f"sum by ({by}) ({rate})" if by else rate


def _now(metric: str) -> str:
    return f'{metric}{{run=~"$run"}}'


_DROPPED = '{outcome=~"dropped_.*|copies_dropped_.*"}'
PANELS = (
    Panel("Runs", "unis_run_up", "short", (("{{run}}", _now("unis_run_up")),), 6, "stat"),
    Panel("Chains up", "unis_chain_up", "short",
          (("{{run}} {{chain}}", _now("unis_chain_up")),), 6, "stat"),
    Panel("Promises kept", "unis_chain_goal_kept", "short",
          (("{{run}} {{chain}}", _now("unis_chain_goal_kept")),), 6, "stat"),
    Panel("Restarts", "unis_function_restarts_total", "short",
          (("{{run}} {{function}}", _now("unis_function_restarts_total")),), 6, "stat"),
    Panel("Packets of chains", "unis_chain_packets_total", "pps",
          (("{{run}} {{chain}} {{outcome}}", _rate("unis_chain_packets_total")),)),
    Panel("Dropped packets", "unis_packets_total", "pps",
          (("{{run}} {{outcome}}", _rate("unis_packets_total" + _DROPPED)),)),
    Panel("Latency of chains", "unis_chain_latency_seconds", "s",
          (("{{run}} {{chain}} p50", _quantile(0.5)), ("{{run}} {{chain}} p95", _quantile(0.95)),
           ("{{run}} {{chain}} p99", _quantile(0.99)),
           ("{{run}} {{chain}} goal", _now("unis_chain_goal_seconds")))),
    Panel("How full links are", "unis_link_occupancy_ratio", "percentunit",
          (("{{run}} {{link}}", _now("unis_link_occupancy_ratio")),), most=1),
    Panel("Time of functions", "unis_function_cpu_seconds_total", "percentunit",
          (("{{run}} {{function}} {{state}}", _rate("unis_function_cpu_seconds_total")),),
          24, stacked=True),
    Panel("Cost of a packet", "unis_function_packet_cost_seconds", "s",
          (("{{run}} {{function}}", _now("unis_function_packet_cost_seconds")),)),
    Panel("Switches by reason", "unis_switches_total", "ops",
          (("{{run}} CPU {{cpu}} {{reason}}", _rate("unis_switches_total")),)),
    Panel("Sleep: CPUs at rest", "unis_cpu_resting", "short",
          (("{{run}} CPU {{cpu}}", _now("unis_cpu_resting")),), 8, most=1),
    Panel("Parts of the engine", "unis_component_busy_seconds_total", "percentunit",
          (("{{run}} {{component}}", _rate("unis_component_busy_seconds_total")),), 8, most=1),
    Panel("Buffers in use", "unis_used_packet_buffers", "percentunit",
          (("{{run}}", f'{_now("unis_used_packet_buffers")} / {_now("unis_packet_buffers")}'),),
          8, most=1),
)  # fmt: skip


def dashboard() -> str:
    """The text of the file."""
    return (
        json.dumps(
            {
                "title": "UNiS",
                "uid": "unis",
                "schemaVersion": 38,
                "timezone": "browser",
                "refresh": "5s",
                "time": {"from": "now-15m", "to": "now"},
                "tags": ["unis"],
                "templating": {"list": [_datasource(), _run()]},
                "panels": _placed(),
            },
            indent=1,
            ensure_ascii=False,
        )
        + "\n"
    )


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource",
            "query": "prometheus"}  # fmt: skip


def _run() -> dict[str, Any]:
    query = "label_values(unis_run_up, run)"
    return {
        "name": "run", "label": "Run", "type": "query", "datasource": _SOURCE, "query": query,
        "definition": query, "refresh": 2, "multi": True, "includeAll": True, "sort": 1,
        "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip


def _placed() -> list[dict[str, Any]]:
    """From left to right, as many as a line holds."""
    placed, x, y = [], 0, 0
    for number, panel in enumerate(PANELS, start=1):
        if x + panel.width > _COLUMNS:
            x, y = 0, y + _HEIGHT
        placed.append(_panel(number, panel, {"x": x, "y": y, "w": panel.width, "h": _HEIGHT}))
        x += panel.width
    return placed


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    stacking = {"mode": "normal" if panel.stacked else "none"}
    custom = {"fillOpacity": 40 if panel.stacked else 0, "stacking": stacking}
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0, "custom": custom}
    if panel.most is not None:
        defaults["max"] = panel.most
    if panel.kind == "stat":  # never by colour alone
        defaults["color"] = {"mode": "fixed", "fixedColor": "blue"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": _SAYS[panel.says],
        "datasource": _SOURCE,
        "gridPos": place,
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": expr,
             "legendFormat": legend}
            for at, (legend, expr) in enumerate(panel.shown)
        ],
        "fieldConfig": {"defaults": defaults, "overrides": []},
    }  # fmt: skip


if __name__ == "__main__":
    (Path(sys.argv[1]) / "monitoring" / "dashboard.json").write_text(dashboard())

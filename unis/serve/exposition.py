"""What was scraped as an exposition: OpenMetrics 1.0, or Prometheus' older text format (0.0.4).

Written here and not by a library, which takes 10 µs a sample: a scrape each second would cost the
engine, whose CPU it may be, more than the 0.5 % that it may.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

import unis
from unis.counters import runs
from unis.counters.declared import METRICS
from unis.counters.metric import CountedField, Metric, PlaceLabels
from unis.counters.samples import Labels, readings, sample_names
from unis.engine.histogram import Latency
from unis.serve.scraper import Scrape, ScrapedRun

_OPEN = "application/openmetrics-text"
_TYPES = {
    True: f"{_OPEN}; version=1.0.0; charset=utf-8",
    False: "text/plain; version=0.0.4; charset=utf-8",
}
_ESCAPED = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_NOT_FINITE = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}
_NEVER = re.compile(r";\s*q=0(\.0*)?\s*(;|$)")


def exposition(scrape: Scrape, accept: str) -> tuple[str, str]:
    """The text and its content type, by what a client accepts (the header of that name)."""
    asked = (part for part in accept.split(",") if part.strip().startswith(_OPEN))
    newer = any(not _NEVER.search(part) for part in asked)
    told = _told(scrape)
    lines: list[str] = []
    for metric in (*runs.RUNS, *METRICS):
        if found := told.get(metric.name):
            lines.append(_HEADS[newer][metric.name])
            lines += [f"{name} {_number(value)}\n" for name, value in found.items()]
    if newer:
        lines.append("# EOF\n")
    return "".join(lines), _TYPES[newer]


def _head(metric: Metric, newer: bool) -> str:
    """OpenMetrics names a counter without the end of its samples."""
    name = metric.name.removesuffix("_total") if newer else metric.name
    lines = [f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.kind}"]
    if newer and metric.unit:
        lines.append(f"# UNIT {name} {metric.unit}")
    return "\n".join([*lines, ""])


_HEADS = {
    newer: {metric.name: _head(metric, newer) for metric in (*runs.RUNS, *METRICS)}
    for newer in _TYPES
}


def _number(value: float) -> str:
    written = repr(float(value))
    return written if written[-1].isdigit() else _NOT_FINITE[written]


@lru_cache(maxsize=1 << 14)  # they are the same from scrape to scrape
def _names(metric: Metric, field: CountedField, place: PlaceLabels) -> list[str]:
    return [_named(*name) for name in sample_names(metric, field, place)]


def _named(name: str, labels: Labels) -> str:
    written = ",".join([f'{key}="{_escaped(text)}"' for key, text in labels])
    return f"{name}{{{written}}}" if labels else name


def _escaped(text: str) -> str:
    return text if text.isalnum() else text.translate(_ESCAPED)


_version = cache(unis.version)


def _told(scrape: Scrape) -> dict[str, dict[str, float]]:
    """By the metric's name, and by that of the sample: each is told once, whatever runs have it."""
    told: dict[str, dict[str, float]] = {}

    def add(metric: Metric, *labels: tuple[str, str], value: float) -> None:
        told.setdefault(metric.name, {})[_named(metric.name, labels)] = value

    add(runs.BUILD, ("version", _version()), value=1)
    for name in scrape.damaged:
        add(runs.UP, ("run", name), value=0)
        add(runs.PHASE, ("run", name), ("phase", "damaged"), value=1)
    for run in scrape.runs:
        for metric, labels, value in _of_run(run):
            add(metric, ("run", run.asked.state.name), *labels, value=value)
        for metric, found in readings(run.asked.stats) if run.asked.stats else ():
            values = told.setdefault(metric.name, {})
            for place, field, several in found:
                values.update(zip(_names(metric, field, place), several, strict=True))
    return told


def _of_run(run: ScrapedRun) -> Iterator[tuple[Metric, Iterable[tuple[str, str]], float]]:
    """What is told of a run, whether or not its engine answered."""
    asked = run.asked
    yield runs.UP, (), asked.stats is not None
    yield runs.PHASE, [("phase", asked.phase())], 1
    if run.seconds is not None:
        yield runs.TOOK, (), run.seconds
    for function in asked.state.functions:
        labels = [("function", function.name)]
        yield runs.FUNCTION_UP, labels, not function.ended and asked.live
        yield runs.RESTARTS, labels, function.restarts
    for chain in asked.stats.chains if asked.stats else ():
        if (goal := asked.state.goals_ns.get(chain.name)) is None:
            continue
        labels = [("chain", chain.name)]
        latency = Latency([chain.latency])
        p95_us = latency.percentile_us(95)
        yield runs.GOAL, labels, goal / 1e9
        yield runs.WITHIN, labels, latency.within(goal)
        yield runs.KEPT, labels, p95_us is None or p95_us * 1000 <= goal

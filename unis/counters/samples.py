"""Statistics of the engine as samples under the names of their declarations."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from unis.counters.declared import METRICS
from unis.counters.metric import Metric, MetricKind, StatsPlaces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from unis.v1 import common_pb2
    from unis.v1 import engine_pb2 as pb

# Upper bounds of latencies, seconds: 1, 2, 5 from a microsecond on, as OpenMetrics writes them.
BOUNDS = (*(float(f"{m}e{e}") for e in range(-6, 0) for m in (1, 2, 5)), 1.0, math.inf)

# The label of each, and nanoseconds.
_UPPER = [
    (("le", "+Inf" if bound == math.inf else str(bound)),
     bound if bound == math.inf else round(bound * 1e9))
    for bound in BOUNDS
]  # fmt: skip


class MetricSample(NamedTuple):
    """A value of one metric. A histogram has several: `NAME_bucket`, `NAME_sum`, `NAME_count`."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


def samples(stats: pb.Stats) -> Iterator[tuple[Metric, Iterable[MetricSample]]]:
    """All that the statistics tell. A link that is met at several functions is told once."""
    places = StatsPlaces(stats)
    run = ("run", stats.run)
    for metric in METRICS:
        told: dict[tuple[str, tuple[tuple[str, str], ...]], MetricSample] = {}
        for sample in _of(metric, places, run):
            told.setdefault((sample.name, sample.labels), sample)
        yield metric, told.values()


def _of(metric: Metric, places: StatsPlaces, run: tuple[str, str]) -> Iterator[MetricSample]:
    for reading in metric.readings:
        for found, message in reading.found(places):
            labels = (run, *((name, found[name]) for name in metric.labels))
            if metric.kind is MetricKind.HISTOGRAM:
                yield from _buckets(metric.name, labels, message.latency)
            else:
                yield MetricSample(metric.name, labels, reading.read(message))


def _buckets(
    name: str, labels: tuple[tuple[str, str], ...], histogram: common_pb2.LatencyHistogram
) -> Iterator[MetricSample]:
    """Counts up to each bound. Values are known to the width of a bucket of the engine's."""
    pairs = sorted(zip(histogram.value_ns, histogram.count, strict=False))
    values = [ns for ns, _ in pairs]
    up_to = [0, *accumulate([n for _, n in pairs])]
    bucket = f"{name}_bucket"
    for upper, bound in _UPPER:
        yield MetricSample(bucket, (*labels, upper), up_to[bisect_right(values, bound)])
    yield MetricSample(f"{name}_sum", labels, sum([ns * n for ns, n in pairs]) / 1e9)
    yield MetricSample(f"{name}_count", labels, up_to[-1])

"""Statistics of the engine as samples under the names of their declarations."""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from unis.counters.declared import METRICS
from unis.counters.metric import CountedField, Metric, MetricKind, PlaceLabels, StatsPlaces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from unis.v1 import common_pb2
    from unis.v1 import engine_pb2 as pb

# Upper bounds of latencies, seconds: 1, 2, 5 from a microsecond on, as OpenMetrics writes them.
BOUNDS = (*(float(f"{m}e{e}") for e in range(-6, 0) for m in (1, 2, 5)), 1.0, math.inf)

_BOUNDS_NS = [bound if bound == math.inf else round(bound * 1e9) for bound in BOUNDS]

Labels = tuple[tuple[str, str], ...]
SampleName = tuple[str, Labels]


class MetricSample(NamedTuple):
    """A value of one metric. A histogram has several: `NAME_bucket`, `NAME_sum`, `NAME_count`."""

    name: str
    labels: Labels
    value: float


class MetricReading(NamedTuple):
    """One field of one message, read. A histogram has a value for each of `sample_names`."""

    labels: PlaceLabels  # of the message, the run's among them
    field: CountedField
    values: Sequence[float]


def readings(stats: pb.Stats) -> Iterator[tuple[Metric, list[MetricReading]]]:
    """All that the statistics tell. A link that is met at several functions is read at each."""
    places = StatsPlaces(stats)
    for metric in METRICS:
        histogram = metric.kind is MetricKind.HISTOGRAM
        found = []
        for field in metric.readings:
            for labels, message in field.found(places):
                values = _buckets(message.latency) if histogram else (field.read(message),)
                found.append(MetricReading(labels, field, values))
        yield metric, found


def samples(stats: pb.Stats) -> Iterator[tuple[Metric, Iterable[MetricSample]]]:
    """The same by names and labels: each told once."""
    for metric, found in readings(stats):
        told = {
            name: MetricSample(*name, value)
            for labels, field, values in found
            for name, value in zip(sample_names(metric, field, labels), values, strict=True)
        }
        yield metric, told.values()


@lru_cache(maxsize=1 << 14)  # they are the same from look to look
def sample_names(metric: Metric, field: CountedField, place: PlaceLabels) -> list[SampleName]:
    """Name and labels of each value that is read of the field there."""
    known = {**place, **field.labels}
    labels = tuple((name, known[name]) for name in ("run", *metric.labels))
    if metric.kind is not MetricKind.HISTOGRAM:
        return [(metric.name, labels)]
    bounds = ["+Inf" if bound == math.inf else str(bound) for bound in BOUNDS]
    return [
        *[(f"{metric.name}_bucket", (*labels, ("le", bound))) for bound in bounds],
        (f"{metric.name}_sum", labels),
        (f"{metric.name}_count", labels),
    ]


def _buckets(histogram: common_pb2.LatencyHistogram) -> list[float]:
    """Counts up to each bound, the sum in seconds, and the count of all. Values are known to the
    width of a bucket of the engine's.
    """
    pairs = sorted(zip(histogram.value_ns, histogram.count, strict=False))
    values = [ns for ns, _ in pairs]
    up_to = [0, *accumulate([n for _, n in pairs])]
    total = sum([ns * n for ns, n in pairs]) / 1e9
    return [*[up_to[bisect_right(values, bound)] for bound in _BOUNDS_NS], total, up_to[-1]]

"""Latency as the engine reports it: buckets of an HdrHistogram."""

from collections.abc import Iterable, Sequence

from hdrh.histogram import HdrHistogram

from unis.v1.common_pb2 import LatencyHistogram

_LOWEST_NS, _HIGHEST_NS = 1, 100 * 10**9
_DIGITS = 3  # significant; one more than the engine's, whose buckets are kept as they are


class Latency:
    """Latencies of packets, ns, which can be added up over windows."""

    def __init__(self, histograms: Iterable[LatencyHistogram] = ()) -> None:
        self._histogram = HdrHistogram(_LOWEST_NS, _HIGHEST_NS, _DIGITS)
        for histogram in histograms:
            self.add(histogram)

    def add(self, histogram: LatencyHistogram) -> None:
        """Adds the packets of one report."""
        for value, count in zip(histogram.value_ns, histogram.count, strict=True):
            self._histogram.record_value(max(_LOWEST_NS, min(value, _HIGHEST_NS)), count)

    @property
    def count(self) -> int:
        """Packets measured."""
        return int(self._histogram.get_total_count())

    def percentile_us(self, percentile: float) -> float | None:
        """The latency, µs, that `percentile` % of the packets did not exceed; None: no packet."""
        if not self.count:
            return None
        return float(self._histogram.get_value_at_percentile(percentile)) / 1000

    def percentiles_us(self, percentiles: Sequence[float]) -> dict[str, float | None]:
        """{"p50": …} for each percentile, µs."""
        return {f"p{percentile:g}": self.percentile_us(percentile) for percentile in percentiles}

    def curve(self) -> list[tuple[float, float]]:
        """The cumulative distribution: (µs, share of the packets no slower), ascending."""
        total, seen = self.count, 0
        points: list[tuple[float, float]] = []
        for item in self._histogram.get_recorded_iterator():
            seen += item.count_added_in_this_iter_step
            points.append((item.value_iterated_to / 1000, seen / total))
        return points

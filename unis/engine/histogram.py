"""Latency as the engine reports it: packets by buckets, which are 1 % wide at most."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from unis.v1.common_pb2 import LatencyHistogram


class Latency:
    """Latencies of packets, ns, which can be added up over windows."""

    def __init__(self, histograms: Iterable[LatencyHistogram] = ()) -> None:
        self._packets = Counter[int]()
        for histogram in histograms:
            for value, count in zip(histogram.value_ns, histogram.count, strict=True):
                self._packets[value] += count

    @property
    def count(self) -> int:
        """Packets measured."""
        return self._packets.total()

    def within(self, ns: float) -> int:
        """Packets that took no longer."""
        return sum(count for value, count in self._packets.items() if value <= ns)

    def percentile_us(self, percentile: float) -> float | None:
        """The latency, µs, that `percentile` % of the packets did not exceed; None: no packet."""
        least = percentile * self.count / 100
        return next((value / 1000 for value, seen in self._seen() if seen >= least), None)

    def percentiles_us(self, percentiles: Sequence[float]) -> dict[str, float | None]:
        """{"p50": …} for each percentile, µs."""
        return {f"p{percentile:g}": self.percentile_us(percentile) for percentile in percentiles}

    def curve(self) -> list[tuple[float, float]]:
        """The cumulative distribution: (µs, share of the packets no slower), ascending."""
        total = self.count
        return [(value / 1000, seen / total) for value, seen in self._seen()]

    def _seen(self) -> Iterator[tuple[int, int]]:
        """Each latency, ns, and the packets that were no slower."""
        values = sorted(self._packets)
        return zip(values, accumulate(self._packets[value] for value in values), strict=True)

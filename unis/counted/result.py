"""What was counted: part of profile.json."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel

from unis.counted.events import SHARED
from unis.counted.provider import CHAIN, Counts
from unis.counted.schedstat import ELAPSED, RAN, WAITED
from unis.measure.paired import interval

WAIT_RUN, CONTENTION_RUN = "Wait/Run", "Contention/Run"
_SCHEDSTAT = "schedstat"


class Count(BaseModel):
    """A number of one provider."""

    value: float  # median over the windows
    interval: tuple[float, float]  # of that median, 95 %
    provider: str
    unit: str


class PlaceCounts(BaseModel):
    """A function; a CPU; or what belongs to no function, `chain`."""

    name: str
    # By the packet: of a function those that it received, of others those that were delivered.
    counts: dict[str, Count]
    # Of a function, and of all functions together as `chain`. Run: its threads had a CPU.
    # Contention: they could have run, and did not. Wait: the rest of the time.
    ratios: dict[str, Count]


class Counted(BaseModel):
    """All places."""

    places: list[PlaceCounts]
    # The least share of the time for which an event had a counter, where events shared counters:
    # values are scaled by it. None: each had its own.
    counter_share: float | None = None

    @property
    def rows(self) -> list[list[str]]:
        """For tables: what was counted, its value at each place, its provider. What is 0
        everywhere is left out.
        """
        found: dict[tuple[str, str], dict[str, Count]] = {}
        for place in self.places:
            for what, count in (*place.counts.items(), *place.ratios.items()):
                named = f"{what}, ns" if count.unit.startswith("ns ") else what
                found.setdefault((count.provider, named), {})[place.name] = count
        return [
            [named, *(_told(cells.get(place.name)) for place in self.places), provider]
            for (provider, named), cells in found.items()
            if any(count.value for count in cells.values())
        ]


class WindowCounts(BaseModel):
    """Of one window, by provider."""

    packets: dict[str, float]  # by place; those of CHAIN count for all others
    by_provider: dict[str, dict[tuple[str, str], float]]

    def per_packet(self, provider: str, place: str, what: str) -> float | None:
        """None: it was not counted, or no packet came."""
        value = self.by_provider.get(provider, {}).get((place, what))
        packets = self.packets.get(place, self.packets.get(CHAIN, 0))
        return value / packets if value is not None and packets else None


def counted_of(
    windows: Sequence[WindowCounts], units: Mapping[str, Mapping[str, str]]
) -> list[PlaceCounts]:
    """What `windows` came to: functions, CPUs, the chain. `units`: of what is counted, by provider,
    in the order in which it is shown.
    """
    places: dict[str, PlaceCounts] = {}
    for name, provided in units.items():
        for place in {at for each in windows for at, _ in each.by_provider.get(name, {})}:
            row = places.setdefault(place, PlaceCounts(name=place, counts={}, ratios={}))
            for what, unit in provided.items():
                values = [each.per_packet(name, place, what) for each in windows]
                if count := _count(values, name, f"{unit} a packet"):
                    row.counts[what] = count
    for place, ratios in _ratios(windows).items():
        places.setdefault(place, PlaceCounts(name=place, counts={}, ratios={})).ratios = ratios
    return [*places.values()]


def least_share(windows: Sequence[WindowCounts]) -> float | None:
    """Of the time, that in which an event had a counter; None: all of it."""
    shares = [
        counts.get((CHAIN, SHARED)) for each in windows for counts in each.by_provider.values()
    ]
    return min((share for share in shares if share is not None), default=None)


def merged(rows: Iterable[PlaceCounts], order: Sequence[str]) -> list[PlaceCounts]:
    """One row a place: first those of `order`, then the others by name, CHAIN last."""
    found: dict[str, PlaceCounts] = {}
    for row in rows:
        into = found.setdefault(row.name, PlaceCounts(name=row.name, counts={}, ratios={}))
        for what, count in row.counts.items():
            # Where two providers count the same, both are there.
            key = what if what not in into.counts else f"{what}, {count.provider}"
            into.counts[key] = count
        into.ratios |= row.ratios
    place = {name: at for at, name in enumerate(order)}
    return sorted(
        found.values(),
        key=lambda row: (place.get(row.name, len(place)), row.name == CHAIN, row.name),
    )


def ratios_of(counts: Counts, places: Iterable[str]) -> Mapping[str, float]:
    """The paper's of one window, of some functions together. Empty: they did not run."""
    chosen = [*places]
    ran, waited, elapsed = (
        sum(counts.get((place, what), 0.0) for place in chosen) for what in (RAN, WAITED, ELAPSED)
    )
    if not ran:
        return {}
    return {WAIT_RUN: max(0.0, elapsed - ran - waited) / ran, CONTENTION_RUN: waited / ran}


def _ratios(windows: Sequence[WindowCounts]) -> dict[str, dict[str, Count]]:
    counts = [each.by_provider.get(_SCHEDSTAT, {}) for each in windows]
    functions = sorted({place for each in counts for place, _ in each})
    chosen = {name: [name] for name in functions} | ({CHAIN: functions} if functions else {})
    found: dict[str, dict[str, Count]] = {}
    for name, places in chosen.items():
        each = [ratios_of(count, places) for count in counts]
        for what in (WAIT_RUN, CONTENTION_RUN):
            if ratio := _count([ratios.get(what) for ratios in each], _SCHEDSTAT, "ratio"):
                found.setdefault(name, {})[what] = ratio
    return found


def _count(values: Sequence[float | None], provider: str, unit: str) -> Count | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Count(
        value=statistics.median(known), interval=interval(known), provider=provider, unit=unit
    )


def _told(count: Count | None) -> str:
    if count is None:
        return ""
    return f"{count.value:,.0f}" if count.value >= 100 else f"{count.value:.3g}"

"""What was found of a chain: profile.json, and what the table shows."""

import random
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from pydantic import BaseModel

from unis.counted.hot import Hot
from unis.counted.result import Counted
from unis.measure.disturbance import Disturbance
from unis.measure.paired import interval
from unis.measure.summary import MachineSummary
from unis.parts.accounting import BLOCKED, COPY, PARTS, RECEIVE, RUN_DELAY, SOURCE, Account
from unis.parts.advised import Advice, ChainUse, Trial

_T = TypeVar("_T")

_FEW, _MOST_OF_FEW, _MOST = 4, 0.15, 0.25  # functions, and what a residual may be

# Passages: what plug-in and engine noted of packets (parts/passages.py). Tracepoints: what the
# kernel told of threads and copies. Of either, less what the looking costs.
Provider = Literal["passages", "tracepoints"]
_DRAWS = 400
_OF_KERNEL = (RUN_DELAY, BLOCKED, COPY)


class PartTime(BaseModel):
    """One part of the time of a typical packet."""

    ns_per_packet: float  # mean over the middle half of the rounds
    interval: tuple[float, float]  # of their median, 95 %
    provider: Provider  # what it was measured by


class PlaceParts(BaseModel):
    """A function, or an edge: from the source, to the sink."""

    name: str
    parts: dict[str, PartTime]

    @property
    def ns(self) -> float:
        """All its parts."""
        return sum(part.ns_per_packet for part in self.parts.values())


class WaySpan(BaseModel):
    """A stretch of one packet's way, in one part; ns from its stamp on."""

    place: str
    part: str
    begin_ns: float
    end_ns: float


class TracingCost(BaseModel):
    """What tracing did to the chain: traced by untraced windows of one round, medians."""

    latency: float  # ratio of median latencies at the load of the profile
    throughput: float  # ratio of what passes at most
    throughput_interval: tuple[float, float]  # 95 %
    # That was taken off the parts: how long a packet was held up to be noted, and what else doing
    # all twice shows (0 if that cannot be told).
    ns_per_packet: float


class ChainParts(BaseModel):
    """Where the time of a packet goes, in one chain at one load."""

    machine: MachineSummary
    chain: str
    policy: str
    load_kpps: float
    most_kpps: float  # that passed untraced
    per_second: float  # packets that were followed
    rounds: int
    window: float  # seconds
    functions: list[PlaceParts]
    edges: list[PlaceParts]
    # Of all packets of windows in which nothing was traced; a mean over the middle half of the
    # rounds, like the parts.
    median_latency_ns: float
    traced_latency_ns: float  # of all packets of windows in which packets were followed
    explained_ns: float  # all parts
    traced_explained_ns: float  # likewise, with what it costs to follow packets
    residual: float  # (median latency - explained) / median latency
    residual_interval: tuple[float, float]  # 95 %, by drawing rounds anew
    tracing_cost: TracingCost
    packets: int  # that were followed from end to end
    left_out: dict[str, int]  # packets that were not, by why
    lost_events: int
    disturbed: Disturbance
    # Of the packet of the last round whose latency was nearest to the median.
    way: list[WaySpan] = []
    counted: Counted | None = None  # by the packet, beside the parts of its time
    hot: Hot | None = None  # where the functions were found running
    missing: list[str] = []  # what this machine does not tell, and what it would tell
    use: ChainUse | None = None  # at overload
    advice: list[Advice] = []  # by expected gain
    considered: list[str] = []  # what else, and why it is not advised
    tried: list[Trial] = []

    @property
    def places(self) -> list[PlaceParts]:
        """In the order of the chain: the source, the functions, the sink."""
        first = [edge for edge in self.edges if edge.name == SOURCE]
        last = [edge for edge in self.edges if edge.name != SOURCE]
        return [*first, *self.functions, *last]

    def part_ns(self, part: str) -> float:
        """One part, of all places."""
        return sum(place.parts[part].ns_per_packet for place in self.places if part in place.parts)

    @property
    def allowed(self) -> float:
        """What the residual of a chain of this length may be."""
        return _MOST_OF_FEW if len(self.functions) <= _FEW else _MOST

    @property
    def is_explained(self) -> bool:
        """Whether the parts add up to the latency, as near as they must."""
        return abs(self.residual) <= self.allowed


class WindowParts(BaseModel):
    """The parts of a typical packet of one window, ns, by place and part."""

    parts: dict[tuple[str, str], float]
    own: float = 0  # that was taken off them: how long the packet was held up to be noted

    @property
    def ns(self) -> float:
        """All of them."""
        return sum(self.parts.values())


def typical(found: Account) -> WindowParts:
    """Means over the middle fifth of the packets by latency: they add up to about the median, which
    medians of parts do not. Of at least one packet. Those that took too long count, as slow ones.
    """
    ordered = sorted(found.packets, key=lambda packet: packet.ns)
    latencies = sorted([*(packet.ns for packet in ordered), *found.slow])
    left_out = 2 * len(latencies) // 5
    slowest = latencies[len(latencies) - left_out - 1]
    middle = [each for each in ordered if latencies[left_out] <= each.ns <= slowest] or ordered[-1:]
    sums: Counter[tuple[str, str]] = Counter()
    for packet in middle:
        sums.update(packet.parts)
    return WindowParts(
        parts={key: ns / len(middle) for key, ns in sums.items()},
        own=statistics.fmean(packet.own for packet in middle),
    )


@dataclass(frozen=True)
class RoundParts:
    """Windows of one round, which see the same machine."""

    latency: float  # ns, the median of all packets while nothing is traced
    once: WindowParts
    twice: WindowParts  # all that follows packets was done twice
    copies: Mapping[str, float]  # ns a packet, by function


@dataclass(frozen=True)
class ClosedRound:
    """A round without what it costs to look."""

    latency: float  # ns
    parts: WindowParts


def without_looking(rounds: Sequence[RoundParts]) -> tuple[list[ClosedRound], WindowParts]:
    """The rounds without the cost of looking, and that cost."""
    looking = cost_of_looking([(each.once, each.twice) for each in rounds])
    return [
        ClosedRound(each.latency, with_copies(without(each.once, looking), each.copies))
        for each in rounds
    ], looking


def typical_rounds(rounds: Sequence[ClosedRound]) -> list[ClosedRound]:
    """The middle half of them, by latency and sum together, so that neither chooses; at least one.
    Machines get faster and slower from round to round: both are of the same ones.
    """
    return _middle_half(rounds, key=lambda each: each.latency + each.parts.ns)


def _middle_half(all_: Sequence[_T], key: Callable[[_T], float]) -> list[_T]:
    ordered = sorted(all_, key=key)
    left_out = (len(ordered) + 1) // 4
    return ordered[left_out : len(ordered) - left_out]


def cost_of_looking(pairs: Sequence[tuple[WindowParts, WindowParts]]) -> WindowParts:
    """What each part is longer by because packets are followed. Of each pair in the second window
    all that follows them was done twice: it makes each part longer by what doing it once did. Means
    over the middle half of the pairs. Nothing, if the sum cannot be told from 0.
    """
    costs = [without(twice, once) for once, twice in pairs]
    low, _ = interval([cost.ns for cost in costs])
    middle = _middle_half(costs, key=lambda cost: cost.ns)
    return _mean(middle) if low > 0 else WindowParts(parts={})


def closed(rounds: Sequence[ClosedRound]) -> tuple[float, float]:
    """Latency and sum of the parts, ns: means over the typical rounds."""
    middle = typical_rounds(rounds)
    latency = statistics.fmean(each.latency for each in middle)
    return latency, _mean([each.parts for each in middle]).ns


def residual_interval(rounds: Sequence[RoundParts]) -> tuple[float, float]:
    """Of the residual, 95 %. The rounds are drawn anew many times, always in the same way; what it
    costs to look is found anew each time.
    """
    draws = random.Random(0)  # noqa: S311
    found = []
    for _ in range(_DRAWS):
        drawn, _ = without_looking(draws.choices(rounds, k=len(rounds)))
        latency, sum_ns = closed(drawn)
        found.append((latency - sum_ns) / latency)
    found.sort()
    return found[_DRAWS // 40], found[-_DRAWS // 40 - 1]


def _mean(windows: Sequence[WindowParts]) -> WindowParts:
    """Unlike medians, means of parts add up."""
    keys = {key for window in windows for key in window.parts}
    return WindowParts(
        parts={
            key: statistics.fmean(window.parts.get(key, 0) for window in windows) for key in keys
        }
    )


def without(parts: WindowParts, cost: WindowParts) -> WindowParts:
    """The parts less what is in them of the cost."""
    keys = {*parts.parts, *cost.parts}
    return WindowParts(
        parts={key: parts.parts.get(key, 0) - cost.parts.get(key, 0) for key in keys}
    )


def with_copies(parts: WindowParts, copies: Mapping[str, float]) -> WindowParts:
    """Of the receive calls of functions, what the kernel copies: ns a packet, by function."""
    found = dict(parts.parts)
    for name, ns in copies.items():
        found[name, COPY] = ns
        found[name, RECEIVE] -= ns
    return WindowParts(parts=found)


def place_parts(name: str, rounds: Sequence[ClosedRound], measured: Collection[str]) -> PlaceParts:
    """Those of PARTS that were measured there; of rounds, at least one."""
    mean = _mean([each.parts for each in typical_rounds(rounds)])
    return PlaceParts(
        name=name,
        parts={
            part: PartTime(
                ns_per_packet=mean.parts.get((name, part), 0),
                interval=interval([each.parts.parts.get((name, part), 0) for each in rounds]),
                provider="tracepoints" if part in _OF_KERNEL else "passages",
            )
            for part in PARTS
            if part in measured
        },
    )


def together(counts: Iterable[Counter[str]]) -> dict[str, int]:
    """Sums, the most first."""
    return dict(sum(counts, Counter[str]()).most_common())

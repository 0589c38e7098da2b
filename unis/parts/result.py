"""What was found of a chain: profile.json, and what the table shows."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel

from unis.counted.hot import Hot
from unis.counted.result import Counted
from unis.measure.disturbance import Disturbance
from unis.measure.paired import interval
from unis.measure.summary import MachineSummary
from unis.parts.accounting import (
    COPY,
    GETTING,
    HOLDING,
    PARTS,
    PROCESSING,
    QUEUEING,
    RECEIVE,
    SEND,
    WAITING,
    Packet,
)
from unis.parts.advised import Advice, ChainUse, Trial

_FEW, _MOST_OF_FEW, _MOST = 4, 0.15, 0.25  # functions, and what a residual may be

# Times of tracepoints, less what the probes cost: what a part grew by where each was there twice.
Provider = Literal["tracepoints"]


class PartTime(BaseModel):
    """One part of the time of a typical packet."""

    ns_per_packet: float  # median over the traced windows
    interval: tuple[float, float]  # of that median, 95 %
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
    ns_per_packet: float  # that the probes cost: with each attached twice, less with each once


class ChainParts(BaseModel):
    """Where the time of a packet goes, in one chain at one load."""

    machine: MachineSummary
    chain: str
    policy: str
    load_kpps: float
    most_kpps: float  # that passed untraced
    one_in: int  # packets of which one was followed
    rounds: int
    window: float  # seconds
    functions: list[PlaceParts]
    edges: list[PlaceParts]
    median_latency_ns: float  # of all packets of windows in which nothing was traced
    traced_latency_ns: float  # of all packets of windows in which each probe was attached once
    explained_ns: float  # all parts
    traced_explained_ns: float  # likewise, with what the probes cost
    residual: float  # (median latency - explained) / median latency; median over the rounds
    residual_interval: tuple[float, float]
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

    @property
    def ns(self) -> float:
        """All of them."""
        return sum(self.parts.values())


def typical(packets: Sequence[Packet]) -> WindowParts:
    """Means over the middle fifth of the packets by latency: they add up to about the median, which
    medians of parts do not. Of at least one packet.
    """
    ordered = sorted(packets, key=lambda packet: packet.ns)
    left_out = 2 * len(ordered) // 5
    middle = ordered[left_out : len(ordered) - left_out]
    return WindowParts(
        parts={
            key: statistics.fmean(packet.parts[key] for packet in middle) for key in middle[0].parts
        }
    )


def without_probes(once: WindowParts, twice: WindowParts) -> WindowParts:
    """What the parts would be without probes: with a second set of them each part grows by what
    the first set cost it.
    """
    return WindowParts(parts={key: 2 * ns - twice.parts[key] for key, ns in once.parts.items()})


def with_calls(whole: WindowParts, calls: WindowParts) -> WindowParts:
    """The parts of `whole`, of windows in which no calls were seen, divided as in `calls`, of
    windows in which they were. To see them slows the chain, so only their shares are used.
    """
    parts: dict[tuple[str, str], float] = {}
    for (name, part), ns in whole.parts.items():
        if part not in (WAITING, HOLDING):
            parts[name, part] = ns
            continue
        inner = (QUEUEING, GETTING) if part == WAITING else (COPY, RECEIVE, PROCESSING, SEND)
        weights = [max(0.0, calls.parts[name, each]) for each in inner]
        for each, weight in zip(inner, weights, strict=True):
            key = (name, RECEIVE if each == GETTING else each)
            parts[key] = parts.get(key, 0) + ns * weight / (sum(weights) or 1)
        if not sum(weights):
            parts[name, inner[0]] += ns
    return WindowParts(parts=parts)


def place_parts(name: str, windows: Sequence[WindowParts]) -> PlaceParts:
    """Of windows, at least one."""
    parts = [part for part in PARTS if (name, part) in windows[0].parts]
    return PlaceParts(
        name=name, parts={part: _time([w.parts[name, part] for w in windows]) for part in parts}
    )


def _time(values: Sequence[float]) -> PartTime:
    return PartTime(
        ns_per_packet=statistics.median(values),
        interval=interval(values),
        provider="tracepoints",
    )


def together(counts: Iterable[Counter[str]]) -> dict[str, int]:
    """Sums, the most first."""
    return dict(sum(counts, Counter[str]()).most_common())

"""How long packets are under way at full load, as the lengths of rings make it.

The model. All functions of a CPU take turns; in a round each takes up to its quota of packets: γ
of the least of its links (under hand-over no more than `quota`), rounded up to a burst. So a round
lasts the sum of `packets · cost + switch` over the functions of the CPU. Where one ends the next
begins: neither a decision nor a poll without packets takes time of its own, and a packet costs the
mean.

A chain passes a quota a round, its least, and of a function in several chains its share. A way
through a chain is made of segments: functions one behind the other on one CPU. At full load as
many packets stand in front of a segment as fit there, the slowest segment of the way takes from
them, and behind it a packet needs a round to come through. That is nearly the same for all packets,
so p95 is near the whole of it. Of a chain with branches the slowest way counts, as if all packets
took it.

Left out, and so in the margin of what a goal is held against: interrupts and what else takes the
CPU, costs that vary, packets that stay in rings between functions, source and sink.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, inf

from unis.chain import defaults
from unis.chain.graph import Edge
from unis.chain.model import SchedulerPart
from unis.plan.gamma import GammaChoice, gamma_choice
from unis.plan.wiring import Place, Wiring


@dataclass(frozen=True)
class Turn:
    """Of a function, in each round of its CPU."""

    packets: int
    cost_ns: float


@dataclass(frozen=True)
class Segment:
    """Functions on a way, one behind the other, on one CPU."""

    slots: int  # of what leads to the first of them
    packets: float  # of the chain, that a round takes
    round_ns: float


def round_ns(turns: Sequence[Turn], switch_ns: float) -> float:
    """How long a round of a CPU lasts; one function alone is never switched."""
    switches = len(turns) if len(turns) > 1 else 0
    return sum(turn.packets * turn.cost_ns for turn in turns) + switches * switch_ns


def delay_ns(segments: Sequence[Segment]) -> float:
    """How long a packet is under way, at full load; 0 on a way that passes no function."""
    slowest = max((segment.round_ns / segment.packets for segment in segments), default=0.0)
    return sum(segment.slots * slowest + segment.round_ns for segment in segments)


class Delays:
    """The model of a wiring. `costs`: ns a packet, of each function."""

    def __init__(
        self,
        scheduler: SchedulerPart,
        wiring: Wiring,
        costs: Mapping[str, float],
        switch_ns: float,
    ) -> None:
        self._scheduler = scheduler
        self._wiring = wiring
        self._chains = wiring.graph.chains
        self._costs = costs
        self._switch_ns = switch_ns
        self._cpu = {name: part.cpu for name, part in wiring.graph.functions.items()}
        self._sharing = {name: len(wiring.graph.chains_of(name)) for name in self._cpu}
        self._links_of: dict[str, list[Place]] = {name: [] for name in self._cpu}
        for place in wiring.places:
            for name in place.functions:
                self._links_of[name].append(place)
        self._here: dict[int | None, list[str]] = {}
        for name, cpu in self._cpu.items():
            self._here.setdefault(cpu, []).append(name)

    def of(self, chain: str, rings: Mapping[str, int]) -> float:
        """The delay of packets of `chain`, ns, where rings are so long, by chain."""
        gamma = self.gamma(rings).value
        return max(
            delay_ns(list(self._segments(chain, way, rings, gamma)))
            for way in self._chains[chain].ways
        )

    def gamma(self, rings: Mapping[str, int]) -> GammaChoice:
        """γ where rings are so long."""
        least = min(self._shortest(name, rings) for name in self._links_of)
        return gamma_choice(self._scheduler, least)

    def lost(self, chain: str, rings: Mapping[str, int]) -> float:
        """The share of their time that CPUs of `chain` lose in switches, of the worst."""
        gamma = self.gamma(rings).value
        return max(self._lost(self._turns(cpu, rings, gamma)) for cpu in self._cpus(chain))

    def beside(self, chain: str) -> frozenset[str]:
        """The functions on the CPUs of `chain`, its own among them."""
        return frozenset(name for cpu in self._cpus(chain) for name in self._here[cpu])

    def _lost(self, turns: Sequence[Turn]) -> float:
        whole = round_ns(turns, self._switch_ns)
        return (whole - round_ns(turns, 0)) / whole

    def _cpus(self, chain: str) -> set[int | None]:
        return {self._cpu[name] for name in self._chains[chain].functions}

    def _segments(
        self, chain: str, way: Sequence[Edge], rings: Mapping[str, int], gamma: float
    ) -> Iterator[Segment]:
        leading = [edge for edge in way if edge.to in self._cpu]
        for cpu, edges in groupby(leading, lambda edge: self._cpu[edge.to]):
            here = list(edges)
            packets = min(
                self._packets(edge.to, rings, gamma) / self._sharing[edge.to] for edge in here
            )
            whole = round_ns(self._turns(cpu, rings, gamma), self._switch_ns)
            front = sum(place.slots(rings) for place in self._wiring.passed[chain][here[0]])
            yield Segment(front, packets, whole)

    def _turns(self, cpu: int | None, rings: Mapping[str, int], gamma: float) -> list[Turn]:
        return [
            Turn(self._packets(name, rings, gamma), self._costs[name]) for name in self._here[cpu]
        ]

    def _packets(self, function: str, rings: Mapping[str, int], gamma: float) -> int:
        """That a turn of it takes, of all its chains."""
        if len(self._here[self._cpu[function]]) == 1:  # it goes from one burst to the next
            return defaults.BATCH
        least = self._shortest(function, rings)
        scheduler = self._scheduler
        stated = defaults.AUTO_QUOTA if scheduler.quota == "auto" else scheduler.quota
        quota = min(
            gamma * least,
            stated if scheduler.controller == "handover" else inf,
            inf if scheduler.theta_max is None else scheduler.theta_max,
        )
        return min(least, defaults.BATCH * ceil(quota / defaults.BATCH))

    def _shortest(self, function: str, rings: Mapping[str, int]) -> int:
        """Slots of the shortest link that it sends to or receives from."""
        return min(place.slots(rings) for place in self._links_of[function])

"""How long links are, how much of its egress a time slice fills (γ), and which goals that keeps.

**Length.** A function runs until its turn has filled γ of its egress. Longer rings mean longer
turns, and so less CPU time lost to switches: switch / (switch + packets · cost) of a turn. Beyond
some length little is left to win, and more costs memory, cache, and latency when rings are full.
Under hand-over a turn may be shorter than the ring: the engine finds its length at run time.

**γ.** The scheduler begins a switch so early that it is done when the slice ends (the lead). But a
turn ends with a whole burst, and the scheduler looks a little late. So γ leaves two bursts of room:
the longer the links, the nearer γ is to 1. γ is never below the paper's value, and never quite 1,
because the cost of a packet is known to a few percent only. γ does not depend on the controller,
which may change while the chains run.

**Latency**, at full load. All functions of a CPU take turns. In a round each function takes up to
its quota of packets: γ of its shortest link (under hand-over at most `quota`), rounded up to a
burst. So a round lasts the sum of `packets · cost + switch` over the functions of the CPU. A round
of a chain passes its smallest quota; of a function in several chains it has an equal share.

A path through a chain is a list of segments: functions one after the other on one CPU. At full load
the links in front of a segment are full, the slowest segment of the path empties them, and inside a
segment a packet needs one round. All packets see nearly the same, so p95 is near the whole. Of a
chain with branches the slowest path counts.

The model leaves out interrupts and other tasks, costs that vary, packets that stay in rings between
functions, source and sink, decisions, and polls without packets. `_MARGIN` stands for these.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import ceil, inf
from pathlib import Path
from types import MappingProxyType

from unis import links
from unis.chain import defaults
from unis.chain.graph import ChainGraph, Edge, Graph
from unis.chain.model import NS_PER_US, ChainFile, SchedulerPart, Traffic
from unis.chain.problem import Problem
from unis.chain.values import EGRESS, INGRESS
from unis.isolate.hardware import bytes_of
from unis.links.kind import BATCH
from unis.plan.dma import IoCache, power_of_two_below
from unis.plan.programs import ProgramPlan
from unis.plan.wiring import LinkPlace, Wiring

# Of the time of the chain's cheapest function, in switches: no ring is longer for less.
_LOST = 0.03
_MUCH_LOST, _MOSTLY_LOST = 0.2, 0.5  # of the time of a CPU
# What p95 is of the modelled delay: interrupts, other tasks, costs that vary (docs/scheduler.md).
_MARGIN = 1.3
# So many times a goal is not refused yet: alone, where costs are measured, packets cost up to so
# many times what they do in a chain.
_DOUBT = 2
_LENGTHS = (1024, 2048, 4096, 8192, 16384)  # slots
_LONGEST_HANDED_OVER = 4096  # slots, under hand-over: longer turns leave the cache
_ASSUMED_NS = 50.0  # a packet, of a function that nobody has measured: short ones want long rings
# A switch as it was measured on virtual machines, where that of this one is not known.
_SWITCH_NS = {"priority": 10e3, "signal": 40e3, "handover": 2e3}
_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
_TOUCHED = 128  # bytes of a packet that a function touches: mbuf's first cache line, headers
_UNKNOWN_CACHE = 8 << 20  # bytes
_GAMMA_ROOM = 2 * BATCH  # packets that a link keeps free when a slice ends
_MOST_GAMMA = 0.95


@dataclass(frozen=True)
class GammaChoice:
    """γ of a run, and why."""

    value: float
    why: str


def gamma_choice(part: SchedulerPart, slots: int) -> GammaChoice:
    """For links of which the shortest has room for `slots` packets."""
    if part.gamma != "auto":
        return GammaChoice(part.gamma, "stated")
    value = max(defaults.PAPER_GAMMA, min(_MOST_GAMMA, round(1 - _GAMMA_ROOM / slots, 2)))
    why = f"so two bursts find room in the shortest link of a function, of {slots} slots"
    if value == defaults.PAPER_GAMMA:
        why = f"the paper's; the shortest link of a function has {slots} slots"
    elif value == _MOST_GAMMA:
        why += f"; {_MOST_GAMMA:g} is the most"
    return GammaChoice(value, why)


@dataclass(frozen=True)
class Known:
    """What was measured on this machine before."""

    costs: Mapping[str, float] = field(default_factory=dict)  # ns a packet, by function
    switch_ns: float | None = None  # of the controller of the file
    cache_bytes: int | None = None  # of the last level
    io: IoCache | None = None  # what DMA has of it


@dataclass(frozen=True)
class KnownQuery:
    """What a plan asks: what of these is `Known`."""

    programs: tuple[ProgramPlan, ...]
    traffic: Traffic
    controller: str
    platform_cpu: int | None  # near which NICs should be; None: no CPU is free


@dataclass(frozen=True)
class RingChoice:
    """Slots of each ring of a chain, and why so many."""

    slots: int
    why: str
    p95_us: float | None = None  # to be expected at full load; of a chain with a goal


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
        self._sharing = {name: len(wiring.ways[name]) for name in self._cpu}
        self._links_of: dict[str, list[LinkPlace]] = {name: [] for name in self._cpu}
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
        rounds = [self._turns(cpu, rings, gamma) for cpu in self._cpus(chain)]
        return max(1 - round_ns(turns, 0) / round_ns(turns, self._switch_ns) for turns in rounds)

    def beside(self, chain: str) -> frozenset[str]:
        """The functions on the CPUs of `chain`, its own among them."""
        return frozenset(name for cpu in self._cpus(chain) for name in self._here[cpu])

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
            front = sum(_rooms(self._wiring.passed[chain][here[0]], rings))
            yield Segment(front, packets, whole)

    def _turns(self, cpu: int | None, rings: Mapping[str, int], gamma: float) -> list[Turn]:
        return [
            Turn(self._packets(name, rings, gamma), self._costs[name]) for name in self._here[cpu]
        ]

    def _packets(self, function: str, rings: Mapping[str, int], gamma: float) -> int:
        """Packets that a turn of the function takes from all its chains."""
        if len(self._here[self._cpu[function]]) == 1:  # it goes from one burst to the next
            return BATCH
        least = self._shortest(function, rings)
        scheduler = self._scheduler
        stated = defaults.AUTO_QUOTA if scheduler.quota == "auto" else scheduler.quota
        quota = min(
            gamma * least,
            stated if scheduler.controller == "handover" else inf,
            inf if scheduler.theta_max is None else scheduler.theta_max,
        )
        return min(least, BATCH * ceil(quota / BATCH))

    def _shortest(self, function: str, rings: Mapping[str, int]) -> int:
        """Room in the shortest link that it sends to or receives from."""
        return min(
            place.room(rings, by_function=bool(place.to or self._wiring.graph.back_of(place.chain)))
            for place in self._links_of[function]
        )


@dataclass(frozen=True)
class Sizes:
    """Lengths and γ of a run, and what is wrong with them."""

    rings: Mapping[str, RingChoice]  # by chain
    gamma: GammaChoice
    notes: tuple[str, ...]  # goals of which it is not certain that they are met
    narrow: tuple[Problem, ...]  # links too short for θmin and θmax
    unmet: tuple[Problem, ...]  # goals that cannot be met

    @property
    def slots(self) -> dict[str, int]:
        """Of each ring of a chain, by chain."""
        return {name: choice.slots for name, choice in self.rings.items()}


def size(
    file: ChainFile,
    wiring: Wiring,
    stated: Mapping[str, float],
    known: Known | None = None,
    there: Mapping[str, int] = MappingProxyType({}),
) -> Sizes:
    """Sizes of the links of `file`. `stated`: costs that replace the known ones.

    Chains that are `there` keep the length of their rings (slots), where the file states none.
    Goals on latency are held against nothing where nothing is `known` of the machine.
    """
    measured = known or Known()
    measured = replace(measured, costs={**measured.costs, **stated})
    rings = choices(file, wiring, measured, there)
    slots = {name: ring.slots for name, ring in rings.items()}
    gamma = _delays(file, wiring, measured).gamma(slots)
    notes, unmet = goal_problems(file, wiring, rings, measured, there) if known else ([], [])
    narrow = threshold_problems(file.scheduler, wiring, slots, gamma.value)
    return Sizes(rings, gamma, tuple(notes), tuple(narrow), tuple(unmet))


def choices(
    file: ChainFile, wiring: Wiring, known: Known, there: Mapping[str, int]
) -> dict[str, RingChoice]:
    """By chain. A chain that is `there` keeps its length if the file states none."""
    given = {name: given for name in file.chains if (given := _given(file, name, there.get(name)))}
    wishes = {
        name: _wish(file, wiring.graph.chains[name], known)
        for name in file.chains
        if name not in given
    }
    if not any(chain.slo for chain in file.chains.values()):
        return given | wishes
    delays = _delays(file, wiring, known)
    slots = _within_goals(file, delays, given, wishes)
    return {
        name: _explained(file, name, given.get(name) or wishes[name], delays, slots)
        for name in file.chains
    }


def goal_problems(
    file: ChainFile,
    wiring: Wiring,
    rings: Mapping[str, RingChoice],
    known: Known,
    there: Iterable[str] = (),
) -> tuple[list[str], list[Problem]]:
    """Goals that the model says cannot be met: what to note, and what cannot be done.

    A length that the file states, or that of a chain that is `there`, is obeyed, a cost that is
    only assumed proves nothing, and one that was measured not that a goal is missed by little:
    those are notes.
    """
    missed = {
        name: chain.slo
        for name, chain in file.chains.items()
        if chain.slo and (rings[name].p95_us or 0) * NS_PER_US > chain.slo.p95_ns
    }
    if not missed:
        return [], []
    notes: list[str] = []
    problems: list[Problem] = []
    delays = _delays(file, wiring, known)
    slots = {name: ring.slots for name, ring in rings.items()}
    least = {name: min(_shortest(file), length) for name, length in slots.items()}
    for name, goal in missed.items():
        beside = delays.beside(name)
        fixed = _fixed(file, wiring.graph, beside, frozenset(there))
        in_doubt = False
        assumed = [
            f"the cost of {function}"
            for function in sorted(beside)
            if not known.costs.get(function)
        ]
        now, can = (delays.of(name, sizes) * _MARGIN / NS_PER_US for sizes in (slots, least))
        if fixed:
            said = (
                f"a p95 latency of {goal.latency} will not be kept: about {now:.3g} µs is to "
                f"be expected with {', '.join(fixed)}"
            )
            if can < now:
                said += f"; with rings of {least[name]} slots {can:.3g} µs"
        elif in_doubt := (
            can * NS_PER_US <= _DOUBT * goal.p95_ns and delays.lost(name, least) < _MOSTLY_LOST
        ):
            said = (
                f"a p95 latency of {goal.latency} may be missed: about {can:.3g} µs is to be "
                f"expected with rings of {least[name]} slots, the shortest; or less, for packets "
                "often cost less in a chain than alone"
            )
        else:
            said = (
                f"a p95 latency of {goal.latency} cannot be met: about {can:.3g} µs can, with "
                f"rings of {least[name]} slots, the shortest; fewer or cheaper functions on its "
                "CPUs, or shorter memifs, would help"
            )
        if assumed:
            said += f"; {', '.join(assumed)} is assumed"
        if not known.switch_ns:
            said += f"; a switch is assumed to take {_switch_ns(file, known) / NS_PER_US:g} µs"
        if fixed or assumed or in_doubt:
            notes.append(f"chain {name}: {said}")
        else:
            problems.append(Problem(("chains", name, "slo", *goal.key), said))
    return notes, problems


def _fixed(
    file: ChainFile, graph: Graph, functions: frozenset[str], there: frozenset[str]
) -> list[str]:
    """What of the lengths is not ours to choose, where `functions` are."""
    near = {
        name: file.chains[name].ring
        for name, chain in graph.chains.items()
        if functions & {*chain.functions}
    }
    return [
        *(f"ring: {ring} of {name}" for name, ring in near.items() if ring != "auto"),
        *(
            f"the rings of {name}, which stay until it is brought up anew"
            for name, ring in near.items()
            if name in there and ring == "auto"
        ),
        *(
            f"{link.slots} slots from {link.origin} to {link.to}"
            for link in file.links
            if link.slots and {link.origin, link.to} & functions
        ),
    ]


def _given(file: ChainFile, name: str, there: int | None) -> RingChoice | None:
    stated = file.chains[name].ring
    if stated != "auto":
        return RingChoice(stated, "stated")
    if there is not None:
        return RingChoice(there, "as it was when the chain was brought up")
    return None


def _wish(file: ChainFile, chain: ChainGraph, known: Known) -> RingChoice:
    """The length with which switches cost little."""
    costs = _costs(chain.functions, known)
    cheapest = min(costs, key=lambda function: costs[function])
    cost = costs[cheapest]
    controller = file.scheduler.controller
    switch = _switch_ns(file, known)

    def lost(slots: int) -> float:
        turn = slots * gamma_choice(file.scheduler, slots).value
        return switch / (switch + turn * cost)

    # What is in all rings of the chain stays in half of the cache.
    packets = (known.cache_bytes or _UNKNOWN_CACHE) // (2 * _TOUCHED * len(chain.edges))
    room = power_of_two_below(packets)
    most = _LONGEST_HANDED_OVER if controller == "handover" else _LENGTHS[-1]
    wanted = next((slots for slots in _LENGTHS if lost(slots) <= _LOST), 2 * _LENGTHS[-1])
    slots = max(_LENGTHS[0], min(wanted, room, most))
    words = [
        f"{cheapest} needs {cost:.0f} ns a packet"
        + ("" if known.costs.get(cheapest) else ", assumed as it was not measured yet"),
        f"a switch {switch / 1000:.1f} µs" + ("" if known.switch_ns else ", assumed"),
        f"so {lost(slots):.1%} of its time is lost in switches",
    ]
    if slots < wanted:
        most_said = f"{slots} is the most under {controller}"
        words.append("more would not stay in the cache" if slots == room else most_said)
    return RingChoice(slots, "; ".join(words))


def _delays(file: ChainFile, wiring: Wiring, known: Known) -> Delays:
    return Delays(file.scheduler, wiring, _costs(file.functions, known), _switch_ns(file, known))


def _costs(functions: Iterable[str], known: Known) -> dict[str, float]:
    return {name: known.costs.get(name) or _ASSUMED_NS for name in functions}


def _within_goals(
    file: ChainFile,
    delays: Delays,
    given: Mapping[str, RingChoice],
    wishes: Mapping[str, RingChoice],
) -> dict[str, int]:
    """As long as wished where all goals allow it, else as long as they do.

    All grow from the shortest, in turn: long rings of one chain make the rounds of others long. A
    goal that not even those keep stops nobody but its own chain.
    """
    slots = {name: choice.slots for name, choice in given.items()}
    slots |= dict.fromkeys(wishes, _shortest(file))

    def kept() -> set[str]:
        return {
            name
            for name, chain in file.chains.items()
            if chain.slo and delays.of(name, slots) * _MARGIN <= chain.slo.p95_ns
        }

    first = kept()
    growing = [name for name in wishes if name in first or not file.chains[name].slo]

    def doubled(names: Sequence[str]) -> bool:
        """Unless a goal forbids it."""
        for name in names:
            slots[name] *= 2
        if all(slots[name] <= wishes[name].slots for name in names) and first <= kept():
            return True
        for name in names:
            slots[name] //= 2
        return False

    while growing:
        if not doubled(growing):
            growing = [name for name in growing if doubled([name])]
    return slots


def _explained(
    file: ChainFile, name: str, choice: RingChoice, delays: Delays, slots: Mapping[str, int]
) -> RingChoice:
    goal = file.chains[name].slo
    p95_us = delays.of(name, slots) * _MARGIN / NS_PER_US if goal else None
    why = choice.why
    if slots[name] < choice.slots:
        lost = delays.lost(name, slots)
        why = (
            f"{choice.slots} without goals on latency, and no more than this within them; so "
            f"{lost:.1%} of the CPU's time is lost in switches"
        )
        if lost > _MUCH_LOST:
            why += ", which is much: a goal less strict lets more packets through"
        if "assumed" in choice.why:
            why += f" ({choice.why.partition('; so')[0]})"
    if goal:
        why += f"; p95 {p95_us:.0f} µs to be expected at full load, goal {goal.latency}"
    return RingChoice(slots[name], why, p95_us)


def _shortest(file: ChainFile) -> int:
    """Slots with which θmax is above θmin, and at the least a burst is under way."""
    slots = 2 * BATCH
    stated = file.scheduler.gamma
    gamma = defaults.PAPER_GAMMA if stated == "auto" else stated
    while ceil(gamma * (slots - 1)) <= file.scheduler.theta_min:
        slots *= 2
    return slots


def _switch_ns(file: ChainFile, known: Known) -> float:
    return known.switch_ns or _SWITCH_NS[file.scheduler.controller]


def last_level_cache(root: Path = _CACHE) -> int | None:
    """Bytes; None where the kernel does not tell."""
    found: list[int] = []
    for file in root.glob("index*/size"):
        with suppress(OSError, ValueError):
            found.append(bytes_of(file))
    return max(found, default=0) or None


def _rooms(passed: Sequence[LinkPlace], rings: Mapping[str, int]) -> list[int]:
    """Of the links of an edge that leads to a function, which receives from the last."""
    return [place.room(rings, by_function=place is passed[-1]) for place in passed]


def threshold_problems(
    part: SchedulerPart, wiring: Wiring, rings: Mapping[str, int], gamma: float
) -> list[Problem]:
    """Links that are too small for the thresholds, once each; `rings`: slots, by chain."""
    found: dict[str, Problem] = {}
    for chain, edges in wiring.passed.items():
        for edge, passed in edges.items():
            if edge.to == EGRESS:  # the sink takes whatever there is
                continue
            capacities = [
                links.KINDS[place.kind].capacity(room)
                for place, room in zip(passed, _rooms(passed, rings), strict=True)
            ]
            for sentence in _wrong(part, gamma, edge, capacities):
                found.setdefault(sentence, Problem(("chains", chain), sentence))
    return list(found.values())


def _wrong(part: SchedulerPart, gamma: float, edge: Edge, capacities: list[int]) -> Iterator[str]:
    before, behind = edge.ends
    low, high = part.theta_min, part.theta_max
    link = f"the link from `{before}` to `{behind}`"
    advice = "give it more slots, or lower theta_min"
    full = ceil(gamma * capacities[0]) if high is None else high
    if low >= capacities[-1]:
        yield (
            f"{link} holds {capacities[-1]} packets, and θmin is {low}: `{behind}` would never "
            f"have work; {advice}"
        )
    # What a source fills knows no θmax, and what the engine carries across does not stay.
    elif before != INGRESS and len(capacities) == 1 and full <= low:
        yield (
            f"{link} is filled up to θmax, {full} packets of {capacities[0]}, and θmin is {low}: "
            f"`{behind}` would hardly ever have work; {advice}"
        )

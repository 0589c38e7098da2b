"""How long the rings of a chain are where its file does not say.

A function runs until its turn has filled γ of its egress, so the longer the rings, the less of the
CPU is lost to switches: of a turn of `packets` at `cost` each, switch / (switch + packets · cost).
Beyond the length at which little is left to win, more costs memory, latency when they are full, and
the cache. Under hand-over a turn may be shorter: how long is found while the functions run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from unis.chain import defaults
from unis.chain.graph import ChainGraph, Graph
from unis.chain.model import NS_PER_US, ChainFile
from unis.chain.problem import Problem
from unis.chain.sizes import mean_cost, shares
from unis.isolate.geometry import bytes_of
from unis.plan.delay import Delays
from unis.plan.dma import IoCache
from unis.plan.gamma import GammaChoice, gamma_of
from unis.plan.wiring import Wiring

_LOST = (
    0.03  # of the time of the chain's cheapest function, in switches: no ring is longer for less
)
_MUCH_LOST, _MOSTLY_LOST = 0.2, 0.5  # of the time of a CPU
# What p95 is of the modelled delay: interrupts, other tasks, costs that vary (docs/scheduler.md).
_MARGIN = 1.3
# So many times a goal is not refused yet: alone, where costs are measured, packets cost up to so
# many times what they do in a chain.
_DOUBT = 2
_LEAST, _MOST = 1024, 16384  # slots
_MOST_HANDED_OVER = 4096  # slots, under hand-over: longer turns leave the cache
_ASSUMED_NS = 50.0  # a packet, of a function that nobody has measured: short ones want long rings
# A switch as it was measured on virtual machines, where that of this one is not known.
_SWITCH_NS = {"priority": 10e3, "signal": 40e3, "handover": 2e3}
_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
_LINES = 128  # bytes of a packet that a function touches: its mbuf's first cache line, its headers
_UNKNOWN_CACHE = 8 << 20  # bytes


@dataclass(frozen=True)
class Known:
    """What was measured on this machine before."""

    costs: Mapping[str, float] = field(default_factory=dict)  # ns a packet, by function
    switch_ns: float | None = None  # of the controller of the file
    cache_bytes: int | None = None  # of the last level
    io: IoCache | None = None  # what DMA has of it


@dataclass(frozen=True)
class RingChoice:
    """Slots of each ring of a chain, and why so many."""

    slots: int
    why: str
    p95_us: float | None = None  # to be expected at full load; of a chain with a goal


def choices(
    file: ChainFile, wiring: Wiring, known: Known, there: Mapping[str, int]
) -> dict[str, RingChoice]:
    """By chain. Those of chains that are `there` keep their length, where the file states none."""
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


def gamma(
    file: ChainFile, wiring: Wiring, rings: Mapping[str, RingChoice], known: Known
) -> GammaChoice:
    """γ of the run, where its rings are so long."""
    slots = {name: ring.slots for name, ring in rings.items()}
    return _delays(file, wiring, known).gamma(slots)


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
        assumed = [f"the cost of {at}" for at in sorted(beside) if _cost(file, at, known) is None]
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
    near = [name for name, chain in graph.chains.items() if functions & {*chain.functions}]
    return [
        *(f"ring: {file.chains[name].ring} of {name}" for name in near if _is_stated(file, name)),
        *(
            f"the rings of {name}, which stay until it is brought up anew"
            for name in near
            if name in there and not _is_stated(file, name)
        ),
        *(
            f"{link.slots} slots from {link.origin} to {link.to}"
            for link in file.links
            if link.slots and {link.origin, link.to} & functions
        ),
    ]


def _is_stated(file: ChainFile, chain: str) -> bool:
    return file.chains[chain].ring != "auto"


def _given(file: ChainFile, name: str, there: int | None) -> RingChoice | None:
    stated = file.chains[name].ring
    if stated != "auto":
        return RingChoice(stated, "stated")
    if there is not None:
        return RingChoice(there, "as it was when the chain was brought up")
    return None


def _wish(file: ChainFile, chain: ChainGraph, known: Known) -> RingChoice:
    """With which switches cost little."""
    costs = {function: _cost(file, function, known) for function in chain.functions}
    cheapest = min(costs, key=lambda function: costs[function] or _ASSUMED_NS)
    cost = costs[cheapest] or _ASSUMED_NS
    controller = file.scheduler.controller
    switch = _switch_ns(file, known)

    def lost(slots: int) -> float:
        turn = slots * gamma_of(file.scheduler, slots)
        return switch / (switch + turn * cost)

    room = _fitting(known.cache_bytes or _UNKNOWN_CACHE, len(chain.edges))
    most = _MOST_HANDED_OVER if controller == "handover" else _MOST
    enough = (slots for slots in _powers_of_two(_LEAST, _MOST) if lost(slots) <= _LOST)
    wanted = next(enough, 2 * _MOST)
    slots = max(_LEAST, min(wanted, room, most))
    words = [
        f"{cheapest} needs {cost:.0f} ns a packet"
        + ("" if costs[cheapest] else ", assumed as it was not measured yet"),
        f"a switch {switch / 1000:.1f} µs" + ("" if known.switch_ns else ", assumed"),
        f"so {lost(slots):.1%} of its time is lost in switches",
    ]
    if slots < wanted:
        most_said = f"{slots} is the most under {controller}"
        words.append("more would not stay in the cache" if slots == room else most_said)
    return RingChoice(slots, "; ".join(words))


def _delays(file: ChainFile, wiring: Wiring, known: Known) -> Delays:
    costs = {name: _cost(file, name, known) or _ASSUMED_NS for name in file.functions}
    return Delays(file.scheduler, wiring, costs, _switch_ns(file, known))


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
    slots = 2 * defaults.BATCH
    stated = file.scheduler.gamma
    gamma = defaults.PAPER_GAMMA if stated == "auto" else stated
    while ceil(gamma * (slots - 1)) <= file.scheduler.theta_min:
        slots *= 2
    return slots


def _switch_ns(file: ChainFile, known: Known) -> float:
    return known.switch_ns or _SWITCH_NS[file.scheduler.controller]


def _cost(file: ChainFile, function: str, known: Known) -> float | None:
    stated = file.functions[function].cost_ns
    if stated is not None:
        return mean_cost(stated, shares(file.traffic)) or None
    return known.costs.get(function)


def _powers_of_two(least: int, most: int) -> Iterator[int]:
    while least <= most:
        yield least
        least *= 2


def _fitting(cache_bytes: int, edges: int) -> int:
    """Slots so that what is in all rings of the chain stays in half of the cache."""
    most = cache_bytes / 2 / (_LINES * edges)
    return 1 << (max(1, int(most)).bit_length() - 1)


def last_level_cache(root: Path = _CACHE) -> int | None:
    """Bytes; None where the kernel does not tell."""
    sizes = [_bytes(file) for file in root.glob("index*/size")]
    return max(sizes, default=0) or None


def _bytes(file: Path) -> int:
    try:
        return bytes_of(file)
    except (OSError, ValueError):
        return 0

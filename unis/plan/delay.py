"""How long packets are under way at full load, as the lengths of rings make it.

The model. All functions of a CPU take turns; in a round each takes up to its quota of packets: γ
of the least of its links (under hand-over no more than a `quota` that is stated), rounded up to a
burst. So a round lasts the sum of `packets · cost + switch` over the functions of the CPU. Where
one ends the next begins: neither a decision nor a poll without packets takes time of its own, and
a packet costs the mean.

A chain passes a quota a round, its least, and of a function in several chains its share. A path is
made of stretches of functions on one CPU. At full load what stands in front of a stretch is as much
as fits there, the slowest stretch of the path takes from it, and behind it a packet needs a round
to come through. That is nearly the same for all packets, so p95 is near the whole of it.

Left out, and so in the margin of what a goal is held against: interrupts and what else takes the
CPU, costs that vary, packets that stay in rings between functions, source and sink.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, inf

from unis.chain import defaults
from unis.chain.model import ChainFile
from unis.plan.gamma import GammaChoice, gamma_choice
from unis.plan.wiring import memif_slots, on_memif, ring_slots


@dataclass(frozen=True)
class Turn:
    """Of a function, in each round of its CPU."""

    packets: int
    cost_ns: float


@dataclass(frozen=True)
class Stretch:
    """Functions of a path, one behind the other, on one CPU."""

    slots: int  # of what leads to the first of them
    packets: float  # of the chain, that a round takes
    round_ns: float


def round_ns(turns: Sequence[Turn], switch_ns: float) -> float:
    """How long a round of a CPU lasts; one function alone is never switched."""
    switches = len(turns) if len(turns) > 1 else 0
    return sum(turn.packets * turn.cost_ns for turn in turns) + switches * switch_ns


def delay_ns(stretches: Sequence[Stretch]) -> float:
    """How long a packet is under way, at full load."""
    slowest = max(stretch.round_ns / stretch.packets for stretch in stretches)
    return sum(stretch.slots * slowest + stretch.round_ns for stretch in stretches)


class Delays:
    """The model of a file. `costs`: ns a packet, of each function."""

    def __init__(self, file: ChainFile, costs: Mapping[str, float], switch_ns: float) -> None:
        self._file = file
        self._costs = costs
        self._switch_ns = switch_ns
        self._scheduler = file.scheduler
        self._own = on_memif(file)
        self._cpu = {name: file.function(name).cpu for name in file.functions}
        self._paths = {name: list(file.path(name)) for name in file.chains}
        # By function: its chains, each with the ends of the links before and behind it.
        self._links_of: dict[str, list[tuple[str, tuple[str, str]]]] = {}
        self._chains_of: dict[str, set[str]] = {}
        self._leads: dict[tuple[str, str], tuple[str, str]] = {}
        for chain in file.chains:
            for ends in file.boundaries(chain):
                self._leads[chain, ends[1]] = ends
                for name in set(ends) & self._cpu.keys():
                    self._links_of.setdefault(name, []).append((chain, ends))
                    self._chains_of.setdefault(name, set()).add(chain)
        self._here: dict[int | None, list[str]] = {}
        for name in self._chains_of:
            self._here.setdefault(self._cpu[name], []).append(name)

    def of(self, chain: str, slots: Mapping[str, int]) -> float:
        """The delay of packets of `chain`, ns, where rings are so long, by chain."""
        return delay_ns(list(self._stretches(chain, slots, self.gamma(slots).value)))

    def gamma(self, slots: Mapping[str, int]) -> GammaChoice:
        """γ where rings are so long."""
        least = min(self._shortest(name, slots) for name in self._links_of)
        return gamma_choice(self._scheduler, least)

    def lost(self, chain: str, slots: Mapping[str, int]) -> float:
        """The share of their time that CPUs of `chain` lose in switches, of the worst."""
        gamma = self.gamma(slots).value
        return max(self._lost(self._turns(cpu, slots, gamma)) for cpu in self._cpus(chain))

    def beside(self, chain: str) -> frozenset[str]:
        """The functions on the CPUs of `chain`, its own among them."""
        return frozenset(name for cpu in self._cpus(chain) for name in self._here[cpu])

    def _lost(self, turns: Sequence[Turn]) -> float:
        whole = round_ns(turns, self._switch_ns)
        return (whole - round_ns(turns, 0)) / whole

    def _cpus(self, chain: str) -> set[int | None]:
        return {self._cpu[name] for name in self._paths[chain]}

    def _stretches(self, chain: str, slots: Mapping[str, int], gamma: float) -> Iterator[Stretch]:
        for cpu, functions in groupby(self._paths[chain], self._cpu.__getitem__):
            names = list(functions)
            packets = min(
                self._packets(name, slots, gamma) / len(self._chains_of[name]) for name in names
            )
            whole = round_ns(self._turns(cpu, slots, gamma), self._switch_ns)
            front = sum(self.lengths(chain, self._leads[chain, names[0]], slots).values())
            yield Stretch(front, packets, whole)

    def _turns(self, cpu: int | None, slots: Mapping[str, int], gamma: float) -> list[Turn]:
        return [
            Turn(self._packets(name, slots, gamma), self._costs[name]) for name in self._here[cpu]
        ]

    def _packets(self, function: str, slots: Mapping[str, int], gamma: float) -> int:
        """That a turn of it takes, of all its chains."""
        if len(self._here[self._cpu[function]]) == 1:  # it goes from one burst to the next
            return defaults.BATCH
        least = self._shortest(function, slots)
        scheduler = self._scheduler
        stated = scheduler.quota if scheduler.controller == "handover" else "auto"
        quota = min(
            gamma * least,
            inf if stated == "auto" else stated,
            inf if scheduler.theta_max is None else scheduler.theta_max,
        )
        return min(least, defaults.BATCH * ceil(quota / defaults.BATCH))

    def _shortest(self, function: str, slots: Mapping[str, int]) -> int:
        """Slots of the shortest link that it sends to or receives from."""
        kind = "memif" if function in self._own else "ring"
        return min(
            self.lengths(chain, ends, slots)[kind] for chain, ends in self._links_of[function]
        )

    def lengths(
        self, chain: str, ends: tuple[str, str], slots: Mapping[str, int]
    ) -> dict[str, int]:
        """By kind, of the links from one end to the other: a ring and a memif, where they meet."""
        on_memif = [end in self._own for end in ends]
        found: dict[str, int] = {}
        if not all(on_memif):
            found["ring"] = ring_slots(self._file, chain, ends, slots[chain])
        if any(on_memif):
            found["memif"] = memif_slots(self._file, chain, ends)
        return found

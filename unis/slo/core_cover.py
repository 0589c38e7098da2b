"""The fewest machines' worth of cores for all promises, by column generation, and a bound.

Variables are how many cores have each pattern; a relaxed program over those that are known tells
prices, and what is worth more at these joins them, till nothing is found. Then the same in whole
numbers.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from unis.slo.core_bound import KnownCore, MachineProgram
from unis.slo.core_patterns import (
    CUTS,
    Atoms,
    Pattern,
    Prices,
    atoms_of,
    holds_with_each,
    pairs,
    patterns,
    presence,
)
from unis.slo.cores import Core, Wish, holds, trimmed
from unis.slo.profile import Server, Slo

_ROUNDS = 120
_STILL, _HARDLY = 12, 0.004  # machines in so many rounds: no more is to be had
_GAP = 1e-3  # in machines, where whole ones are not what matters
_NODES = 4000
_SECONDS = 20.0  # for whole numbers, where nodes take that long
_EPSILON = 1e-7


@dataclass(frozen=True)
class Covered:
    """Cores for all wishes."""

    cores: list[Core]  # none, where too many were looked at to find any
    known: Sequence[KnownCore]  # good ones


def covered(
    wishes: Sequence[Wish],
    server: Server,
    margin: float,
    switch_us: float,
    start: Iterable[Sequence[Core]],
    *,
    whole: bool,
    report: Callable[[str], None],
) -> Covered:
    """Cores for all, beginning with those of `start`; may be none.

    `whole`: these are all cores, so what matters is the number of machines, rounded up.
    """
    atoms = atoms_of(wishes)
    program = _Program(atoms, len(wishes), server)
    program.add(_alone(atoms, switch_us))
    program.add(_of_cores(atoms, wishes, start))
    values: list[float] = []
    for number in range(_ROUNDS):
        value, prices = program.relaxed()
        values.append(value)
        if number and number % _STILL == 0:
            report(f"{value:.2f} machines if cores could be cut, {len(program.patterns)} patterns")
        if len(values) > _STILL and values[-_STILL] - value < _HARDLY:
            break
        if not program.add(patterns(atoms, prices, switch_us)):
            break
    program.add(pairs(atoms, prices, switch_us))
    chosen = program.in_whole_numbers(math.ceil(value - _EPSILON) if whole else 0.0)
    cores = _cores(atoms, wishes, chosen, margin, switch_us)
    known = [
        [(int(atoms.wish[at]), float(atoms.cuts[at]) / CUTS, int(atoms.ways[at])) for at in of]
        for of in program.patterns
    ]
    return Covered(cores, known)


class _Program:
    """The relaxed program over the patterns that are known, and then in whole numbers."""

    def __init__(self, atoms: Atoms, wishes: int, server: Server) -> None:
        self.patterns: dict[Pattern, None] = {}
        self._atoms = atoms
        self._server = server
        self._wishes = wishes
        # Of each promise all its packets; and one instance, or two at least. Without that three
        # quarters would seem to do for three quarters of the price, as the last one needs no way.
        self._program = MachineProgram(server, 2 * wishes)

    def add(self, found: Iterable[Pattern]) -> int:
        """How many of them are new."""
        before = len(self.patterns)
        for pattern in found:
            of = list(pattern)
            ways = self._atoms.ways[of]
            more = int((ways > 1).sum())
            classes = more + (more < len(of))
            fits = ways.sum() <= self._server.ways and classes < self._server.classes
            if pattern in self.patterns or not fits:
                continue
            self.patterns[pattern] = None
            packets = self._atoms.wish[of]
            cuts = self._atoms.cuts[of]
            self._program.add(
                int(ways.sum()), classes, [*packets, *(packets + self._wishes)],
                [*(cuts / CUTS), *presence(cuts)],
            )  # fmt: skip
        return len(self.patterns) - before

    def relaxed(self) -> tuple[float, Prices]:
        """Machines, and what a thing more of each would save."""
        value, takes, promises = self._program.relaxed()
        return value, Prices(*takes, *np.split(promises, 2))

    def in_whole_numbers(self, enough: float) -> list[Pattern]:
        """A pattern for each core. With no more than `enough` machines none fewer is looked for."""
        counts = self._program.whole(_SECONDS, _GAP, enough + _EPSILON, _NODES)
        every = zip(self.patterns, counts, strict=bool(counts))
        return [pattern for pattern, count in every for _ in range(count)]


def _alone(atoms: Atoms, switch_us: float) -> list[Pattern]:
    """Each part of each promise on a core of its own, with the fewest ways."""
    fewest: dict[tuple[int, int], int] = {}
    for atom in np.nonzero(holds_with_each(atoms, (), switch_us))[0].tolist():
        key = (int(atoms.wish[atom]), int(atoms.cuts[atom]))
        if key not in fewest or atoms.ways[atom] < atoms.ways[fewest[key]]:
            fewest[key] = atom
    return [(atom,) for atom in fewest.values()]


def _of_cores(
    atoms: Atoms, wishes: Sequence[Wish], start: Iterable[Sequence[Core]]
) -> list[Pattern]:
    """As patterns; cores with parts that no atom is are left out."""
    whole: dict[tuple[str, int, int], list[int]] = {}
    for atom in np.nonzero(atoms.cuts == CUTS)[0].tolist():
        wish = wishes[atoms.wish[atom]]
        whole.setdefault((wish.slo.name, wish.at, int(atoms.ways[atom])), []).append(atom)
    found: list[Pattern] = []
    for cores in start:
        left = {key: [*of] for key, of in whole.items()}
        for core in cores:
            keys = [(part.slo, part.at, part.ways) for part in core.parts]
            if all(left.get(key) for key in keys):
                found.append(tuple(sorted(left[key].pop() for key in keys)))
    return found


def _cores(
    atoms: Atoms, wishes: Sequence[Wish], chosen: Sequence[Pattern], margin: float, switch_us: float
) -> list[Core]:
    """What is covered twice is left out where it is not needed."""
    slos: dict[str, Slo] = {wish.slo.name: wish.slo for wish in wishes}
    wanted = [CUTS] * len(wishes)
    cores: list[Core] = []
    for pattern in chosen:
        parts = []
        for atom in pattern:
            at = int(atoms.wish[atom])
            cuts = min(wanted[at], int(atoms.cuts[atom]))
            wanted[at] -= cuts
            if cuts:
                mpps = wishes[at].mpps * cuts / CUTS
                parts.append(wishes[at].part(int(atoms.ways[atom]), mpps))
        if parts and not holds(parts, slos, margin, switch_us):
            raise AssertionError("a core with less on it than its pattern does not hold")
        if parts:
            cores.append(Core(trimmed(parts, slos, margin, switch_us)))
    return cores

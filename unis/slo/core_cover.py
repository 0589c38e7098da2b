"""The fewest machines' worth of cores for all promises, by column generation.

Promises are cut into quarters at the finest. A part of one with so many ways is an *atom*; a set of
atoms of different promises, all of which are kept on a core, is a *pattern*. Variables are how many
cores have each pattern; a relaxed program over those that are known tells prices, and patterns that
are worth more at these join them, till none is found. Then the same in whole numbers.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unis.slo.cores import Core, CoreDemand, CoreModel, budget_us
from unis.slo.polling import added_us
from unis.slo.profile import Server
from unis.slo.program import Program

_ROUNDS = 120
_STILL, _HARDLY = 12, 0.004  # machines in so many rounds: no more is to be had
_GAP = 1e-3  # in machines, where whole ones are not what matters
_NODES = 4000
_SECONDS = 20.0  # for whole numbers, where nodes take that long
CUTS = 4  # the finest part of a promise is 1 of so many
MOST_PARTS = 6  # of a core, that are looked for
_STEPS = 240  # of a core
_BASES = 12  # of as many parts each, that are completed
_COMPLETED = 3  # ways to complete one
_NEARLY = 0.05  # less than what they cost
_PAIRS = 20  # with each
_LEAST_GAIN = 1e-3  # of a core, by a way more
_EPSILON = 1e-9
_ROUNDING = 1e-7  # of a machine
_NEVER = -1e9

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
CorePattern = tuple[int, ...]  # atoms, ascending


@dataclass(frozen=True)
class CorePrices:
    """What a core, a way, a class of service cost and promises are worth."""

    core: float
    way: float
    class_of_service: float
    packets: Floats  # of each promise
    presence: Floats  # of each: one whole instance, or two or more


@dataclass(frozen=True)
class Atoms:
    """Side by side, ordered by promise and then by what they take of a core."""

    demand: Ints
    cuts: Ints  # of CUTS, of the promise
    ways: Ints
    share: Floats  # of a core
    load: Floats  # of it
    work_us: Floats  # on a packet
    budget_us: Floats  # that a shared core may add

    def __len__(self) -> int:
        return len(self.demand)

    def worth(self, prices: CorePrices) -> Floats:
        """Of each, less its ways and its class; a class that may be shared counts nothing."""
        return np.asarray(
            prices.packets[self.demand] * self.cuts / CUTS
            + prices.presence[self.demand] * presence(self.cuts)
            - prices.way * self.ways
            - prices.class_of_service * (self.ways > 1),
            dtype=np.float64,
        )


def presence(cuts: Ints) -> Floats:
    """1 of a whole promise, half of a part: who is cut has two parts at least."""
    return np.where(cuts == CUTS, 1.0, 0.5)


def atoms_of(demands: Sequence[CoreDemand]) -> Atoms:
    """All that keep within the limit of their promise alone."""
    rows = sorted(
        (at, share, cuts, ways)
        for at, demand in enumerate(demands)
        for cuts in range(1, CUTS + 1)
        for ways, share in _shares(demand, cuts)
    )
    atom_demands = [demands[at] for at, *_ in rows]
    share = np.array([row[1] for row in rows])
    cuts = np.array([row[2] for row in rows], dtype=np.int64)
    load = share * [demand.limit for demand in atom_demands]
    return Atoms(
        np.array([row[0] for row in rows], dtype=np.int64),
        cuts,
        np.array([row[3] for row in rows], dtype=np.int64),
        share,
        load,
        load / (cuts / CUTS * [demand.mpps for demand in atom_demands]),
        np.array([budget_us(demand.slo) for demand in atom_demands]),
    )


def _shares(demand: CoreDemand, cuts: int) -> Iterator[tuple[int, float]]:
    """With ways of which each brings something, and with all."""
    before = float("inf")
    for ways, whole in enumerate(demand.shares, 1):
        share = whole * cuts / CUTS
        brings = share < before - _LEAST_GAIN or ways == len(demand.shares)
        if share <= 1 + _EPSILON and brings:
            before = share
            yield ways, share


def covered(
    demands: Sequence[CoreDemand],
    server: Server,
    model: CoreModel,
    start: Iterable[Sequence[Core]],
    *,
    whole: bool,
    report: Callable[[str], None],
) -> list[Core]:
    """Cores for all, beginning with those of `start`; none where it took too long to find them.

    `whole`: these are all cores, so what matters is the number of machines, rounded up.
    """
    atoms = atoms_of(demands)
    program = _CoverProgram(atoms, len(demands), server)
    program.add(_alone(atoms, model.switch_us))
    program.add(_of_cores(atoms, demands, start))
    values: list[float] = []
    for number in range(_ROUNDS):
        value, prices = program.relaxed()
        values.append(value)
        if number and number % _STILL == 0:
            report(f"{value:.2f} machines if cores could be cut, {len(program.patterns)} patterns")
        if len(values) > _STILL and values[-_STILL] - value < _HARDLY:
            break
        if not program.add(patterns(atoms, prices, model.switch_us)):
            break
    program.add(pairs(atoms, prices, model.switch_us))
    chosen = program.in_whole_numbers(math.ceil(value - _ROUNDING) if whole else 0.0)
    return _cores(atoms, demands, chosen, model)


class _CoverProgram:
    """The relaxed program over the patterns that are known, and then in whole numbers.

    Machines count by what they have in all: cores, ways, classes of service.
    """

    def __init__(self, atoms: Atoms, demands: int, server: Server) -> None:
        self.patterns: dict[CorePattern, int] = {}  # and the column of each
        self._atoms = atoms
        self._server = server
        self._program = program = Program()
        has = (server.places, server.ways, server.classes - 1)
        self._takes = [program.row() for _ in has]
        program.column(1.0, dict(zip(self._takes, map(float, has), strict=True)))
        # Of each promise all its packets; and one instance, or two at least. Without that three
        # quarters would seem to do for three quarters of the price, as the last one needs no way.
        self._packets = [program.row(1.0) for _ in range(demands)]
        self._presence = [program.row(1.0) for _ in range(demands)]

    def add(self, found: Iterable[CorePattern]) -> int:
        """How many of them are new."""
        before = len(self.patterns)
        for pattern in found:
            indices = list(pattern)
            ways = self._atoms.ways[indices]
            more = int((ways > 1).sum())
            classes = more + (more < len(indices))
            fits = ways.sum() <= self._server.ways and classes < self._server.classes
            if pattern in self.patterns or not fits:
                continue
            takes = (-1.0, -float(ways.sum()), -float(classes))
            rows = dict(zip(self._takes, takes, strict=True))
            cuts = self._atoms.cuts[indices]
            for demand, part, there in zip(
                self._atoms.demand[indices].tolist(), cuts / CUTS, presence(cuts), strict=True
            ):
                rows |= {self._packets[demand]: part, self._presence[demand]: there}
            self.patterns[pattern] = self._program.column(0.0, rows, whole=True)
        return len(self.patterns) - before

    def relaxed(self) -> tuple[float, CorePrices]:
        """Machines, and what a thing more of each would save."""
        found = self._program.solve(relaxed=True)
        if found is None:
            raise AssertionError("as many machines as one likes hold all of it")
        takes, rest = np.split(np.maximum(0.0, found.duals), [len(self._takes)])
        return found.objective, CorePrices(*takes.tolist(), *np.split(rest, 2))

    def in_whole_numbers(self, enough: float) -> list[CorePattern]:
        """A pattern for each core. With no more than `enough` machines none fewer is looked for."""
        found = self._program.solve(_SECONDS, gap=_GAP, enough=enough + _ROUNDING, nodes=_NODES)
        if found is None:
            return []
        counts = {pattern: round(found.values[column]) for pattern, column in self.patterns.items()}
        return [pattern for pattern, count in counts.items() for _ in range(count)]


def _alone(atoms: Atoms, switch_us: float) -> list[CorePattern]:
    """Each part of each promise on a core of its own, with the fewest ways."""
    fewest: dict[tuple[int, int], int] = {}
    for atom in np.nonzero(holds_with_each(atoms, (), switch_us))[0].tolist():
        key = (int(atoms.demand[atom]), int(atoms.cuts[atom]))
        if key not in fewest or atoms.ways[atom] < atoms.ways[fewest[key]]:
            fewest[key] = atom
    return [(atom,) for atom in fewest.values()]


def _of_cores(
    atoms: Atoms, demands: Sequence[CoreDemand], start: Iterable[Sequence[Core]]
) -> list[CorePattern]:
    """As patterns; cores with parts that no atom is are left out."""
    whole: dict[tuple[str, int, int], list[int]] = {}
    for atom in np.nonzero(atoms.cuts == CUTS)[0].tolist():
        demand = demands[atoms.demand[atom]]
        whole.setdefault((demand.slo.name, demand.at, int(atoms.ways[atom])), []).append(atom)
    found: list[CorePattern] = []
    for cores in start:
        left = {key: [*indices] for key, indices in whole.items()}
        for core in cores:
            keys = [(part.slo, part.at, part.ways) for part in core.parts]
            if all(left.get(key) for key in keys):
                found.append(tuple(sorted(left[key].pop() for key in keys)))
    return found


def _cores(
    atoms: Atoms, demands: Sequence[CoreDemand], chosen: Sequence[CorePattern], model: CoreModel
) -> list[Core]:
    """What is covered twice is left out where it is not needed."""
    wanted = [CUTS] * len(demands)
    cores: list[Core] = []
    for pattern in chosen:
        parts = []
        for atom in pattern:
            at = int(atoms.demand[atom])
            cuts = min(wanted[at], int(atoms.cuts[atom]))
            wanted[at] -= cuts
            if cuts:
                mpps = demands[at].mpps * cuts / CUTS
                parts.append(demands[at].part(int(atoms.ways[atom]), mpps))
        if parts and not model.holds(parts):
            raise AssertionError("a core with less on it than its pattern does not hold")
        if parts:
            cores.append(Core(model.trimmed(parts)))
    return cores


# ---------------------------------------------------------------------- patterns


def patterns(atoms: Atoms, prices: CorePrices, switch_us: float) -> dict[CorePattern, float]:
    """Patterns that are worth more than they cost, and by how much; not all there are.

    All but one atom of each are the best for a load, whatever their latencies; the last is the best
    of all with which everybody is in time.
    """
    worth = atoms.worth(prices)
    found: dict[CorePattern, float] = {}
    for base in [(), *_bases(atoms, worth)]:
        gain = _completed(atoms, worth, base, switch_us) - prices.core
        for last in np.argsort(-gain)[:_COMPLETED]:
            if gain[last] > _EPSILON:
                found[tuple(sorted((*base, int(last))))] = float(gain[last])
    return found


def pairs(atoms: Atoms, prices: CorePrices, switch_us: float) -> Iterator[CorePattern]:
    """Of a whole promise and a part of another, that are nearly worth what they cost.

    Whole numbers of cores need some that cores which could be cut do not.
    """
    worth = atoms.worth(prices)
    least = prices.core * (1 - _NEARLY)
    for atom in np.nonzero(atoms.cuts == CUTS)[0].tolist():
        if worth[atom] + worth.max(initial=0.0) < least:
            continue
        gain = _completed(atoms, worth, (atom,), switch_us)
        for last in np.argsort(-gain, kind="stable")[:_PAIRS]:
            if gain[last] < least:
                break
            yield tuple(sorted((atom, int(last))))


def _completed(atoms: Atoms, worth: Floats, base: CorePattern, switch_us: float) -> Floats:
    """What the base is worth with each atom more; far below 0 where that cannot be."""
    with_each = worth + sum(float(worth[at]) for at in base)
    fits = holds_with_each(atoms, base, switch_us)
    return np.where(fits, with_each, _NEVER)


def holds_with_each(atoms: Atoms, base: CorePattern, switch_us: float) -> NDArray[np.bool_]:
    """Whether all keep their promises on a core with the base and one atom more, by atom."""
    base_atoms = list(base)
    load = atoms.load + atoms.load[base_atoms].sum()
    fits = atoms.share + atoms.share[base_atoms].sum() <= 1 + _EPSILON
    fits &= ~np.isin(atoms.demand, atoms.demand[base_atoms])
    at = np.nonzero(fits)[0]
    own, us = atoms.load[at], atoms.work_us[at]
    squares = own**2 + (atoms.load[base_atoms] ** 2).sum()
    work = own * us + (atoms.load[base_atoms] * atoms.work_us[base_atoms]).sum()
    longest = np.maximum(us, atoms.work_us[base_atoms].max() if base_atoms else 0.0)
    count = len(base_atoms) + 1

    def added(own: Floats, us: Floats) -> Floats:
        return added_us(own, us, load[at], squares, work, longest, count, switch_us)

    in_time = added(own, us) <= atoms.budget_us[at]
    for atom in base_atoms:
        late = added(np.full(len(at), atoms.load[atom]), np.full(len(at), atoms.work_us[atom]))
        in_time &= late <= atoms.budget_us[atom]
    fits[at] = in_time
    return np.asarray(fits, dtype=np.bool_)


def _bases(atoms: Atoms, worth: Floats) -> Iterator[CorePattern]:
    """The sets of 1, 2, … atoms that are worth most, by how much of the core they take."""
    # Best worth with exactly so many atoms (row), within so many steps (column).
    best = np.full((MOST_PARTS, _STEPS + 1), _NEVER)
    best[0] = 0.0
    chosen: list[tuple[dict[int, int], Ints]] = []
    for options in _by_demand(atoms, worth):
        after = best.copy()
        choice = np.full(best.shape, -1, dtype=np.int64)
        for atom, size in options.items():
            more = best[:-1, : _STEPS + 1 - size] + worth[atom]
            better = more > after[1:, size:] + _EPSILON
            after[1:, size:][better] = more[better]
            choice[1:, size:][better] = atom
        best = after
        chosen.append((options, choice))
    for count in range(1, MOST_PARTS):
        worths, firsts = np.unique(best[count], return_index=True)
        firsts = firsts[worths > 0]
        for step in firsts[:: max(1, len(firsts) // _BASES)]:
            yield _traced(chosen, count, int(step))


def _by_demand(atoms: Atoms, worth: Floats) -> Iterator[dict[int, int]]:
    """For each promise its atoms that are worth more than all that take less, and their steps."""
    within = np.nonzero(worth > _EPSILON)[0]
    sizes = np.ceil(np.minimum(1.0, atoms.share[within]) * _STEPS - _EPSILON).astype(int).tolist()
    options: dict[int, int] = {}
    demand, highest = -1, 0.0
    for atom, atom_demand, size, value in zip(
        within.tolist(), atoms.demand[within].tolist(), sizes, worth[within].tolist(), strict=True
    ):
        if atom_demand != demand:
            if options:
                yield options
            options, demand, highest = {}, atom_demand, 0.0
        if value > highest:
            options[atom] = size
            highest = value
    if options:
        yield options


def _traced(chosen: Sequence[tuple[Mapping[int, int], Ints]], count: int, step: int) -> CorePattern:
    found: list[int] = []
    for options, choice in reversed(chosen):
        atom = int(choice[count, step])
        if atom >= 0:
            found.append(atom)
            count -= 1
            step -= options[atom]
    return tuple(sorted(found))

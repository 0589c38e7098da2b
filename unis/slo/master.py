"""The program of the sockets: how many have which content, and how many promises which split.

    least    Σ machines of each kind of server
    so that  as many places of each size as instances (a place also holds what takes no more),
             each promise is split in one way,
             and sockets ≤ sockets of a server · machines ≤ those of all servers.

Contents and splits come one by one (column generation), as whoever prices them finds them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import highspy
import numpy as np

from unis.slo.catalogue import Mixture
from unis.slo.knapsack import Content
from unis.slo.placement import Instance, Machine, of_sockets
from unis.slo.profile import Server
from unis.slo.sizes import Demand, Ints, Size
from unis.slo.splits import Split

_LEFT_OUT = (
    10.0  # machines, and one for each that there is: what a promise costs that is not placed
)
_EPSILON = 1e-6


@dataclass(frozen=True)
class Prices:
    """What a solution of the relaxed program says that things are worth, in machines."""

    machines: float  # all of them
    sizes: Sequence[float]
    promises: Sequence[float]  # of each demand, one of its promises
    sockets: Sequence[float]  # of each kind of server


@dataclass(frozen=True)
class Parts:
    """Of which contents and splits a relaxed solution has how many."""

    contents: Mapping[tuple[int, Content], float]
    splits: Sequence[Mapping[Split, float]]  # by demand


class Master:
    """Grows; `relaxed` and `whole` solve what is there."""

    def __init__(self, demands: Sequence[Demand], servers: Sequence[Server]) -> None:
        self.sizes: list[Size] = []
        self._index: dict[Size, int] = {}
        self._demands, self._servers = demands, servers
        self._contents: dict[tuple[int, Content], int] = {}  # column
        self._splits: dict[tuple[int, Split], int] = {}
        self._mixtures: dict[tuple[int, frozenset[tuple[Size, float]]], int] = {}
        self._narrower: dict[tuple[int, int], int] = {}  # a place of a size for another
        self._solver = solver = highspy.Highs()
        solver.silent()
        every = sum(server.count for server in servers)
        for demand in demands:  # row: its promises
            solver.addRow(float(len(demand.slos)), float(len(demand.slos)), 0, _INT, _FLOAT)
        for _ in servers:  # row: sockets
            solver.addRow(0.0, np.inf, 0, _INT, _FLOAT)
        self._most: list[float] = []  # of each column
        self._values: list[float] = []  # of the last relaxed solution
        for at in range(len(demands)):
            self._column(every + _LEFT_OUT, np.inf, {at: 1.0})
        for at, server in enumerate(servers):
            row = {len(demands) + at: float(server.sockets)}
            self._column(1.0, float(server.count), row)

    def size(self, size: Size) -> int:
        """Its index; it gets a row."""
        if size in self._index:
            return self._index[size]
        at = self._index[size] = len(self.sizes)
        self._solver.addRow(0.0, np.inf, 0, _INT, _FLOAT)
        have = np.array(self.sizes, np.int64).reshape(-1, 3)
        self.sizes.append(size)
        below = np.flatnonzero((have <= size).all(axis=1))
        above = np.flatnonzero((have >= size).all(axis=1))
        for of in _last(have, below):
            self._narrow(at, int(of))
        for of in _last(-have, above):
            self._narrow(int(of), at)
        return at

    def split(self, demand: int, split: Split | Mixture) -> bool:
        """Adds it, or for the relaxed program what stands for splits; False: it is there."""
        if isinstance(split, Mapping):
            key = demand, frozenset(split.items())
            if key in self._mixtures:
                return False
            rows = {self._row(self.size(size)): -of for size, of in split.items()}
            self._mixtures[key] = self._column(0.0, np.inf, {demand: 1.0, **rows})
            return True
        if (demand, split) in self._splits:
            return False
        sizes = Counter(self.size(size) for size in self._demands[demand].task.sizes(split))
        rows = {self._row(at): -float(of) for at, of in sizes.items()}
        self._splits[demand, split] = self._column(0.0, np.inf, {demand: 1.0, **rows})
        return True

    def content(self, server: int, content: Content) -> bool:
        """Adds a content of a socket; False: it is there."""
        if (server, content) in self._contents:
            return False
        rows = {self._row(at): float(of) for at, of in Counter(content).items()}
        rows[len(self._demands) + server] = -1.0
        self._contents[server, content] = self._column(0.0, np.inf, rows)
        return True

    def relaxed(self, seconds: float) -> Prices | None:
        """Solved with parts of machines; None: not in time."""
        self._limit(seconds)
        self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = self._solver.getSolution()
        self._values, dual = list(solution.col_value), solution.row_dual
        first = len(self._demands) + len(self._servers)
        return Prices(
            self._solver.getInfo().objective_function_value,
            [max(0.0, of) for of in dual[first:]],
            dual[: len(self._demands)],
            [max(0.0, of) for of in dual[len(self._demands) : first]],
        )

    def parts(self) -> Parts:
        """Of the last relaxed solution."""
        have = len(self._values)
        splits: list[dict[Split, float]] = [{} for _ in self._demands]
        for (demand, split), column in self._splits.items():
            if column < have and self._values[column] > _EPSILON:
                splits[demand][split] = self._values[column]
        contents = {
            key: self._values[column]
            for key, column in self._contents.items()
            if column < have and self._values[column] > _EPSILON
        }
        return Parts(contents, splits)

    def whole(self, seconds: float, bound: float, gap: float) -> list[Machine] | None:
        """The fewest machines with what is there; None: none was found in time.

        Good enough where it is near `bound`, of which no placement needs fewer, by a part of `gap`.
        """
        solver = self._solver
        barred = [*range(len(self._demands)), *self._mixtures.values()]
        for column in barred:
            solver.changeColBounds(column, 0.0, 0.0)
        whole = [
            *range(len(self._demands), len(self._demands) + len(self._servers)),
            *self._contents.values(),
            *self._splits.values(),
        ]
        for column in whole:
            solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        self._limit(seconds)
        solver.setOptionValue("mip_rel_gap", gap)
        solver.setOptionValue("mip_abs_gap", 1.0 - _EPSILON)
        solver.setOptionValue("objective_target", bound * (1 + gap) + _EPSILON)
        solver.run()
        found = solver.getInfo().primal_solution_status != 0
        values = solver.getSolution().col_value
        for column in whole:
            solver.changeColIntegrality(column, highspy.HighsVarType.kContinuous)
        solver.setOptionValue("objective_target", -np.inf)
        machines = None
        if found:  # which places hold what takes less: a flow, whole by itself
            for column in whole:
                value = float(round(values[column]))
                solver.changeColBounds(column, value, value)
            self._limit(seconds)
            solver.run()
            if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
                flow = solver.getSolution().col_value
                machines = self._machines([round(value) for value in flow])
        for column in barred + whole:
            solver.changeColBounds(column, 0.0, self._most[column])
        return machines

    def _machines(self, values: Sequence[int]) -> list[Machine]:
        sockets: list[int] = []  # of which kind of server
        places: dict[int, list[int]] = {at: [] for at in range(len(self.sizes))}  # sockets
        for (server, content), column in self._contents.items():
            for _ in range(values[column]):
                for at in content:
                    places[at].append(len(sockets))
                sockets.append(server)
        narrowed: dict[int, list[tuple[int, int]]] = {}
        for (wide, narrow), column in self._narrower.items():
            if values[column]:
                narrowed.setdefault(wide, []).append((narrow, values[column]))
        for wide in sorted(places, key=lambda at: -sum(self.sizes[at])):
            for narrow, count in narrowed.get(wide, ()):
                for _ in range(count):
                    places[narrow].append(places[wide].pop())
        lying: dict[int, list[Instance]] = {}
        chosen: dict[int, list[Split]] = {}
        for (demand, split), column in self._splits.items():
            chosen.setdefault(demand, []).extend([split] * values[column])
        for at, of in enumerate(self._demands):
            for (name, which), split in zip(of.slos, chosen.get(at, ()), strict=True):
                for size in of.task.sizes(split):
                    socket = places[self._index[size]].pop()
                    lying.setdefault(socket, []).append(Instance(name, which, size.ways))
        return of_sockets(
            ((self._servers[sockets[at]].name, on) for at, on in sorted(lying.items())),
            {server.name: server.sockets for server in self._servers},
        )

    def _narrow(self, wide: int, narrow: int) -> None:
        rows = {self._row(wide): -1.0, self._row(narrow): 1.0}
        self._narrower[wide, narrow] = self._column(0.0, np.inf, rows)

    def _row(self, size: int) -> int:
        return len(self._demands) + len(self._servers) + size

    def _column(self, cost: float, most: float, rows: Mapping[int, float]) -> int:
        self._solver.addCol(
            cost, 0.0, most, len(rows), np.array([*rows], np.int32), np.array([*rows.values()])
        )
        self._most.append(most)
        return len(self._most) - 1

    def _limit(self, seconds: float) -> None:
        # HiGHS counts from when a solver was made.
        self._solver.setOptionValue("time_limit", self._solver.getRunTime() + max(0.1, seconds))


def _last(have: Ints, of: Ints) -> Ints:
    """Those of `of` that take no less than no other of them."""
    some = have[of]
    no_more = (some[:, None, :] <= some[None, :, :]).all(axis=2)
    last: Ints = of[no_more.sum(axis=1) == 1]  # than itself
    return last


_INT, _FLOAT = np.array([], np.int32), np.array([], np.float64)

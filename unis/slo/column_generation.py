"""The fewest machines where functions take more than a core and ways: by column generation.

    least    Σ machines of each kind of server
    so that  as many places of each size as instances (a place also holds what takes no more),
             each promise is split in one way,
             and sockets ≤ sockets of a server · machines ≤ those of all servers.

Variables are how many sockets have which content, and how many promises which split. The relaxed
program is solved with those that matter, which `pricing_problem` finds. Whatever prices an
intermediate program gives, they make a bound (Lagrange): no placement uses fewer machines than what
promises are worth by them, less what sockets are worth more than they cost. The fewest machines
with the contents and splits that were found are then looked for in whole numbers.

Promises are first split into as few instances as suffice. Where that needs more machines than
`volume` says that any placement needs, splits into more instances are tried too.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from unis.slo.greedy import greedy
from unis.slo.placement import Instance, NoRoomError, PlacedMachine, Placement, of_sockets
from unis.slo.pricing_problem import Catalogue, Mixture, Worth, contents, proven
from unis.slo.profile import Workload
from unis.slo.program import InfeasibleError, Program
from unis.slo.sockets import Content, Ints, Size, SocketProblem, holds, problem_of, table_of
from unis.slo.splits import MOST_INSTANCES, Split
from unis.slo.volume import machines_for_volume

_EPSILON = 1e-6  # of a machine
_NOTHING = 1e-4  # of a machine: what a column costs that is tried first
_CHEAPER = _EPSILON / 10  # than a socket is: a content that is worth as much changes nothing
# Machines, and one for each that there is: what a promise costs that is not placed.
_LEFT_OUT = 10.0
_RELAXED = 0.6  # of the time
_COLUMNS = 12  # contents of a socket at once
_MORE = 3  # times that more is added where the bound is not met
_CHEAP = 24  # splits of a promise then
_INSTANCES = (2, 4, MOST_INSTANCES)  # of a promise: tried in turn where fewer machines may do
_WIDER = 5.0  # seconds for that
_LOOK = 20  # turns between two looks at the bound
_NO_ROOM = "the servers cannot hold these promises, whatever is placed where"


def by_sockets(workload: Workload, seconds: float, gap: float) -> Placement:
    """Places all promises that can be kept. Raises NoRoomError."""
    began = time.monotonic()
    until = began + seconds
    problem, refused = problem_of(workload)
    if not problem.demands:
        return Placement((), refused, 0, time.monotonic() - began)
    try:
        volume = machines_for_volume(problem, seconds * _RELAXED)
    except InfeasibleError:
        raise NoRoomError(_NO_ROOM) from None
    any_split = math.ceil(volume - _EPSILON)
    search = _searched(problem, [greedy(workload)], any_split, until, gap)
    late = time.monotonic() > until
    wider_until = min(until, time.monotonic() + _WIDER)
    # Without flows no split into more instances is better.
    for instances in _INSTANCES if workload.flows else ():
        if search.reaches(any_split) or time.monotonic() > wider_until:
            break
        wider, _ = problem_of(workload, instances)
        placed = [] if search.best is None else [Placement(search.best)]
        next_search = _searched(wider, placed, any_split, wider_until, gap)
        if search.best is None or next_search.done or next_search.fewer_than(search):
            search = next_search
    limit = search.instances if workload.flows and search.bound > any_split else None
    if search.best is None:
        if search.bound > sum(server.count for server in problem.servers):
            most = f", each split into {limit} instances at most" if limit else ""
            raise NoRoomError(_NO_ROOM + most)
        raise NoRoomError("no placement was found" + (f" within {seconds:g} s" if late else ""))
    bound = search.bound
    if len(search.best) < bound:  # it was known before, and splits further than the last search did
        bound, limit = any_split, None
    return Placement(search.best, refused, bound, time.monotonic() - began, limit)


def _searched(
    problem: SocketProblem, known: Sequence[Placement], bound: int, until: float, gap: float
) -> "_Search":
    """The fewest machines that were found in time, with splits of this problem.

    `known`: placements to begin with. `bound`: machines that are known to be needed.
    """
    began = time.monotonic()
    search = _Search(problem, gap, bound)
    for placement in known:
        search.begin(placement)
    search.relax(began + (until - began) * _RELAXED, enough=True)
    if search.bound > sum(server.count for server in problem.servers):
        return search
    search.whole(until)
    for _ in range(_MORE):
        left = until - time.monotonic()
        if search.done or left <= 0:
            break
        search.add_cheap()
        search.relax(time.monotonic() + left * _RELAXED, enough=False)
        search.whole(until)
    return search


@dataclass(frozen=True)
class _DualPrices:
    """What a solution of the relaxed program says that things are worth, in machines."""

    machines: float  # all of them
    sizes: Sequence[float]
    promises: Sequence[float]  # of each demand, one of its promises
    sockets: Sequence[float]  # of each kind of server
    by_cores: Mapping[int, Worth]  # of an instance


class _Search:
    """A program that grows, the best placement so far, and the bound that none is below."""

    def __init__(self, problem: SocketProblem, gap: float, bound: int) -> None:
        self._problem, self._gap = problem, gap
        self._catalogues = [Catalogue(demand) for demand in problem.demands]
        self.best: Sequence[PlacedMachine] | None = None
        self.bound = bound
        self._program = program = Program()
        every = sum(server.count for server in problem.servers) + _LEFT_OUT
        self._promises = [
            program.row(len(demand.slos), len(demand.slos)) for demand in problem.demands
        ]
        self._sockets = [program.row() for _ in problem.servers]
        # Columns of the relaxed program only: promises that are left out, and mixtures.
        self._relaxed_only = [program.column(every, {row: 1.0}) for row in self._promises]
        for server, row in zip(problem.servers, self._sockets, strict=True):
            program.column(1.0, {row: float(server.sockets)}, server.count, whole=True)
        self._sizes: dict[Size, int] = {}  # and the row of each
        self._contents: dict[tuple[int, Content], int] = {}  # and the column of each
        self._splits: dict[tuple[int, Split], int] = {}
        self._mixtures: set[tuple[int, frozenset[tuple[Size, float]]]] = set()
        self._narrower: dict[tuple[Size, Size], int] = {}  # a place of a size for another

    @property
    def done(self) -> bool:
        """Whether what is found is good enough."""
        return self.reaches(self.bound)

    @property
    def instances(self) -> int:
        """The bound holds for promises that are split into so many at most."""
        return min(demand.most for demand in self._problem.demands)

    def reaches(self, bound: int) -> bool:
        """Whether what is found needs no more machines, but for the gap."""
        return self.best is not None and len(self.best) <= bound * (1 + self._gap)

    def fewer_than(self, other: "_Search") -> bool:
        """Whether it found a placement on fewer machines."""
        if self.best is None or other.best is None:
            return self.best is not None
        return len(self.best) < len(other.best)

    # ------------------------------------------------------------------ columns

    def _size(self, size: Size) -> int:
        """Its row. A new one gets a socket of its own, and places that hold more can be its."""
        if size in self._sizes:
            return self._sizes[size]
        known = [*self._sizes]
        have = table_of(known, len(size))
        row = self._sizes[size] = self._program.row()
        for at in _last(have, np.array(size)):
            self._narrow(size, known[at])
        for at in _last(-have, -np.array(size)):
            self._narrow(known[at], size)
        self._together([size])
        return row

    def _narrow(self, wide: Size, narrow: Size) -> None:
        rows = {self._sizes[wide]: -1.0, self._sizes[narrow]: 1.0}
        self._narrower[wide, narrow] = self._program.column(0.0, rows)

    def _split(self, demand: int, split: Split | Mixture) -> bool:
        """Adds a split, or for the relaxed program what stands for several; False: it is there."""
        if isinstance(split, Mapping):
            key = demand, frozenset(split.items())
            if key not in self._mixtures:
                self._mixtures.add(key)
                self._relaxed_only.append(self._supplied(demand, split, whole=False))
                return True
        elif (demand, split) not in self._splits:
            sizes = Counter(self._problem.demands[demand].task.sizes(split))
            self._splits[demand, split] = self._supplied(demand, sizes, whole=True)
            return True
        return False

    def _supplied(self, demand: int, sizes: Mapping[Size, float], *, whole: bool) -> int:
        """A column: a promise that needs places of these sizes."""
        rows = {self._size(size): -float(count) for size, count in sizes.items()}
        return self._program.column(0.0, {self._promises[demand]: 1.0, **rows}, whole=whole)

    def _content(self, server: int, sizes: Sequence[Size]) -> bool:
        """Adds a content of a socket; False: it does not fit or is there."""
        rows = Counter(self._size(size) for size in sizes)
        key = server, tuple(sorted(rows.elements()))
        if key in self._contents or not holds(sizes, self._problem.rooms[server]):
            return False
        takes = {self._sockets[server]: -1.0, **{row: float(count) for row, count in rows.items()}}
        self._contents[key] = self._program.column(0.0, takes, whole=True)
        return True

    def _together(self, sizes: Sequence[Size]) -> None:
        """On one socket of each server that has room."""
        for server in range(len(self._problem.servers)):
            self._content(server, sizes)

    def begin(self, placement: Placement) -> None:
        """Adds splits and contents of a placement; keeps it where it holds all promises."""
        demands = {
            promise: at
            for at, demand in enumerate(self._problem.demands)
            for promise in demand.slos
        }
        sizes: dict[tuple[str, int, int], Size] = {}
        for promise, split in placement.splits.items():
            if promise not in demands:
                continue
            self._split(demands[promise], split)
            task = self._problem.demands[demands[promise]].task
            sizes |= {(*promise, size.ways): size for size in task.sizes(split)}
        names = [server.name for server in self._problem.servers]
        for machine in placement.machines:
            for socket in {instance.socket for instance in machine.instances}:
                keys = [
                    (instance.slo, instance.at, instance.ways) for instance in machine.on(socket)
                ]
                on = [sizes[key] for key in keys if key in sizes]
                self._content(names.index(machine.server), on)
        if placement.splits.keys() == demands.keys():
            self.best = placement.machines

    def add_cheap(self) -> None:
        """Splits that cost little, which the program did without; each on one socket too."""
        prices = self._priced(1.0)
        if prices is None:
            return
        for at, (catalogue, demand) in enumerate(
            zip(self._catalogues, self._problem.demands, strict=True)
        ):
            for split in catalogue.cheap(prices.by_cores[demand.task.cores], _CHEAP):
                if self._split(at, split):
                    self._together(demand.task.sizes(split))

    # ------------------------------------------------------------------ the relaxed program

    def _priced(self, seconds: float) -> _DualPrices | None:
        """Solved with parts of machines; None: not in time."""
        found = self._program.solve(seconds, relaxed=True)
        if found is None:
            return None
        sizes = [max(0.0, found.duals[row]) for row in self._sizes.values()]
        every = {demand.task.cores for demand in self._problem.demands}
        return _DualPrices(
            found.objective,
            sizes,
            [found.duals[row] for row in self._promises],
            [max(0.0, found.duals[row]) for row in self._sockets],
            {cores: Worth([*self._sizes], sizes, cores) for cores in every},
        )

    def relax(self, until: float, *, enough: bool) -> None:
        """Adds what the program wants, until nothing makes it better, and raises the bound.

        `enough`: or until the bound, rounded up, cannot rise.
        """
        for turn in count():
            prices = self._priced(until - time.monotonic())
            if prices is None:
                break
            last = time.monotonic() > until
            cheapest = [
                catalogue.cheapest(prices.by_cores[demand.task.cores])
                for catalogue, demand in zip(self._catalogues, self._problem.demands, strict=True)
            ]
            more = not last and self._add_contents(prices)
            for at, (price, split) in enumerate(cheapest):
                if price < prices.promises[at] - _CHEAPER:
                    more = self._split(at, split) or more
            if last or not more or turn % _LOOK == 0:
                worth, added = self._prove_contents(prices, until)
                more = more or added
                lowest = _bound(self._problem, [price for price, _ in cheapest], worth)
                self.bound = max(self.bound, math.ceil(lowest - _EPSILON))
                if enough and self.bound >= math.ceil(prices.machines - _EPSILON):
                    break
            if last or not more:
                break

    def _add_contents(self, prices: _DualPrices) -> bool:
        """Whether contents that are worth more than a socket were found, and added."""
        found = False
        sizes = [*self._sizes]
        for server, room in enumerate(self._problem.rooms):
            added = 0
            for value, content in contents(sizes, prices.sizes, room):
                if added == _COLUMNS or value <= prices.sockets[server] + _CHEAPER:
                    break
                added += self._content(server, [sizes[at] for at in content])
            found = found or added > 0
        return found

    def _prove_contents(self, prices: _DualPrices, until: float) -> tuple[list[float], bool]:
        """What a socket of each server is worth at most; and whether contents were added."""
        worth: list[float] = []
        any_added = False
        sizes = [*self._sizes][: len(prices.sizes)]
        for server, room in enumerate(self._problem.rooms):
            value, content = proven(sizes, prices.sizes, room, until - time.monotonic())
            if value > prices.sockets[server] + _CHEAPER:
                any_added |= self._content(server, [sizes[at] for at in content])
            worth.append(value)
        return worth, any_added

    # ------------------------------------------------------------------ in whole numbers

    def whole(self, until: float) -> None:
        """Looks for the fewest machines with the contents and splits that are there.

        First with those that cost nothing by the relaxed program's prices.
        """
        relaxed = self._program.solve(until - time.monotonic(), relaxed=True)
        if relaxed is None:
            return
        whole = [*self._contents.values(), *self._splits.values()]
        for most in (_NOTHING, math.inf):
            costly = [column for column in whole if relaxed.reduced_costs[column] > most]
            if self.done:
                return
            self._program.limit([*self._relaxed_only, *costly], 0.0)
            self._found(whole, until)
            self._program.limit([*self._relaxed_only, *costly])

    def _found(self, whole: Sequence[int], until: float) -> None:
        try:
            found = self._program.solve(
                until - time.monotonic(),
                gap=self._gap,
                absolute_gap=1.0 - _EPSILON,
                enough=self.bound * (1 + self._gap) + _EPSILON,
            )
        except InfeasibleError:
            return
        if found is None:
            return
        # Which places hold what takes less is a flow, whole by itself.
        self._program.fix({column: round(found.values[column]) for column in whole})
        flow = self._program.solve(relaxed=True)
        self._program.limit(whole)
        if flow is None:
            return
        machines = self._machines([round(value) for value in flow.values])
        if self.best is None or len(machines) < len(self.best):
            self.best = machines

    def _machines(self, values: Sequence[int]) -> list[PlacedMachine]:
        names = [server.name for server in self._problem.servers]
        sockets: list[str] = []  # of which kind of server
        places: dict[int, list[int]] = {row: [] for row in self._sizes.values()}  # sockets
        for (server, content), column in self._contents.items():
            for _ in range(values[column]):
                for row in content:
                    places[row].append(len(sockets))
                sockets.append(names[server])
        for (wide, narrow), column in sorted(self._narrower.items(), key=_widest, reverse=True):
            for _ in range(values[column]):
                places[self._sizes[narrow]].append(places[self._sizes[wide]].pop())
        chosen: dict[int, list[Split]] = defaultdict(list)
        for (demand, split), column in self._splits.items():
            chosen[demand] += [split] * values[column]
        lying: dict[int, list[Instance]] = defaultdict(list)
        for at, served in enumerate(self._problem.demands):
            for (name, which), split in zip(served.slos, chosen[at], strict=True):
                for size in served.task.sizes(split):
                    socket = places[self._sizes[size]].pop()
                    lying[socket].append(Instance(name, which, size.ways))
        return of_sockets(
            ((sockets[at], on) for at, on in sorted(lying.items())),
            {server.name: server.sockets for server in self._problem.servers},
        )


def _widest(narrower: tuple[tuple[Size, Size], int]) -> int:
    (wide, _), _ = narrower
    return sum(wide)


def _last(have: Ints, limits: Ints) -> Ints:
    """Of the rows within limits those that take no less than no other of them."""
    at = np.flatnonzero((have <= limits).all(axis=1))
    some = have[at]
    no_more = (some[:, None, :] <= some[None, :, :]).all(axis=2)
    last: Ints = at[no_more.sum(axis=1) == 1]  # than itself
    return last


def _bound(problem: SocketProblem, promises: Sequence[float], sockets: Sequence[float]) -> float:
    """Machines that no placement is below: what promises are worth at least, sockets at most."""
    all_promises = sum(
        len(demand.slos) * price for demand, price in zip(problem.demands, promises, strict=True)
    )
    per_machine = [
        server.sockets * worth for server, worth in zip(problem.servers, sockets, strict=True)
    ]
    over = sum(
        server.count * max(0.0, worth - 1.0)
        for server, worth in zip(problem.servers, per_machine, strict=True)
    )
    # All prices may be made smaller, so that no machine is worth more than it costs.
    return max(all_promises - over, all_promises / max(1.0, *per_machine))

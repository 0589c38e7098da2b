"""The fewest machines where functions take more than a core and ways: by column generation.

Cores, ways, classes and memory bandwidth are what a socket has. A content of a socket is a set of
instances that fit; the relaxed program of all contents and all splits is solved with those that
matter, which a knapsack for each kind of socket and a look at all splits find. Whatever prices an
intermediate program gives, they make a bound (Lagrange): no placement uses fewer machines than what
promises are worth by them, less what sockets are worth more than they cost. The fewest machines
with the contents and splits that were found are then looked for by HiGHS.
"""

import math
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count, islice

from unis.slo.catalogue import Catalogue, Worth
from unis.slo.knapsack import COARSE, Knapsack, holds, knapsack, proven
from unis.slo.master import Master, Prices
from unis.slo.packing import Packed, all_parts, largest_part, lightest, packed
from unis.slo.placement import Machine, NoRoomError, Placement
from unis.slo.profile import Server, Workload
from unis.slo.sizes import Problem, Size, problem_of
from unis.slo.splits import Split

_EPSILON = 1e-6  # of a machine
_CHEAPER = _EPSILON / 10  # than a socket is: a content that is worth as much changes nothing
_RELAXED = 0.6  # of the time
_COLUMNS = 12  # contents of a socket at once
_MORE = 3  # times that more is added where the bound is not met
_CHEAP = 24  # splits of a promise then
_LOOK = 10  # turns between two looks at the bound
_LOOKS = 48  # at contents that may fit


def only_ways(workload: Workload) -> bool:
    """Whether machines need to see numbers of ways only: what `exact` is quick at."""
    return workload.memory is None and all(slo.profile.cores == 1 for slo in workload.slos)


def only_ways_and_cores(workload: Workload) -> str | None:
    """None: functions of one core, servers of one socket, no memory; else what there is beside."""
    for slo in workload.slos:
        if slo.profile.cores > 1:
            return f"{slo.profile.name} has {slo.profile.cores} cores"
    for server in workload.servers:
        if server.sockets > 1:
            return f"servers {server.name} have {server.sockets} sockets"
    return None if workload.memory is None else "memory bandwidth is limited"


def by_sockets(workload: Workload, seconds: float, gap: float) -> Placement:
    """Places all promises that can be kept. Raises NoRoomError."""
    began = time.monotonic()
    problem, refused = problem_of(workload)
    if not problem.demands:
        return Placement((), refused, 0, time.monotonic() - began)
    search = _Search(problem, gap)
    search.relax(began + seconds * _RELAXED, enough=True)
    if search.bound > sum(server.count for server in problem.servers):
        most = max(demand.most for demand in problem.demands)
        told = f"whatever is placed where, each split into {most} instances at most"
        raise NoRoomError(f"the servers cannot hold these promises, {told}")
    search.whole(began + seconds)
    for _ in range(_MORE):
        left = began + seconds - time.monotonic()
        if search.done or left <= 0:
            break
        search.add_cheap()
        search.relax(time.monotonic() + left * _RELAXED, enough=False)
        search.whole(began + seconds)
    if search.best is None:
        late = time.monotonic() > began + seconds
        raise NoRoomError("no placement was found" + (f" within {seconds:g} s" if late else ""))
    return Placement(search.best, refused, search.bound, time.monotonic() - began)


class _Search:
    """A program that grows, the best placement so far, and what none is below."""

    def __init__(self, problem: Problem, gap: float) -> None:
        self._problem, self._gap = problem, gap
        self._master = Master(problem.demands, problem.servers)
        self._catalogues = [Catalogue(demand) for demand in problem.demands]
        self.best: list[Machine] | None = None
        self.bound = 0
        for start in _starts(problem):
            self._tried(start)

    @property
    def done(self) -> bool:
        """Whether what is found is good enough."""
        return self.best is not None and len(self.best) <= self.bound * (1 + self._gap)

    def relax(self, until: float, *, enough: bool) -> None:
        """`enough`: only until the bound cannot rise."""
        lowest = _relaxed(self._master, self._problem, self._catalogues, until, enough=enough)
        self.bound = max(self.bound, math.ceil(lowest - _EPSILON))

    def whole(self, until: float) -> None:
        """Looks for placements with what there is."""
        for end in _rounded(self._master, self._problem):
            self._tried(end)
        if not self.done:
            left = until - time.monotonic()
            self._found(self._master.whole(left, float(self.bound), self._gap))

    def add_cheap(self) -> None:
        """Splits that cost little, which the program did without; each on one socket too."""
        prices = self._master.relaxed(1.0)
        if prices is None:
            return
        known = _worths(self._master, self._problem, prices)
        for at, (of, demand) in enumerate(
            zip(self._catalogues, self._problem.demands, strict=True)
        ):
            for split in of.cheap(known[demand.task.cores], _CHEAP):
                if self._master.split(at, split):
                    self._together(demand.task.sizes(split))

    def _together(self, sizes: Sequence[Size]) -> None:
        content = tuple(sorted(self._master.size(size) for size in sizes))
        for server, room in enumerate(self._problem.rooms):
            if holds(sizes, room):
                self._master.content(server, content)

    def _tried(self, packed: Packed) -> None:
        _add(self._master, self._problem, packed)
        self._found(packed.machines(self._problem))

    def _found(self, machines: list[Machine] | None) -> None:
        if machines is None or not _enough(machines, self._problem.servers):
            return
        if self.best is None or len(machines) < len(self.best):
            self.best = machines


def _enough(placed: Sequence[Machine], servers: Sequence[Server]) -> bool:
    used = Counter(machine.server for machine in placed)
    return all(used[server.name] <= server.count for server in servers)


def _starts(problem: Problem) -> list[Packed]:
    """Placements to begin with: of each promise the split that weighs the least."""
    room = problem.rooms[0]
    return [
        packed(
            problem,
            [[lightest(demand, room, weight)] * len(demand.slos) for demand in problem.demands],
            weight,
        )
        for weight in (largest_part, all_parts)
    ]


def _rounded(master: Master, problem: Problem) -> list[Packed]:
    """Placements near the relaxed program's: its splits, its sockets rounded, then first fit."""
    part = master.parts()
    splits: list[Sequence[Split]] = []
    for demand, shares in zip(problem.demands, part.splits, strict=True):
        if not shares:
            return []
        whole = {split: math.floor(share + _EPSILON) for split, share in shares.items()}
        missing = len(demand.slos) - sum(whole.values())
        for split in sorted(whole, key=lambda of: whole[of] - shares[of])[: max(0, missing)]:
            whole[split] += 1
        some = [split for split, count in whole.items() for _ in range(count)]
        some += [next(iter(shares))] * (len(demand.slos) - len(some))
        splits.append(some[: len(demand.slos)])
    return [
        packed(
            problem,
            splits,
            largest_part,
            [
                (server, [master.sizes[at] for at in content])
                for (server, content), share in part.contents.items()
                for _ in range(math.floor(share + up))
            ],
        )
        for up in (_EPSILON, 0.25, 0.5)
    ]


def _add(master: Master, problem: Problem, start: Packed) -> None:
    """Its splits and contents; and each size on a socket alone."""
    for at, splits in enumerate(start.splits):
        for split in set(splits):
            master.split(at, split)
    for server, items in start.sockets:
        master.content(server, tuple(sorted(master.size(item.size) for item in items)))
    for at, size in enumerate(master.sizes):
        for server, room in enumerate(problem.rooms):
            if size.within(room.size):
                master.content(server, (at,))


# ---------------------------------------------------------------------- the relaxed program


def _relaxed(
    master: Master,
    problem: Problem,
    catalogues: Sequence[Catalogue],
    until: float,
    *,
    enough: bool,
) -> float:
    """Adds what the program wants, until nothing makes it better; what no placement is below.

    `enough`: or until the bound, rounded up, cannot rise.
    """
    lowest = 0.0
    for turn in count():
        prices = master.relaxed(max(0.1, until - time.monotonic()))
        if prices is None:
            break
        last = time.monotonic() > until
        known = _worths(master, problem, prices)
        cheapest = [
            of.cheapest(known[demand.task.cores])
            for of, demand in zip(catalogues, problem.demands, strict=True)
        ]
        more = not last and _quick_contents(master, problem, prices)
        if not more or turn % _LOOK == 0:
            worth, added = _contents(master, problem, prices, until)
            more = more or added
            lowest = max(lowest, _bound(problem, [price for price, _ in cheapest], worth))
            if enough and math.ceil(lowest - _EPSILON) >= math.ceil(prices.machines - _EPSILON):
                break
        for at, (price, split) in enumerate(cheapest):
            if price < prices.promises[at] - _CHEAPER:
                more = master.split(at, split) or more
        if last or not more:
            break
    return lowest


def _worths(master: Master, problem: Problem, prices: Prices) -> dict[int, Worth]:
    """By the cores of an instance."""
    every = {demand.task.cores for demand in problem.demands}
    return {cores: Worth(master.sizes, prices.sizes, cores) for cores in every}


def _quick_contents(master: Master, problem: Problem, prices: Prices) -> bool:
    """Whether some were found on a coarse grid, and added."""
    found = False
    for server, room in enumerate(problem.rooms):
        table = knapsack(master.sizes, prices.sizes, room, up=True, grid=COARSE)
        found = _add_best(master, problem, prices, server, table) or found
    return found


def _add_best(
    master: Master, problem: Problem, prices: Prices, server: int, table: Knapsack
) -> bool:
    """Whether of its contents that are worth more than a socket some were added."""
    found = 0
    for _, content in islice(table.contents(prices.sockets[server] + _CHEAPER), _LOOKS):
        if found == _COLUMNS:
            break
        if holds([master.sizes[at] for at in content], problem.rooms[server]):
            found += master.content(server, content)
    return found > 0


def _contents(
    master: Master, problem: Problem, prices: Prices, until: float
) -> tuple[list[float], bool]:
    """What a socket of each server is worth at most; and whether contents were added."""
    worth: list[float] = []
    any_added = False
    sizes = master.sizes
    for server, room in enumerate(problem.rooms):
        least = prices.sockets[server] + _CHEAPER
        most = knapsack(sizes, prices.sizes, room, up=False)
        value = most.value
        added = value > least and (
            _add_best(master, problem, prices, server, most)
            or _add_best(
                master, problem, prices, server, knapsack(sizes, prices.sizes, room, up=True)
            )
        )
        if not added and value > least:
            left = max(0.1, until - time.monotonic())
            value, content = proven(sizes, prices.sizes, room, left)
            value = min(value, most.value)
            if content and holds([sizes[at] for at in content], room):
                added = master.content(server, tuple(sorted(content)))
        worth.append(value)
        any_added = any_added or added
    return worth, any_added


def _bound(problem: Problem, promises: Sequence[float], sockets: Sequence[float]) -> float:
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

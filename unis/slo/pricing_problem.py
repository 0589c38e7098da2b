"""What is worth adding to the relaxed program of sockets: contents of a socket, splits of promises.

The content that is worth most is looked for by dynamic programming over cores, ways and a grid, to
which what instances take is rounded up: of the flow of which each takes the largest part, such as
the memory's bandwidth. Where that finds nothing, and for the bound, HiGHS looks for it with all
flows.

An instance that has no price is worth at least what the dearest is that takes no more of anything:
where those prices are such that no socket is worth more than it costs, these are too.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from unis.slo.program import Program
from unis.slo.sockets import Content, Demand, Ints, Room, Size, holds, table_of
from unis.slo.splits import Split

GRID = 192  # of a flow that a socket has
_EPSILON = 1e-9
_LEVELS = 48  # of loads

Floats = npt.NDArray[np.float64]
Mixture = Mapping[Size, float]  # numbers of instances, which need not be whole


def contents(
    sizes: Sequence[Size], values: Sequence[float], room: Room, grid: int = GRID
) -> Iterator[tuple[float, Content]]:
    """(value, content): the best with each size, the best first. Each fits on a socket.

    Of cores and classes of service it plans with what there is less of, and drops contents that are
    too much for the other.
    """
    chosen = _useful(sizes, values, room)
    by_cores = room.size.cores <= room.places
    parts = grid if any(any(sizes[at].flows) for at in chosen) else 0
    steps = np.array(
        [
            (sizes[at].cores if by_cores else 1, sizes[at].ways, _largest(sizes[at], room, parts))
            for at in chosen
        ]
    ).reshape(-1, 3)
    full = np.array([min(room.size.cores, room.places), room.size.ways, parts])
    best = np.zeros(full + 1)  # by what is left
    added = np.full(full + 1, -1)  # the instance to add then; -1: the best has one core less
    for cores in range(1, full[0] + 1):
        best[cores] = best[cores - 1]
        for number, (core, way, part) in enumerate(steps.tolist()):
            if core <= cores:
                there = best[cores, way:, part:]
                rows, columns = there.shape
                with_it = best[cores - core, :rows, :columns] + values[chosen[number]]
                better = with_it > there
                np.copyto(there, with_it, where=better)
                np.copyto(added[cores, way:, part:], number, where=better)
    found = [
        (values[chosen[number]] + float(best[tuple(left)]), number)
        for number, left in enumerate(full - steps)
    ]
    for value, number in sorted(found, reverse=True):
        content = tuple(sorted(chosen[at] for at in _traced(added, steps, number, full)))
        if holds([sizes[at] for at in content], room):
            yield value, content


def _largest(size: Size, room: Room, parts: int) -> int:
    """Of so many parts of a flow: where an instance takes most, rounded up."""
    taken = zip(size.flows, room.size.flows, strict=True)
    return max((-(-take * parts // max(1, have)) for take, have in taken), default=0)


def _traced(added: Ints, steps: Ints, number: int, left: Ints) -> Iterator[int]:
    """What is in the best content with an instance."""
    while left[0] > 0:
        if number < 0:
            left = left - (1, 0, 0)
        else:
            yield number
            left = left - steps[number]
        number = int(added[tuple(left)])


def proven(
    sizes: Sequence[Size], values: Sequence[float], room: Room, seconds: float
) -> tuple[float, Content]:
    """(what no socket is worth more than, the best that was found), by HiGHS.

    Flows are rounded up, so what is found need not fit.
    """
    program = Program()
    rounded = room.places + 1  # what rounding up may have taken
    flows = [most + rounded if most else 0 for most in room.size.flows]
    have = [room.places, room.size.cores, room.size.ways, *flows]
    units = [1, 1, 1, *(max(1, most) for most in flows)]  # so that numbers are of one order
    rows = [program.row(-np.inf, most / unit) for most, unit in zip(have, units, strict=True)]
    chosen = _useful(sizes, values, room)
    for at in chosen:
        takes = zip(rows, (1, *sizes[at]), units, strict=True)
        parts = {row: take / unit for row, take, unit in takes if take}
        program.column(-values[at], parts, room.places, whole=True)
    if not chosen:
        return 0.0, ()
    found = program.solve(seconds, gap=1e-7)
    if found is None:
        return float("inf"), ()
    counts = zip(chosen, found.values, strict=True)
    return -found.bound, tuple(at for at, count in counts for _ in range(round(count)))


def _useful(sizes: Sequence[Size], values: Sequence[float], room: Room) -> list[int]:
    """Those with a value that fit, without those that another, which takes no more, is worth.

    No two of `sizes` are equal.
    """
    able = [at for at, size in enumerate(sizes) if values[at] > _EPSILON and size.within(room.size)]
    takes = table_of([sizes[at] for at in able], len(room.size))
    worth = np.array([values[at] for at in able])
    beats = np.array((takes[:, None, :] <= takes).all(axis=2) & (worth[:, None] >= worth))
    np.fill_diagonal(beats, False)
    return [able[at] for at in np.flatnonzero(~beats.any(axis=0))]


class Worth:
    """What instances of so many cores are worth at least, by ways and flows."""

    def __init__(self, sizes: Sequence[Size], prices: Sequence[float], cores: int) -> None:
        known = sorted(
            (size.flows, size.ways, price)
            for size, price in zip(sizes, prices, strict=True)
            if size.cores <= cores and price > 0
        )
        self._flows = [flows for flows, _, _ in known]
        self._ways = np.array([ways for _, ways, _ in known], np.int64)
        self._prices = np.array([price for _, _, price in known], np.float64)
        self._by_ways: dict[int, tuple[Ints, Floats]] = {}

    def of(self, ways: int, flows: Ints) -> Floats:
        """Of instances with these flows, a row each."""
        count, width = flows.shape
        if ways not in self._by_ways:
            less = np.flatnonzero(self._ways <= ways)
            taken = np.array([self._flows[at] for at in less], np.int64).reshape(len(less), width)
            self._by_ways[ways] = taken, self._prices[less]
        taken, prices = self._by_ways[ways]
        if width == 1:
            dearest = np.maximum.accumulate(np.concatenate([[0.0], prices]))
            found: Floats = dearest[np.searchsorted(taken[:, 0], flows[:, 0], side="right")]
            return found
        found = np.zeros(count)
        for at in np.argsort(prices):
            found[(taken[at] <= flows).all(axis=1)] = prices[at]
        return found


class Catalogue:
    """All splits of a demand."""

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        flat = demand.ways.ravel()
        self._at = {int(ways): np.flatnonzero(flat == ways) for ways in np.unique(flat) if ways}
        flows = demand.flows.reshape(flat.size, demand.flows.shape[-1])
        self._flows = {ways: flows[at] for ways, at in self._at.items()}

    def cheapest(self, known: Worth) -> tuple[float, Split | Mixture]:
        """(what no split is cheaper than, that which is so cheap).

        Where that is a mixture it only stands for splits that are not listed.
        """
        sums = self._sums(known)
        best = int(sums.argmin())
        listed = float(sums[best]), self._demand.split(best)
        if self._demand.listed == self._demand.most:
            return listed
        price, mixture = unlisted(self._demand, known)
        return (price, mixture) if price < listed[0] else listed

    def cheap(self, known: Worth, count: int) -> list[Split]:
        """So many that are listed, the cheapest first."""
        return [self._demand.split(row) for row in self._sums(known).argsort(kind="stable")[:count]]

    def _sums(self, known: Worth) -> Floats:
        """What each split is worth."""
        flat = np.zeros(self._demand.ways.size)
        for ways, at in self._at.items():
            flat[at] = known.of(ways, self._flows[ways])
        sums: Floats = flat.reshape(self._demand.ways.shape).sum(axis=1)
        return sums


def unlisted(demand: Demand, known: Worth, between: int = _LEVELS) -> tuple[float, Mixture]:
    """What no split of more instances than are listed is cheaper than, and what it is like.

    For loads from one level to the next: an instance moves no less than with the lower one, and
    together they pass what the promise is with the higher one. Instances are cut up, so that they
    are of two numbers of ways at most.
    """
    task = demand.task
    lowest = min(1.0, task.mpps / (demand.most * task.rates[-1]))
    levels = np.geomspace(lowest, 1.0, between)
    rates = np.array(task.rates)
    taken = np.floor(levels[:-1, None, None] * np.array(task.draws) - 1.0)
    flows = np.maximum(0, taken).astype(np.int64)  # by level, ways and flow
    costs = np.stack(
        [known.of(ways, flows[:, ways - 1]) for ways in range(1, len(rates) + 1)], axis=1
    )
    least = demand.listed + 1.0
    passed = task.mpps / levels[1:]  # Mpps, by level
    alone = np.maximum(least, passed[:, None] / rates)  # instances, by level and ways
    level, way = np.unravel_index((alone * costs).argmin(), costs.shape)
    price = float((alone * costs)[level, way])
    parts = [(way, float(alone[level, way]))]
    # Two numbers of ways: as few instances as may be, which together pass just enough.
    with np.errstate(divide="ignore", invalid="ignore"):
        second = (passed[:, None, None] - least * rates[None, :, None]) / (
            rates[None, None, :] - rates[None, :, None]
        )  # instances, by level and both numbers of ways
    right = np.isfinite(second) & (second >= 0) & (second <= least)
    second = np.where(right, second, 0.0)
    both = np.where(
        right, (least - second) * costs[:, :, None] + second * costs[:, None, :], np.inf
    )
    at, base, other = np.unravel_index(both.argmin(), both.shape)
    if both[at, base, other] < price:
        price, level = float(both[at, base, other]), at
        many = float(second[at, base, other])
        parts = [(base, least - many), (other, many)]
    mixture = {
        Size.of(task.cores, int(way) + 1, *flows[level, way].tolist()): count
        for way, count in parts
        if count
    }
    return price, mixture

"""First fit decreasing where instances take of several things: a placement that is no proof."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unis.slo.placement import Instance, Machine, of_sockets
from unis.slo.sizes import Demand, Ints, Problem, Room, Size
from unis.slo.splits import Split

Floats = npt.NDArray[np.float64]
Weight = Callable[[Floats], Floats]  # of parts of a socket, along the last axis


class Item(NamedTuple):
    """An instance."""

    size: Size
    demand: int
    which: int  # of its promises


@dataclass(frozen=True)
class Packed:
    """Sockets with what lies on them."""

    splits: Sequence[Sequence[Split]]  # by demand, of each of its promises
    sockets: Sequence[tuple[int, Sequence[Item]]]  # (server, …)
    left_out: int  # instances that find no room

    def machines(self, problem: Problem) -> list[Machine] | None:
        """None: something finds no room."""
        if self.left_out:
            return None
        contents = [
            (
                problem.servers[server].name,
                [
                    Instance(*problem.demands[item.demand].slos[item.which], item.size.ways)
                    for item in items
                ],
            )
            for server, items in self.sockets
        ]
        return of_sockets(contents, {of.name: of.sockets for of in problem.servers})


def largest_part(parts: Floats) -> Floats:
    """What a size takes most of."""
    largest: Floats = parts.max(axis=-1)
    return largest


def all_parts(parts: Floats) -> Floats:
    """All that a size takes."""
    every: Floats = parts.sum(axis=-1)
    return every


def lightest(demand: Demand, room: Room, weight: Weight) -> Split:
    """Its split that weighs the least."""
    cores = np.full(demand.ways.shape, demand.task.cores)
    weights = weight(_parts(cores, demand.ways, demand.memory, room))
    return demand.split(int(np.where(demand.ways > 0, weights, 0.0).sum(axis=1).argmin()))


def _parts(cores: Ints, ways: Ints, memory: Ints, room: Room) -> Floats:
    """Of what a socket has: cores, ways, memory, classes."""
    of = room.size
    places = np.full(ways.shape, 1 / room.places)
    parts = cores / of.cores, ways / of.ways, memory / max(1, of.memory), places
    return np.stack(parts, axis=-1)


def packed(
    problem: Problem,
    splits: Sequence[Sequence[Split]],
    weight: Weight,
    begun: Sequence[tuple[int, Sequence[Size]]] = (),
) -> Packed:
    """Instances of these splits, the heaviest first, each onto the first socket with room.

    Servers are begun in their order, as many of each as there are. `begun`: sockets of servers,
    with places of these sizes, which are filled with instances that are just as large first.
    """
    items = [
        Item(size, demand, which)
        for demand, (of, chosen) in enumerate(zip(problem.demands, splits, strict=True))
        for which, split in enumerate(chosen)
        for size in of.task.sizes(split)
    ]
    sockets = _Sockets(problem, len(items) + len(begun))
    waiting: dict[Size, list[Item]] = defaultdict(list)
    for item in items:
        waiting[item.size].append(item)
    for server, sizes in begun:
        if not any(waiting[size] for size in sizes):
            continue
        socket = sockets.begin(server)
        for size in sizes:
            if waiting[size]:
                sockets.put(waiting[size].pop(), socket)
    rest = [item for of in waiting.values() for item in of]
    left_out = 0
    if rest:
        takes = np.array([item.size for item in rest], np.int64)
        weights = weight(_parts(takes[:, 0], takes[:, 1], takes[:, 2], problem.rooms[0]))
        left_out = sum(not sockets.fit(rest[at]) for at in np.argsort(-weights, kind="stable"))
    return Packed(splits, list(zip(sockets.servers, sockets.lying, strict=True)), left_out)


class _Sockets:
    """That have been begun, and what is left of them: cores, ways, memory, places."""

    def __init__(self, problem: Problem, most: int) -> None:
        self._problem = problem
        self._left = np.zeros((most, 4), np.int64)
        self._unused = [server.count * server.sockets for server in problem.servers]
        self.servers: list[int] = []
        self.lying: list[list[Item]] = []

    def begin(self, server: int) -> int:
        """Another of such servers; its index."""
        room = self._problem.rooms[server]
        self._unused[server] -= 1
        self._left[len(self.servers)] = [*room.size, room.places]
        self.servers.append(server)
        self.lying.append([])
        return len(self.servers) - 1

    def put(self, item: Item, socket: int) -> None:
        """Onto it; it has room."""
        self._left[socket] -= [*item.size, 1]
        self.lying[socket].append(item)

    def fit(self, item: Item) -> bool:
        """Onto the first with room; False: there is none."""
        have = self._left[: len(self.servers)]
        with_room = (have >= [*item.size, 1]).all(axis=1)
        if with_room.any():
            self.put(item, int(with_room.argmax()))
            return True
        for server, room in enumerate(self._problem.rooms):
            if self._unused[server] > 0 and item.size.within(room.size):
                self.put(item, self.begin(server))
                return True
        return False

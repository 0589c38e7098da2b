"""ResQ's greedy as printed (section 5.3.1): promise by promise, first fit."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from unis.slo.placement import Instance, Machine, Placement, Refusal
from unis.slo.profile import Server, Slo, Workload
from unis.slo.sockets import Size, room_of, task_of, told
from unis.slo.splits import MOST_INSTANCES, CannotBeKeptError, passes


@dataclass
class _Socket:
    """Of a machine, and what is left of it."""

    machine: Machine
    at: int
    left: Size
    places: int

    def has(self, size: Size) -> bool:
        return self.places > 0 and size.within(self.left)

    def take(self, size: Size, times: int = 1) -> None:
        """Or gives back, with -1."""
        left = zip(self.left, size, strict=True)
        self.left = Size(*(have - times * take for have, take in left))
        self.places -= times


class Greedy:
    """Machines that fill up, promise by promise; running instances do not move."""

    def __init__(
        self, servers: Sequence[Server], margin: float, memory: float | None = None
    ) -> None:
        self._servers = servers
        self._margin = margin
        self._memory = memory
        self._fair = max(1, servers[0].ways // servers[0].cores)
        self._rooms = [room_of(server, memory) for server in servers]
        self._left = {server.name: server.count for server in servers}
        self._sockets: list[_Socket] = []
        self.machines: list[Machine] = []

    def split(self, slo: Slo) -> tuple[int, ...]:
        """Steps 1 and 2: how many instances, by what one passes with a fair share of the cache.

        Then a way more for each in turn, until together they pass enough. And an instance more as
        long as one of them is too much for a socket. Raises CannotBeKeptError.
        """
        by_ways = task_of(slo, self._servers, self._margin, self._memory).rates
        fair = min(len(by_ways), self._fair * slo.profile.cores)
        count = max(1, math.ceil(slo.mpps / by_ways[fair - 1] - 1e-9))
        for more in range(MOST_INSTANCES if self._memory else 1):
            split = self._in_turn(slo, by_ways, count + more)
            if all(
                any(size.within(room.size) for room in self._rooms)
                for size in self._sizes(slo, split)
            ):
                return split
        size = self._sizes(slo, split)[0]
        raise CannotBeKeptError(
            f"{slo.name}: an instance of {slo.profile.name} takes {told(size)}, which no socket has"
        )

    def place(self, slo: Slo, at: int, split: Sequence[int]) -> bool:
        """Step 3: each instance, the largest first, onto the first socket with room.

        False: there is none for one of them, and none is placed.
        """
        placed: list[tuple[_Socket, Size]] = []
        begun = len(self.machines), len(self._sockets)
        left = dict(self._left)
        for size in self._sizes(slo, tuple(sorted(split, reverse=True))):
            socket = next((of for of in self._sockets if of.has(size)), None)
            socket = socket or self._begin(size)
            if socket is None:
                for on, taken in placed:
                    on.machine.instances.pop()
                    on.take(taken, -1)
                del self.machines[begun[0] :], self._sockets[begun[1] :]
                self._left = left
                return False
            socket.machine.add(Instance(slo.name, at, size.ways, socket=socket.at))
            socket.take(size)
            placed.append((socket, size))
        return True

    def _in_turn(self, slo: Slo, by_ways: Sequence[float], count: int) -> tuple[int, ...]:
        ways = [1] * count
        for turn in range(count * (len(by_ways) - 1) + 1):
            if passes(tuple(by_ways), tuple(ways)) >= slo.mpps - 1e-9:
                return tuple(sorted(ways, reverse=True))
            if turn < count * (len(by_ways) - 1):
                ways[turn % count] += 1
        raise CannotBeKeptError(
            f"{slo.name}: {count} instances with {len(by_ways)} ways each pass "
            f"{passes(tuple(by_ways), tuple(ways)):.3g} Mpps in time, not {slo.mpps:.3g}"
        )

    def _sizes(self, slo: Slo, split: tuple[int, ...]) -> Sequence[Size]:
        if self._memory is None:
            return [Size(slo.profile.cores, ways, 0) for ways in split]
        return task_of(slo, self._servers, self._margin, self._memory).sizes(split)

    def _begin(self, size: Size) -> _Socket | None:
        for server, room in zip(self._servers, self._rooms, strict=True):
            if self._left[server.name] > 0 and size.within(room.size):
                self._left[server.name] -= 1
                machine = Machine(server.name)
                self.machines.append(machine)
                begun = [
                    _Socket(machine, at, room.size, room.places) for at in range(server.sockets)
                ]
                self._sockets += begun
                return begun[0]
        return None


def greedy(workload: Workload) -> Placement:
    """Places all promises in their order."""
    began = time.monotonic()
    places = Greedy(workload.servers, workload.margin, workload.memory)
    refused: list[Refusal] = []
    for slo in workload.slos:
        try:
            split = places.split(slo)
        except CannotBeKeptError as error:
            refused.append(Refusal(slo.name, str(error), error.tried))
            continue
        for at in range(slo.count):
            if not places.place(slo, at, split):
                why = f"{slo.name}: there is no room for {slo.count - at} of {slo.count}"
                refused.append(Refusal(slo.name, why))
                break
    return Placement(places.machines, refused, seconds=time.monotonic() - began)

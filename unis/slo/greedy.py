"""ResQ's greedy as printed (section 5.3.1): promise by promise, first fit."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from unis.slo.placement import Instance, PlacedMachine, Placement, Refusal
from unis.slo.profile import Slo, Workload
from unis.slo.sockets import Size, Task, room_of, task_of, told
from unis.slo.splits import ENOUGH, MOST_INSTANCES, CannotBeKeptError, Split, passes


@dataclass
class _Socket:
    """Of a machine, and what is left of it."""

    machine: PlacedMachine
    at: int
    left: Size
    places: int

    def has(self, size: Size) -> bool:
        return self.places > 0 and size.within(self.left)

    def take(self, size: Size, times: int = 1) -> None:
        """Or gives back, with -1."""
        self.left = Size(have - times * part for have, part in zip(self.left, size, strict=True))
        self.places -= times


class _Greedy:
    """Machines that fill up, promise by promise; running instances do not move."""

    def __init__(self, workload: Workload) -> None:
        self._servers = workload.servers
        self._flows = workload.flows
        self._many_tries = MOST_INSTANCES if self._flows else 1
        self._fair = max(1, self._servers[0].ways // self._servers[0].cores)
        self._rooms = [room_of(server, workload) for server in self._servers]
        self._left = {server.name: server.count for server in self._servers}
        self._sockets: list[_Socket] = []
        self.machines: list[PlacedMachine] = []

    def sizes(self, slo: Slo, task: Task) -> Sequence[Size]:
        """Steps 1 and 2: how many instances, by what one passes with a fair share of the cache.

        Then a way more for each in turn, until together they pass enough. And an instance more as
        long as one of them is too much for a socket. The largest first. Raises CannotBeKeptError.
        """
        fair = min(len(task.rates), self._fair * task.cores)
        count = max(1, math.ceil(task.mpps / task.rates[fair - 1] - ENOUGH))
        for instances in range(count, count + self._many_tries):
            sizes = task.sizes(_in_turn(slo, task, instances))
            if all(any(size.within(room.size) for room in self._rooms) for size in sizes):
                return sizes
        raise CannotBeKeptError(
            f"{slo.name}: an instance of {slo.profile.name} takes "
            f"{told(sizes[0], self._flows)}, which no socket has"
        )

    def place(self, slo: Slo, at: int, sizes: Sequence[Size]) -> bool:
        """Step 3: each instance onto the first socket with room.

        False: there is none for one of them, and none is placed.
        """
        placed: list[tuple[_Socket, Size]] = []
        begun = len(self.machines), len(self._sockets)
        left = dict(self._left)
        for size in sizes:
            fits = (socket for socket in self._sockets if socket.has(size))
            socket = next(fits, None) or self._begin(size)
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

    def _begin(self, size: Size) -> _Socket | None:
        for server, room in zip(self._servers, self._rooms, strict=True):
            if self._left[server.name] > 0 and size.within(room.size):
                self._left[server.name] -= 1
                self.machines.append(machine := PlacedMachine(server.name))
                begun = [
                    _Socket(machine, at, room.size, room.places) for at in range(server.sockets)
                ]
                self._sockets += begun
                return begun[0]
        return None


def _in_turn(slo: Slo, task: Task, count: int) -> Split:
    """So many instances, each in turn with a way more until they pass enough."""
    for more in range(count * (len(task.rates) - 1) + 1):
        each, over = divmod(more, count)
        split = (each + 2,) * over + (each + 1,) * (count - over)
        if passes(task.rates, split) >= task.mpps - ENOUGH:
            return split
    raise CannotBeKeptError(
        f"{slo.name}: {count} instances with {len(task.rates)} ways each pass "
        f"{count * task.rates[-1]:.3g} Mpps in time, not {task.mpps:.3g}"
    )


def greedy(workload: Workload) -> Placement:
    """Places all promises in their order."""
    began = time.monotonic()
    places = _Greedy(workload)
    refused: list[Refusal] = []
    for slo in workload.slos:
        try:
            sizes = places.sizes(slo, task_of(slo, workload))
        except CannotBeKeptError as error:
            refused.append(Refusal(slo.name, str(error), error.tried))
            continue
        for at in range(slo.count):
            if not places.place(slo, at, sizes):
                why = f"{slo.name}: there is no room for {slo.count - at} of {slo.count}"
                refused.append(Refusal(slo.name, why))
                break
    return Placement(places.machines, refused, seconds=time.monotonic() - began)

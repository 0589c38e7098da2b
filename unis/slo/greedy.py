"""ResQ's greedy as printed (section 5.3.1): promise by promise, first fit."""

import math
import time
from collections.abc import Sequence

from unis.slo.placement import Instance, Machine, Placement, Refusal
from unis.slo.profile import Server, Slo, Workload, most_ways
from unis.slo.splits import CannotBeKeptError, passes, rates


class Greedy:
    """Machines that fill up, promise by promise; running instances do not move."""

    def __init__(self, servers: Sequence[Server], margin: float) -> None:
        self._servers = servers
        self._margin = margin
        self._fair = max(1, servers[0].ways // servers[0].cores)
        self._places = {server.name: server for server in servers}
        self._left = {server.name: server.count for server in servers}
        self.machines: list[Machine] = []

    def split(self, slo: Slo) -> tuple[int, ...]:
        """Steps 1 and 2: how many instances, by what one passes with a fair share of the cache.

        Then a way more for each in turn, until together they pass enough.
        """
        by_ways = rates(slo, self._margin, most_ways(self._servers))
        count = max(1, math.ceil(slo.mpps / by_ways[self._fair - 1] - 1e-9))
        ways = [1] * count
        for turn in range(count * (len(by_ways) - 1) + 1):
            if passes(by_ways, tuple(ways)) >= slo.mpps - 1e-9:
                return tuple(sorted(ways, reverse=True))
            if turn < count * (len(by_ways) - 1):
                ways[turn % count] += 1
        raise CannotBeKeptError(
            f"{slo.name}: {count} instances with {len(by_ways)} ways each pass "
            f"{passes(by_ways, tuple(ways)):.3g} Mpps in time, not {slo.mpps:.3g}"
        )

    def place(self, slo: Slo, at: int, split: Sequence[int]) -> bool:
        """Step 3: each instance, the largest first, onto the first machine with room.

        False: there is none for one of them, and none is placed.
        """
        placed: list[Machine] = []
        begun = len(self.machines)
        left = dict(self._left)
        for ways in sorted(split, reverse=True):
            machine = next((of for of in self.machines if self._fits(of, ways)), None)
            machine = machine or self._begin(ways)
            if machine is None:
                for on in placed:
                    on.instances.pop()
                del self.machines[begun:]
                self._left = left
                return False
            machine.add(Instance(slo.name, at, ways))
            placed.append(machine)
        return True

    def _fits(self, machine: Machine, ways: int) -> bool:
        server = self._places[machine.server]
        return len(machine.instances) < server.places and machine.ways + ways <= server.ways

    def _begin(self, ways: int) -> Machine | None:
        for server in self._servers:
            if self._left[server.name] > 0 and ways <= server.ways:
                self._left[server.name] -= 1
                self.machines.append(Machine(server.name))
                return self.machines[-1]
        return None


def greedy(workload: Workload) -> Placement:
    """Places all promises in their order."""
    began = time.monotonic()
    places = Greedy(workload.servers, workload.margin)
    refused: list[Refusal] = []
    for slo in workload.slos:
        try:
            split = places.split(slo)
        except CannotBeKeptError as error:
            refused.append(Refusal(slo.name, str(error)))
            continue
        for at in range(slo.count):
            if not places.place(slo, at, split):
                told = f"{slo.name}: there is no room for {slo.count - at} of {slo.count}"
                refused.append(Refusal(slo.name, told))
                break
    return Placement(places.machines, refused, seconds=time.monotonic() - began)

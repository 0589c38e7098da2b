"""What a place on a machine is worth, from promises that came and the room that is left.

The exact method's program (`exact.py`) without whole numbers, for promises yet to come in the same
parts as those that are there, and with what is left of each machine beside the empty ones. Its dual
values say by how much of a machine one more place with a given number of ways would help; an
instance goes where it takes the least of what could have been done with the room. (Known in
operations research as bid prices that are computed anew: K. Talluri, G. van Ryzin, *An Analysis of
Bid-Price Controls for Network Revenue Management*, Management Science 44(11), 1998.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from unis.slo.exact import at_least
from unis.slo.profile import Server, most_ways
from unis.slo.program import Program
from unis.slo.splits import Split, patterns

AHEAD = 0.15  # of the promises that are there, so many are taken to come
_NOTHING = 1e-9

MachineRoom = tuple[str, int, int]  # what is left of a machine: its server, places, ways
Kind = tuple[Split, ...]  # promises with the same minimal splits


@dataclass(frozen=True)
class Prices:
    """In machines. Without any (`NONE`) the tightest room is the best."""

    of_ways: tuple[float, ...]  # a place with 1, 2, … ways; grows
    worth: tuple[tuple[float, ...], ...]  # the best use of so many places [and ways], from 0
    shares: Mapping[Kind, Mapping[Split, float]]  # of promises of a kind, so many split so

    def lost(self, room: MachineRoom, ways: int) -> float:
        """Of what could be done with a room, beyond what the instance is worth. At least 0."""
        if not self.of_ways:
            return 0.0
        _, places, free = room
        after = self.worth[places - 1][free - ways]
        return max(0.0, self.worth[places][free] - after - self.of_ways[ways - 1])

    def split_cost(self, split: Split) -> float:
        """Of all of its instances, in machines."""
        return sum(self.of_ways[ways - 1] for ways in split) if self.of_ways else len(split)


NONE = Prices((), (), {})


def prices(
    servers: Sequence[Server], promised: Mapping[Kind, int], rooms: Mapping[MachineRoom, int]
) -> Prices:
    """For `promised` promises of each kind and so many machines with each room left."""
    ways = most_ways(servers)
    kinds = [kind for kind, count in promised.items() if count > 0]
    if not kinds:
        return NONE
    left = [room for room, count in rooms.items() if count > 0 and room[1] > 0 and room[2] > 0]
    program = Program()
    # Places with 1, 2, … ways or more, beyond those that are needed.
    places = [program.row() for _ in range(ways)]
    for server in servers:
        for pattern in patterns(server.ways, server.places):
            program.column(1.0, at_least(places, pattern, 1))
    for room in left:
        row = program.row(0.0, rooms[room])
        for pattern in patterns(room[2], room[1]):
            program.column(0.0, {row: 1.0, **at_least(places, pattern, 1)})
    columns: list[tuple[Kind, Split, int]] = []
    for kind in kinds:
        row = program.row(promised[kind] * AHEAD, promised[kind] * AHEAD)
        for split in kind:
            column = program.column(0.0, {row: 1.0, **at_least(places, split, -1)})
            columns.append((kind, split, column))
    solved = program.solve(relaxed=True)
    if solved is None:
        return NONE
    shares: dict[Kind, dict[Split, float]] = {kind: {} for kind in kinds}
    for kind, split, column in columns:
        if solved.values[column] > _NOTHING:
            shares[kind][split] = solved.values[column] / (promised[kind] * AHEAD)
    of_ways = tuple(accumulate(max(0.0, dual) for dual in solved.duals[:ways]))
    return prices_of(of_ways, shares, max(server.places for server in servers))


def prices_of(
    of_ways: tuple[float, ...], shares: Mapping[Kind, Mapping[Split, float]], places: int
) -> Prices:
    """With the worth of rooms of up to so many places."""
    return Prices(of_ways, _worth(of_ways, places) if of_ways else (), shares)


def _worth(of_ways: tuple[float, ...], places: int) -> tuple[tuple[float, ...], ...]:
    """The most that instances in at most so many places and ways are worth: a knapsack."""
    rows = [(0.0,) * (len(of_ways) + 1)]
    for _ in range(places):
        before = rows[-1]
        rows.append(
            tuple(
                max(
                    before[free],
                    *(before[free - ways] + of_ways[ways - 1] for ways in range(1, free + 1)),
                )
                if free
                else 0.0
                for free in range(len(of_ways) + 1)
            )
        )
    return tuple(rows)

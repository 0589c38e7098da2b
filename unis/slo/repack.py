"""Whether running instances should move: machines freed against instances moved.

ResQ solves the whole anew in the background and moves to the result when that frees enough
(section 5.3). Here there are two ways, and the cheaper one that frees enough is taken: to empty
the machines with the fewest instances into what is left of others, one by one; or the exact plan,
whose machines are matched with those that run so that as much as can be stays where it is.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from unis.slo.exact import filled, kinds_of, solve
from unis.slo.online import MachineKey, Online
from unis.slo.placement import Instance, PlacedMachine
from unis.slo.profile import Server
from unis.slo.splits import Split

THRESHOLD = 0.05  # of the machines that are used: as many must be freed
_SECONDS = 10.0  # for the exact plan

Piece = tuple[str, int]  # an instance: its promise and ways


@dataclass(frozen=True)
class Move:
    """An instance from a machine to another. None: it is begun, or ended."""

    slo: str
    ways: int
    origin: MachineKey | None
    to: MachineKey | None


@dataclass(frozen=True)
class Repack:
    """One way to pack again."""

    how: str  # "emptied" or "exact"
    before: int  # machines
    after: Mapping[MachineKey, tuple[Piece, ...]]  # all machines that are used then
    moves: tuple[Move, ...]

    @property
    def freed(self) -> int:
        """Machines; below 0: it takes more."""
        return self.before - len(self.after)


@dataclass(frozen=True)
class Choice:
    """What could be done, and what should be; `taken` None: leave it as it is."""

    ways: tuple[Repack, ...]
    taken: Repack | None
    bound: int  # machines that any placement needs


def choose(online: Online, threshold: float = THRESHOLD) -> Choice:
    """The way with the fewest moves for each machine freed, of those that free enough.

    `threshold`: of the machines that are used.
    """
    by_plan, bound = _by_plan(online)
    ways = (emptied(online), by_plan)
    enough = [way for way in ways if way.freed > 0 and way.freed >= threshold * way.before]
    taken = min(enough, key=lambda way: len(way.moves) / way.freed, default=None)
    return Choice(ways, taken, bound)


def packed(online: Online, repack: Repack) -> Online:
    """The cluster as it is when all has moved. Ways are given away anew on every machine."""
    slos = {slo.name: slo for slo in online.slos}
    where: dict[str, list[tuple[MachineKey, Instance]]] = {name: [] for name in slos}
    for key, parts in repack.after.items():
        machine = PlacedMachine(key[0])
        for name, ways in parts:
            machine.add(Instance(name, 0, ways))
            where[name].append((key, machine.instances[-1]))
    new = Online(online.servers, online.margin)
    new.restore((slos[name], instances) for name, instances in where.items())
    new.learn()
    return new


def emptied(online: Online) -> Repack:
    """Machines with the fewest instances first, each as a whole or not at all."""
    servers = {server.name: server for server in online.servers}
    here: dict[MachineKey, list[Piece]] = {
        key: [(instance.slo, instance.ways) for instance in machine.instances]
        for key, machine in online.machines.items()
    }
    before = len(here)
    moves: list[Move] = []
    for key in sorted(here, key=lambda key: (len(here[key]), key)):
        found = _into(servers, here, key)
        if found is None:
            continue
        for (name, ways), to in found:
            here[to].append((name, ways))
            moves.append(Move(name, ways, key, to))
        del here[key]
    equal: dict[Piece, list[Move]] = defaultdict(list)
    for move in moves:
        equal[move.slo, move.ways].append(move)
    once = tuple(move for group in equal.values() for move in _joined(group))
    return Repack("emptied", before, {key: tuple(pieces) for key, pieces in here.items()}, once)


def _joined(moves: Sequence[Move]) -> Iterator[Move]:
    """Of equal instances: what moved twice moved once, from its first machine to its last."""
    joined: list[Move] = []
    for move in moves:
        before = next((at for at, earlier in enumerate(joined) if earlier.to == move.origin), None)
        if before is None:
            joined.append(move)
        else:
            joined[before] = replace(joined[before], to=move.to)
    yield from (move for move in joined if move.origin != move.to)


def _into(
    servers: Mapping[str, Server], here: Mapping[MachineKey, Sequence[Piece]], source: MachineKey
) -> list[tuple[Piece, MachineKey]] | None:
    """A machine for each instance of one, the tightest that has room; None: not for all."""
    left = {
        key: [
            servers[key[0]].places - len(parts),
            servers[key[0]].ways - sum(ways for _, ways in parts),
        ]
        for key, parts in here.items()
        if key != source
    }
    found: list[tuple[Piece, MachineKey]] = []
    for part in sorted(here[source], key=lambda part: -part[1]):
        fits = ((free - part[1], key) for key, (places, free) in left.items() if places > 0)
        best = min((fit for fit in fits if fit[0] >= 0), default=None)
        if best is None:
            return None
        left[best[1]][0] -= 1
        left[best[1]][1] -= part[1]
        found.append((part, best[1]))
    return found


# ---------------------------------------------------------------------- the exact plan


def _by_plan(online: Online) -> tuple[Repack, int]:
    workload = online.workload
    if not workload.slos:
        return Repack("exact", 0, {}, ()), 0
    kinds, _ = kinds_of(workload)
    cover = solve(kinds, workload.servers, _SECONDS, 0.0)
    machines = filled(cover, kinds)
    splits: dict[str, Split] = {}
    for at, kind in enumerate(kinds):
        counts = Counter(
            {split: count for (kind_at, split), count in cover.splits.items() if kind_at == at}
        )
        splits |= dict(_kept_splits([name for name, _ in kind.slos], online, counts))
    return _matched(online, machines, splits), cover.fewest


def _kept_splits(
    names: Sequence[str], online: Online, counts: Counter[Split]
) -> Iterator[tuple[str, Split]]:
    """Promises with the same splits, as many with each as planned, and as few changed as can be."""
    left = Counter(counts)
    others: list[str] = []
    for name in names:
        split = tuple(sorted((place.instance.ways for place in online.where(name)), reverse=True))
        if left[split] > 0:
            left[split] -= 1
            yield name, split
        else:
            others.append(name)
    yield from zip(others, left.elements(), strict=True)


def _matched(online: Online, then: Sequence[PlacedMachine], splits: Mapping[str, Split]) -> Repack:
    """What must move where. An instance may have any place with its ways, for it needs no more."""
    places = _same_machines(online, then)
    wanted = Counter((name, ways) for name, split in splits.items() for ways in split)
    after: dict[MachineKey, list[Piece]] = {key: [] for key in places}
    moves: list[Move] = []
    moving: list[tuple[Piece, MachineKey | None]] = []
    for key, machine in online.machines.items():
        for instance in machine.instances:
            part = (instance.slo, instance.ways)
            if wanted[part] <= 0:
                moves.append(Move(*part, key, None))  # its promise is split in another way
                continue
            wanted[part] -= 1
            if places.get(key, Counter())[instance.ways] > 0:
                places[key][instance.ways] -= 1
                after[key].append(part)
            else:
                moving.append((part, key))
    moving += [(part, None) for part in wanted.elements()]
    free: dict[int, list[MachineKey]] = defaultdict(list)
    for key, pieces in places.items():
        for ways in pieces.elements():
            free[ways].append(key)
    for part, begun in moving:
        to = free[part[1]].pop()
        after[to].append(part)
        moves.append(Move(*part, begun, to))
    kept = {key: tuple(parts) for key, parts in after.items()}
    return Repack("exact", len(online.machines), kept, tuple(moves))


def _same_machines(online: Online, then: Sequence[PlacedMachine]) -> dict[MachineKey, Counter[int]]:
    """For each machine of the plan one that runs, those with the most in common first."""
    planned = Counter((machine.server, _pattern(machine)) for machine in then)
    running: dict[tuple[str, tuple[int, ...]], list[MachineKey]] = defaultdict(list)
    for key, machine in online.machines.items():
        running[key[0], _pattern(machine)].append(key)
    common = [
        (-(Counter(old[1]) & Counter(to[1])).total(), len(old[1]), old, to)
        for old in running
        for to in planned
        if old[0] == to[0]
    ]
    heapq.heapify(common)
    found: dict[MachineKey, Counter[int]] = {}
    while common:
        _, _, old, to = heapq.heappop(common)
        while running[old] and planned[to]:
            planned[to] -= 1
            found[running[old].pop()] = Counter(to[1])
    taken = {*online.machines}
    for (server, pattern), count in planned.items():
        number = 0
        for _ in range(count):
            while (server, number) in taken:
                number += 1
            taken.add((server, number))
            found[server, number] = Counter(pattern)
    return found


def _pattern(machine: PlacedMachine) -> tuple[int, ...]:
    return tuple(sorted((instance.ways for instance in machine.instances), reverse=True))

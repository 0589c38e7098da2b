"""Admission while functions run: promises come and go one by one, and running instances stay.

ResQ admits by first fit (section 5.3.1) and comes within 19 % of the best. Here an instance goes
where the least is lost of what the room could have been used for (`bid_prices`), by prices that are
made anew whenever 2 % of the promises have changed: between requests, so that none waits.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from unis.slo.bid_prices import NONE, Kind, MachineRoom, Prices, prices
from unis.slo.placement import Instance, PlacedMachine, Refusal
from unis.slo.profile import Server, Slo, Workload, most_ways
from unis.slo.splits import CannotBeKeptError, Split, splits_of

_CHANGED = 0.02  # of the promises, before prices are made anew
_SEARCHED = 1e-2  # of a throughput: how near the nearest promise that can be kept is told


MachineKey = tuple[str, int]  # a machine: its server, and which of that kind, from 0


@dataclass(frozen=True)
class Where:
    """An instance and the machine that it is on."""

    server: str
    number: int  # of servers of that kind, from 0
    instance: Instance


@dataclass(frozen=True)
class Admitted:
    """A promise that is given."""

    slo: str
    where: tuple[Where, ...]
    shifted: tuple[Where, ...] = ()  # instances of others, whose ways are others now


@dataclass
class _PlacedPromise:
    """A promise that is there."""

    slo: Slo
    kind: Kind
    machines: tuple[MachineKey, ...]


@dataclass
class Learned:
    """What is carried from one request to the next."""

    prices: Prices = NONE
    since: dict[Kind, dict[Split, int]] = field(default_factory=dict)  # how many were split so
    changes: int = 0  # promises given and taken back since the prices were made


class Online:
    """All machines of a cluster, and what is promised on them."""

    def __init__(self, servers: Sequence[Server], margin: float) -> None:
        self.servers = servers
        self.margin = margin
        self.learned = Learned()
        self._servers = {server.name: server for server in servers}
        self.machines: dict[MachineKey, PlacedMachine] = {}  # that are used
        self._rooms: dict[MachineRoom, dict[MachineKey, None]] = {}  # and the machines of each
        self._unused = {server.name: 0 for server in servers}  # the lowest number never used
        self._returned: dict[str, list[int]] = {server.name: [] for server in servers}
        self._kept: dict[str, _PlacedPromise] = {}

    @property
    def slos(self) -> list[Slo]:
        """What is promised."""
        return [kept.slo for kept in self._kept.values()]

    @property
    def workload(self) -> Workload:
        """The same with the servers."""
        return Workload("now", tuple(self.slos), tuple(self.servers), self.margin)

    @property
    def due(self) -> bool:
        """Whether promises have changed so much that prices should be made anew (`learn`)."""
        return self.learned.changes > _CHANGED * len(self._kept)

    def learn(self) -> None:
        """Makes prices anew; takes some tens of milliseconds, whatever the number of promises."""
        promised = Counter(kept.kind for kept in self._kept.values())
        rooms = Counter({room: len(keys) for room, keys in self._rooms.items()})
        self.learned = Learned(prices(self.servers, promised, rooms))

    def admit(self, slo: Slo) -> Admitted | Refusal:
        """Gives a promise, or says why not and what could be given instead. `count` is ignored."""
        if slo.name in self._kept:
            return Refusal(slo.name, f"{slo.name}: is promised already; release it first")
        if slo.profile.cores != 1:
            told = f"{slo.name}: {slo.profile.name} has {slo.profile.cores} cores"
            return Refusal(slo.name, f"{told}; not tried: functions have one here", tried=False)
        try:
            kind = splits_of(slo, self.margin, most_ways(self.servers))
        except CannotBeKeptError as error:
            return Refusal(slo.name, str(error), error.tried)
        for split in self._in_order(kind):
            before = self._place(slo.name, split)
            if before is None:
                continue
            since = self.learned.since.setdefault(kind, {})
            since[split] = since.get(split, 0) + 1
            self.learned.changes += 1
            self._kept[slo.name] = _PlacedPromise(replace(slo, count=1), kind, tuple(before))
            shifted = tuple(
                Where(*key, instance)
                for key, instances in before.items()
                for instance in self.machines[key].instances
                if instance.slo != slo.name and instance not in instances
            )
            return Admitted(slo.name, tuple(self.where(slo.name)), shifted)
        return Refusal(slo.name, self._no_room(slo))

    def release(self, name: str) -> bool:
        """Takes a promise back, and its instances away. False: there is none of that name."""
        kept = self._kept.pop(name, None)
        if kept is None:
            return False
        for key in kept.machines:
            others = [instance for instance in self.machines[key].instances if instance.slo != name]
            self._set(key, others)
        self.learned.changes += 1
        return True

    def restore(self, kept: Iterable[tuple[Slo, Sequence[tuple[MachineKey, Instance]]]]) -> None:
        """Promises as they were given before. ValueError where that cannot be."""
        for slo, where in kept:
            for key, instance in where:
                self._put_back(slo, key, instance)
            kind = splits_of(slo, self.margin, most_ways(self.servers))
            machines = tuple(dict.fromkeys(key for key, _ in where))
            self._kept[slo.name] = _PlacedPromise(slo, kind, machines)
        for name in self._unused:
            used = {number for server, number in self.machines if server == name}
            self._unused[name] = max(used, default=-1) + 1
            self._returned[name] = sorted({*range(self._unused[name])} - used)

    def where(self, name: str) -> list[Where]:
        """The instances of a promise."""
        return [
            Where(*key, instance)
            for key in self._kept[name].machines
            for instance in self.machines[key].instances
            if instance.slo == name
        ]

    # ------------------------------------------------------------------ choosing

    def _in_order(self, kind: Kind) -> list[Split]:
        """Splits, that first of which there are fewest beside the part it should have."""
        shares = self.learned.prices.shares.get(kind, {})
        since = self.learned.since.get(kind, {})
        total = sum(since.values()) + 1
        return sorted(
            kind,
            key=lambda split: (
                since.get(split, 0) - shares[split] * total if split in shares else math.inf,
                self.learned.prices.split_cost(split),
                len(split),
            ),
        )

    def _room_for(self, ways: int) -> MachineRoom | None:
        """What is left of a machine, perhaps an empty one, that loses the least."""
        best: tuple[tuple[float, bool, int, int], MachineRoom] | None = None
        for room in self._choices():
            server, places, free = room
            if places < 1 or free < ways:
                continue
            empty = room == self._empty(server)
            lost = round(self.learned.prices.lost(room, ways), 9)
            key = (lost, empty, free - ways, places)
            if best is None or key < best[0]:
                best = key, room
        return best[1] if best else None

    def _choices(self) -> Iterator[MachineRoom]:
        yield from (room for room, machines in self._rooms.items() if machines)
        for server in self.servers:
            if self._returned[server.name] or self._unused[server.name] < server.count:
                yield self._empty(server.name)

    def _empty(self, server: str) -> MachineRoom:
        kind = self._servers[server]
        return server, kind.places, kind.ways

    # ------------------------------------------------------------------ placing

    def _put_back(self, slo: Slo, key: MachineKey, instance: Instance) -> None:
        server, number = key
        kind = self._servers.get(server)
        if kind is None or number >= kind.count:
            raise ValueError(f"{slo.name} is on {server} {number}, which there is not")
        machine = self.machines.setdefault(key, PlacedMachine(server))
        taken = sum(other.mask for other in machine.instances)
        full = len(machine.instances) >= kind.places
        if full or taken & instance.mask or instance.first + instance.ways > kind.ways:
            raise ValueError(f"{slo.name} has no room on {server} {number}")
        self._set(key, [*machine.instances, instance])

    def _place(self, name: str, split: Split) -> dict[MachineKey, Sequence[Instance]] | None:
        """What the machines held that get an instance; None: no room, and nothing has changed."""
        before: dict[MachineKey, Sequence[Instance]] = {}
        for ways in split:
            room = self._room_for(ways)
            if room is None:
                self._take_back(before)
                return None
            key = next(iter(self._rooms.get(room, ())), None) or self._begin(room[0])
            before.setdefault(key, tuple(self.machines[key].instances))
            self._put(key, Instance(name, 0, ways))
        return before

    def _take_back(self, before: Mapping[MachineKey, Sequence[Instance]]) -> None:
        for key, instances in before.items():
            self._set(key, sorted(instances, key=_first))

    def _begin(self, server: str) -> MachineKey:
        if self._returned[server]:
            number = self._returned[server].pop(0)
        else:
            number = self._unused[server]
            self._unused[server] += 1
        self.machines[server, number] = PlacedMachine(server)
        return server, number

    def _put(self, key: MachineKey, instance: Instance) -> None:
        """Into the lowest gap; if none is wide enough the others are shifted together."""
        instances = sorted(self.machines[key].instances, key=_first)
        first = _gap(instances, self._servers[key[0]].ways, instance.ways)
        if first is not None:
            instances.append(replace(instance, first=first))
        else:
            packed = PlacedMachine(key[0])
            for member in (*instances, instance):
                packed.add(member)
            instances = packed.instances
        self._set(key, instances)

    def _set(self, key: MachineKey, instances: Sequence[Instance]) -> None:
        """Gives a machine these instances; with none it is not used any more."""
        self._rooms.get(self._room(key), {}).pop(key, None)
        self.machines[key].instances[:] = instances
        if instances:
            self._rooms.setdefault(self._room(key), {})[key] = None
        else:
            del self.machines[key]
            self._returned[key[0]].append(key[1])

    def _room(self, key: MachineKey) -> MachineRoom:
        kind, machine = self._servers[key[0]], self.machines[key]
        return key[0], kind.places - len(machine.instances), kind.ways - machine.ways

    # ------------------------------------------------------------------ refusing

    def _no_room(self, slo: Slo) -> str:
        """With the most that would find room now."""
        low, high = 0.0, slo.mpps
        while high - low > _SEARCHED * slo.mpps:
            middle = (low + high) / 2
            if self._would_fit(replace(slo, mpps=middle)):
                low = middle
            else:
                high = middle
        if low == 0:
            return f"{slo.name}: no server has room for an instance of {slo.profile.name}"
        return (
            f"{slo.name}: no servers have room for {slo.mpps:.3g} Mpps; the nearest that can be "
            f"kept is {_rounded_down(low):.3g} Mpps within {slo.p95_us:g} µs"
        )

    def _would_fit(self, slo: Slo) -> bool:
        for split in splits_of(slo, self.margin, most_ways(self.servers)):
            before = self._place(slo.name, split)
            if before is not None:
                self._take_back(before)
                return True
        return False


def _rounded_down(value: float) -> float:
    """To three digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return math.floor(value / step) * step


def _first(instance: Instance) -> int:
    return instance.first


def _gap(instances: Sequence[Instance], ways: int, wanted: int) -> int | None:
    """The first of so many free neighbouring ways; instances are in order."""
    free = 0
    for instance in instances:
        if instance.first - free >= wanted:
            return free
        free = instance.first + instance.ways
    return free if ways - free >= wanted else None

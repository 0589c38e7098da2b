"""Where instances are placed: plain data, which every method gives and the verifier reads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace


class NoRoomError(ValueError):
    """The servers cannot hold the promises, or no placement was found; the text says which."""


@dataclass(frozen=True)
class Instance:
    """One of the functions that keep a promise together."""

    slo: str
    at: int  # which of the promises of that name, from 0
    ways: int
    first: int = 0  # of its ways, the lowest
    socket: int = 0  # of its server

    @property
    def mask(self) -> int:
        """As the kernel wants it: its ways, which are neighbours."""
        return ((1 << self.ways) - 1) << self.first


@dataclass
class PlacedMachine:
    """A server and what is on it."""

    server: str
    instances: list[Instance] = field(default_factory=list)

    @property
    def ways(self) -> int:
        """That are given away."""
        return sum(instance.ways for instance in self.instances)

    def on(self, socket: int) -> list[Instance]:
        """What is on a socket."""
        return [instance for instance in self.instances if instance.socket == socket]

    def add(self, instance: Instance) -> None:
        """Beside those of its socket, with the next free ways."""
        first = sum(other.ways for other in self.on(instance.socket))
        self.instances.append(replace(instance, first=first))


@dataclass(frozen=True)
class Refusal:
    """A promise that cannot be given."""

    slo: str
    why: str
    tried: bool = True  # False: it might be kept, but was not looked for


@dataclass(frozen=True)
class Placement:
    """All machines that are used."""

    machines: Sequence[PlacedMachine]
    refused: Sequence[Refusal] = ()
    bound: int | None = None  # no placement uses fewer machines; None: not known
    seconds: float = 0.0
    # The bound holds for promises that are split into so many instances at most. None: for any.
    instances: int | None = None

    @property
    def splits(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """The ways of the instances of each promise (its name, which), the most first."""
        found: dict[tuple[str, int], list[int]] = {}
        for machine in self.machines:
            for instance in machine.instances:
                found.setdefault((instance.slo, instance.at), []).append(instance.ways)
        return {promise: tuple(sorted(ways, reverse=True)) for promise, ways in found.items()}

    @property
    def gap(self) -> float | None:
        """How many more machines than the bound, by that; None: not known."""
        if self.bound is None:
            return None
        return (len(self.machines) - self.bound) / self.bound if self.bound else 0.0


def of_sockets(
    contents: Iterable[tuple[str, Iterable[Instance]]], sockets: Mapping[str, int]
) -> list[PlacedMachine]:
    """Machines of these sockets: (server, what is on it) each; `sockets` of a server, by name."""
    machines: list[PlacedMachine] = []
    last: dict[str, tuple[PlacedMachine, int]] = {}  # and how many of its sockets are used
    for server, instances in contents:
        machine, used = last.get(server, (None, 0))
        if machine is None or used == sockets[server]:
            machine, used = PlacedMachine(server), 0
            machines.append(machine)
        for instance in instances:
            machine.add(replace(instance, socket=used))
        last[server] = machine, used + 1
    return machines

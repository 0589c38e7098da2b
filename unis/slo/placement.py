"""Where instances are placed: plain data, which every method gives and the verifier reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Instance:
    """One of the functions that keep a promise together."""

    slo: str
    at: int  # which of the promises of that name, from 0
    ways: int
    first: int = 0  # of its ways, the lowest

    @property
    def mask(self) -> int:
        """As the kernel wants it: its ways, which are neighbours."""
        return ((1 << self.ways) - 1) << self.first


@dataclass
class Machine:
    """A server and what is on it."""

    server: str
    instances: list[Instance] = field(default_factory=list)

    @property
    def ways(self) -> int:
        """That are given away."""
        return sum(instance.ways for instance in self.instances)

    def add(self, instance: Instance) -> None:
        """Beside those that are there, with the next free ways."""
        self.instances.append(replace(instance, first=self.ways))


@dataclass(frozen=True)
class Refusal:
    """A promise that cannot be given."""

    slo: str
    why: str
    tried: bool = True  # False: it might be kept, but was not looked for


@dataclass(frozen=True)
class Placement:
    """All machines that are used."""

    machines: Sequence[Machine]
    refused: Sequence[Refusal] = ()
    bound: int | None = None  # no placement uses fewer machines; None: not known
    seconds: float = 0.0

    @property
    def gap(self) -> float | None:
        """How many more machines than the bound, by that; None: not known."""
        if self.bound is None:
            return None
        return (len(self.machines) - self.bound) / self.bound if self.bound else 0.0

"""What every provider of counts is to the profile."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from unis.engine.client import EngineClient

CHAIN = "chain"  # place of what belongs to no function
Key = tuple[str, str]  # place (function, CPU or CHAIN), and what is counted there
Counts = Mapping[Key, float]


@dataclass(frozen=True)
class CountedFunction:
    """A function that runs."""

    name: str
    pid: int
    devices: frozenset[str] = frozenset()  # kernel devices of its ports, in its network namespace

    @property
    def threads(self) -> dict[str, int]:
        """TIDs of its process, by name; empty: it has ended."""
        try:
            return {each.name: int(each.name) for each in self.proc.joinpath("task").iterdir()}
        except OSError:
            return {}

    @property
    def proc(self) -> Path:
        """Its folder."""
        return Path(f"/proc/{self.pid}")


@dataclass(frozen=True)
class CountedChain:
    """The chain whose windows are counted."""

    client: EngineClient
    functions: Sequence[CountedFunction]
    cpus: Sequence[int]  # of functions and of what carries packets beside them


class Provider(Protocol):
    """Counts events between `begin` and `end`. One that cannot says why, and is not asked again."""

    @property
    def name(self) -> str:
        """As the results have it."""

    @property
    def units(self) -> Mapping[str, str]:
        """Of each thing that it counts."""

    def missing(self) -> Sequence[str]:
        """Sentences: what it cannot count here, and what is not known for it."""

    def begin(self) -> None:
        """Counts from now on."""

    def end(self) -> Counts:
        """What came since then. What could not be counted is left out."""


class Growing(ABC):
    """Of counters that only grow: what they grew by."""

    def __init__(self) -> None:
        self._before: Counts = {}

    @abstractmethod
    def read(self) -> Counts:
        """What they are now."""

    def missing(self) -> Sequence[str]:
        """Nothing."""
        return ()

    def begin(self) -> None:
        """Notes what they are."""
        self._before = self.read()

    def end(self) -> Counts:
        """A counter that is not there at both ends, or was set back, is left out."""
        before = self._before
        after = self.read()
        return {
            key: value - before[key]
            for key, value in after.items()
            if key in before and value >= before[key]
        }


ProviderMaker = Callable[[CountedChain], Provider]


def cpu_place(cpu: int) -> str:
    """The row of a CPU."""
    return f"CPU {cpu}"


def summed(pairs: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    """By key."""
    found: dict[Key, float] = {}
    for key, value in pairs:
        found[key] = found.get(key, 0) + value
    return found

"""What a declaration of a counter consists of, and how it is read from statistics."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from unis.engine.names import reason_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

# Labels that a place in the statistics gives to what is counted there, by its path: label, field.
_PLACES: dict[str, dict[str, str]] = {
    "chains": {"chain": "name"},
    "chains.edges": {"from": "from", "to": "to", "port": "port"},
    "functions": {"function": "name"},
    "functions.paths": {"chain": "chain"},
    "functions.paths.ingress": {"link": "name"},
    "functions.paths.egress": {"link": "name"},
    "cores": {"cpu": "cpu"},
    "cores.reasons": {"reason": "reason"},
    "components": {"component": "name"},
    "devices": {"device": "device"},
}


class MetricKind(StrEnum):
    """As OpenMetrics has it."""

    COUNTER = "counter"  # only grows; begins anew with the engine or the function
    GAUGE = "gauge"  # of the moment
    HISTOGRAM = "histogram"


@dataclass(frozen=True, eq=False)  # told apart as objects: a key of caches
class CountedField:
    """One field of the statistics, and what it says. `path` leads to it: functions.time.busy_ns."""

    path: str
    help: str  # a sentence
    labels: Mapping[str, str] = field(default_factory=dict)  # its own, beside those of its place
    # What follows from the message that holds the field, where the field alone does not tell.
    of: Callable[[Any], float] | None = None
    known: Callable[[Any], bool] = lambda _: True  # whether that message has the value
    short: str = ""  # a word or two, where lines and columns have no room for more

    @property
    def place(self) -> str:
        """The path of the message that holds the field."""
        return self.path.rpartition(".")[0]

    @cached_property
    def read(self) -> Callable[[Any], float]:
        """Reads it from the message that holds it, in seconds where the field has nanoseconds."""
        if self.of:
            return self.of
        value = attrgetter(self.path.rpartition(".")[2])
        return (lambda message: value(message) / 1e9) if self.path.endswith("_ns") else value

    def found(self, places: StatsPlaces) -> Iterator[tuple[PlaceLabels, Any]]:
        """Each message that holds the field and knows its value, and the labels of its place."""
        return ((labels, part) for labels, part in places.at(self.place) if self.known(part))


class PlaceLabels(dict[str, str]):
    """Labels of a message. The same object whenever the place is the same, so a key of caches."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


class StatsPlaces:
    """The messages of the statistics by their paths. Many counters lie at one: one walk for all."""

    def __init__(self, stats: Any) -> None:
        root = _labels(None, (("run", stats.run),))
        self._found: dict[str, list[tuple[PlaceLabels, Any]]] = {"": [(root, stats)]}

    def at(self, path: str) -> list[tuple[PlaceLabels, Any]]:
        """Each message at this path, and the labels of the places on the way, the run's first."""
        if (found := self._found.get(path)) is None:
            before, _, name = path.rpartition(".")
            found = self._found[path] = []
            for labels, message in self.at(before):
                for part in _parts(message, name):
                    own = [(label, text(part)) for label, text in _texts(part.__class__, path)]
                    found.append((_labels(labels, tuple(own)) if own else labels, part))
        return found


@lru_cache(maxsize=1 << 14)  # they are the same from look to look
def _labels(before: PlaceLabels | None, own: tuple[tuple[str, str], ...]) -> PlaceLabels:
    return PlaceLabels({**(before or {}), **dict(own)})


def _parts(message: Any, name: str) -> Iterable[Any]:
    value = getattr(message, name)
    return value if _is_repeated(message.__class__, name) else [value]


# A look into the description of a message takes longer than one into the message.


@cache
def _is_repeated(kind: Any, name: str) -> bool:
    return bool(kind.DESCRIPTOR.fields_by_name[name].is_repeated)


@cache
def _texts(kind: Any, path: str) -> list[tuple[str, Callable[[Any], str]]]:
    """The labels of a place, and how they are read from its message."""
    return [(label, _text(kind, name)) for label, name in _PLACES.get(path, {}).items()]


def _text(kind: Any, name: str) -> Callable[[Any], str]:
    value = attrgetter(name)
    if kind.DESCRIPTOR.fields_by_name[name].enum_type:
        return lambda message: reason_name(value(message)).replace(" ", "_")
    return lambda message: str(value(message))


@dataclass(frozen=True, eq=False)  # likewise
class Metric:
    """What is counted in one unit under one name."""

    name: str  # as Prometheus has it: what, its unit, and _total where it is a counter
    kind: MetricKind
    unit: str  # empty: a state, 1 or 0
    help: str  # a sentence
    labels: tuple[str, ...]
    readings: tuple[CountedField, ...]

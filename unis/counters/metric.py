"""What a declaration of a counter consists of, and how it is read from statistics."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from unis.engine.names import reason_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from google.protobuf.message import Message

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


@dataclass(frozen=True)
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

    def read(self, message: Any) -> float:
        """From the message that holds the field, in seconds where the field has nanoseconds."""
        if self.of:
            return self.of(message)
        name = self.path.rpartition(".")[2]
        value: float = getattr(message, name)
        return value / 1e9 if name.endswith("_ns") else value

    def found(self, places: StatsPlaces) -> Iterator[tuple[dict[str, str], Any]]:
        """Each message that holds the field and knows its value, and the labels of its place."""
        for labels, message in places.at(self.place):
            if self.known(message):
                yield ({**labels, **self.labels} if self.labels else labels), message


class StatsPlaces:
    """The messages of the statistics by their paths. Many counters lie at one: one walk for all."""

    def __init__(self, stats: Message) -> None:
        self._found: dict[str, list[tuple[dict[str, str], Any]]] = {"": [({}, stats)]}

    def at(self, path: str) -> list[tuple[dict[str, str], Any]]:
        """Each message at this path, and the labels of the places on the way."""
        if (found := self._found.get(path)) is None:
            before, _, name = path.rpartition(".")
            own = _PLACES.get(path, {})
            found = self._found[path] = [
                ({**labels, **{label: _text(part, of) for label, of in own.items()}}, part)
                for labels, message in self.at(before)
                for part in _parts(message, name)
            ]
        return found


def _parts(message: Any, name: str) -> Iterable[Any]:
    value = getattr(message, name)
    return value if message.DESCRIPTOR.fields_by_name[name].is_repeated else [value]


def _text(message: Any, name: str) -> str:
    """The value of a label."""
    value = getattr(message, name)
    enum = message.DESCRIPTOR.fields_by_name[name].enum_type
    return reason_name(value).replace(" ", "_") if enum else str(value)


@dataclass(frozen=True)
class Metric:
    """What is counted in one unit under one name."""

    name: str  # as Prometheus has it: what, its unit, and _total where it is a counter
    kind: MetricKind
    unit: str  # empty: a state, 1 or 0
    help: str  # a sentence
    labels: tuple[str, ...]
    readings: tuple[CountedField, ...]

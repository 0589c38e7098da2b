"""Data of a file that knows which of its parts were read, so that the others can be told."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from unis.chain.document import Document
from unis.chain.problem import LocatedProblem, Location, Problem
from unis.errors import UnisError


class DescriptorError(UnisError):
    """Descriptors that cannot be used; the text has one line for each problem."""

    def __init__(self, problems: Sequence[LocatedProblem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = list(problems)


@dataclass
class MarkedDocument:
    """A document, and marks on what was read of it."""

    document: Document
    touched: set[Location] = field(default_factory=set)  # it, or something in it, was read
    reasons: dict[Location, str] = field(default_factory=dict)  # why a part is not carried over

    @property
    def root(self) -> "DataNode":
        """All of its data."""
        return DataNode(self, (), self.document.data)

    def mark(self, location: Location) -> None:
        """Notes that the part at `location` was read."""
        for length in range(len(location) + 1):
            self.touched.add(location[:length])

    def unread(self) -> Iterator[Location]:
        """The top-most parts of which nothing was read, in the order of the file."""
        yield from self._unread((), self.document.data)

    def reason(self, location: Location) -> str | None:
        """What was said of why the part at `location`, or something in it, is not carried over."""
        length = len(location)
        within = (why for at, why in self.reasons.items() if at[:length] == location)
        return next(within, None)

    def _unread(self, location: Location, value: Any) -> Iterator[Location]:
        if location not in self.touched:
            yield location
        elif isinstance(value, dict):
            for key, child in value.items():
                yield from self._unread((*location, key), child)
        elif isinstance(value, list):
            for at, child in enumerate(value):
                yield from self._unread((*location, at), child)

    def problem(self, location: Location, sentence: str) -> LocatedProblem:
        """A sentence on the part at `location`, with its line."""
        return self.document.located(Problem(location, sentence))


@dataclass(frozen=True)
class DataNode:
    """A part of a descriptor. Keys go without the name of their YANG module."""

    marked: MarkedDocument
    location: Location
    value: Any

    def error(self, sentence: str) -> DescriptorError:
        """What is wrong here; to be raised."""
        return DescriptorError([self.marked.problem(self.location, sentence)])

    def because(self, reason: str) -> None:
        """Says why this part is not carried over, if it is not read."""
        self.marked.reasons[self.location] = reason

    def mark(self) -> None:
        """Notes that this part was read."""
        self.marked.mark(self.location)

    def get(self, key: str) -> "DataNode | None":
        """The part under `key`, unread; None if there is none."""
        if not isinstance(self.value, dict):
            raise self.error("is not a mapping; write `key: value` pairs")
        for written, value in self.value.items():
            if value is not None and bare(written) == key:
                return DataNode(self.marked, (*self.location, written), value)
        return None

    def items(self, key: str) -> list["DataNode"]:
        """The entries of the list under `key`, unread; none if there is no list."""
        node = self.get(key)
        if node is None:
            return []
        if not isinstance(node.value, list):
            raise node.error("is not a list; write `- ` before each entry")
        return [
            DataNode(self.marked, (*node.location, at), value)
            for at, value in enumerate(node.value)
        ]

    def keyed(self, key: str, by: str = "id") -> dict[str, "DataNode"]:
        """The entries of the list under `key` by their `by`, unread."""
        found: dict[str, DataNode] = {}
        for entry in self.items(key):
            name = entry.peek(by)
            if name is None:
                raise entry.error(f"has no `{by}`; add it")
            if name in found:
                raise entry.error(f"has the {by} `{name}` of an entry before it; rename one")
            found[name] = entry
        return found

    def peek(self, key: str) -> str | None:
        """The text under `key`, unread; None if there is none."""
        node = self.get(key)
        return None if node is None else node.as_text()

    def text(self, key: str) -> str | None:
        """The text under `key`, read."""
        node = self.get(key)
        if node is None:
            return None
        node.mark()
        return node.as_text()

    def texts(self, key: str) -> list[tuple[str, "DataNode"]]:
        """The texts of the list under `key`, read; of a single text, that text."""
        node = self.get(key)
        nodes = self.items(key) if node and isinstance(node.value, list) else [node]
        found = [(each.as_text(), each) for each in nodes if each is not None]
        for _, each in found:
            each.mark()
        return found

    def as_text(self) -> str:
        """What this part says, as a text."""
        if isinstance(self.value, str):
            return self.value
        if isinstance(self.value, int) and not isinstance(self.value, bool):
            return str(self.value)
        raise self.error("is not a text; write it in quotes")

    def as_number(self) -> int:
        """What this part says, as a whole number of at least 0; JSON of YANG may quote it."""
        text = self.as_text()
        if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
            return int(text)
        raise self.error(f"is `{text}`; expected a whole number, 0 or more")


_MOST_DIGITS = 20  # of a uint64


def bare(key: object) -> str:
    """A key without the name of its YANG module, as `nsd` of `etsi-nfv-nsd:nsd`."""
    return str(key).rpartition(":")[2]

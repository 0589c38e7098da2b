"""The chains of a file as graphs: functions, and edges by which packets pass between them."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from unis.chain.edges import ordered
from unis.chain.model import Chain, ChainFile, EdgePart, Function, Match
from unis.chain.values import EGRESS, INGRESS

_TURNED = {INGRESS: EGRESS, EGRESS: INGRESS}


@dataclass(frozen=True)
class Edge:
    """Packets of a chain pass from a function, or `ingress`, to the next, or `egress`."""

    origin: str
    to: str
    out_port: int | None = None  # of the origin, as the file states it; None: the plan chooses
    in_port: int | None = None  # of the downstream function
    # Of several edges that leave by one port: which packets take this one.
    match: tuple[Match, ...] = ()
    weight: int | None = None
    tap: bool = False  # copies of all of them
    rank: int = 0  # number of edges with a match that precede it in the file, and match first

    @classmethod
    def of(cls, part: EdgePart, beside: Sequence[EdgePart]) -> "Edge":
        """As the file has it, `beside` the other edges of its chain."""
        earlier = itertools.takewhile(lambda other: other is not part, beside)
        rank = sum((e.origin, e.port) == (part.origin, part.port) for e in earlier if e.match)
        return cls(
            part.origin, part.to, part.port, part.in_port, tuple(part.match), part.weight,
            part.mode == "tap", rank if part.match else 0,
        )  # fmt: skip

    @property
    def ends(self) -> tuple[str, str]:
        """Both, in the direction of the packets."""
        return self.origin, self.to

    @property
    def functions(self) -> list[str]:
        """Those of its ends that are functions."""
        return [end for end in self.ends if end not in _TURNED]

    def turned(self) -> "Edge":
        """The same the other way round."""
        origin, to = (_TURNED.get(end, end) for end in self.ends)
        return Edge(to, origin, self.in_port, self.out_port)


@dataclass(frozen=True)
class ChainGraph:
    """A chain: its edges in topological order."""

    name: str
    edges: tuple[Edge, ...]
    reverse_of: str | None = None  # a chain through the same functions, the other way round

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """Each once, in the order in which packets pass them."""
        return tuple(dict.fromkeys(edge.to for edge in self.edges if edge.to != EGRESS))

    @cached_property
    def ways(self) -> tuple[tuple[Edge, ...], ...]:
        """Every way that a packet can take to `egress`; copies, which end elsewhere, take none."""
        return tuple(self._ways_from(INGRESS))

    def _ways_from(self, origin: str) -> Iterator[tuple[Edge, ...]]:
        if origin == EGRESS:
            yield ()
        for edge in self.out_of(origin):
            if not edge.tap:
                yield from ((edge, *rest) for rest in self._ways_from(edge.to))

    @property
    def is_path(self) -> bool:
        """Whether every packet takes the same way."""
        between = [part for name in self.functions for part in (self.into(name), self.out_of(name))]
        sides = [self.out_of(INGRESS), self.into(EGRESS), *between]
        return all(len(edges) == 1 for edges in sides)

    @property
    def has_taps(self) -> bool:
        """Whether copies of its packets are made."""
        return any(edge.tap for edge in self.edges)

    def into(self, function: str) -> list[Edge]:
        """The edges that lead to it; several merge there."""
        return [edge for edge in self.edges if edge.to == function]

    def stated_ports(self, function: str) -> tuple[frozenset[int], frozenset[int]]:
        """The ports by which edges enter and leave the function, where the file states any. If the
        file states ports of one side only, the other side has the port beside the first of them,
        or the first free port.
        """
        received = {edge.in_port for edge in self.into(function) if edge.in_port is not None}
        sent = {edge.out_port for edge in self.out_of(function) if edge.out_port is not None}
        if bool(received) != bool(sent):
            used = received | sent
            candidates = [min(used) ^ 1, *range(len(used) + 1)]
            other = {next(port for port in candidates if port not in used)}
            received, sent = received or other, sent or other
        return frozenset(received), frozenset(sent)

    def out_of(self, origin: str) -> list[Edge]:
        """The edges that begin there."""
        return [edge for edge in self.edges if edge.origin == origin]


@dataclass(frozen=True)
class Graph:
    """All chains of a file over the functions that they share."""

    functions: Mapping[str, Function]  # by name, with the defaults filled in
    chains: Mapping[str, ChainGraph]

    @classmethod
    def of(cls, file: ChainFile) -> "Graph":
        """The graph of a file whose paths are right."""
        functions = {name: file.function(name) for name in file.functions}
        chains = {
            name: ChainGraph(name, _edges(part, functions))
            for name, part in file.chains.items()
            if part.reverse_of is None
        }
        for name, part in file.chains.items():
            if part.reverse_of is not None:
                turned = [edge.turned() for edge in reversed(chains[part.reverse_of].edges)]
                chains[name] = ChainGraph(name, tuple(turned), part.reverse_of)
        return cls(functions, {name: chains[name] for name in file.chains})

    def edges(self) -> Iterator[tuple[ChainGraph, Edge]]:
        """Of every chain."""
        for chain in self.chains.values():
            yield from ((chain, edge) for edge in chain.edges)

    def chains_of(self, function: str) -> list[ChainGraph]:
        """Those that pass it, in the order of the file."""
        return [chain for chain in self.chains.values() if function in chain.functions]

    def back_of(self, chain: str) -> ChainGraph | None:
        """The chain that goes the same way the other way round, if there is one."""
        return next((other for other in self.chains.values() if other.reverse_of == chain), None)


def _edges(part: Chain, functions: Iterable[str]) -> tuple[Edge, ...]:
    """The edges of a chain that is not the way back of another."""
    if part.graph is not None:
        return tuple(Edge.of(edge, part.graph) for edge in ordered(part.graph, functions))
    path = part.path or []
    return tuple(Edge(*ends) for ends in zip([INGRESS, *path], [*path, EGRESS], strict=True))

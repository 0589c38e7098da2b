"""Edges of a chain's graph, as the chain file has them, and what can be wrong with them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from unis.chain.model import EdgePart
from unis.chain.problem import Location, Problem
from unis.chain.values import EGRESS, INGRESS

MOST_WAYS = 64  # of a chain, from ingress to egress; the model of delays walks each


def edge_problems(
    edges: Sequence[EdgePart], functions: Collection[str], where: Location
) -> Iterator[Problem]:
    """What is wrong with the edges of one chain; `where` they are in the file."""
    found = [*_unknown(edges, functions, where), *_twice(edges, where)]
    if not found:
        found = [*_ends(edges, where), *_circle(edges, functions, where)]
    if not found:
        found = [*_unreached(edges, where), *_dead_ends(edges, where)]
    yield from found
    yield from _ports(edges, where)
    yield from _taps(edges, where)
    yield from _splits(edges, where)
    if not found and (count := _ways(edges, functions)) > MOST_WAYS:
        yield Problem(where, f"{count} ways lead through this graph, and {MOST_WAYS} at most may")


def ordered(edges: Sequence[EdgePart], functions: Iterable[str]) -> list[EdgePart]:
    """Edges in topological order, ties in the order of `functions`: the order of edges in the file
    does not matter. CycleError if there is a cycle.
    """
    at = {name: at for at, name in enumerate([INGRESS, *functions, EGRESS])}
    edges = sorted(edges, key=lambda edge: (edge.port or 0, at[edge.to], at[edge.origin]))
    leading: dict[str, list[str]] = {}
    for edge in edges:
        leading.setdefault(edge.to, []).append(edge.origin)
    order = {name: nth for nth, name in enumerate(TopologicalSorter(leading).static_order())}
    return sorted(edges, key=lambda edge: (order[edge.to], order[edge.origin]))


def downstream_of_taps(edges: Sequence[EdgePart]) -> frozenset[str]:
    """The functions that get copies."""
    return _reached(edges, {edge.to for edge in edges if edge.mode == "tap"})


def _reached(edges: Sequence[EdgePart], first: Collection[str]) -> frozenset[str]:
    """These, and what edges lead to from there."""
    found = set(first)
    while more := {edge.to for edge in edges if edge.origin in found} - found:
        found |= more
    return frozenset(found)


def _unknown(
    edges: Sequence[EdgePart], functions: Collection[str], where: Location
) -> Iterator[Problem]:
    for at, edge in enumerate(edges):
        for key, name, end in (("from", edge.origin, INGRESS), ("to", edge.to, EGRESS)):
            if name != end and name not in functions:
                yield Problem(
                    (*where, at, key),
                    f"there is no function `{name}`; choose one of {', '.join(functions)}, or "
                    f"`{end}`",
                )


def _twice(edges: Sequence[EdgePart], where: Location) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for at, edge in enumerate(edges):
        if (ends := (edge.origin, edge.to)) in seen:
            yield Problem(
                (*where, at),
                f"the edge from `{edge.origin}` to `{edge.to}` stands here twice; keep one",
            )
        seen.add(ends)


def _ends(edges: Sequence[EdgePart], where: Location) -> Iterator[Problem]:
    if not any(edge.origin == INGRESS for edge in edges):
        yield Problem(where, f"no edge begins at {INGRESS}; add {{from: {INGRESS}, to: …}}")
    if not any(edge.to == EGRESS for edge in edges):
        yield Problem(where, f"no edge leads to {EGRESS}; add {{from: …, to: {EGRESS}}}")


def _circle(
    edges: Sequence[EdgePart], functions: Collection[str], where: Location
) -> Iterator[Problem]:
    try:
        ordered(edges, functions)
    except CycleError as error:
        circle: list[str] = error.args[1][:-1]  # each upstream of the next
        order = [edge.to for edge in edges]
        first = circle.index(min(circle, key=order.index))
        circle = [*circle[first:], *circle[: first + 1]]
        closing = (circle[-2], circle[-1])
        at = next(at for at, edge in enumerate(edges) if (edge.origin, edge.to) == closing)
        told = " → ".join(circle)
        yield Problem((*where, at), f"{told} is a circle; packets must come to {EGRESS}")


def _unreached(edges: Sequence[EdgePart], where: Location) -> Iterator[Problem]:
    reached = _reached(edges, [INGRESS])
    for name in dict.fromkeys(edge.origin for edge in edges):
        if name not in reached:
            at = next(at for at, edge in enumerate(edges) if edge.origin == name)
            yield Problem(
                (*where, at, "from"),
                f"no packet comes to `{name}`: no way leads there from {INGRESS}; add an edge",
            )


def _dead_ends(edges: Sequence[EdgePart], where: Location) -> Iterator[Problem]:
    """Packets end at egress, copies where they are watched."""
    copies = downstream_of_taps(edges)
    packets = _reached([edge for edge in edges if edge.mode is None], [INGRESS])
    origins = {edge.origin for edge in edges}
    for at, edge in enumerate(edges):
        if edge.to in copies & packets:
            if edge.mode == "tap" or edge.origin in copies:
                yield Problem(
                    (*where, at),
                    f"copies would leave at {EGRESS} beside their packets; leave this edge out"
                    if edge.to == EGRESS
                    else f"`{edge.to}` would get packets and copies of them; let the copies end in "
                    "a function of their own",
                )
        elif edge.to != EGRESS and edge.to not in origins and edge.to not in copies:
            yield Problem(
                (*where, at, "to"),
                f"no edge begins at `{edge.to}`, so its packets go nowhere; add one, to another "
                f"function or to {EGRESS}",
            )


def _ports(edges: Sequence[EdgePart], where: Location) -> Iterator[Problem]:
    for at, edge in enumerate(edges):
        ends = (("port", edge.port, edge.origin), ("in_port", edge.in_port, edge.to))
        for key, port, end in ends:
            if port is not None and end in (INGRESS, EGRESS):
                yield Problem((*where, at, key), f"`{end}` has no ports; leave it out")
    for key in ("port", "in_port"):
        beside: dict[str, list[int]] = defaultdict(list)
        for at, edge in enumerate(edges):
            beside[edge.origin if key == "port" else edge.to].append(at)
        for name, those in beside.items():
            missing = [at for at in those if getattr(edges[at], key) is None]
            if name not in (INGRESS, EGRESS) and 0 < len(missing) < len(those):
                way = "from" if key == "port" else "to"
                yield Problem(
                    (*where, missing[0]),
                    f"has no {key}, and other edges {way} `{name}` have; give all of them one, or "
                    "none",
                )


def _taps(edges: Sequence[EdgePart], where: Location) -> Iterator[Problem]:
    for at, edge in enumerate(edges):
        for key, stated in (("match", edge.match), ("weight", edge.weight)):
            if edge.mode == "tap" and stated:
                yield Problem(
                    (*where, at, key),
                    f"goes with no mode: tap, which copies every packet from `{edge.origin}`; "
                    "leave it out",
                )


def _splits(edges: Sequence[EdgePart], where: Location) -> Iterator[Problem]:
    """Edges that leave by one port: the engine must know which packets take which."""
    by_port: dict[tuple[str, int | None], list[int]] = defaultdict(list)
    for at, edge in enumerate(edges):
        by_port[edge.origin, edge.port].append(at)
    for (origin, port), out in by_port.items():
        from_ = f"`{origin}`" if port is None else f"port {port} of `{origin}`"
        branches = [at for at in out if edges[at].mode is None]
        matching = [at for at in branches if edges[at].match]
        weighed = [at for at in branches if edges[at].weight is not None]
        rest = [at for at in branches if at not in matching and at not in weighed]
        if not branches:
            yield Problem(
                (*where, out[0]),
                f"from {from_} only copies go; add the edge that the packets themselves take",
            )
        elif len(branches) == 1:
            for at in matching + weighed:
                key = "match" if at in matching else "weight"
                yield Problem(
                    (*where, at, key),
                    f"splits nothing, for this is the only edge from {from_}; leave it out",
                )
        elif matching and weighed:
            yield Problem(
                (*where, weighed[0], "weight"),
                f"the edges from {from_} are split by match already; split by one of both",
            )
        elif weighed and rest:
            yield Problem(
                (*where, rest[0]),
                f"has no weight, and other edges from {from_} have; give all of them one",
            )
        elif matching and not rest:
            yield Problem(
                (*where, matching[-1], "match"),
                f"packets that match no edge from {from_} have no way; leave the match of the "
                "last one out",
            )
        elif len(rest) > 1:
            mend = "leave one out" if matching else "give them a match or a weight"
            mend += " or another port" if origin != INGRESS else ""
            yield Problem(
                (*where, rest[1]),
                f"`{edges[rest[0]].to}` and `{edges[rest[1]].to}` are both downstream of {from_}, "
                f"and nothing says which packets go where; {mend}",
            )


def _ways(edges: Sequence[EdgePart], functions: Collection[str]) -> int:
    """How many there are from ingress to egress; copies take none."""
    count: dict[str, int] = defaultdict(int, {INGRESS: 1})
    for edge in ordered(edges, functions):
        count[edge.to] += count[edge.origin] if edge.mode is None else 0
    return count[EGRESS]

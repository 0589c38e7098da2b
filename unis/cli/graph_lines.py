"""A chain with branches as lines of text."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from unis.chain.values import INGRESS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from unis.chain.graph import ChainGraph, Edge
    from unis.chain.model import Match

_NONE: Mapping[Edge, Sequence[str]] = MappingProxyType({})


def graph_lines(chain: ChainGraph, links: Mapping[Edge, Sequence[str]] = _NONE) -> list[str]:
    """A line an edge; of edges that begin at one function the first names it. `links`: those that
    an edge passes, to be named.
    """
    width = max(len(name) for name in (INGRESS, *chain.functions))
    lines: list[str] = []
    for origin in (INGRESS, *chain.functions):
        edges = chain.out_of(origin)
        for at, edge in enumerate(edges):
            begin = origin if at == 0 else ""
            mark = "─" if len(edges) == 1 else "┬" if at == 0 else "├"
            mark = "└" if 0 < at == len(edges) - 1 else mark
            over = [f"over {' → '.join(links[edge])}"] if edge in links else []
            told = "".join(f", {word}" for word in [*_words(chain, edge), *over])
            lines.append(f"{begin:{width}} {mark}→ {edge.to}{told}")
    return lines


def _words(chain: ChainGraph, edge: Edge) -> Iterator[str]:
    if edge.out_port is not None:
        yield f"from port {edge.out_port}"
    if edge.in_port is not None:
        yield f"into port {edge.in_port}"
    beside = [one for one in chain.out_of(edge.origin) if one.out_port == edge.out_port]
    if edge.tap:
        yield "a copy"
    elif edge.match:
        yield "match " + " or ".join(map(_match, edge.match))
    elif edge.weight is not None:
        total = sum(one.weight or 0 for one in beside)
        yield f"{edge.weight / total:.0%} of the flows"
    elif any(one.match for one in beside):
        yield "all that match nothing else"


def _match(match: Match) -> str:
    stated = match.model_dump(exclude_none=True)
    return " ".join(f"{key} {value}" for key, value in stated.items()) or "everything"

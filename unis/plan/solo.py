"""A function by itself, between links of the engine, where it can be measured."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from unis.chain import defaults
from unis.chain.graph import ChainGraph
from unis.chain.link import Link
from unis.chain.load import LoadedChain
from unis.chain.model import EdgePart, SchedulerPart
from unis.chain.values import EGRESS, INGRESS
from unis.plan.wiring import LinkPlace, Wiring

_MEMIF = MappingProxyType({"kind": "memif"})


def solo_chain(
    chain: LoadedChain,
    name: str,
    into: Mapping[str, Any] = _MEMIF,
    out: Mapping[str, Any] = _MEMIF,
) -> LoadedChain:
    """The same traffic through the same ports of `name`, but no other function. `into` and `out`:
    what the file states of all links on which the function receives, and on which it sends.
    """
    file = chain.file
    chains = {
        key: file.chains[key].model_copy(update={"ring": defaults.RING, **_through(graph, name)})
        for key, graph in chain.graph.chains.items()
        if name in graph.functions
    }
    links = [
        Link.model_validate({**stated, "from": origin, "to": to})
        for origin, to, stated in ((INGRESS, name, into), (name, EGRESS, out))
    ]
    parts = {
        "functions": {name: file.functions[name]},
        "chains": chains,
        "links": links,
        "scheduler": SchedulerPart(),
    }
    return LoadedChain(chain.path, file.model_copy(update=parts), chain.document)


def on_its_links(chain: LoadedChain, wiring: Wiring, name: str) -> LoadedChain:
    """The same on links of the kinds that it has, and as long: of several the longest counts."""
    into = [place for place in wiring.places if place.to == name]
    out = [place for place in wiring.places if place.origin == name]
    return solo_chain(chain, name, _longest(into or out), _longest(out or into))


def _through(chain: ChainGraph, name: str) -> dict[str, Any]:
    """Keys of a chain that takes its packets through this function only."""
    if chain.reverse_of:
        return {}
    received = {edge.in_port for edge in chain.into(name) if edge.in_port is not None}
    sent = {edge.out_port for edge in chain.out_of(name) if edge.out_port is not None}
    if not received and not sent:
        return {"path": [name], "graph": None}
    into: list[dict[str, Any]] = [{"in_port": port} for port in sorted(received)] or [{}]
    out: list[dict[str, Any]] = [{"port": port} for port in sorted(sent)] or [{}]
    weight = {"weight": 1} if len(into) > 1 else {}
    edges = [
        *({"from": INGRESS, "to": name, **port, **weight} for port in into),
        *({"from": name, "to": EGRESS, **port} for port in out),
    ]
    return {"path": None, "graph": list(map(EdgePart.model_validate, edges))}


def _longest(places: list[LinkPlace]) -> dict[str, Any]:
    """What is stated of one of them."""
    stated = [
        place.of_kind.model_dump(exclude_none=True, exclude={"origin", "to"})
        if place.of_kind
        else {"kind": place.kind}
        for place in places
    ]
    return max(stated, key=lambda keys: keys.get("slots", 0))

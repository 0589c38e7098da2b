"""`unis config`: what a chain file becomes on this machine, and nothing is done."""

from __future__ import annotations

import shlex
from types import MappingProxyType
from typing import TYPE_CHECKING

from rich.table import Table

from unis.chain.load import load
from unis.chain.values import INGRESS
from unis.cli.options import ChainFileArgument, JsonOption, RunNameOption
from unis.cli.terminal import out, print_line, table_of, warn
from unis.links import KINDS
from unis.runtime import interfaces
from unis.runtime.errors import LaunchError
from unis.runtime.planning import plan_chain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pydantic import BaseModel

    from unis.chain.graph import ChainGraph, Edge, Graph
    from unis.chain.load import LoadedChain
    from unis.chain.model import Match, Traffic
    from unis.plan.model import ChainPlan, FunctionPlan, Plan


def config(
    file: ChainFileArgument,
    as_json: JsonOption = False,
    name: RunNameOption = None,
) -> None:
    """Show the plan for FILE: CPUs, links, command lines, environment. Nothing is started.

    Example: unis config examples/demo.yaml
    """
    chain = load(file, name)
    plan = plan_chain(chain)
    for sentence in _of_interfaces(plan.traffic.interfaces):
        warn(sentence, "yellow")
    if as_json:
        out.print_json(data=plan.as_dict())
        return
    _print(plan, chain.graph)
    if chain.file.mode == "profile":
        print_line(f"\n{_profile(chain)}")


def _profile(chain: LoadedChain) -> str:
    stated = chain.file.profile
    where = f"; written to {chain.directory / stated.output}" if stated.output else ""
    return (
        "mode profile: `unis up` measures where the time of a packet goes, at "
        f"{stated.load:.0%} of what passes at most, in {stated.rounds} rounds with windows of "
        f"{stated.window}{where}"
    )


def _of_interfaces(names: Iterable[str]) -> Iterator[str]:
    """What there is to know of source and sink; also that a chain could not start with them."""
    for name in names:
        try:
            yield from interfaces.look_at([name])
        except LaunchError as error:
            yield f"the chain cannot start here: {error}"


def _print(plan: Plan, graph: Graph) -> None:
    print_line(f"{plan.name} ({plan.chain_file})", "bold")
    print_line(
        f"policy {plan.policy}, controller {plan.controller}; functions on CPU "
        f"{_listed(plan.cpus)}, traffic and scheduler on CPU {_listed(plan.platform_cpus)}; "
        f"{plan.hugepages_mb} MB of hugepages"
    )
    print_line(f"source {_source(plan.traffic)}; sink {_end(plan.traffic.sink)}")
    for note in plan.notes:
        print_line(f"note: {note}", "yellow")
    out.print()
    out.print(_links(plan))
    for chain in plan.chains:
        way = _way(plan.traffic, chain, graph.chains[chain.name])
        print_line(f"\nchain {chain.name}:{way}")
        if chain.ring and _has_rings(plan, chain):
            told = f"  rings of {chain.ring.slots} slots: {chain.ring.why}"
            print_line(told)
    print_line(f"\nγ {plan.gamma.value:g}: {plan.gamma.why}")
    delay = plan.scheduler.max_delay_us
    sleep = f"packets wait for up to {delay:g} µs on each CPU for functions that sleep"
    print_line(sleep if delay else "functions poll while packets come")
    if plan.dma:
        ways = ((plan.dma.rx, "receive"), (plan.dma.tx, "send"))
        queues = " and ".join(f"{count} to {way}" for count, way in ways if count)
        told = f"NICs {', '.join(plan.dma.ports)}: descriptors {queues}; {plan.dma.why}"
        print_line(told)
    _print_process("unisd", "", ["unisd", *plan.engine.argv])
    for function in plan.functions:
        where = f"CPU {function.cpu}, lcores {function.lcores}, DPDK group {function.file_prefix}"
        cost = "not stated" if function.cost_ns is None else f"{function.cost_ns:g} ns a packet"
        rights = f"user {function.user or 'root'}, capabilities " + (
            ", ".join(function.capabilities) or "none"
        )
        inside = f", in a container{_image(function)}" if function.container else ""
        more = f": {where}, cost {cost}, {rights}{inside}"
        _print_process(function.name, more, _command(function))
        for number, port in enumerate(function.ports):
            ends = f"receives from {port.rx or 'nothing'}, sends to {port.tx or 'nothing'}"
            print_line(f"  port {number}: {ends}")


def _source(traffic: Traffic) -> str:
    return _end(traffic.source) + ("" if traffic.from_port else f", rate {traffic.rate}")


def _end(end: BaseModel) -> str:
    stated = end.model_dump(exclude_none=True)
    more = ", ".join(f"{key} {stated[key]}" for key in ("size", "flows") if key in stated)
    name = _device(end) or stated.get("file", "")
    name = name or stated.get("next_hop", "")
    return " ".join(filter(None, [stated["kind"], name, more and f"({more})"]))


def _device(end: BaseModel) -> str:
    stated = end.model_dump()
    return str(stated.get("interface") or stated.get("device") or "")


def _has_rings(plan: Plan, chain: ChainPlan) -> bool:
    """Of the length that the plan chooses."""
    return any(
        link.edge[0] == chain.name and KINDS[link.kind].default_slots is None for link in plan.links
    )


def _way(traffic: Traffic, chain: ChainPlan, graph: ChainGraph) -> str:
    """From the source link by link to the sink; of a chain with branches a line an edge."""
    if chain.edges:
        edges = zip(graph.edges, chain.edges, strict=True)
        lines = graph_lines(graph, {edge: planned.links for edge, planned in edges})
        return "".join(f"\n  {line}" for line in lines)
    hops = [f"{hop.function} ({hop.in_port}→{hop.out_port})" for hop in chain.hops]
    source, sink = (_device(end) or end.kind * (end.kind == "wire") for end in traffic.ends)
    ends = [source or "source", chain.ingress], [chain.egress, sink or "sink"]
    return " " + " → ".join([*ends[0], *hops, *ends[1]])


def _image(function: FunctionPlan) -> str:
    image = function.container.image if function.container else None
    return f" with image {image}" if image else ""


def _command(function: FunctionPlan) -> list[str]:
    environment = [f"{key}={value}" for key, value in sorted(function.env.items())]
    return [*environment, str(function.program), *function.argv]


def _print_process(name: str, more: str, argv: list[str]) -> None:
    print_line(f"\n{name}{more}")
    print_line(f"  {shlex.join(argv)}", "dim")


def _links(plan: Plan) -> Table:
    sockets = any(link.socket for link in plan.links)
    table = table_of("", "link", words=("kind",))
    table.add_column("slots", justify="right")
    if sockets:
        table.add_column("socket")
    received = {(one.name, port.rx) for one in plan.functions for port in one.ports}
    for link in plan.links:
        kind = KINDS[link.kind]
        by_function = (link.edge[2], link.name) in received  # else by the engine
        room = kind.waiting_room(link) if by_function else link.slots
        words = [str(link.socket or "")] * sockets
        table.add_row(link.name, link.kind + kind.driver_stated(link), str(room), *words)
    return table


def _listed(cpus: tuple[int, ...]) -> str:
    return ", ".join(map(str, dict.fromkeys(cpus)))


def graph_lines(
    chain: ChainGraph, links: Mapping[Edge, Sequence[str]] = MappingProxyType({})
) -> list[str]:
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
            told = "".join(f", {word}" for word in [*_edge_words(chain, edge), *over])
            lines.append(f"{begin:{width}} {mark}→ {edge.to}{told}")
    return lines


def _edge_words(chain: ChainGraph, edge: Edge) -> Iterator[str]:
    if edge.out_port is not None:
        yield f"from port {edge.out_port}"
    if edge.in_port is not None:
        yield f"into port {edge.in_port}"
    beside = [sibling for sibling in chain.out_of(edge.origin) if sibling.out_port == edge.out_port]
    if edge.tap:
        yield "a copy"
    elif edge.match:
        yield "match " + " or ".join(map(_match_words, edge.match))
    elif edge.weight is not None:
        total = sum(sibling.weight or 0 for sibling in beside)
        yield f"{edge.weight / total:.0%} of the flows"
    elif any(sibling.match for sibling in beside):
        yield "all that match nothing else"


def _match_words(match: Match) -> str:
    stated = match.model_dump(exclude_none=True)
    return " ".join(f"{key} {value}" for key, value in stated.items()) or "everything"

"""Where the links of a chain file are, of which kinds, and which ports are on which.

Needs no machine, and knows neither lengths nor names.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from unis import links, workload
from unis.chain.graph import ChainGraph, Edge, Graph
from unis.chain.link import Link, Queues
from unis.chain.model import ChainFile
from unis.chain.problem import Problem
from unis.chain.values import EGRESS
from unis.engine.limits import limit
from unis.workload import GroupName

Way = tuple[int, int]  # in port, out port

# Debian builds DPDK for 32 in a group of processes; one is for the engine's own use.
MOST_PORTS = 31
POLLING_POLICIES = ("unis", "cooperative")  # which no function may sleep under by itself
_TRAFFIC = "ring"  # what source and sink have, where they have no end of the function's link


@dataclass(frozen=True)
class LinkPlace:
    """A link that is to be. Of two on an edge the engine carries packets from one to the next."""

    chain: str
    edge: Edge
    part: int  # 0; of two on the edge the position; of one that edges share the port
    kind: str
    origin: str | None  # the function at this end; None: the engine has it
    to: str | None
    stated: Link | None  # what the file says of it
    wire: bool = False  # one end is outside the run, and the engine has none

    @property
    def functions(self) -> frozenset[str]:
        """The functions at its ends."""
        return frozenset(end for end in (self.origin, self.to) if end)

    @property
    def is_direct(self) -> bool:
        """Whether functions have both ends."""
        return None not in (self.origin, self.to)

    @property
    def key(self) -> tuple[str, str, str]:
        """The edge, as plans of a run know it."""
        return (self.chain, *self.edge.ends)

    @property
    def of_kind(self) -> Link | None:
        """What the file states of it, if that is of its kind."""
        return self.stated if self.stated and self.stated.kind == self.kind else None

    def slots(self, rings: Mapping[str, int]) -> int:
        """What the file states, else what its kind has; `rings`: those of each chain's rings."""
        stated = self.of_kind.slots if self.of_kind else None
        return stated or links.KINDS[self.kind].default_slots or rings[self.chain]

    def room(self, rings: Mapping[str, int], *, by_function: bool) -> int:
        """Packets of 64 bytes that may wait for a function that receives, or else the engine."""
        driver = self.of_kind.driver if self.of_kind and by_function else None
        return links.KINDS[self.kind].room(self.slots(rings), driver)


@dataclass(frozen=True)
class PortPlace:
    """What a port of a function is on."""

    rx: LinkPlace | None = None
    tx: LinkPlace | None = None

    @property
    def kind(self) -> str:
        """Of its links."""
        place = self.rx or self.tx
        if place is None:
            raise ValueError("a port on nothing")
        return place.kind


@dataclass(frozen=True)
class Wiring:
    """Everything that packets pass."""

    graph: Graph
    groups: Mapping[str, GroupName]  # the kind of program of each function
    ways: Mapping[str, Mapping[str, Way]]  # by function and chain
    ports: Mapping[str, Sequence[PortPlace]]  # by function
    places: tuple[LinkPlace, ...]  # in the order in which they are named
    # By chain and edge. Edges that the engine splits begin with the same link, edges that it merges
    # end with the same one.
    passed: Mapping[str, Mapping[Edge, tuple[LinkPlace, ...]]]
    crowded: frozenset[tuple[str, int]]  # ports of functions on which two duplex links would be
    drains: Mapping[str, tuple[LinkPlace, ...]]  # by chain: filled by functions that only watch
    # Those of the places that two functions have between them, of which the engine has no end.
    direct: tuple[LinkPlace, ...]

    def out_port(self, chain: str, edge: Edge) -> int:
        """Of the function at its origin; 0 for the source."""
        through = self.ways.get(edge.origin, {}).get(chain, (0, 0))
        return through[1] if edge.out_port is None else edge.out_port

    def in_port(self, chain: str, edge: Edge) -> int:
        """Of the function that it leads to; 0 for the sink."""
        through = self.ways.get(edge.to, {}).get(chain, (0, 0))
        return through[0] if edge.in_port is None else edge.in_port

    def shares_memory(self, function: str) -> bool:
        """Whether it is in the engine's DPDK group, with all of its memory."""
        return self.groups[function] == "engine"


def wire(file: ChainFile, graph: Graph) -> Wiring:
    """The wiring of a file."""
    builder = _Builder(file, graph)
    # The way back uses the duplex links of the way there.
    for forward in (True, False):
        for chain in graph.chains.values():
            if (chain.reverse_of is None) == forward:
                builder.add(chain)
    return builder.wiring()


@dataclass
class _Builder:
    file: ChainFile
    graph: Graph
    groups: dict[str, GroupName] = field(init=False)
    ways: dict[str, dict[str, Way]] = field(init=False)
    ports: dict[str, list[PortPlace]] = field(init=False)
    places: list[LinkPlace] = field(default_factory=list)
    passed: dict[str, dict[Edge, tuple[LinkPlace, ...]]] = field(default_factory=dict)
    drains: dict[str, tuple[LinkPlace, ...]] = field(default_factory=dict)
    crowded: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.groups = {name: _group(self.file, self.graph, name) for name in self.graph.functions}
        self.ways = {
            name: ways(self.graph, name, duplex=self._is_duplex(name)) for name in self.groups
        }
        self.ports = {name: [PortPlace()] * (1 + self._last_port(name)) for name in self.groups}

    def wiring(self) -> Wiring:
        return Wiring(
            graph=self.graph,
            groups=self.groups,
            ways=self.ways,
            ports=self.ports,
            places=tuple(self.places),
            passed=self.passed,
            crowded=frozenset(self.crowded),
            drains=self.drains,
            direct=tuple(
                place for place in self.places if place.is_direct and links.KINDS[place.kind].duplex
            ),
        )

    def _is_duplex(self, function: str) -> bool:
        """Whether its ports send and receive on the same link."""
        return links.KINDS[workload.KINDS[self.groups[function]].link].duplex

    def _last_port(self, function: str) -> int:
        numbers = [port for way in self.ways[function].values() for port in way]
        for _, edge in self.graph.edges():
            for end, port in ((edge.origin, edge.out_port), (edge.to, edge.in_port)):
                numbers += [port] if end == function and port is not None else []
        return max(numbers)

    def add(self, chain: ChainGraph) -> None:
        if chain.is_path:
            self.passed[chain.name] = {edge: self._edge(chain, edge) for edge in chain.edges}
            self.drains[chain.name] = ()
        else:
            self._branches(chain)

    def _branches(self, chain: ChainGraph) -> None:
        """Where the engine splits or merges, edges share the link of the port. The engine carries
        packets between that link and its own links.
        """
        split: dict[tuple[str, int | None], list[Edge]] = {}
        merged: dict[tuple[str, int | None], list[Edge]] = {}
        for edge in chain.edges:
            split.setdefault((edge.origin, edge.out_port), []).append(edge)
            if edge.to != EGRESS:
                merged.setdefault((edge.to, edge.in_port), []).append(edge)
        firsts = {
            edges[0]: self._new(
                chain, Edge(origin, "", port), self._beside(chain, origin, edges), origin, None
            )
            for (origin, port), edges in split.items()
            if len(edges) > 1
        }
        passed = self.passed[chain.name] = {}
        lasts: dict[tuple[str, int | None], LinkPlace] = {}
        for edge in chain.edges:
            first = firsts.get(split[edge.origin, edge.out_port][0])
            into = (edge.to, edge.in_port)
            if len(merged.get(into, ())) > 1 and into not in lasts:
                kind = self._beside(chain, edge.to, merged[into])
                shared = Edge("", edge.to, None, edge.in_port)
                lasts[into] = self._new(chain, shared, kind, None, edge.to)
            passed[edge] = self._branch(chain, edge, first, lasts.get(into))
            self._attach(chain.name, edge, passed[edge][0], passed[edge][-1])
        self.drains[chain.name] = tuple(
            self._drain(chain, name) for name in chain.functions if not chain.out_of(name)
        )

    def _beside(self, chain: ChainGraph, end: str, edges: Sequence[Edge]) -> str:
        """The kind of a link between this end of the edges and the engine."""
        stated = (link.kind for edge in edges if (link := self._stated(chain, edge)))
        return self._opened(end, next(stated, None))

    def _branch(
        self, chain: ChainGraph, edge: Edge, first: LinkPlace | None, last: LinkPlace | None
    ) -> tuple[LinkPlace, ...]:
        if first is None and last is None:
            return self._edge(chain, edge)
        if first is None:
            kind = self._beside(chain, edge.origin, [edge])
            first = self._new(chain, edge, kind, edge.origin, None)
        if last is None:
            last = self._new(chain, edge, self._beside(chain, edge.to, [edge]), None, edge.to)
        return first, last

    def _drain(self, chain: ChainGraph, function: str) -> LinkPlace:
        edge = Edge(function, "")
        place = self._new(chain, edge, self._opened(function, None), function, None)
        self._attach(chain.name, edge, place, place)
        return place

    def _new(
        self, chain: ChainGraph, edge: Edge, kind: str, origin: str | None, to: str | None
    ) -> LinkPlace:
        first, last = (end if end in self.groups else None for end in (origin, to))
        if "" in edge.ends:  # edges share it, and one that they share is at each port
            part = edge.out_port or edge.in_port or 0
        else:  # links of the way back that are those of the way there do not count
            part = sum(place.key == (chain.name, *edge.ends) for place in self.places)
        wire = self.file.traffic.next_hop is not None and None in (first, last)
        place = LinkPlace(
            chain.name, edge, part, kind, first, last, self._stated(chain, edge), wire
        )
        self.places.append(place)
        return place

    def _edge(self, chain: ChainGraph, edge: Edge) -> tuple[LinkPlace, ...]:
        there: tuple[LinkPlace, ...] = ()
        if chain.reverse_of is not None:
            there = self.passed[chain.reverse_of][edge.turned()][::-1]
            kinds = [place.kind for place in there]
        else:
            kinds = self._kinds(edge)
        found: list[LinkPlace] = []
        for part, kind in enumerate(kinds):
            if there and links.KINDS[kind].duplex:
                place = there[part]
            else:
                origin = edge.origin if part == 0 else None
                to = edge.to if part == len(kinds) - 1 else None
                place = self._new(chain, edge, kind, origin, to)
            found.append(place)
        self._attach(chain.name, edge, found[0], found[-1])
        return tuple(found)

    def _attach(self, chain: str, edge: Edge, sent: LinkPlace, received: LinkPlace) -> None:
        if edge.origin in self.groups:
            default = self.ways[edge.origin][chain][1]
            self._put(edge.origin, default if edge.out_port is None else edge.out_port, tx=sent)
        if edge.to in self.groups:
            default = self.ways[edge.to][chain][0]
            self._put(edge.to, default if edge.in_port is None else edge.in_port, rx=received)

    def _put(
        self, function: str, number: int, rx: LinkPlace | None = None, tx: LinkPlace | None = None
    ) -> None:
        """A port on a duplex link has it both ways from the way there on."""
        port = self.ports[function][number]
        place = rx or tx
        if place and links.KINDS[place.kind].duplex:
            if (port.rx or place) != place:
                self.crowded.add((function, number))
            rx = tx = place
        self.ports[function][number] = PortPlace(rx or port.rx, tx or port.tx)

    def _kinds(self, edge: Edge) -> list[str]:
        """Of the links that packets pass on it, the first at the origin."""
        stated = next((link.kind for link in self.file.links if _is_of(link, edge)), None)
        if edge.to == EGRESS:
            sent = self._opened(edge.origin, stated)
            received = self._opened(edge.to, sent)
        else:
            received = self._opened(edge.to, stated)
            sent = self._opened(edge.origin, received)
        return [sent] if sent == received else [sent, received]

    def _opened(self, end: str, wanted: str | None) -> str:
        """The kind of link on which this end is, if it can be on the one that is wanted."""
        if end not in self.groups:  # source or sink
            return wanted or _TRAFFIC
        program = workload.KINDS[self.groups[end]]
        if wanted is not None and program.opens(links.KINDS[wanted]):
            return wanted
        return program.link

    def _stated(self, chain: ChainGraph, edge: Edge) -> Link | None:
        """What the file states for it, or for the same edge of the way back."""
        back = self.graph.back_of(chain.name)
        candidates = [edge, edge.turned()] if back else [edge]
        return next(
            (link for place in candidates for link in self.file.links if _is_of(link, place)), None
        )


def _is_of(link: Link, edge: Edge) -> bool:
    return (link.origin, link.to) == edge.ends


def programs_for(kinds: Iterable[str]) -> list[GroupName]:
    """The kinds of programs that can have ports on links of all these kinds."""
    wanted = [links.KINDS[kind] for kind in kinds]
    return [program.group for program in workload.KINDS.values() if all(map(program.opens, wanted))]


def _group(file: ChainFile, graph: Graph, function: str) -> GroupName:
    """The kind of a function's program: what can open the links that are stated for it (where
    nothing opens all, which is an error, the first); else a command, or a program in a container,
    is of a group of its own, and all else of the engine's.
    """
    stated = [link.kind for link in file.links if link.to == function]
    if stated:
        return (programs_for(stated) or programs_for(stated[:1]))[0]
    program = graph.functions[function]
    return "engine" if program.command is None and program.container is None else "own"


def ways(graph: Graph, function: str, *, duplex: bool) -> dict[str, Way]:
    """Through which ports of a function each chain goes, by chain.

    UNiS' functions forward 0↔1, 2↔3 and so on. A function of one chain has one port. A function of
    several chains has a pair of ports for every two of them, one chain each way. A chain and its
    way back share a pair, as do both ways of a `duplex` link. A command always has a pair: most
    programs forward from a port to another.
    """
    serving = graph.chains_of(function)
    command = graph.functions[function].command is not None
    if stated := {chain.name: way for chain in serving if (way := _stated_way(chain, function))}:
        return stated
    if len(serving) == 1 and not duplex and not command:
        return {serving[0].name: (0, 0)}
    found: dict[str, Way] = {}
    ports = 0
    left: Way | None = None  # the free direction of a pair
    for chain in serving:
        if chain.reverse_of:
            continue
        back = graph.back_of(chain.name)
        if left and not back and not duplex:
            found[chain.name], left = left, None
            continue
        there, there_back = (ports, ports + 1), (ports + 1, ports)
        ports += 2
        found[chain.name] = there
        if back:
            found[back.name] = there_back
        elif not duplex:
            left = there_back
    return found


def _stated_way(chain: ChainGraph, function: str) -> Way | None:
    """What the edges of the chain say, the first of several."""
    received, sent = chain.stated_ports(function)
    return (min(received), min(sent)) if received and sent else None


def waiting_refused(policy: str, mend: str) -> str:
    """Why no link may have `wait` then."""
    return (
        f"under policy {policy} functions poll and hand the CPU over; for functions that wait, "
        f"{mend}"
    )


def link_problems(file: ChainFile, wiring: Wiring) -> Iterator[Problem]:
    """What is wrong with the links that the file states."""
    for at, link in enumerate(file.links):
        kind = links.KINDS[link.kind]
        if link.slots is not None and link.slots > kind.most_slots:
            sentence = f"{link.slots} slots; a link of kind {link.kind} has up to {kind.most_slots}"
            yield Problem(("links", at, "slots"), sentence)
        if link.driver and not kind.chooses_driver:
            choosing = " and ".join(name for name, of in links.KINDS.items() if of.chooses_driver)
            sentence = (
                f"applies to kinds {choosing}, and this link is of kind {link.kind}; leave it out"
            )
            yield Problem(("links", at, "driver"), sentence)
        if link.driver == "vfio" and kind.chooses_driver and not kind.on_nics:
            yield Problem(
                ("links", at, "driver"),
                f"vfio is for links of kind sriov, and this one is a {link.kind}; leave it out",
            )
        for key in ("nic", "vlan", "rate", "spoof_check"):
            if getattr(link, key) and not kind.on_nics:
                sentence = (
                    f"is for links of kind sriov, and this one is a {link.kind}; leave it out"
                )
                yield Problem(("links", at, key), sentence)
        for key in ("batch", "calls", "wait"):
            if getattr(link, key) and link.driver != "mmsg":
                yield Problem(
                    ("links", at, key), "applies to driver: mmsg; add that, or leave it out"
                )
        if link.wait and file.scheduler.policy in POLLING_POLICIES:
            mend = "state another scheduler.policy, such as other, or leave it out"
            sentence = waiting_refused(file.scheduler.policy, mend)
            yield Problem(("links", at, "wait"), sentence)
        opens = [
            workload.KINDS[wiring.groups[end]].opens(kind)
            for end in (link.origin, link.to)
            if end in wiring.groups
        ]
        if link.to == EGRESS and not kind.of_group and not all(opens):
            yield Problem(
                ("links", at),
                f"`{link.origin}` receives from a ring, so it sends to one; make the link to "
                f"`{link.origin}` a {link.kind} too, or leave this one out",
            )
        if kind.of_group and opens == [False, False]:
            yield Problem(
                ("links", at),
                f"`{link.origin}` and `{link.to}` are of DPDK groups of their own, which share "
                f"no {link.kind}; leave this link out",
            )
    # A function is one program, on whichever of its links packets come.
    first: dict[str, Link] = {}
    for at, link in enumerate(file.links):
        other = first.setdefault(link.to, link)
        if link.to != EGRESS and not programs_for([other.kind, link.kind]):
            yield Problem(
                ("links", at),
                f"`{link.to}` receives on a {link.kind} here and on a {other.kind} from "
                f"`{other.origin}`, and no program opens both; state kind: {other.kind} here too, "
                "or leave one of both links out",
            )


def wiring_problems(file: ChainFile, wiring: Wiring) -> Iterator[Problem]:
    """What is wrong with the links, and with the processes at their ends."""
    yield from link_problems(file, wiring)
    for name, ports in wiring.ports.items():
        bound = sorted({port.kind for port in ports if not links.KINDS[port.kind].in_namespaces})
        if bound and wiring.graph.functions[name].namespace == "own":
            yield Problem(
                ("functions", name, "namespace"),
                f"`{name}` is on a link of kind {bound[0]}, whose devices stay where UNiS runs: "
                "state namespace: host, or make its links kind: veth",
            )
    for name, port in sorted(wiring.crowded):
        yield Problem(
            ("functions", name),
            f"port {port} is on a link that carries packets both ways, and edges lead over it to "
            "two; let the edges state other ports",
        )
    yield from _queue_problems(wiring)
    yield from _telemetry_problems(wiring)
    yield from _too_many_ports(file, wiring)


def _telemetry_problems(wiring: Wiring) -> Iterator[Problem]:
    for name, function in wiring.graph.functions.items():
        where = ("functions", name, "telemetry")
        if function.telemetry and wiring.shares_memory(name):
            yield Problem(
                where,
                "is that of the primary process of a DPDK group; a function on rings has none: let "
                f"the link to `{name}` state kind: memif",
            )
        elif function.telemetry and (function.container or function.user):
            yield Problem(
                where, "of a function in a container or with a `user` has no socket that is known"
            )


def _queue_problems(wiring: Wiring) -> Iterator[Problem]:
    functions = wiring.graph.functions
    for name, function in functions.items():
        if function.queues != Queues() and wiring.shares_memory(name):
            yield Problem(
                ("functions", name, "queues"),
                "applies to functions in a DPDK group of their own; one on rings has one queue "
                f"each way: leave it out, or let the link to `{name}` state kind: memif",
            )
        kinds = {port.kind for port in wiring.ports.get(name, ())}
        alike = sorted(kind for kind in kinds if not links.KINDS[kind].queues_may_differ)
        single = sorted(kind for kind in kinds if links.KINDS[kind].most_queues == 1)
        if single and function.queues != Queues():
            yield Problem(
                ("functions", name, "queues"),
                f"`{name}` is on a link of kind {single[0]}, which has one queue each way: leave "
                "it out, or make its links kind: veth",
            )
            continue
        if alike and function.queues.rx != function.queues.tx and not wiring.shares_memory(name):
            yield Problem(
                ("functions", name, "queues"),
                f"differ for receiving and sending, and `{name}` is on a {alike[0]}, which has as "
                "many of both: give one number, or make its links kind: memif",
            )
    direct = {(place.origin or "", place.to or ""): place.kind for place in wiring.direct}
    for (before, behind), kind in sorted(direct.items()):
        has, wanted = functions[behind].queues, functions[before].queues.opposite
        if has != wanted:
            yield Problem(
                ("functions", behind, "queues"),
                f"`{before}` has queues: {functions[before].queues} and `{behind}` queues: {has}; "
                f"over a {kind} each receives by as many as the other sends by, so give `{behind}` "
                f"queues: {wanted}",
            )


def _too_many_ports(file: ChainFile, wiring: Wiring) -> Iterator[Problem]:
    most_each = limit("FunctionConfig.ports").max_items
    for name, ports in wiring.ports.items():
        if len(ports) > most_each:
            yield Problem(
                ("functions", name),
                f"has {len(ports)} ports for its chains and {most_each} at most; run the program a "
                "second time under another name",
            )
    traffic = sum(end.kind in ("port", "interface") for end in file.traffic.ends)
    in_group = sum(len(ports) for name, ports in wiring.ports.items() if wiring.shares_memory(name))
    if (count := in_group + traffic) > MOST_PORTS:
        yield Problem(
            ("functions",),
            f"{in_group} ports on rings and {traffic} of traffic are {count}, more than the "
            f"{MOST_PORTS} that DPDK has for a group of processes; spread them over several "
            "chain files",
        )

"""What must hold between the parts of a chain file; each part is right by itself already."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

from unis.chain import defaults
from unis.chain.edges import edge_problems
from unis.chain.graph import Graph
from unis.chain.model import ChainFile, Kernel
from unis.chain.problem import Location, Problem
from unis.chain.values import EGRESS, INGRESS, rate_in

# What the plug-in reads of a function's environment, and what to do instead.
_OWN_VARIABLES = {
    "UNIS_OFFLOADS": "write offloads",
    "UNIS_NEXT_HOPS": "leave it out",
    "UNIS_COUNTED": "leave it out",
    "UNIS_LCORE_USAGE": "write telemetry: true",
}
_TERMINAL_LINE = 4095  # bytes before the end of a line; Linux drops what is more


def problems(file: ChainFile) -> list[Problem]:
    """Everything that is wrong between the parts of `file`."""
    own = _own_variables(("defaults",), file.defaults.env)
    found = [*own, *_programs(file), *_paths(file)]
    if not found:  # what follows walks the paths
        graph = Graph.of(file)
        found = [
            *_uses(graph), *_ports(file, graph), *_links(file, graph), *_tenants(file, graph),
            *_wires(file, graph),
        ]  # fmt: skip
    return [
        *found,
        *_cpus(file),
        *_hidden_chains(file),
        *_thresholds(file),
        *_rate(file),
        *_kernel(file),
        *_slos(file),
    ]


def _programs(file: ChainFile) -> Iterator[Problem]:
    for name, function in file.functions.items():
        where = ("functions", name)
        if (function.program is None) == (function.command is None):
            yield Problem(where, "has either a program: NAME or a command: [NAME, ARGUMENT, …]")
        elif function.command is not None and function.args:
            yield Problem(
                (*where, "args"), "goes with program; write the arguments after the command's name"
            )
        elif function.command is not None and function.yield_every:
            yield Problem(
                (*where, "yield_every"), "goes with program; a command is told nothing of UNiS"
            )
        elif function.program is not None and function.rewrites:
            yield Problem(
                (*where, "rewrites"), "goes with command; programs are told what to write"
            )
        elif function.program is not None and function.stdin is not None:
            yield Problem((*where, "stdin"), "goes with command")
        yield from _own_variables(where, function.env)
        if function.command is None and not function.plugin:
            yield Problem((*where, "plugin"), "goes with command; a program is of UNiS's DPDK")
        elif function.terminal and function.stdin:
            longest = max(len(line.encode()) for line in function.stdin.split("\n"))
            if longest > _TERMINAL_LINE:
                yield Problem(
                    (*where, "stdin"),
                    f"has a line of {longest} bytes, and a terminal takes {_TERMINAL_LINE} at most",
                )


def _own_variables(where: Location, env: Iterable[str]) -> Iterator[Problem]:
    for key, instead in _OWN_VARIABLES.items():
        if key in env:
            yield Problem((*where, "env", key), f"is UNiS's own; {instead}")


def unknown_function(where: Location, function: str, known: Iterable[str]) -> Problem:
    """A path names a function that is nowhere."""
    if function.startswith("x-"):
        return Problem(where, f"`{function}` is left out, as keys x-… are; give it another name")
    return Problem(
        where,
        f"there is no function `{function}`; choose one of {', '.join(map(str, known))}, or add it "
        "to functions",
    )


def _paths(file: ChainFile) -> Iterator[Problem]:
    backward: dict[str, str] = {}
    for name, chain in file.chains.items():
        where = ("chains", name)
        ways = (chain.path, chain.graph, chain.reverse_of)
        if sum(way is not None for way in ways) != 1:
            yield Problem(
                where,
                "must have one of path: [FUNCTION, …], graph: [EDGE, …] and reverse_of: CHAIN, and "
                f"has {sum(way is not None for way in ways) or 'none'}",
            )
            continue
        if chain.graph is not None:
            yield from edge_problems(chain.graph, file.functions, (*where, "graph"))
        for at, function in enumerate(chain.path or []):
            if function not in file.functions:
                yield unknown_function((*where, "path", at), function, file.functions)
            elif function in (chain.path or [])[:at]:
                yield Problem(
                    (*where, "path", at),
                    f"`{function}` stands twice in this path; a chain passes a function once",
                )
        if chain.reverse_of is not None:
            yield from _reverse(file, name, chain.reverse_of, backward)


def _reverse(
    file: ChainFile, name: str, forward: str, backward: dict[str, str]
) -> Iterator[Problem]:
    where = ("chains", name, "reverse_of")
    if forward not in file.chains or forward == name:
        others = [other for other in file.chains if other != name]
        yield Problem(
            where,
            f"there is no other chain `{forward}`; choose one of {', '.join(others) or '(none)'}",
        )
    elif file.chains[forward].path is None:
        yield Problem(where, f"`{forward}` has no path of its own; name a chain that has")
    elif forward in backward:
        yield Problem(where, f"`{backward[forward]}` is the way back of `{forward}` already")
    backward.setdefault(forward, name)


def _uses(graph: Graph) -> Iterator[Problem]:
    uses = Counter(function for chain in graph.chains.values() for function in chain.functions)
    for name in graph.functions:
        if not uses[name]:
            yield Problem(
                ("functions", name), "is in the path of no chain; add it to one, or take it out"
            )
        elif uses[name] > defaults.CHAINS_OF_A_FUNCTION:
            yield Problem(
                ("functions", name),
                f"serves {uses[name]} chains and {defaults.CHAINS_OF_A_FUNCTION} at most; run the "
                "program a second time under another name",
            )


def _ports(file: ChainFile, graph: Graph) -> Iterator[Problem]:
    """Problems of stated ports: a function states them for all its chains, and leaves none out."""
    for name in graph.functions:
        used: dict[str, set[tuple[str, int]]] = {}
        for part in graph.chains_of(name):
            ways = zip(("receives", "sends"), part.stated_ports(name), strict=True)
            used[part.name] = {(way, port) for way, ports in ways for port in ports}
        stated = [chain for chain, ports in used.items() if ports]
        if not stated:
            continue
        for chain, ports in used.items():
            if not ports:
                yield Problem(
                    ("chains", chain),
                    f"says nothing of the ports of `{name}`, and chain `{stated[0]}` does; write "
                    "it as a graph that names its ports too",
                )
        ports_of = Counter(port for ports in used.values() for port in ports)
        for (way, port), count in sorted(ports_of.items()):
            if count > 1:
                sharing = [chain for chain, ports in used.items() if (way, port) in ports]
                key = "reverse_of" if file.chains[sharing[-1]].reverse_of else "graph"
                yield Problem(
                    ("chains", sharing[-1], key),
                    f"port {port} of `{name}` {way} packets of chain `{sharing[0]}` already; give "
                    "it another port",
                )
        numbers = {port for _, port in ports_of}
        if missing := {*range(max(numbers))} - numbers:
            yield Problem(
                ("functions", name),
                f"port {min(missing)} is on no edge, and port {max(numbers)} is; its ports are "
                "counted from 0, and packets pass each",
            )


def _links(file: ChainFile, graph: Graph) -> Iterator[Problem]:
    edges = {edge.ends for _, edge in graph.edges()}
    stated: set[tuple[str, str]] = set()
    for at, link in enumerate(file.links):
        ends = (link.origin, link.to)
        for key, name, end in (("from", link.origin, INGRESS), ("to", link.to, EGRESS)):
            if name not in file.functions and name != end:
                yield Problem(
                    ("links", at, key),
                    f"there is no function `{name}`; choose one of {', '.join(file.functions)}, "
                    f"or `{end}`",
                )
                break
        else:
            if ends not in edges:
                yield Problem(
                    ("links", at),
                    f"no chain goes from `{link.origin}` to `{link.to}`; name two that follow one "
                    "another in a path",
                )
            elif ends in stated:
                yield Problem(
                    ("links", at),
                    f"the link from `{link.origin}` to `{link.to}` stands here twice; keep one",
                )
        stated.add(ends)


def _wires(file: ChainFile, graph: Graph) -> Iterator[Problem]:
    """A chain at wires is a path on virtual functions, and nothing of UNiS is in it."""
    wires = [end.kind == "wire" for end in file.traffic.ends]
    if not any(wires):
        return
    if not wires[0]:
        yield Problem(
            ("traffic", "source"),
            "the sink is a wire, so packets come over one too; write source: {kind: wire}",
        )
    elif not wires[1]:
        yield Problem(
            ("traffic", "sink"),
            "the source is a wire, so the last functions send over one too; write sink: {kind: "
            "wire, next_hop: …} with the MAC address to which they send",
        )
    kinds = {(link.origin, link.to): link.kind for link in file.links}
    for name, chain in graph.chains.items():
        part = file.chains[name]
        for key in ("graph", "reverse_of", "match", "slo"):
            if getattr(part, key):
                why = {
                    "match": "others choose a chain by the MAC address to which they send",
                    "slo": "nobody sees when packets come and go",
                }.get(key, "a chain at wires is a path")
                yield Problem(("chains", name, key), f"goes with no wire: {why}; leave it out")
        for edge in chain.edges:
            if kinds.get(edge.ends) != "sriov":
                yield Problem(
                    ("links",),
                    f"chain {name} begins and ends at wires, so all of its links are virtual "
                    f"functions; add {{from: {edge.origin}, to: {edge.to}, kind: sriov}}",
                )
        for end in {*chain.functions[:1], *chain.functions[-1:]}:
            if not file.functions[end].plugin:
                yield Problem(
                    ("functions", end, "plugin"),
                    f"`{end}` is at a wire, whose packets UNiS's plug-in counts; leave it in",
                )


def _tenants(file: ChainFile, graph: Graph) -> Iterator[Problem]:
    for name, chain in file.chains.items():
        there = chain.reverse_of and file.chains[chain.reverse_of].tenant
        if chain.reverse_of and chain.tenant and chain.tenant != there:
            yield Problem(
                ("chains", name, "tenant"),
                f"is `{chain.tenant}`, and chain `{chain.reverse_of}`, whose way back this is, is "
                f"of {f'`{there}`' if there else 'no tenant'}; state it there",
            )
    for name in graph.functions:
        serving = {file.tenant_of(chain.name): chain.name for chain in graph.chains_of(name)}
        if len(serving) > 1:
            (first, one), (second, other) = list(serving.items())[:2]
            yield Problem(
                ("functions", name),
                f"serves chains of two tenants, {first or 'none'} ({one}) and {second or 'none'} "
                f"({other}), and sees the packets of both; run the program a second time under "
                "another name",
            )


def _cpus(file: ChainFile) -> Iterator[Problem]:
    for name, function in file.functions.items():
        if function.cpu is None and file.defaults.cpu is None:
            yield Problem(
                ("functions", name, "cpu"), "is missing; add it, or a cpu under defaults for all"
            )
    for at, cpu in enumerate(file.platform_cpus):
        used = [name for name in file.functions if file.function(name).cpu == cpu]
        if used:
            yield Problem(
                ("platform", "cpus", at),
                f"CPU {cpu} is that of {', '.join(used)}; traffic and scheduler need another",
            )


def _hidden_chains(file: ChainFile) -> Iterator[Problem]:
    if file.traffic.next_hop is not None:  # each has a wire of its own
        return
    names = list(file.chains)
    for name, later in itertools.pairwise(names):
        if file.chains[name].matches_everything:
            yield Problem(
                ("chains", later),
                f"never gets a packet, because `{name}` takes every packet first; give `{name}` a "
                "narrower match, or put it last",
            )
            return


def _thresholds(file: ChainFile) -> Iterator[Problem]:
    low, high = file.scheduler.theta_min, file.scheduler.theta_max
    if high is not None and high <= low:
        yield Problem(
            ("scheduler", "theta_max"),
            f"θmax ({high}) must be above θmin ({low}), or no function ever runs",
        )


def _kernel(file: ChainFile) -> Iterator[Problem]:
    stated: list[tuple[tuple[str, ...], Kernel | None]] = [
        (("defaults",), file.defaults.kernel),
        (("ovs",), file.ovs.kernel),
        *((("functions", name), each.kernel) for name, each in file.functions.items()),
        *((("chains", name), chain.kernel) for name, chain in file.chains.items()),
    ]
    if file.ovs.kernel and file.ovs.kernel.policy is None:
        yield Problem(("ovs", "kernel"), "names no policy; state `policy: fifo`, or another")
    if file.ovs.kernel and file.ovs.kernel.slice_ms is not None:
        yield Problem(("ovs", "kernel", "slice_ms"), "is for functions; leave it out")
    for name, chain in file.chains.items():
        if chain.kernel and chain.reverse_of:
            yield Problem(
                ("chains", name, "kernel"),
                f"its functions are those of chain {chain.reverse_of}; state it there",
            )
    for at, kernel in stated:
        if kernel is None or kernel.policy is None:
            continue
        real_time = kernel.policy in ("rr", "fifo")
        where = (*at, "kernel")
        if kernel.priority is not None and not real_time:
            yield Problem((*where, "priority"), "is for rr and fifo; write nice for the others")
        for key in ("nice", "slice_ms"):
            if getattr(kernel, key) is not None and kernel.policy not in ("other", "batch"):
                hint = "; write priority for this one" if real_time else ""
                yield Problem((*where, key), f"is for other and batch{hint}")
    for name, function in file.functions.items():
        chains = [each for each, chain in file.chains.items() if chain.visits(name)]
        wishes = {each: file.chains[each].kernel for each in chains if file.chains[each].kernel}
        first = next(iter(wishes), "")
        for other, wish in wishes.items():
            if function.kernel is None and wish != wishes[first]:
                yield Problem(
                    ("chains", other, "kernel"),
                    f"differs from that of chain {first}, which has function {name} too; state "
                    f"it at functions.{name}",
                )


def _rate(file: ChainFile) -> Iterator[Problem]:
    if file.traffic.from_port and file.traffic.rate != "max":
        yield Problem(
            ("traffic", "rate"),
            "packets of a port, interface or wire come when they come; leave the rate out, or make "
            "packets with kind: synthetic",
        )
    if file.traffic.arrivals != defaults.ARRIVALS and not (file.traffic.pps or file.traffic.bps):
        yield Problem(
            ("traffic", "arrivals"),
            "packets of a port, interface or wire come when they come; leave the arrivals out, or "
            "make packets with kind: synthetic"
            if file.traffic.from_port
            else "at rate max packets are sent whenever there is room; give a rate, as 2.5Mpps",
        )


def _slos(file: ChainFile) -> Iterator[Problem]:
    for name, chain in file.chains.items():
        if chain.slo is None:
            continue
        where = ("chains", name, "slo")
        ways = (chain.slo.p95_latency, chain.slo.on_demand, chain.slo.reserved)
        if sum(way is not None for way in ways) != 1:
            yield Problem(where, "has one of p95_latency, on-demand and reserved")
        reserved = chain.slo.reserved
        if reserved and reserved.most_pps < rate_in(reserved.throughput, "pps"):
            yield Problem(
                (*where, "reserved", "maximum_rate"), "is below the throughput that is promised"
            )

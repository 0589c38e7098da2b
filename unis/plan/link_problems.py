"""What is wrong with the links and ports that a file asks for."""

from collections.abc import Iterator

from unis import links, workload
from unis.chain.link import Link
from unis.chain.model import ChainFile
from unis.chain.problem import Problem
from unis.chain.queues import Queues
from unis.chain.values import EGRESS
from unis.engine.limits import limit
from unis.plan.wiring import Wiring, programs_for

# Debian builds DPDK for 32 in a group of processes; one is for the engine's own use.
MOST_PORTS = 31


def link_problems(file: ChainFile, wiring: Wiring) -> list[Problem]:
    """What is wrong with the links that the file states."""
    found: list[Problem] = []
    for at, link in enumerate(file.links):
        kind = links.KINDS[link.kind]
        if link.slots is not None and link.slots > kind.most_slots:
            sentence = f"{link.slots} slots; a {link.kind} has up to {kind.most_slots}"
            found.append(Problem(("links", at, "slots"), sentence))
        opens = [
            workload.KINDS[wiring.groups[end]].opens(kind)
            for end in (link.origin, link.to)
            if end in wiring.groups
        ]
        if link.to == EGRESS and not kind.of_group and not all(opens):
            found.append(
                Problem(
                    ("links", at),
                    f"`{link.origin}` receives from a ring, so it sends to one; make the link to "
                    f"`{link.origin}` a {link.kind} too, or leave this one out",
                )
            )
        if kind.of_group and opens == [False, False]:
            found.append(
                Problem(
                    ("links", at),
                    f"`{link.origin}` and `{link.to}` are of DPDK groups of their own, which share "
                    f"no {link.kind}; leave this link out",
                )
            )
    return [*found, *_of_other_programs(file)]


def _of_other_programs(file: ChainFile) -> Iterator[Problem]:
    """A function is one program, on whichever of its links packets come."""
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


def process_problems(file: ChainFile, wiring: Wiring) -> list[Problem]:
    """What is wrong with the processes, as their links are."""
    crowded = [
        Problem(
            ("functions", name),
            f"port {port} is on a link that carries packets both ways, and edges lead over it to "
            "two; let the edges state other ports",
        )
        for name, port in sorted(wiring.crowded)
    ]
    return [*crowded, *_queue_problems(wiring), *_too_many_ports(file, wiring)]


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
        if alike and function.queues.rx != function.queues.tx and not wiring.shares_memory(name):
            yield Problem(
                ("functions", name, "queues"),
                f"differ for receiving and sending, and `{name}` is on a {alike[0]}, which has as "
                "many of both: give one number, or make its links kind: memif",
            )
    direct = {(place.origin or "", place.to or ""): place.kind for place in wiring.direct()}
    for (before, behind), kind in sorted(direct.items()):
        has, wanted = functions[behind].queues, functions[before].queues.opposite
        if has != wanted:
            yield Problem(
                ("functions", behind, "queues"),
                f"`{before}` has queues: {functions[before].queues} and `{behind}` queues: {has}; "
                f"over a {kind} each receives by as many as the other sends by, so give `{behind}` "
                f"queues: {wanted}",
            )


def _too_many_ports(file: ChainFile, wiring: Wiring) -> list[Problem]:
    most_each = limit("FunctionConfig.ports").max_items
    found = [
        Problem(
            ("functions", name),
            f"has {len(ports)} ports for its chains and {most_each} at most; run the program a "
            "second time under another name",
        )
        for name, ports in wiring.ports.items()
        if len(ports) > most_each
    ]
    traffic = sum(end.kind == "port" for end in (file.traffic.source, file.traffic.sink))
    in_group = sum(len(ports) for name, ports in wiring.ports.items() if wiring.shares_memory(name))
    if (count := in_group + traffic) > MOST_PORTS:
        found.append(
            Problem(
                ("functions",),
                f"{in_group} ports on rings and {traffic} of traffic are {count}, more than the "
                f"{MOST_PORTS} that DPDK has for a group of processes; spread them over several "
                "chain files",
            )
        )
    return found

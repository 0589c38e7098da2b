"""A plan for people to read."""

import shlex
from collections.abc import Iterator

from unis.links.kind import LinkPlan
from unis.plan.machine import format_cpu_list
from unis.plan.model import ChainPlan, FunctionPlan, Plan


def plan_text(plan: Plan) -> str:
    """Every decision of `plan`, part by part."""
    return "\n".join([*_run(plan), *_links(plan), *_functions(plan), *_chains(plan)]) + "\n"


def _run(plan: Plan) -> Iterator[str]:
    yield f"{plan.name}, from {plan.chain_file}"
    platform, functions = format_cpu_list(plan.platform_cpus), format_cpu_list(plan.cpus)
    yield f"  traffic and scheduler on CPU {platform}, functions on CPU {functions}"
    yield f"  policy {plan.policy}, controller {plan.controller}"
    yield f"  {plan.hugepages_mb} MB of hugepages"
    for note in plan.notes:
        yield f"  {note}"
    yield f"  $ {shlex.join(['unisd', *plan.engine.argv])}"


def _links(plan: Plan) -> Iterator[str]:
    yield "links"
    width = max(len(link.name) for link in plan.links)
    for link in plan.links:
        yield f"  {link.name:{width}}  {link.kind:5}  {link.slots:>7} slots{_memif(link)}"


def _memif(link: LinkPlan) -> str:
    if link.memif is None:
        return ""
    end = link.memif.engine_end
    engine = "between two functions" if end == "none" else f"the engine is its {end}"
    return f"  {link.memif.socket}, {engine}"


def _functions(plan: Plan) -> Iterator[str]:
    yield "functions"
    for function in plan.functions:
        yield f"  {function.name} on CPU {function.cpu}{_details(function)}"
        for at, port in enumerate(function.ports):
            ends = f"{port.rx or 'nothing'} in, {port.tx or 'nothing'} out"
            yield f"    port {at}: {ends if port.rx != port.tx else port.rx + ' both ways'}"
        yield f"    $ {shlex.join([str(function.program), *function.argv])}"


def _details(function: FunctionPlan) -> str:
    details = [f"DPDK group {function.file_prefix}"]
    if function.user:
        details.append(f"user {function.user}")
    if function.cost_ns is not None:
        details.append(f"{function.cost_ns:g} ns a packet")
    details += [f"{name}={shlex.quote(value)}" for name, value in function.env.items()]
    return "".join(f", {detail}" for detail in details)


def _chains(plan: Plan) -> Iterator[str]:
    yield "chains"
    for chain in plan.chains:
        yield f"  {chain.name}: {_path(chain)}"


def _path(chain: ChainPlan) -> str:
    hops = [f"{hop.function} ({hop.in_port}→{hop.out_port})" for hop in chain.hops]
    return " → ".join([chain.ingress, *hops, chain.egress])

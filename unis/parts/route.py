"""Where the packets of a run pass, and who tells of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unis.errors import UnisError
from unis.parts.accounting import SINK, SOURCE
from unis.plan.model import ChainPlan, FunctionPlan, Plan

_FORWARDS = ("ovs",)  # kinds of link of which a program takes and sends each packet
_CALLS = "net_mmsg"  # the driver to whose programs the kernel copies packets in a system call


@dataclass(frozen=True)
class Route:
    """A chain without branches."""

    functions: Sequence[str]  # in order
    programs: Mapping[str, int]  # PIDs, of each function, SOURCE and SINK
    copied_to: Sequence[str]  # functions to which the kernel copies packets


def check(plan: Plan) -> ChainPlan:
    """The chain of a plan whose packets can be followed. UnisError: why they cannot be."""
    if plan.foreign:
        raise _refused("its functions are attached, so UNiS is not the source of its packets")
    if len(plan.chains) != 1:
        raise _refused(f"it has {len(plan.chains)} chains; name a file with one chain")
    chain = plan.chains[0]
    if chain.edges:
        raise _refused("it has branches; name a file whose chain is one `path`")
    if plan.traffic.source.kind != "synthetic":
        raise _refused(
            f"its source is of kind {plan.traffic.source.kind}, which puts no time into packets; "
            "use `source: {kind: synthetic}`"
        )
    for link in plan.links:
        if link.kind in _FORWARDS:
            raise _refused(
                f"link {link.name} is of kind {link.kind}, and UNiS cannot see when its program "
                "has a packet; use another kind of link, such as veth"
            )
    for hop in chain.hops:
        if not plan.function(hop.function).plugin:
            raise _refused(
                f"{hop.function} has `plugin: false`, and without the plug-in UNiS cannot see when "
                "it has a packet; remove `plugin: false`"
            )
    return chain


def route(plan: Plan, pids: Mapping[str, int], engine: int) -> Route:
    """Of the run of a plan; `pids` of its functions, `engine`: PID of unisd."""
    functions = [hop.function for hop in check(plan).hops]
    for name in functions:
        if name not in pids:
            raise _refused(f"{name} is not in the run: the chain file has changed since")
    programs = {SOURCE: engine, SINK: engine, **{name: pids[name] for name in functions}}
    copied_to = [name for name in functions if _is_called(plan.function(name))]
    return Route(functions, programs, copied_to)


def _is_called(function: FunctionPlan) -> bool:
    return any(port.device.startswith(_CALLS) for port in function.ports)


def _refused(why: str) -> UnisError:
    return UnisError(f"cannot follow the packets of this chain: {why}")

"""Where the packets of a run pass: devices and threads, as the tracer has them."""

import socket
from collections.abc import Mapping

from unis.errors import UnisError
from unis.links import namespaces
from unis.links.veth import details_of
from unis.parts.accounting import FunctionStage, Route
from unis.parts.events import PacketPlace
from unis.plan.model import ChainPlan, Plan

_KINDS = ("veth",)
_DRIVER = "net_mmsg"


def check(plan: Plan) -> ChainPlan:
    """The chain of a plan whose packets can be followed. UnisError: why they cannot be."""
    if plan.foreign:
        raise _refused("its functions were attached, and UNiS sends no packets there")
    if len(plan.chains) != 1:
        raise _refused(f"it has {len(plan.chains)} chains; give a file with one")
    chain = plan.chains[0]
    if chain.edges:
        raise _refused("it has branches")
    if plan.traffic.source.kind != "synthetic":
        raise _refused("only packets of a synthetic source carry the time of their entry")
    for link in plan.links:
        if link.kind not in _KINDS:
            raise _refused(
                f"link {link.name} is of kind {link.kind}; packets are followed on links of kind "
                f"{' or '.join(_KINDS)}"
            )
    for function in plan.functions:
        for port in function.ports:
            if not port.device.startswith(_DRIVER):
                raise _refused(
                    f"{function.name} reads its packets from a ring ({port.device_name}), where "
                    "the kernel does not see when; state `driver: mmsg` for the link"
                )
    return chain


def route(plan: Plan, threads: Mapping[str, int], engine: int) -> Route:
    """Of the run of a plan; `threads`: TIDs by function, `engine`: PID of unisd."""
    chain = check(plan)
    links = {link.name: details_of(link) for link in plan.links}
    stages = []
    for hop in chain.hops:
        if hop.function not in threads:
            raise _refused(f"{hop.function} is not in the run: the chain file has changed since")
        function = plan.function(hop.function)
        port = function.ports[hop.in_port]
        name = links[port.rx].devices[port.end]
        stages.append(
            FunctionStage(hop.function, threads[hop.function], _place(name, function.namespace))
        )
    return Route(stages, _place(links[chain.egress].devices[0], None), engine)


def _place(device: str, namespace: str | None) -> PacketPlace:
    name = namespace or namespaces.HERE
    try:
        index = namespaces.inside(name, lambda: socket.if_nametoindex(device))
        return PacketPlace(namespaces.file_of(name).stat().st_ino, index)
    except OSError as error:
        raise UnisError(f"cannot find device {device}: {error.strerror}", bad_input=False) from None


def _refused(why: str) -> UnisError:
    return UnisError(f"cannot follow the packets of this chain: {why}")

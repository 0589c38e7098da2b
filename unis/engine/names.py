"""Names that users write, taken from the enums of the contract: there is no second list."""

from typing import cast

from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

from unis.v1 import common_pb2, engine_pb2, traffic_pb2


def _names(enum: EnumTypeWrapper, prefix: str) -> dict[str, int]:
    return {
        key.removeprefix(prefix).lower(): number
        for key, number in enum.items()
        if not key.endswith("_UNSPECIFIED")
    }


# Compared where nothing else is asked for: functions that co-operate, and classes of the kernel.
COMPARED = ("unis", "cooperative", "rr", "other")

_POLICIES = _names(common_pb2.Policy, "POLICY_")
_CONTROLLERS = _names(engine_pb2.ControllerKind, "CONTROLLER_")
_LINKS = _names(common_pb2.LinkKind, "LINK_")
_ARRIVALS = _names(traffic_pb2.Arrivals, "ARRIVALS_")


def policies() -> list[str]:
    """Every scheduling policy, as users write it."""
    return list(_POLICIES)


def policy(name: str) -> common_pb2.Policy:
    """The policy called `name`; KeyError if there is none."""
    return cast("common_pb2.Policy", _POLICIES[name])


def policy_name(number: int) -> str:
    """The name of a policy; "unspecified" for 0."""
    return str(common_pb2.Policy.Name(number)).removeprefix("POLICY_").lower()


def controllers() -> list[str]:
    """Every kind of process controller."""
    return list(_CONTROLLERS)


def controller(name: str) -> engine_pb2.ControllerKind:
    """The controller called `name`; KeyError if there is none."""
    return cast("engine_pb2.ControllerKind", _CONTROLLERS[name])


def controller_name(number: int) -> str:
    """The name of a controller; "unspecified" for 0."""
    return str(engine_pb2.ControllerKind.Name(number)).removeprefix("CONTROLLER_").lower()


def state_name(number: int) -> str:
    """What a function does, as the scheduler knows: "running", "waiting", "exited" …"""
    return str(engine_pb2.FunctionState.Name(number)).removeprefix("FUNCTION_STATE_").lower()


def links() -> list[str]:
    """Every kind of link between functions."""
    return list(_LINKS)


def link(name: str) -> common_pb2.LinkKind:
    """The kind of link called `name`; KeyError if there is none."""
    return cast("common_pb2.LinkKind", _LINKS[name])


def arrivals() -> list[str]:
    """Every way in which packets of a rate fall due."""
    return list(_ARRIVALS)


def arrivals_kind(name: str) -> traffic_pb2.Arrivals:
    """The arrivals called `name`; KeyError if there are none."""
    return cast("traffic_pb2.Arrivals", _ARRIVALS[name])


def reason_name(number: int) -> str:
    """Why the scheduler left a task: "slice expired", "ingress low", "egress high", "start"."""
    name = str(common_pb2.SwitchReason.Name(number)).removeprefix("SWITCH_REASON_")
    return name.lower().replace("_", " ")

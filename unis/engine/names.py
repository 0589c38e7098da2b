"""Names that users write, taken from the enums of the contract: there is no second list."""

from typing import cast

from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

from unis.v1 import engine_pb2 as pb


def _names(enum: EnumTypeWrapper, prefix: str) -> dict[str, int]:
    return {
        key.removeprefix(prefix).lower(): number
        for key, number in enum.items()
        if not key.endswith("_UNSPECIFIED")
    }


_POLICIES = _names(pb.Policy, "POLICY_")
_CONTROLLERS = _names(pb.ControllerKind, "CONTROLLER_")
_LINKS = _names(pb.LinkKind, "LINK_")
_REASONS = _names(pb.SwitchReason, "SWITCH_REASON_")


def policies() -> list[str]:
    """Every scheduling policy, as users write it."""
    return list(_POLICIES)


def policy(name: str) -> pb.Policy:
    """The policy called `name`; KeyError if there is none."""
    return cast("pb.Policy", _POLICIES[name])


def policy_name(number: int) -> str:
    """The name of a policy; "unspecified" for 0."""
    return str(pb.Policy.Name(number)).removeprefix("POLICY_").lower()


def controllers() -> list[str]:
    """Every kind of process controller."""
    return list(_CONTROLLERS)


def controller(name: str) -> pb.ControllerKind:
    """The controller called `name`; KeyError if there is none."""
    return cast("pb.ControllerKind", _CONTROLLERS[name])


def links() -> list[str]:
    """Every kind of link between functions."""
    return list(_LINKS)


def reason_name(number: int) -> str:
    """Why the scheduler left an NF: "slice expired", "ingress low", "egress high", "start"."""
    name = str(pb.SwitchReason.Name(number)).removeprefix("SWITCH_REASON_")
    return name.lower().replace("_", " ")

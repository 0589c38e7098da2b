"""Names that users write, taken from the enums of the contract: there is no second list."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from unis.v1 import common_pb2, engine_pb2, traffic_pb2

_Value = TypeVar("_Value", bound=int)

# Compared where nothing else is asked for: functions that co-operate, and classes of the kernel.
COMPARED = ("unis", "cooperative", "rr", "other")


def _functions(
    values: type[_Value], prefix: str
) -> tuple[Callable[[], list[str]], Callable[[str], _Value], Callable[[int], str]]:
    """All names of an enum; the value of a name, or KeyError; the name of a value, of 0 too."""
    enum: Any = values
    known = {
        key.removeprefix(prefix).lower(): cast("_Value", number)
        for key, number in enum.items()
        if not key.endswith("_UNSPECIFIED")
    }
    return (
        lambda: [*known],
        lambda name: known[name],
        lambda number: str(enum.Name(number)).removeprefix(prefix).lower(),
    )


policies, policy, policy_name = _functions(common_pb2.Policy, "POLICY_")
controllers, controller, controller_name = _functions(engine_pb2.ControllerKind, "CONTROLLER_")
links, link, _ = _functions(common_pb2.LinkKind, "LINK_")
arrivals, arrivals_kind, _ = _functions(traffic_pb2.Arrivals, "ARRIVALS_")
state_name = _functions(engine_pb2.FunctionState, "FUNCTION_STATE_")[-1]
_reason_name = _functions(common_pb2.SwitchReason, "SWITCH_REASON_")[-1]


def reason_name(number: int) -> str:
    """Why the scheduler left a task: "slice expired", "ingress low", "egress high", "start"."""
    return _reason_name(number).replace("_", " ")

"""How long rings and queues are: powers of two within the contract's bounds."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

from unis.chain.problem import wrong
from unis.engine.limits import Limit, is_power_of_two, limit

_SLOTS = limit("LinkConfig.slots")
_DESCRIPTORS = limit("PortTraffic.descriptors")


def _power_of_two(value: object, bound: Limit, what: str) -> object:
    least, most = int(bound.min or 1), int(bound.max or 1 << 20)
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong(
            f"invalid number of {what} `{value}`; expected a power of two, {least} to {most}"
        )
    if not least <= value <= most or not is_power_of_two(value):
        near = max(least, min(most, 1 << max(value.bit_length() - 1, 0)))
        raise wrong(f"{value} {what}: it is a power of two from {least} to {most}, as {near}")
    return value


def _slots(value: object) -> object:
    return _power_of_two(value, _SLOTS, "slots")


def _ring(value: object) -> object:
    return value if value == "auto" else _slots(value)


def _descriptors(value: object) -> object:
    return _power_of_two(value, _DESCRIPTORS, "descriptors")


def _schema(bound: Limit) -> dict[str, Any]:
    return {"type": "integer", "minimum": bound.min, "maximum": bound.max}


Slots = Annotated[int, BeforeValidator(_slots), WithJsonSchema(_schema(_SLOTS))]
Ring = Annotated[
    int | Literal["auto"],
    BeforeValidator(_ring),
    WithJsonSchema({"anyOf": [_schema(_SLOTS), {"const": "auto"}]}),
]
Descriptors = Annotated[int, BeforeValidator(_descriptors), WithJsonSchema(_schema(_DESCRIPTORS))]

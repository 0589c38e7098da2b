"""The bounds that the contract declares beside its fields (proto/unis/v1/limits.proto): the chain
file takes its own from here, so no bound is written twice.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, cast

from google.protobuf.message import Message

from unis.v1 import common_pb2, costs_pb2, engine_pb2, simulator_pb2, traffic_pb2
from unis.v1.limits_pb2 import Limit
from unis.v1.limits_pb2 import limit as _limit

_FILES = (engine_pb2, traffic_pb2, costs_pb2, common_pb2, simulator_pb2)
_EXTENSION: Any = _limit  # the stubs take it for the field's descriptor


@lru_cache
def limit(field: str) -> Limit:
    """The bounds of `field`, as "SchedulerSettings.gamma"; KeyError if there is no such field."""
    message, _, name = field.partition(".")
    for file in _FILES:
        if message in file.DESCRIPTOR.message_types_by_name:
            descriptor = file.DESCRIPTOR.message_types_by_name[message]
            return _of(descriptor.fields_by_name[name])
    raise KeyError(field)


def bounds(field: str, *, unit: float = 1) -> dict[str, Any]:
    """Arguments of pydantic's Field for a number, in a unit that is `unit` times the field's."""
    found = limit(field)
    return {
        argument: _plain(getattr(found, bound) / unit)
        for bound, argument in (("min", "ge"), ("above", "gt"), ("max", "le"))
        if found.HasField(bound)
    }


def _of(field: Any) -> Limit:
    return cast("Limit", field.GetOptions().Extensions[_EXTENSION])


def broken(message: Message, path: str = "") -> list[str]:
    """A sentence for each bound that `message`, or what is in it, breaks; none if it keeps all."""
    found: list[str] = []
    for field in message.DESCRIPTOR.fields:
        bound = _of(field)
        where = f"{path}.{field.name}" if path else field.name
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        if field.is_repeated:
            if bound.required and not value:
                found.append(f"{where} is empty")
            if bound.max_items and len(value) > bound.max_items:
                found.append(f"{where} has {len(value)} parts, {bound.max_items} at most")
            for index, item in enumerate(value):
                found += _value_broken(field, bound, item, f"{where}[{index}]")
        elif not field.has_presence or message.HasField(field.name):
            found += _value_broken(field, bound, value, where)
    return found


def _value_broken(field: Any, bound: Limit, value: Any, where: str) -> Iterable[str]:
    if isinstance(value, Message):
        return broken(value, where)
    if isinstance(value, str):
        return _text_broken(bound, value, where)
    if field.enum_type is not None:
        return [f"{where} is missing"] if bound.required and value == 0 else []
    return _number_broken(bound, value, where) if isinstance(value, int | float) else []


def _text_broken(bound: Limit, text: str, where: str) -> Iterator[str]:
    if not text:
        if bound.required:
            yield f"{where} is empty"
        return
    if bound.max_bytes and len(text.encode()) > bound.max_bytes:
        yield f"{where} has {len(text.encode())} bytes, {bound.max_bytes} at most"
    if bound.pattern and not re.fullmatch(bound.pattern, text):
        yield f"{where} is `{text}`, which does not match {bound.pattern}"


def _number_broken(bound: Limit, number: float, where: str) -> Iterator[str]:
    has = bound.HasField
    for wrong, what in (  # of NaN, no comparison holds
        (has("min") and not number >= bound.min, f"at least {_plain(bound.min)}"),
        (has("above") and not number > bound.above, f"above {_plain(bound.above)}"),
        (has("max") and not number <= bound.max, f"at most {_plain(bound.max)}"),
        (bound.power_of_two and not is_power_of_two(number), "a power of two"),
    ):
        if wrong:
            yield f"{where} is {_plain(number)}; must be {what}"


def is_power_of_two(number: float) -> bool:
    """Whether it is 1, 2, 4, 8 …"""
    return number >= 1 and int(number) == number and not int(number) & (int(number) - 1)


def _plain(number: float) -> float:
    return int(number) if float(number).is_integer() else number

"""The bounds that the contract declares beside its fields (proto/unis/v1/limits.proto): the chain
file takes its own from here, so no bound is written twice.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypedDict

from google.protobuf.message import Message

from unis.v1 import common_pb2, costs_pb2, engine_pb2, limits_pb2, simulator_pb2, traffic_pb2

_FILES = (engine_pb2, traffic_pb2, costs_pb2, common_pb2, simulator_pb2)
_EXTENSION: Any = limits_pb2.limit  # the stubs take it for the field's descriptor


@dataclass(frozen=True)
class Limit:
    """What a field may hold; None and 0 stand for no bound."""

    min: float | None = None
    above: float | None = None  # exclusive
    max: float | None = None
    max_items: int = 0
    max_bytes: int = 0
    pattern: str = ""
    power_of_two: bool = False
    required: bool = False


class Bounds(TypedDict, total=False):
    """Arguments of pydantic's Field for a number."""

    ge: float
    gt: float
    le: float


@lru_cache
def limit(field: str) -> Limit:
    """The bounds of `field`, as "SchedulerSettings.gamma"; KeyError if there is no such field."""
    message, _, name = field.partition(".")
    for file in _FILES:
        if message in file.DESCRIPTOR.message_types_by_name:
            descriptor = file.DESCRIPTOR.message_types_by_name[message]
            return _of(descriptor.fields_by_name[name])
    raise KeyError(field)


def bounds(field: str, *, unit: float = 1) -> Bounds:
    """The bounds of a number for pydantic's Field, in a unit that is so many times the field's."""
    found = limit(field)
    result = Bounds()
    if found.min is not None:
        result["ge"] = _plain(found.min / unit)
    if found.above is not None:
        result["gt"] = _plain(found.above / unit)
    if found.max is not None:
        result["le"] = _plain(found.max / unit)
    return result


def broken(message: Message, at: str = "") -> list[str]:
    """A sentence for each bound that `message`, or what is in it, breaks; none if it keeps all."""
    return list(_broken(message, at))


def _of(field: Any) -> Limit:
    options = field.GetOptions()
    if not options.HasExtension(_EXTENSION):
        return Limit()
    declared: limits_pb2.Limit = options.Extensions[_EXTENSION]
    return Limit(
        min=declared.min if declared.HasField("min") else None,
        above=declared.above if declared.HasField("above") else None,
        max=declared.max if declared.HasField("max") else None,
        max_items=declared.max_items,
        max_bytes=declared.max_bytes,
        pattern=declared.pattern,
        power_of_two=declared.power_of_two,
        required=declared.required,
    )


def _broken(message: Message, at: str) -> Iterator[str]:
    for field in message.DESCRIPTOR.fields:
        bound = _of(field)
        where = f"{at}.{field.name}" if at else field.name
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        if field.is_repeated:
            yield from _list_broken(bound, len(value), where)
            for index, item in enumerate(value):
                yield from _value_broken(field, bound, item, f"{where}[{index}]")
        elif field.message_type is not None:
            if message.HasField(field.name):
                yield from _broken(value, where)
        elif not field.has_presence or message.HasField(field.name):
            yield from _value_broken(field, bound, value, where)


def _list_broken(bound: Limit, count: int, where: str) -> Iterator[str]:
    if bound.required and not count:
        yield f"{where} is empty"
    if bound.max_items and count > bound.max_items:
        yield f"{where} has {count} parts, {bound.max_items} at most"


def _value_broken(field: Any, bound: Limit, value: Any, where: str) -> Iterator[str]:
    if isinstance(value, Message):
        yield from _broken(value, where)
    elif isinstance(value, str):
        yield from _text_broken(bound, value, where)
    elif field.enum_type is not None:
        if bound.required and value == 0:
            yield f"{where} is missing"
    elif isinstance(value, int | float):
        yield from _number_broken(bound, value, where)


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
    for wrong, what in (
        (bound.min is not None and not number >= bound.min, f"at least {_shown(bound.min)}"),
        (bound.above is not None and not number > bound.above, f"above {_shown(bound.above)}"),
        (bound.max is not None and not number <= bound.max, f"at most {_shown(bound.max)}"),
        (bound.power_of_two and not is_power_of_two(number), "a power of two"),
    ):
        if wrong:
            yield f"{where} is {_shown(number)}; must be {what}"


def is_power_of_two(number: float) -> bool:
    """Whether it is 1, 2, 4, 8 …"""
    return number >= 1 and int(number) == number and not int(number) & (int(number) - 1)


def _plain(number: float) -> float:
    return int(number) if float(number).is_integer() else number


def _shown(number: float | None) -> str:
    return "" if number is None else f"{_plain(number)}"

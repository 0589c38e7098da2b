"""Messages of the engine as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.message import Message


def as_dict(message: Message) -> dict[str, Any]:
    """A message with every field but those that may be absent and are; enums by their names.

    Numbers are numbers, which in protobuf's own JSON those of 64 bits are not.
    """
    return {
        field.name: _value(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def _value(field: Any, value: Any) -> Any:
    if not field.is_repeated:
        return _one(field, value)
    if field.message_type and field.message_type.GetOptions().map_entry:
        value_field = field.message_type.fields_by_name["value"]
        return {key: _one(value_field, part) for key, part in value.items()}
    return [_one(field, part) for part in value]


def _one(field: Any, value: Any) -> Any:
    if field.message_type:
        return as_dict(value)
    return field.enum_type.values_by_number[value].name if field.enum_type else value

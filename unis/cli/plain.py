"""Messages of the engine as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf import json_format

if TYPE_CHECKING:
    from google.protobuf.message import Message


def as_dict(message: Message) -> dict[str, Any]:
    """A message with every field, 64-bit numbers as numbers and not as protobuf's texts."""
    read = json_format.MessageToDict(
        message, always_print_fields_with_no_presence=True, preserving_proto_field_name=True
    )
    return {key: _plain(value) for key, value in read.items()}


def _plain(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _plain(part) for key, part in item.items()}
    if isinstance(item, list):
        return [_plain(part) for part in item]
    # protobuf's JSON has 64-bit numbers as texts; no name of ours is one.
    if isinstance(item, str) and item.lstrip("-").isdigit():
        return int(item)
    return item

"""Which packets take a path: `match-attributes` of OSM's descriptors, and `match` of a chain."""

import ipaddress
from typing import Any

from unis.chain.model import Match
from unis.chain.values import PROTOCOLS
from unis.etsi.tree import DataNode

_ADDRESSES = {"source-ip-address": "src", "destination-ip-address": "dst"}
_PORTS = {"source-port": "src_port", "destination-port": "dst_port"}
_PROTOCOL = "ip-proto"
_KNOWN = ("id", "constituent-base-element-id", "constituent-cpd-id")
_LARGEST_PORT, _LARGEST_PROTOCOL = 65535, 255
_NAMES = {number: name for name, number in PROTOCOLS.items()}


def match_of(attributes: DataNode) -> dict[str, Any]:
    """A match of a chain file for an entry of match-attributes.

    DescriptorError: an attribute that a chain file cannot have. To leave it out would send other
    packets through the chain.
    """
    attributes.text("id")
    match: dict[str, Any] = {}
    for key, ours in _ADDRESSES.items():
        if (node := attributes.get(key)) is not None:
            node.mark()
            match[ours] = _prefix(node)
    for key, ours in _PORTS.items():
        if (node := attributes.get(key)) is not None:
            port = _number(node, _LARGEST_PORT, "a port", "write an entry for each port")
            if port == 0:
                node.because("port 0 stands for all ports, as in OSM's descriptors")
                continue
            node.mark()
            match[ours] = port
    if (node := attributes.get(_PROTOCOL)) is not None:
        node.mark()
        number = _number(node, _LARGEST_PROTOCOL, "a number of an IP protocol", "write its number")
        match["protocol"] = _NAMES.get(number, number)
    for key in attributes.value:
        if key.rpartition(":")[2] not in (*_KNOWN, *_ADDRESSES, *_PORTS, _PROTOCOL):
            raise attributes.error(
                f"has `{key}`, which is no match that a chain can have; without it other packets "
                "would pass: take it out"
            )
    return match


def attributes_of(match: Match, name: str) -> dict[str, Any]:
    """An entry of match-attributes, called `name`, for a match of a chain file."""
    found: dict[str, Any] = {"id": name}
    if match.protocol is not None:
        found[_PROTOCOL] = match.protocol_number
    stated = match.model_dump(exclude_none=True)
    for key, ours in (_ADDRESSES | _PORTS).items():
        if ours in stated:
            found[key] = stated[ours]
    return found


def port_zero(match: Match) -> str | None:
    """The key of a match that a descriptor cannot have: port 0 stands for all ports there."""
    return next((ours for ours in _PORTS.values() if getattr(match, ours) == 0), None)


def _prefix(node: DataNode) -> str:
    text = node.as_text()
    try:
        return str(ipaddress.IPv4Network(text, strict=False))
    except ValueError:
        raise node.error(
            f"is `{text}`; a chain matches IPv4 addresses and prefixes only, such as 10.0.0.0/8"
        ) from None


def _number(node: DataNode, most: int, what: str, advice: str) -> int:
    text = node.as_text()
    if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most:
        return int(text)
    raise node.error(f"is `{text}`; a chain matches {what} from 0 to {most}; {advice}")

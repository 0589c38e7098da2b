"""Values of the chain file that are more than a number or a text, and what is said when wrong."""

import ipaddress
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema

from unis.chain import defaults
from unis.chain.machine import Surroundings
from unis.chain.order import INGRESS
from unis.chain.problem import wrong
from unis.engine import names

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,23}")
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kMG]?)(pps|bps)")
_FACTOR = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17}


def surroundings(info: ValidationInfo) -> Surroundings | None:
    """Where the file that is being validated lies; None if it is validated for itself."""
    return info.context if isinstance(info.context, Surroundings) else None


def _name(value: str) -> str:
    if not _NAME.fullmatch(value) or value == INGRESS:
        raise wrong(
            f"`{value}` cannot be a name; use up to 24 of a-z, 0-9, - and _, "
            f"a letter or digit first (`{INGRESS}` is taken)"
        )
    return value


def _one_of(choices: list[str], what: str) -> Any:
    def check(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise wrong(f"`{value}` is no {what}; choose one of {', '.join(choices)}")
        return value

    return BeforeValidator(check)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _size(value: object) -> object:
    mixes = ("imix", "datacenter")
    if value in mixes or (
        _is_int(value) and defaults.MIN_SIZE <= value <= defaults.MAX_SIZE  # type: ignore[operator]
    ):
        return value
    raise wrong(
        f"`{value}` is no packet size; give {defaults.MIN_SIZE} to {defaults.MAX_SIZE} bytes "
        f"(with FCS), {' or '.join(mixes)}"
    )


def _rate(value: object) -> object:
    if value == "max":
        return value
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise wrong(f"`{value}` is no rate; write max, or a number with unit as 2.5Mpps or 1Gbps")
    return value


def _prefix(value: object) -> object:
    try:
        return str(ipaddress.IPv4Network(value)) if isinstance(value, str) else _not_prefix(value)
    except ValueError as error:
        raise wrong(f"`{value}` is no IPv4 prefix ({error}); write it as 10.0.0.0/8") from None


def _not_prefix(value: object) -> object:
    raise wrong(f"`{value}` is no IPv4 prefix; write it as 10.0.0.0/8")


def _protocol(value: object) -> object:
    if value in _PROTOCOLS or (_is_int(value) and 0 <= value <= 255):  # type: ignore[operator]
        return value
    raise wrong(f"`{value}` is no IP protocol; give {', '.join(_PROTOCOLS)} or a number to 255")


def _argument(value: object) -> object:
    # `--cost, 50` without quotes is what everyone writes.
    return str(value) if _is_int(value) or isinstance(value, float) else value


def _lead(value: object) -> object:
    if value == "auto" or (
        (_is_int(value) or isinstance(value, float)) and value >= 0  # type: ignore[operator]
    ):
        return value
    raise wrong(f"`{value}` is no lead; write auto, or the time in µs, 0 for none")


def _cost(value: object) -> object:
    def positive(number: object) -> bool:
        return (_is_int(number) or isinstance(number, float)) and number > 0  # type: ignore[operator]

    if positive(value):
        return value
    if isinstance(value, dict):
        # Keys of JSON, which is YAML too, are always text.
        sizes = {int(k) if isinstance(k, str) and k.isdecimal() else k: v for k, v in value.items()}
        right = all(_is_int(size) and 0 < size <= defaults.MAX_SIZE for size in sizes)
        if sizes and right and all(map(positive, sizes.values())):
            return dict(sorted(sizes.items()))
    raise wrong(
        "is the cost of a packet in ns: a number above 0, or one for each packet size as "
        "{64: 40, 1500: 310}"
    )


Name = Annotated[
    str,
    AfterValidator(_name),
    WithJsonSchema({"type": "string", "pattern": f"^{_NAME.pattern}$"}),
]
PolicyName = Annotated[
    str,
    _one_of(names.policies(), "policy"),
    WithJsonSchema({"type": "string", "enum": names.policies()}),
]
ControllerName = Annotated[
    str,
    _one_of(names.controllers(), "controller"),
    WithJsonSchema({"type": "string", "enum": names.controllers()}),
]
LinkName = Annotated[
    str,
    _one_of(names.links(), "link"),
    WithJsonSchema({"type": "string", "enum": names.links()}),
]
Port = Annotated[int, Field(ge=0, le=65535)]
Ipv4Prefix = Annotated[
    str,
    BeforeValidator(_prefix),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9.]+(/[0-9]{1,2})?$"}),
]


Size = Annotated[
    int | Literal["imix", "datacenter"],
    BeforeValidator(_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": defaults.MIN_SIZE, "maximum": defaults.MAX_SIZE},
                {"enum": ["imix", "datacenter"]},
            ]
        }
    ),
]
Rate = Annotated[
    str,
    BeforeValidator(_rate),
    WithJsonSchema({"type": "string", "pattern": f"^(max|{_RATE.pattern})$"}),
]
Protocol = Annotated[int | Literal["icmp", "tcp", "udp"], BeforeValidator(_protocol)]
Argument = Annotated[
    str, BeforeValidator(_argument), WithJsonSchema({"type": ["string", "number"]})
]
Lead = Annotated[float | Literal["auto"], BeforeValidator(_lead)]
Cost = Annotated[
    float | dict[int, float],
    BeforeValidator(_cost),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {
                    "type": "object",
                    "minProperties": 1,
                    "propertyNames": {"pattern": "^[0-9]+$"},
                    "additionalProperties": {"type": "number", "exclusiveMinimum": 0},
                },
            ]
        }
    ),
]


def rate_in(rate: str, unit: str) -> float:
    """The rate in packets (`pps`) or bits (`bps`) per second; 0 if it is not given in `unit`."""
    match = _RATE.fullmatch(rate)
    return float(match[1]) * _FACTOR[match[2]] if match and match[3] == unit else 0.0


def protocol_number(protocol: int | str | None) -> int | None:
    """The number of an IP protocol; None stays None."""
    return _PROTOCOLS[protocol] if isinstance(protocol, str) else protocol

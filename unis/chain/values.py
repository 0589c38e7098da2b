"""Values of the chain file that are more than a number or a text, and what is said when wrong."""

import ipaddress
import math
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from unis.chain import defaults
from unis.chain.problem import wrong
from unis.engine import names
from unis.engine.limits import bounds, limit

INGRESS, EGRESS = "ingress", "egress"  # the ends of a chain, in `links`
_LONGEST_NAME = limit("FunctionConfig.name").max_bytes
# A link is named after its chain, with a dot and up to two digits.
_LONGEST_CHAIN = limit("LinkConfig.name").max_bytes - 3
_LONGEST_YIELD = 1_000_000_000  # of --yield-every of our functions
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kMG]?)(pps|bps)")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(ns|us|µs|μs|ms|s)")  # both signs of micro
_USER = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
# As capabilities(7) has them, without CAP_.
_CAPABILITY_NAMES = """
    audit_control audit_read audit_write block_suspend bpf checkpoint_restore chown dac_override
    dac_read_search fowner fsetid ipc_lock ipc_owner kill lease linux_immutable mac_admin
    mac_override mknod net_admin net_bind_service net_broadcast net_raw perfmon setfcap setgid
    setpcap setuid sys_admin sys_boot sys_chroot sys_module sys_nice sys_pacct sys_ptrace sys_rawio
    sys_resource sys_time sys_tty_config syslog wake_alarm"""
CAPABILITIES = tuple(_CAPABILITY_NAMES.split())
_MOST_SAID = 1 << 16  # bytes: a pipe takes them before anybody reads
_FACTOR = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_UNIT_NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9}
_PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17}


def _name_pattern(longest: int) -> str:
    # The contract takes capitals too; a run's name is that of a folder.
    return rf"[a-z0-9][a-z0-9_-]{{0,{longest - 1}}}"


def _named(longest: int, end: str | None = None) -> AfterValidator:
    def check(value: str) -> str:
        free = value not in (INGRESS, EGRESS) or value == end
        if free and re.fullmatch(_name_pattern(longest), value):
            return value
        if value in (INGRESS, EGRESS):
            raise wrong(
                f"`{value}` cannot stand here; an edge or link may come from `{INGRESS}` and lead "
                f"to `{EGRESS}`, and nothing else is called so"
            )
        raise wrong(
            f"`{value}` cannot be a name; use up to {longest} of a-z, 0-9, - and _, a letter or "
            "digit first"
        )

    return AfterValidator(check)


def _text_schema(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$"})


def _one_of(choices: list[str], what: str) -> Any:
    def check(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise wrong(f"invalid {what} `{value}`; expected one of {', '.join(choices)}")
        return value

    return BeforeValidator(check)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_int(value) or isinstance(value, float)


def _size(value: object) -> object:
    if (isinstance(value, str) and value in defaults.MIXES) or (
        _is_int(value) and defaults.MIN_SIZE <= value <= defaults.MAX_SIZE  # type: ignore[operator]
    ):
        return value
    raise wrong(
        f"invalid packet size `{value}`; expected {defaults.MIN_SIZE} to {defaults.MAX_SIZE} bytes "
        f"(with FCS), {' or '.join(defaults.MIXES)}"
    )


def _rate(value: object) -> object:
    if value == "max":
        return value
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise wrong(
            f"invalid rate `{value}`; expected max, or a number and a unit, such as 2.5Mpps"
        )
    most = limit(f"TrafficConfig.{match[3]}").max or math.inf
    if float(match[1]) * _FACTOR[match[2]] > most:
        raise wrong(f"`{value}` is more than {most:g}{match[3]}; write max for as fast as it goes")
    return value


def _packet_rate(value: object) -> object:
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[3] != "pps":
        raise wrong(f"invalid packet rate `{value}`; expected a number and a unit, such as 2.5Mpps")
    return _rate(value)


def _duration(value: object) -> object:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise wrong(f"invalid duration `{value}`; expected a number and a unit, such as 100us")
    return value


def _prefix(value: object) -> object:
    try:
        return str(ipaddress.IPv4Network(value)) if isinstance(value, str) else _not_prefix(value)
    except ValueError as error:
        raise wrong(f"invalid IPv4 prefix `{value}` ({error}); expected e.g. 10.0.0.0/8") from None


def _not_prefix(value: object) -> object:
    raise wrong(f"invalid IPv4 prefix `{value}`; expected e.g. 10.0.0.0/8")


def _protocol(value: object) -> object:
    if (isinstance(value, str) and value in _PROTOCOLS) or (_is_int(value) and 0 <= value <= 255):  # type: ignore[operator]
        return value
    raise wrong(f"invalid IP protocol `{value}`; expected {', '.join(_PROTOCOLS)}, or 0 to 255")


def _argument(value: object) -> object:
    # `--cost, 50` without quotes is what everyone writes.
    return str(value) if _is_number(value) else value


def _variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise wrong(f"`{value}` cannot be a variable; use letters, digits and _, no digit first")
    return value


def _said(value: str) -> str:
    if (count := len(value.encode())) > _MOST_SAID:
        raise wrong(
            f"has {count} bytes, and a program is told {_MOST_SAID} at most; put them into a file "
            "that it reads"
        )
    return value


def _user(value: object) -> object:
    if isinstance(value, str) and _USER.fullmatch(value):
        return value
    raise wrong(f"invalid user `{value}`; expected a name that `getent passwd` shows")


def _lead(value: object) -> object:
    most = (limit("SchedulerSettings.lead_ns").max or math.inf) / 1000
    if value == "auto" or (_is_number(value) and 0 <= value <= most):  # type: ignore[operator]
        return value
    raise wrong(
        f"invalid lead `{value}`; expected auto, or the time in µs, from 0 (none) to {most:g}"
    )


def _gamma(value: object) -> object:
    most = limit("SchedulerSettings.gamma").max or 1
    if value == "auto" or (_is_number(value) and 0 < value <= most):  # type: ignore[operator]
        return value
    raise wrong(f"invalid share of the egress `{value}`; expected auto, or above 0, up to {most:g}")


def _quota(value: object) -> object:
    most = int(limit("SchedulerSettings.quota").max or 0)
    if value == "auto" or (_is_int(value) and defaults.BATCH <= value <= most):  # type: ignore[operator]
        return value
    raise wrong(
        f"invalid quota `{value}`; expected auto, or {defaults.BATCH} (a burst) to {most} packets"
    )


def _cost(value: object) -> object:
    most = limit("FunctionConfig.cost_ns").max or math.inf

    def positive(number: object) -> bool:
        return _is_number(number) and 0 < number <= most  # type: ignore[operator]

    if positive(value):
        return value
    if isinstance(value, dict):
        # Keys of JSON, which is YAML too, are always text.
        sizes = {int(k) if isinstance(k, str) and k.isdecimal() else k: v for k, v in value.items()}
        right = all(_is_int(size) and 0 < size <= defaults.MAX_SIZE for size in sizes)
        if sizes and right and all(map(positive, sizes.values())):
            return dict(sorted(sizes.items()))
    raise wrong(
        f"is the cost of a packet in ns: a number above 0 and {most:g} at most, or one for each "
        "packet size as {64: 40, 1500: 310}"
    )


Name = Annotated[str, _named(_LONGEST_NAME), _text_schema(_name_pattern(_LONGEST_NAME))]
ChainName = Annotated[str, _named(_LONGEST_CHAIN), _text_schema(_name_pattern(_LONGEST_CHAIN))]
# Ends of a link.
Origin = Annotated[str, _named(_LONGEST_NAME, INGRESS), _text_schema(_name_pattern(_LONGEST_NAME))]
Destination = Annotated[
    str, _named(_LONGEST_NAME, EGRESS), _text_schema(_name_pattern(_LONGEST_NAME))
]
PolicyName = Annotated[
    str,
    _one_of(names.policies(), "policy"),
    WithJsonSchema({"type": "string", "enum": names.policies()}),
]
ControllerName = Annotated[
    str,
    _one_of(names.controllers(), "controller"),
    # There was one by the cgroup freezer. It stopped whole processes, as signals do.
    BeforeValidator(lambda value: "signal" if value == "cgroup" else value),
    WithJsonSchema({"type": "string", "enum": names.controllers()}),
]
_COST_SOURCES = ["online", "static"]
CostSource = Annotated[
    str,
    _one_of(_COST_SOURCES, "cost"),
    WithJsonSchema({"type": "string", "enum": _COST_SOURCES}),
]
LinkName = Annotated[
    str,
    _one_of(names.links(), "link"),
    WithJsonSchema({"type": "string", "enum": names.links()}),
]
ArrivalsName = Annotated[
    str,
    _one_of(names.arrivals(), "kind of arrivals"),
    WithJsonSchema({"type": "string", "enum": names.arrivals()}),
]
Port = Annotated[int, Field(ge=0, **bounds("FlowMatch.src_port"))]
FunctionPort = Annotated[int, Field(ge=0, **bounds("Hop.in_port"))]
Cpu = Annotated[int, Field(ge=0, **bounds("FunctionConfig.cpu"))]
YieldEvery = Annotated[int, Field(ge=0, le=_LONGEST_YIELD)]  # bursts
Restart = Literal["never", "on-failure"]
Offload = Literal["rx-checksum"]
Variable = Annotated[
    str,
    AfterValidator(_variable),
    _text_schema(_VARIABLE.pattern),
]
Said = Annotated[
    str,
    AfterValidator(_said),
    WithJsonSchema({"type": "string", "maxLength": _MOST_SAID}),
]
User = Annotated[str, BeforeValidator(_user), _text_schema(_USER.pattern)]
Capability = Annotated[
    str,
    _one_of(list(CAPABILITIES), "capability"),
    WithJsonSchema({"enum": list(CAPABILITIES)}),
]
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
PacketRate = Annotated[
    str,
    BeforeValidator(_packet_rate),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?[kMG]?pps$"}),
]
Duration = Annotated[
    str,
    BeforeValidator(_duration),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION.pattern}$"}),
]
Protocol = Annotated[int | Literal["icmp", "tcp", "udp"], BeforeValidator(_protocol)]
Argument = Annotated[
    str, BeforeValidator(_argument), WithJsonSchema({"type": ["string", "number"]})
]
Lead = Annotated[float | Literal["auto"], BeforeValidator(_lead)]
Gamma = Annotated[
    float | Literal["auto"],
    BeforeValidator(_gamma),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                {"type": "string", "const": "auto"},
            ]
        }
    ),
]
Quota = Annotated[
    int | Literal["auto"],
    BeforeValidator(_quota),
    WithJsonSchema(
        {
            "anyOf": [
                {
                    "type": "integer",
                    "minimum": defaults.BATCH,
                    "maximum": int(limit("SchedulerSettings.quota").max or 0),
                },
                {"type": "string", "const": "auto"},
            ]
        }
    ),
]
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


def in_ns(duration: str) -> float:
    """A duration of the chain file, ns; ValueError if it is none."""
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise ValueError(f"invalid duration `{duration}`; expected a number and a unit")
    return float(match[1]) * _UNIT_NS[match[2]]


def protocol_number(protocol: int | str | None) -> int | None:
    """The number of an IP protocol; None stays None."""
    return _PROTOCOLS[protocol] if isinstance(protocol, str) else protocol

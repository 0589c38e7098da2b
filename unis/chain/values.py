"""Values of the chain file that are more than a number or a text, and what is said when wrong."""

import ast
import inspect
import ipaddress
import itertools
import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from unis.chain import defaults
from unis.chain.problem import wrong
from unis.engine import names
from unis.engine.limits import bounds, limit
from unis.links.kind import BATCH

INGRESS, EGRESS = "ingress", "egress"  # the ends of a chain, in `links`
LONGEST_NAME = limit("FunctionConfig.name").max_bytes
# A link is named after its chain, with a dot and up to two digits.
LONGEST_CHAIN = limit("LinkConfig.name").max_bytes - 3
_LONGEST_YIELD = 1_000_000_000  # of --yield-every of our functions
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# A network interface, or a PCI address.
_NIC = re.compile(r"[^\s/:,]{1,15}|([0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
_GROUP = 0x01  # bit of a MAC address's first byte: multicast, or broadcast
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kMG]?)(pps|bps)")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(ns|us|µs|μs|ms|s)")  # both signs of micro
_USER = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
# Of this machine, and in the container: no component of the latter is `..`.
_MOUNT = re.compile(r"[^:\x00]+:/(?!\.\.(?:/|:|$))(?:[^:\x00/]|/(?!\.\.(?:/|:|$)))+(?::rw)?")
# As capabilities(7) has them, without CAP_.
_CAPABILITY_NAMES = """
    audit_control audit_read audit_write block_suspend bpf checkpoint_restore chown dac_override
    dac_read_search fowner fsetid ipc_lock ipc_owner kill lease linux_immutable mac_admin
    mac_override mknod net_admin net_bind_service net_broadcast net_raw perfmon setfcap setgid
    setpcap setuid sys_admin sys_boot sys_chroot sys_module sys_nice sys_pacct sys_ptrace sys_rawio
    sys_resource sys_time sys_tty_config syslog wake_alarm"""
CAPABILITIES = tuple(_CAPABILITY_NAMES.split())
_LONGEST_STDIN = 1 << 16  # bytes: a pipe takes them before anybody reads
_FACTOR = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_UNIT_NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9}
PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17}
_LONGEST_DELAY_US = (limit("SchedulerSettings.max_delay_ns").max or math.inf) / 1000
_LONGEST_LEAD_US = (limit("SchedulerSettings.lead_ns").max or math.inf) / 1000
_LARGEST_QUOTA = int(limit("SchedulerSettings.quota").max or 0)
_LARGEST_COST = limit("FunctionConfig.cost_ns").max or math.inf


class Part(BaseModel):
    """A part of the chain file: strict, frozen, described by the texts below its keys."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        populate_by_name=True,
        allow_inf_nan=False,
    )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Adds the docstrings of fields: `use_attribute_docstrings` parses them at each import."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for key, text in _texts_below_keys(cls).items():
            properties[cls.model_fields[key].alias or key]["description"] = text
        return schema


def _texts_below_keys(part: type[Part]) -> dict[str, str]:
    try:
        definition = ast.parse(inspect.getsource(part)).body[0]
    except OSError:  # installed without sources
        return {}
    found: dict[str, str] = {}
    for statement, below in itertools.pairwise(ast.iter_child_nodes(definition)):
        match statement, below:
            case ast.AnnAssign(target=ast.Name(id=key)), ast.Expr(ast.Constant(str(text))):
                found[key] = inspect.cleandoc(text)
    return found


def _invalid(what: str, expected: str) -> WrapValidator:
    """Says what is expected, where pydantic would have an error for each variant."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise wrong(f"invalid {what} `{value}`; expected {expected}") from None

    return WrapValidator(validate)


def _choice(choices: Sequence[str], what: str) -> tuple[BeforeValidator, WithJsonSchema]:
    def check(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise wrong(f"invalid {what} `{value}`; expected one of {', '.join(choices)}")
        return value

    return BeforeValidator(check), WithJsonSchema({"type": "string", "enum": list(choices)})


def _pattern(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$"})


def _name_pattern(longest: int) -> str:
    # The contract takes capitals too; a run's name is that of a folder.
    return rf"[a-z0-9][a-z0-9_-]{{0,{longest - 1}}}"


def _check_name(longest: int, end: str | None, value: str) -> str:
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
    if not isinstance(value, str) or not _RATE.fullmatch(value) or not value.endswith("pps"):
        raise wrong(f"invalid packet rate `{value}`; expected a number and a unit, such as 2.5Mpps")
    return _rate(value)


def _bit_rate(value: object) -> object:
    if isinstance(value, str) and (match := _RATE.fullmatch(value)) and value.endswith("bps"):
        mbps = float(match[1]) * _FACTOR[match[2]] / 1e6
        if mbps.is_integer() and 1 <= mbps < 1 << 20:
            return value
    raise wrong(f"invalid rate `{value}`; expected a whole number of Mbps or Gbps, such as 500Mbps")


def _nic(value: object) -> str:
    if isinstance(value, str) and _NIC.fullmatch(value):
        return value
    raise wrong(
        f"invalid NIC `{value}`; expected the name of its network interface, such as enp1s0f0, or "
        'its PCI address, such as "0000:01:00.0"'
    )


def _mac(value: object) -> str:
    if (
        not isinstance(value, str)
        or not _MAC.fullmatch(value)
        or not int(value.replace(":", ""), 16)
    ):
        raise wrong(f'invalid MAC address `{value}`; expected six bytes, as "02:00:00:00:00:01"')
    if int(value[:2], 16) & _GROUP:
        raise wrong(
            f"`{value}` is the MAC address of a group, whose packets a NIC gives to all; expected "
            "that of one device, whose first byte is even"
        )
    return value.lower()


def _duration(value: object) -> object:
    if not isinstance(value, str) or not _DURATION.fullmatch(value) or in_ns(value) == 0:
        raise wrong(f"invalid duration `{value}`; expected a number and a unit, such as 100us")
    return value


def _prefix(value: object) -> str:
    reason = ""
    try:
        if isinstance(value, str):
            return str(ipaddress.IPv4Network(value))
    except ValueError as error:
        reason = f" ({error})"
    raise wrong(f"invalid IPv4 prefix `{value}`{reason}; expected e.g. 10.0.0.0/8")


def _variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise wrong(f"`{value}` cannot be a variable; use letters, digits and _, no digit first")
    return value


def _stdin(value: str) -> str:
    if (count := len(value.encode())) > _LONGEST_STDIN:
        raise wrong(
            f"has {count} bytes, and a program is told {_LONGEST_STDIN} at most; put them into a "
            "file that it reads"
        )
    return value


def _mount(value: object) -> object:
    if not isinstance(value, str) or not _MOUNT.fullmatch(value):
        raise wrong(
            f"invalid mount `{value}`; expected FROM:TO or FROM:TO:rw, where TO is a path from / "
            "in the container"
        )
    return value


def _user(value: object) -> object:
    if not isinstance(value, str) or not _USER.fullmatch(value):
        raise wrong(f"invalid user `{value}`; expected a name that `getent passwd` shows")
    return value


def _argument(value: object) -> object:
    # `--cost, 50` without quotes is what everyone writes.
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _cost(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    if isinstance(value, dict):  # keys of JSON, which is YAML too, are always text
        value = {int(k) if isinstance(k, str) and k.isdecimal() else k: v for k, v in value.items()}
    try:
        cost = handler(value)
    except ValidationError:
        raise wrong(
            f"is the cost of a packet in ns: a number above 0 and {_LARGEST_COST:g} at most, or "
            "one for each packet size as {64: 40, 1500: 310}"
        ) from None
    return dict(sorted(cost.items())) if isinstance(cost, dict) else cost


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise wrong(f"`{value}` is not absolute; begin it with /")
    return value


_FUNCTION_NAME = _pattern(_name_pattern(LONGEST_NAME))
Name = Annotated[str, AfterValidator(partial(_check_name, LONGEST_NAME, None)), _FUNCTION_NAME]
# Ends of a link.
Origin = Annotated[str, AfterValidator(partial(_check_name, LONGEST_NAME, INGRESS)), _FUNCTION_NAME]
Destination = Annotated[
    str, AfterValidator(partial(_check_name, LONGEST_NAME, EGRESS)), _FUNCTION_NAME
]
ChainName = Annotated[
    str,
    AfterValidator(partial(_check_name, LONGEST_CHAIN, None)),
    _pattern(_name_pattern(LONGEST_CHAIN)),
]
PolicyName = Annotated[str, *_choice(names.policies(), "policy")]
ControllerName = Annotated[
    str,
    *_choice(names.controllers(), "controller"),
    # There was one by the cgroup freezer. It stopped whole processes, as signals do.
    BeforeValidator(lambda value: "signal" if value == "cgroup" else value),
]
CostSource = Annotated[str, *_choice(["online", "static"], "cost")]
LinkName = Annotated[str, *_choice(names.links(), "link")]
ArrivalsName = Annotated[str, *_choice(names.arrivals(), "kind of arrivals")]
Capability = Annotated[str, *_choice(CAPABILITIES, "capability")]
Port = Annotated[int, Field(ge=0, **bounds("FlowMatch.src_port"))]
FunctionPort = Annotated[int, Field(ge=0, **bounds("Hop.in_port"))]
Cpu = Annotated[int, Field(ge=0, **bounds("FunctionConfig.cpu"))]
YieldEvery = Annotated[int, Field(ge=0, le=_LONGEST_YIELD)]  # bursts
Restart = Literal["never", "on-failure"]
Offload = Literal["rx-checksum", "jumbo-frames"]
Variable = Annotated[str, AfterValidator(_variable), _pattern(_VARIABLE.pattern)]
Stdin = Annotated[
    str, AfterValidator(_stdin), WithJsonSchema({"type": "string", "maxLength": _LONGEST_STDIN})
]
MountWords = Annotated[str, BeforeValidator(_mount), _pattern(_MOUNT.pattern)]
User = Annotated[str, BeforeValidator(_user), _pattern(_USER.pattern)]
Ipv4Prefix = Annotated[str, BeforeValidator(_prefix), _pattern("[0-9.]+(/[0-9]{1,2})?")]
Rate = Annotated[str, BeforeValidator(_rate), _pattern(f"(max|{_RATE.pattern})")]
PacketRate = Annotated[
    str, BeforeValidator(_packet_rate), _pattern(r"[0-9]+(\.[0-9]+)? ?[kMG]?pps")
]
BitRate = Annotated[str, BeforeValidator(_bit_rate), _pattern(r"[0-9]+(\.[0-9]+)? ?[MG]bps")]
NicName = Annotated[str, BeforeValidator(_nic), _pattern(_NIC.pattern)]
MacAddress = Annotated[str, BeforeValidator(_mac), _pattern(_MAC.pattern)]
Duration = Annotated[str, BeforeValidator(_duration), _pattern(_DURATION.pattern)]
AbsolutePath = Annotated[str, AfterValidator(_absolute), _pattern("/.*")]
Argument = Annotated[
    str, BeforeValidator(_argument), WithJsonSchema({"type": ["string", "number"]})
]
Size = Annotated[
    Annotated[int, Field(ge=defaults.MIN_SIZE, le=defaults.MAX_SIZE)]
    | Literal["imix", "datacenter"],
    _invalid(
        "packet size",
        f"{defaults.MIN_SIZE} to {defaults.MAX_SIZE} bytes (with FCS), "
        f"{' or '.join(defaults.MIXES)}",
    ),
]
Protocol = Annotated[
    Annotated[int, Field(ge=0, le=255)] | Literal["icmp", "tcp", "udp"],
    _invalid("IP protocol", f"{', '.join(PROTOCOLS)}, or 0 to 255"),
]
Lead = Annotated[
    Annotated[float, Field(ge=0, le=_LONGEST_LEAD_US)] | Literal["auto"],
    _invalid("lead", f"auto, or the time in µs, from 0 (none) to {_LONGEST_LEAD_US:g}"),
]
Gamma = Annotated[
    Annotated[float, Field(**bounds("SchedulerSettings.gamma"))] | Literal["auto"],
    _invalid(
        "share of the egress", f"auto, or above 0, up to {limit('SchedulerSettings.gamma').max:g}"
    ),
]
MaxDelay = Annotated[
    Annotated[float, Field(ge=0, le=_LONGEST_DELAY_US)] | Literal["auto"],
    _invalid("delay", f"auto, or a number of µs from 0 (functions poll) to {_LONGEST_DELAY_US:g}"),
]
Quota = Annotated[
    Annotated[int, Field(ge=BATCH, le=_LARGEST_QUOTA)] | Literal["auto"],
    _invalid("quota", f"auto, or {BATCH} (a burst) to {_LARGEST_QUOTA} packets"),
]
_CostNs = Annotated[float, Field(gt=0, le=_LARGEST_COST)]
_CostBySize = Annotated[
    dict[Annotated[int, Field(gt=0, le=defaults.MAX_SIZE)], _CostNs],
    Field(min_length=1, json_schema_extra={"propertyNames": {"pattern": "^[0-9]+$"}}),
]
Cost = Annotated[_CostNs | _CostBySize, WrapValidator(_cost)]


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


def mean_cost(cost: float | Mapping[int, float], shares: Mapping[int, int]) -> float:
    """What a packet costs, each size as often as it comes; linear between those that are known.

    Without shares the sizes of `cost` count alike.
    """
    if not isinstance(cost, Mapping):
        return cost
    if not shares:
        return sum(cost.values()) / len(cost)
    whole = sum(_cost_of_size(cost, size) * share for size, share in shares.items())
    return whole / sum(shares.values())


def _cost_of_size(cost: Mapping[int, float], size: int) -> float:
    known = sorted(cost)
    above = bisect_left(known, size)
    if above in (0, len(known)):
        return cost[known[min(above, len(known) - 1)]]
    low, high = known[above - 1], known[above]
    return cost[low] + (cost[high] - cost[low]) * (size - low) / (high - low)

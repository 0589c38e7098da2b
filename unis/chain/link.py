"""Links, as the chain file has them: what they are, how long, and of how many queues.

Lengths are powers of two within the contract's bounds.
"""

from functools import partial
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from unis.chain import defaults
from unis.chain.problem import wrong
from unis.chain.values import BitRate, Destination, LinkName, NicName, Origin, Part, rate_in
from unis.engine.limits import bounds, is_power_of_two, limit
from unis.v1.limits_pb2 import Limit

_MOST_QUEUES = int(limit("Memif.queues_to_server").max or 1)
_Queues = Annotated[int, Field(**bounds("Memif.queues_to_server"))]


def _power_of_two(bound: Limit, what: str, value: object) -> int:
    least, most = int(bound.min or 1), int(bound.max or 1 << 20)
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong(
            f"invalid number of {what} `{value}`; expected a power of two, {least} to {most}"
        )
    if not least <= value <= most or not is_power_of_two(value):
        near = max(least, min(most, 1 << max(value.bit_length() - 1, 0)))
        raise wrong(f"{value} {what}: it is a power of two from {least} to {most}, as {near}")
    return value


_slots = partial(_power_of_two, limit("LinkConfig.slots"), "slots")
_descriptors = partial(_power_of_two, limit("PortTraffic.descriptors"), "descriptors")
_Slots = Annotated[int, Field(**bounds("LinkConfig.slots"))]
Slots = Annotated[_Slots, BeforeValidator(_slots)]
Ring = Annotated[
    _Slots | Literal["auto"],
    BeforeValidator(lambda value: value if value == "auto" else _slots(value)),
]
Descriptors = Annotated[
    int, Field(**bounds("PortTraffic.descriptors")), BeforeValidator(_descriptors)
]


class Link(Part):
    """A link between two functions, where the default does not fit."""

    origin: Origin = Field(alias="from")
    """The upstream function, or `ingress`."""
    to: Destination
    """The downstream function, or `egress`."""
    kind: LinkName = defaults.LINK
    """With a kind other than `ring` the downstream function is a primary process without rings."""
    slots: Slots | None = None
    """Slots of a ring (default: those of the chain); of other kinds, slots each way."""
    driver: Literal["vfio", "af_packet", "mmsg"] | None = None
    """What functions receive and send by on a `veth` or `ovs`: DPDK's net_af_packet (the default),
    or UNiS' net_mmsg, whose burst is one system call. On an `sriov`: DPDK's driver for the NIC over
    `vfio` (the default), or one of those two on virtual functions that keep the kernel's driver."""
    batch: Annotated[int, Field(ge=1, le=256)] | None = None
    """Frames a burst with driver `mmsg`, at most (default: 32)."""
    calls: Literal["vector", "single"] | None = None
    """System calls with driver `mmsg`: one a burst (`vector`, the default), or one a frame."""
    wait: bool = False
    """Whether functions with driver `mmsg` wait in their receive call for packets, instead of
    polling. For the policies of the kernel."""

    nic: NicName | None = None
    """Of an `sriov`: the port of a NIC on which it is, one of `sriov.nics`. Default: the first that
    has room."""
    vlan: Annotated[int, Field(ge=1, le=4094)] | None = None
    """Of an `sriov`: the VLAN to which the NIC keeps both of its virtual functions. Default: none;
    that of the tenant if the chains of the file have several."""
    rate: BitRate | None = None
    """Of an `sriov`: the most that the NIC lets each of its ends send, such as 500Mbps."""
    spoof_check: bool = False
    """Of an `sriov`: whether the NIC drops what an end sends with another source address than its
    own. For programs that write it."""

    @property
    def rate_mbps(self) -> int:
        """The rate, as NICs have it; 0: no limit."""
        return round(rate_in(self.rate, "bps") / 1e6) if self.rate else 0

    @property
    def mmsg_options(self) -> tuple[tuple[str, str | int], ...]:
        """Further arguments of net_mmsg, as EAL has them."""
        stated = {"calls": self.calls, "wait": int(self.wait)}
        return tuple((key, value) for key, value in stated.items() if value)


class Queues(Part):
    """Numbers of queues of a program that receives and sends by different numbers."""

    rx: _Queues = 1
    """Receive queues on each port."""
    tx: _Queues = 1
    """Send queues on each port; some programs make one for each lcore."""

    def __str__(self) -> str:
        """As a file states it."""
        return str(self.rx) if self.rx == self.tx else f"{{rx: {self.rx}, tx: {self.tx}}}"

    @property
    def opposite(self) -> "Queues":
        """What the other end of a link has."""
        return Queues(rx=self.tx, tx=self.rx)


def _both_ways(value: object) -> object:
    if isinstance(value, dict | Queues):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST_QUEUES:
        return {"rx": value, "tx": value}
    raise wrong(
        f"invalid number of queues `{value}`; expected 1 to {_MOST_QUEUES}, or {{rx: 1, tx: 2}} "
        "where the program receives by another number than it sends by"
    )


QueuesOrCount = Annotated[
    Queues, BeforeValidator(_both_ways, json_schema_input_type=_Queues | Queues)
]

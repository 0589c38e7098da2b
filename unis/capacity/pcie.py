"""What a packet takes of the PCIe bus, by three readings.

`paper`: the packet and a descriptor. `padded`: the packet in whole cache lines. `tlp`: beside that
the headers of transaction layer packets, and requests for what the NIC reads. Its constants are
assumed.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from unis.capacity.machine import Pcie
from unis.slo.profile import PcieReading

PcieMode = PcieReading

# What each reading rests on: fields of `Pcie`.
RESTS_ON: Mapping[PcieMode, tuple[str, ...]] = MappingProxyType({
    "paper": ("descriptor",),
    "padded": ("descriptor", "cache_line"),
    "tlp": ("descriptor", "cache_line", "header", "payload", "request", "batch"),
})  # fmt: skip

_BITS = 8
_DOORBELL = 4  # bytes of a register that the driver writes, once a batch


@dataclass(frozen=True)
class Transfer:
    """Bits on the bus, by direction."""

    to_host: float = 0.0
    from_host: float = 0.0


def received(pcie: Pcie, size: int, mode: PcieMode) -> Transfer:
    """Of a packet that the NIC writes into memory. `size`: bytes."""
    payload, descriptor = _payload(pcie, size, mode), pcie.descriptor.value
    if mode != "tlp":
        return Transfer(to_host=(payload + descriptor) * _BITS)
    header, batch = pcie.header.value, pcie.batch.value
    # Written: the packet, and the descriptor again. Read: the descriptor that says where to.
    written = _in_tlps(pcie, payload) + descriptor + header / batch
    asked = header / batch
    answered = descriptor + header / batch
    told = (_DOORBELL + header) / batch
    return Transfer((written + asked) * _BITS, (answered + told) * _BITS)


def sent(pcie: Pcie, size: int, mode: PcieMode) -> Transfer:
    """Of a packet that the NIC reads from memory."""
    payload, descriptor = _payload(pcie, size, mode), pcie.descriptor.value
    if mode != "tlp":
        return Transfer(from_host=(payload + descriptor) * _BITS)
    header, batch = pcie.header.value, pcie.batch.value
    asked = math.ceil(payload / pcie.request.value) * header + header / batch
    written = descriptor + header / batch
    answered = _in_tlps(pcie, payload) + descriptor + header / batch
    told = (_DOORBELL + header) / batch
    return Transfer((asked + written) * _BITS, (answered + told) * _BITS)


def _payload(pcie: Pcie, size: int, mode: PcieMode) -> float:
    if mode == "paper":
        return size
    line = pcie.cache_line.value
    return math.ceil(size / line) * line


def _in_tlps(pcie: Pcie, payload: float) -> float:
    """Bytes of it with headers."""
    return payload + math.ceil(payload / pcie.payload.value) * pcie.header.value

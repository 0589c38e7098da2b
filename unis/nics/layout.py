"""Which link is on which port of a NIC, and by which of its virtual functions (VFs).

Both VFs of a link are on one port: its switch carries packets between them. A wire, whose other
end is outside, has one. Wires into chains take the first VFs, then come the pairs of links, in the
order of their chain, then the wires out of chains. EAL probes the VFs of a program in the order of
their addresses, whatever its command line says, so a function's first port has the lower one.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum


@dataclass(frozen=True)
class NicPort:
    """A port of a NIC, which is a physical function (PF), and the VFs that a run can have there."""

    address: str  # PCI
    interface: str  # the kernel's, of the PF
    vfs: int  # number of VFs
    made: bool = False  # they are there, and are this run's: their number stays
    # From the PF's number on the PCI bus to that of VF 0, and from each VF to the next.
    offset: int = 128
    stride: int = 2

    def address_of(self, vf: int) -> str:
        """The PCI address of a VF."""
        domain, bus, device = self.address.split(":")
        slot, function = device.split(".")
        number = int(bus, 16) << 8 | int(slot, 16) << 3 | int(function, 16)
        number += self.offset + self.stride * vf
        return f"{domain}:{number >> 8:02x}:{number >> 3 & 0x1F:02x}.{number & 7}"

    def rooms(self, count: int, first: int = 0) -> Iterator["VfRoom"]:
        """All places for so many VFs from the `first` on that do not overlap."""
        return (VfRoom(self, at, count) for at in range(first, self.vfs - count + 1, count))


@dataclass(frozen=True)
class VfRoom:
    """VFs of a port, one behind the other: two for a link, one for a wire."""

    port: NicPort
    first: int  # index; it has the lowest address
    count: int = 2

    @property
    def vfs(self) -> tuple[int, ...]:
        """Their indexes."""
        return tuple(range(self.first, self.first + self.count))

    @property
    def addresses(self) -> tuple[str, ...]:
        """Their PCI addresses."""
        return tuple(map(self.port.address_of, self.vfs))

    @property
    def id(self) -> int:
        """A number that no other VFs of this machine have that begin elsewhere."""
        return number_of(self.addresses[0])


class VfsFor(IntEnum):
    """What VFs are for, in the order in which they are given away."""

    WIRE_IN = 0
    LINK = 1
    WIRE_OUT = 2


@dataclass(frozen=True)
class VfsWanted:
    """The VFs of a link or a wire."""

    address: str | None = None  # of the port that the file names; None: any
    way: VfsFor = VfsFor.LINK

    @property
    def count(self) -> int:
        """How many they are."""
        return 2 if self.way is VfsFor.LINK else 1


@dataclass(frozen=True)
class VirtualLink:
    """What a link is on a NIC: of everything with two parts the first is of end 0. A wire has the
    first alone.
    """

    run: str
    port: str  # PCI address of the PF
    interface: str  # the kernel's, of the PF
    vfs: tuple[int, ...]
    addresses: tuple[str, ...]  # PCI
    macs: tuple[str, ...]
    port_vfs: int  # number of VFs that the run makes on the port
    vlan: int = 0  # 0: none
    rate_mbps: int = 0  # of what each end sends; 0: no limit
    spoof_check: bool = False  # the NIC drops what an end sends with another source address


@dataclass(frozen=True)
class VfChoice:
    """What a link may have, and what is asked of it."""

    rooms: Sequence[VfRoom]  # the best first
    port_vfs: Mapping[str, int]  # number of VFs that the run makes, by address of the port
    vlan: int = 0
    rate_mbps: int = 0
    spoof_check: bool = False


def number_of(address: str) -> int:
    """A PCI address as a number, in the same order."""
    return int(address.translate({ord(":"): None, ord("."): None}), 16)


def mac_of(words: str) -> str:
    """A locally administered unicast address, the same for the same words."""
    return f"02:{hashlib.sha256(words.encode()).digest()[:5].hex(':')}"


def lay_out(ports: Sequence[NicPort], wanted: Sequence[VfsWanted]) -> list[VfRoom]:
    """The VFs of each, of which none may be short of room (`shortages`). `wanted`: in the order of
    their chains; for those to come whose port is named there is room left.
    """
    found = _lay_out(ports, wanted)
    if found is None:
        raise ValueError("there is no room")
    return found


def _lay_out(ports: Sequence[NicPort], wanted: Sequence[VfsWanted]) -> list[VfRoom] | None:
    used = dict.fromkeys((port.address for port in ports), 0)
    coming = _named(wanted)
    found: dict[int, VfRoom] = {}
    for at, one in sorted(enumerate(wanted), key=lambda each: each[1].way):
        if one.address:
            coming[one.address] -= one.count
        rooms = [
            VfRoom(port, used[port.address], one.count)
            for port in ports
            if one.address in (None, port.address)
            and port.vfs - used[port.address] - coming[port.address] >= one.count
        ]
        # The last function sends by an address above the one by which it receives.
        after = found[at - 1].id if one.way is VfsFor.WIRE_OUT and at - 1 in found else 0
        rooms.sort(key=lambda room: (room.id < after, room.id))
        if not rooms:
            return None
        found[at] = rooms[0]
        used[rooms[0].port.address] += one.count
    return [found[at] for at in range(len(wanted))]


def choices(ports: Sequence[NicPort], wanted: Sequence[VfsWanted]) -> list[list[VfRoom]]:
    """What each may have, the best first: the others are for when that is taken, by a link which is
    there already. Wires are there as long as their run.
    """
    found = lay_out(ports, wanted)
    into = Counter(
        room.port.address
        for room, one in zip(found, wanted, strict=True)
        if one.way is VfsFor.WIRE_IN
    )
    pairs = [room for port in ports for room in port.rooms(2, into[port.address])]
    pairs.sort(key=lambda room: room.id)
    return [
        [best]
        + [
            room
            for room in pairs
            if one.way is VfsFor.LINK and one.address in (None, room.port.address) and room != best
        ]
        for best, one in zip(found, wanted, strict=True)
    ]


def shortages(
    ports: Sequence[NicPort], wanted: Sequence[VfsWanted]
) -> Iterator[tuple[str | None, str]]:
    """Where there is no room: the address of a port that links name, or None, and a sentence."""
    short = False
    for port in ports:
        named = [one for one in wanted if one.address == port.address]
        if _lay_out([port], named) is None:
            short = True
            yield port.address, _shortage(named, port.interface, port.vfs)
    if not short and _lay_out(ports, wanted) is None:
        where = " and ".join(port.interface for port in ports)
        yield None, _shortage(wanted, where, sum(port.vfs for port in ports))


def vfs_to_make(ports: Iterable[NicPort], rooms: Iterable[VfRoom]) -> dict[str, int]:
    """How many VFs each port has, by address, once it has these."""
    rooms = list(rooms)
    return {
        port.address: port.vfs
        if port.made
        else max((room.first + room.count for room in rooms if room.port == port), default=0)
        for port in ports
    }


def _named(wanted: Iterable[VfsWanted]) -> Counter[str]:
    """VFs for which the file names the port."""
    counts: Counter[str] = Counter()
    for one in wanted:
        counts[one.address or ""] += one.count
    return counts


def _shortage(wanted: Sequence[VfsWanted], where: str, vfs: int) -> str:
    links = sum(one.way is VfsFor.LINK for one in wanted)
    wires = len(wanted) - links
    told = f"{links} link{'s' if links > 1 else ''}"
    if not wires:
        need = f"{told} on {where} need two virtual functions of one port each"
    else:
        also = f"{told}, two each and of one port, and " if links else ""
        need = (
            f"{also}{wires} wire{'s' if wires > 1 else ''} on {where} need "
            f"{2 * links + wires} virtual functions"
        )
    return f"{need}, and there can be {vfs}; name another NIC under sriov.nics" + (
        "" if wires else ", or make some links of another kind"
    )

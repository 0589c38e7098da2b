"""What scapy and plain arithmetic say about a frame: the oracle's eyes."""

import struct
from dataclasses import dataclass
from functools import lru_cache

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Packet
from scapy.utils import checksum

ICMP_PROTOCOL, TCP_PROTOCOL, UDP_PROTOCOL = 1, 6, 17
WITH_PORTS = {6, 17, 33, 132, 136}
EXTENSIONS = {0, 43, 44, 51, 60}
MAX_TAGS = 2
MAX_EXTENSIONS = 8


@dataclass(frozen=True)
class Facts:
    """An IP packet whose header is whole. Offsets count from the start of the frame."""

    version: int
    src: str
    dst: str
    protocol: int
    sport: int
    dport: int
    fragment: bool  # any, also the first
    later: bool  # a fragment after the first: what follows is no transport header
    l3: int
    l4: int
    l4_bytes: bytes  # that belong to the packet; none in fragments after the first


@dataclass(frozen=True)
class NotIp:
    """Anything else. `malformed` if it says that it is IP."""

    malformed: bool


# Each frame is asked for several times, and scapy takes a third of a millisecond.
@lru_cache(maxsize=4096)
def facts(frame: bytes) -> Facts | NotIp:
    """Reads a frame as the functions document that they do."""
    if len(frame) < 14:
        return NotIp(malformed=False)
    layer: Packet = Ether(frame)
    tags = 0
    ethertype = int.from_bytes(frame[12:14], "big")
    while ethertype in {0x8100, 0x88A8}:
        tags += 1
        at = 12 + 4 * tags
        if tags > MAX_TAGS or len(frame) < at + 2:
            return NotIp(malformed=False)
        layer = layer.payload
        assert isinstance(layer, Dot1Q | Dot1AD)
        ethertype = int.from_bytes(frame[at : at + 2], "big")
    l3 = 14 + 4 * tags
    if ethertype == 0x0800:
        return ipv4(frame, l3, layer.payload)
    if ethertype == 0x86DD:
        return ipv6(frame, l3)
    return NotIp(malformed=False)


def ports(protocol: int, l4_bytes: bytes) -> tuple[int, int]:
    """The ports of protocols that have them; (0, 0) where there are none."""
    if protocol not in WITH_PORTS or len(l4_bytes) < 4:
        return 0, 0
    sport, dport = struct.unpack("!HH", l4_bytes[:4])
    return sport, dport


def ipv4(frame: bytes, l3: int, layer: Packet) -> Facts | NotIp:
    """An IPv4 packet, as scapy dissects its header."""
    packet = frame[l3:]
    if len(packet) < 20 or packet[0] >> 4 != 4:
        return NotIp(malformed=True)
    ip = layer if isinstance(layer, IP) else IP(packet)
    header = ip.ihl * 4
    if ip.ihl < 5 or ip.len < header or len(packet) < header:
        return NotIp(malformed=True)
    first = ip.frag == 0
    l4_bytes = packet[header : ip.len] if first else b""
    sport, dport = ports(ip.proto, l4_bytes)
    transport = ip.payload
    if isinstance(transport, TCP | UDP) and first:
        assert (transport.sport, transport.dport) == (sport, dport)
    fragment = not first or bool(ip.flags.MF)
    ends = (ip.src, ip.dst, ip.proto, sport, dport)
    return Facts(4, *ends, fragment, not first, l3, l3 + header, l4_bytes)


def ipv6(frame: bytes, l3: int) -> Facts | NotIp:
    """An IPv6 packet, with its extension headers walked one by one."""
    packet = frame[l3:]
    if len(packet) < 40 or packet[0] >> 4 != 6:
        return NotIp(malformed=True)
    ip = IPv6(packet[:40])
    packet = packet[: 40 + ip.plen]
    protocol, at, fragment, later = ip.nh, 40, False, False
    for count in range(MAX_EXTENSIONS + 1):
        if protocol not in EXTENSIONS or later:
            break
        length = 8
        if len(packet) >= at + 8 and protocol != 44:
            length = (packet[at + 1] + 2) * 4 if protocol == 51 else (packet[at + 1] + 1) * 8
        if count == MAX_EXTENSIONS or len(packet) < at + max(8, length):
            cut = (ip.src, ip.dst, protocol, 0, 0)
            return Facts(6, *cut, fragment, later, l3, l3 + at, b"")
        if protocol == 44:
            (offset_and_more,) = struct.unpack("!H", packet[at + 2 : at + 4])
            fragment = offset_and_more & ~0b110 != 0
            later = offset_and_more >> 3 != 0
        protocol = packet[at]
        at += length
    l4_bytes = b"" if later else packet[at:]
    sport, dport = ports(protocol, l4_bytes)
    ends = (ip.src, ip.dst, protocol, sport, dport)
    return Facts(6, *ends, fragment, later, l3, l3 + at, l4_bytes)


def with_header_checksum(frame: bytes, ip: Facts) -> bytes:
    """The frame with the IPv4 header checksum made anew."""
    header = bytearray(frame[ip.l3 : ip.l4])
    header[10:12] = b"\0\0"
    header[10:12] = checksum(bytes(header)).to_bytes(2, "big")
    return frame[: ip.l3] + bytes(header) + frame[ip.l4 :]


def has_right_header_checksum(frame: bytes, ip: Facts) -> bool:
    """Is the IPv4 header checksum right?"""
    return bool(checksum(frame[ip.l3 : ip.l4]) == 0)

"""Random frames: right ones, odd ones and broken ones, of few addresses so that they meet.

Hypothesis chooses the seed: drawing every field from it would take longer than all the rest.
"""

from random import Random

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
)
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, Raw

IPV4 = [
    "10.0.0.1", "10.0.0.2", "10.128.0.1", "172.16.5.4", "192.168.1.6", "192.168.1.7",
    "8.8.8.8", "8.8.4.4", "203.0.113.1", "198.51.100.7", "255.255.255.255", "0.0.0.1",
]  # fmt: skip
IPV6 = ["2001:db8::1", "2001:db8::2", "fe80::1", "::"]
PORTS = [0, 1, 53, 80, 443, 1023, 1024, 5060, 65535]
ICMP_TYPES = {"echo": 8, "reply": 0, "unreachable": 3}
FRAMES_PER_RUN = 150

SEEDS = st.integers(0, 2**32 - 1)
# A run takes a second. Without shrinking: seeds have no simpler ones, and each try is a run.
REAL_PROGRAM = settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


def transport(draw: Random) -> Packet:
    """A TCP, UDP or ICMP packet, or bytes that are none of them."""
    payload = Raw(draw.randbytes(draw.randrange(40)))
    kind = draw.choice(["tcp", "tcp", "udp", "udp", "udp0", "raw", *ICMP_TYPES])
    sport, dport = draw.choice(PORTS), draw.choice(PORTS)
    if kind == "tcp":
        return TCP(sport=sport, dport=dport, flags=draw.choice(["S", "SA", "PA", "R"])) / payload
    if kind == "udp":
        return UDP(sport=sport, dport=dport) / payload
    if kind == "udp0":
        return UDP(sport=sport, dport=dport, chksum=0) / payload
    if kind == "raw":
        return payload
    return ICMP(type=ICMP_TYPES[kind], id=sport, seq=1) / payload


def ipv4(draw: Random) -> Packet:
    """IPv4 with options, fragments, odd TTLs and, now and then, a wrong header checksum."""
    inner = transport(draw)
    flags, offset = draw.choice([(0, 0), (0, 0), ("DF", 0), ("MF", 0), ("MF", 5), (0, 185)])
    header = IP(
        src=draw.choice(IPV4),
        dst=draw.choice(IPV4),
        ttl=draw.choice([0, 1, 2, 64, 64, 64, 255]),
        tos=draw.randrange(256),
        id=draw.randrange(65536),
        flags=flags,
        frag=offset,
        options=draw.choice([[], [], [], [IPOption(b"\x01" * 4)], [IPOption(b"\x01" * 40)]]),
    )
    if isinstance(inner, Raw):
        header.proto = draw.choice([0, 2, 47, 50, 132, 6, 17, 255])
    if draw.randrange(10) == 0:
        header.chksum = draw.randrange(65536)
    return header / inner


def ipv6(draw: Random) -> Packet:
    """IPv6 with a few extension headers."""
    packet = IPv6(src=draw.choice(IPV6), dst=draw.choice(IPV6))
    if draw.randrange(2):
        packet /= IPv6ExtHdrHopByHop()
    if draw.randrange(2):
        packet /= IPv6ExtHdrDestOpt()
    if draw.randrange(2):
        offset, more = draw.choice([(0, 0), (0, 1), (7, 1), (9, 0)])
        packet /= IPv6ExtHdrFragment(offset=offset, m=more)
    return packet / transport(draw)


def frame(draw: Random) -> bytes:
    """A frame: maybe tagged, padded, cut off or damaged."""
    packet: Packet = Ether(src="02:00:00:00:00:aa", dst="02:00:00:00:00:bb")
    for tag in draw.choice([[], [], [], [Dot1Q], [Dot1AD, Dot1Q], [Dot1Q] * 3]):
        packet /= tag(vlan=draw.randrange(4096))
    kind = draw.choice(["ipv4"] * 7 + ["ipv6", "ipv6", "arp", "noise"])
    if kind == "ipv4":
        packet /= ipv4(draw)
    elif kind == "ipv6":
        packet /= ipv6(draw)
    elif kind == "arp":
        packet /= ARP(psrc=draw.choice(IPV4), pdst=draw.choice(IPV4))
    else:
        packet /= Raw(draw.randbytes(draw.randrange(60)))
    whole = bytes(packet)
    after = draw.choice(["whole"] * 5 + ["padded", "cut", "damaged"])
    if after == "padded":
        return whole + draw.randbytes(20)
    if after == "cut":
        return whole[: draw.randrange(1, len(whole) + 1)]
    if after == "damaged":
        at = draw.randrange(len(whole))
        return whole[:at] + draw.randbytes(1) + whole[at + 1 :]
    return whole


def random_frames(draw: Random) -> list[bytes]:
    """The frames of one run; some flows come up again."""
    frames = [frame(draw) for _ in range(FRAMES_PER_RUN)]
    return frames + draw.sample(frames, FRAMES_PER_RUN // 3)

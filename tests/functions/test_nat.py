"""nat: which packets are translated, that the mapping is one to one and stays, and checksums."""

from collections import Counter
from ipaddress import ip_address, ip_network
from random import Random

from hypothesis import given
from scapy.layers.inet import ICMP, IP, TCP, UDP, in4_chksum
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw
from scapy.utils import checksum

from tests.functions.facts import (
    ICMP_PROTOCOL,
    TCP_PROTOCOL,
    UDP_PROTOCOL,
    Facts,
    NotIp,
    facts,
    has_right_header_checksum,
    with_header_checksum,
)
from tests.functions.function_run import Frames, Run, Runner
from tests.functions.random_frames import REAL_PROGRAM, SEEDS, random_frames

PUBLIC = "203.0.113.1"
INSIDE = [ip_network(p) for p in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
CHECKSUM_AT = {TCP_PROTOCOL: 16, UDP_PROTOCOL: 6, ICMP_PROTOCOL: 2}
SHORTEST = {TCP_PROTOCOL: 20, UDP_PROTOCOL: 8, ICMP_PROTOCOL: 8}
End = tuple[str, int]
Flow = tuple[int, End, End]  # protocol, inside end, outside end
Mapping = dict[Flow, int]  # the public port of each flow


def is_inside(address: str) -> bool:
    return any(ip_address(address) in prefix for prefix in INSIDE)


def fate(frame: bytes) -> str:
    """What has to become of a frame, as far as it does not depend on the table."""
    ip = facts(frame)
    if isinstance(ip, NotIp):
        return "malformed" if ip.malformed else "passed"
    inbound = ip.dst == PUBLIC
    if ip.version != 4 or not (inbound or (is_inside(ip.src) and not is_inside(ip.dst))):
        return "passed"
    if ip.fragment:
        return "fragment"
    if ip.protocol not in SHORTEST:
        return "unsupported"
    if len(ip.l4_bytes) < SHORTEST[ip.protocol]:
        return "malformed"
    if ip.protocol == ICMP_PROTOCOL and ip.l4_bytes[0] != (0 if inbound else 8):
        return "unsupported"
    return "inbound" if inbound else "outbound"


def ends(ip: Facts) -> tuple[End, End]:
    """Source and destination; an echo has its identifier on the side that is translated."""
    if ip.protocol == ICMP_PROTOCOL:
        identifier = int.from_bytes(ip.l4_bytes[4:6], "big")
        request = ip.l4_bytes[0] == 8
        return (ip.src, identifier if request else 0), (ip.dst, 0 if request else identifier)
    return (ip.src, ip.sport), (ip.dst, ip.dport)


def right_l4_checksum(ip: Facts) -> int:
    """The checksum that the transport header ought to have."""
    at = CHECKSUM_AT[ip.protocol]
    zeroed = ip.l4_bytes[:at] + b"\0\0" + ip.l4_bytes[at + 2 :]
    if ip.protocol == ICMP_PROTOCOL:
        return int(checksum(zeroed))
    value = int(in4_chksum(ip.protocol, IP(src=ip.src, dst=ip.dst), zeroed))
    return value or 0xFFFF if ip.protocol == UDP_PROTOCOL else value


def l4_checksum(ip: Facts) -> int:
    at = CHECKSUM_AT[ip.protocol]
    return int.from_bytes(ip.l4_bytes[at : at + 2], "big")


def check_translation(before: bytes, after: bytes, source: End, destination: End) -> None:
    """`after` is `before` between these ends; its checksums are as right, or wrong, as before."""
    old, new = facts(before), facts(after)
    assert isinstance(old, Facts)
    assert isinstance(new, Facts)
    assert ends(new) == (source, destination)
    assert blanked(after, new) == blanked(before, old)
    if has_right_header_checksum(before, old):
        assert after == with_header_checksum(after, new)
    was, now = l4_checksum(old), l4_checksum(new)
    if old.protocol == UDP_PROTOCOL and was == 0:
        assert now == 0
    elif was == right_l4_checksum(old):
        assert now == right_l4_checksum(new)
    else:
        wrong_by = (was - right_l4_checksum(old)) % 0xFFFF
        assert (now - right_l4_checksum(new)) % 0xFFFF == wrong_by


def blanked(frame: bytes, ip: Facts) -> bytes:
    """The frame without what translation changes: addresses, ports or identifier, checksums."""
    blank = bytearray(frame)
    fields = [(ip.l3 + 10, 10), (ip.l4 + CHECKSUM_AT[ip.protocol], 2)]
    fields.append((ip.l4 + 4, 2) if ip.protocol == ICMP_PROTOCOL else (ip.l4, 4))
    for at, length in fields:
        blank[at : at + length] = bytes(length)
    return bytes(blank)


def check(ran: Run, frames: Frames) -> Mapping:
    """Walks through the frames beside what was sent, and learns and checks the mapping."""
    mapping: Mapping = {}
    flow_of: dict[tuple[int, int], Flow] = {}
    count: Counter[str] = Counter()
    sent = iter(ran.sent)
    for frame in frames:
        what, ip = fate(frame), facts(frame)
        if what == "passed":
            assert next(sent) == frame
        elif what == "outbound":
            assert isinstance(ip, Facts)
            inside, outside = ends(ip)
            flow = (ip.protocol, inside, outside)
            after = next(sent)
            new = facts(after)
            assert isinstance(new, Facts)
            port = ends(new)[0][1]
            assert mapping.setdefault(flow, port) == port, "a flow changed its port"
            assert flow_of.setdefault((ip.protocol, port), flow) == flow, "two flows share a port"
            assert port >= 1024
            check_translation(frame, after, (PUBLIC, port), outside)
        elif what == "inbound":
            assert isinstance(ip, Facts)
            outside, (_, port) = ends(ip)
            known = flow_of.get((ip.protocol, port))
            if known is None or known[2] != outside:
                what = "no_mapping"
            else:
                check_translation(frame, next(sent), outside, known[1])
        count[what] += 1
    assert next(sent, None) is None
    assert ran.counters["flows"] == len(mapping)
    for what, name in {"outbound": "translated_outbound", "inbound": "translated_inbound"}.items():
        assert ran.counters[name] == count[what]
    for name in ("passed", "no_mapping", "fragment", "unsupported", "malformed"):
        assert ran.counters[name] == count[name], name
    return mapping


def replies_to(frames: Frames, mapping: Mapping) -> list[bytes]:
    """To each packet from inside, what the other end would answer."""
    replies = []
    for frame in frames:
        ip = facts(frame)
        if fate(frame) != "outbound" or not isinstance(ip, Facts):
            continue
        inside, outside = ends(ip)
        public = mapping[ip.protocol, inside, outside]
        payload = Raw(b"answer")
        if ip.protocol == ICMP_PROTOCOL:
            packet = IP(src=ip.dst, dst=PUBLIC) / ICMP(type=0, id=public, seq=1) / payload
        else:
            kind = TCP if ip.protocol == TCP_PROTOCOL else UDP
            packet = IP(src=ip.dst, dst=PUBLIC) / kind(sport=ip.dport, dport=public) / payload
        replies.append(bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / packet))
    return replies


def test_real_capture(run: Runner, capture: list[bytes]) -> None:
    mapping = check(run("nat", capture, "--public", PUBLIC), capture)
    assert len(mapping) > 0


def test_real_capture_with_replies(run: Runner, capture: list[bytes]) -> None:
    mapping = check(run("nat", capture, "--public", PUBLIC), capture)
    replies = replies_to(capture, mapping)
    both = capture + replies
    ran = run("nat", both, "--public", PUBLIC)
    assert check(ran, both) == mapping
    assert ran.counters["translated_inbound"] == len(replies)


@REAL_PROGRAM
@given(seed=SEEDS)
def test_random_frames(run: Runner, seed: int) -> None:
    frames = random_frames(Random(seed))
    mapping = check(run("nat", frames, "--public", PUBLIC), frames)
    both = frames + replies_to(frames, mapping)
    check(run("nat", both, "--public", PUBLIC), both)


def datagram(host: int, payload: bytes = b"question", checksum: int | None = None) -> bytes:
    address = f"10.0.{host // 256}.{host % 256}"
    packet = (
        IP(src=address, dst="8.8.8.8") / UDP(sport=5000, dport=53, chksum=checksum) / Raw(payload)
    )
    return bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / packet)


def test_replies_from_elsewhere_are_dropped(run: Runner) -> None:
    out = [datagram(1)]
    mapping = check(run("nat", out, "--public", PUBLIC), out)
    (port,) = mapping.values()
    stray = [
        bytes(Ether() / IP(src=src, dst=PUBLIC) / UDP(sport=sport, dport=port + more))
        for src, sport, more in (("8.8.8.8", 54, 0), ("8.8.4.4", 53, 0), ("8.8.8.8", 53, 1))
    ]
    ran = run("nat", out + stray, "--public", PUBLIC)
    check(ran, out + stray)
    assert ran.counters["no_mapping"] == 3


def test_full_table_drops_new_flows_and_keeps_the_old(run: Runner) -> None:
    frames = [datagram(host) for _ in range(3) for host in range(20)]
    ran = run("nat", frames, "--public", PUBLIC, "--max-flows", "8")
    assert ran.counters["table_full"] == 3 * 12
    assert ran.counters["translated_outbound"] == 3 * 8
    kept = [datagram(host) for _ in range(3) for host in range(8)]
    check(ran, kept)


def test_many_flows(run: Runner) -> None:
    frames = [datagram(host) for host in range(1500)]
    assert len(check(run("nat", frames, "--public", PUBLIC), frames)) == 1500


def test_udp_without_checksum_stays_without(run: Runner) -> None:
    frames = [datagram(1, checksum=0)]
    (sent,) = run("nat", frames, "--public", PUBLIC).sent
    assert Ether(sent)[UDP].chksum == 0


def test_udp_checksum_of_zero_is_sent_as_ffff(run: Runner) -> None:
    """A payload that holds the checksum of the same packet with a payload of 0 makes it 0."""
    (sent,) = run("nat", [datagram(1, payload=b"\0\0")], "--public", PUBLIC).sent
    payload = Ether(sent)[UDP].chksum.to_bytes(2, "big")
    frames = [datagram(1, payload=payload)]
    ran = run("nat", frames, "--public", PUBLIC)
    check(ran, frames)
    assert Ether(ran.sent[0])[UDP].chksum == 0xFFFF


def test_inside_can_be_chosen(run: Runner) -> None:
    tagged = Ether() / Dot1Q(vlan=7) / IP(src="198.51.100.7", dst="8.8.8.8") / UDP(sport=9, dport=9)
    frames = [datagram(1), bytes(tagged)]
    ran = run("nat", frames, "--public", PUBLIC, "--inside", "198.51.100.0/24,192.0.2.1")
    assert ran.sent[0] == frames[0]
    assert Ether(ran.sent[1])[IP].src == PUBLIC

"""ipsec: what leaves is decrypted by another library, and has to be what came, in right ESP."""

import struct
from collections import Counter, defaultdict
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from random import Random

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from tests.functions.facts import Facts, NotIp, facts, has_right_header_checksum
from tests.functions.function_run import ROOT, Frames, Run, Runner
from tests.functions.random_frames import REAL_PROGRAM, SEEDS, random_frames

ESP, IP_IN_IP = 50, 4
DONT_FRAGMENT = 0x4000
MASK = (1 << 64) - 1
FATES = ("protected", "bypassed", "discarded", "not_ipv4", "malformed", "too_big")


@dataclass(frozen=True)
class Association:
    """A line that protects."""

    spi: int
    ends: tuple[str, str]
    key: bytes
    salt: bytes
    extended: bool


Policy = dict[str, Association | str]  # by prefix: an association, "bypassed" or "discarded"

POLICY = f"""
protect 0.0.0.0/0       300 192.0.2.1 198.51.100.1 aes-128-gcm {"5a" * 16}00000001
protect 10.0.0.0/8      301 192.0.2.1 198.51.100.1 aes-256-gcm {"a5" * 32}00000002 esn   # a comment
protect 192.168.1.6     302 192.0.2.7 198.51.100.9 aes-128-gcm {"0f" * 16}00000003 esn
bypass  10.128.0.0/16
discard 8.8.0.0/16
protect 8.8.8.0/24      303 192.0.2.1 198.51.100.1 aes-128-gcm {"f0" * 16}00000004
"""


def read_policy(text: str) -> Policy:
    policy: Policy = {}
    for line in text.splitlines():
        match line.partition("#")[0].split():
            case ["protect", prefix, spi, source, destination, _, key, *esn]:
                whole = bytes.fromhex(key)
                ends = (source, destination)
                policy[prefix] = Association(int(spi), ends, whole[:-4], whole[-4:], bool(esn))
            case [action, prefix]:
                policy[prefix] = {"bypass": "bypassed", "discard": "discarded"}[action]
    return policy


def chosen(policy: Policy, address: str) -> Association | str | None:
    """What the longest prefix says."""
    matching = [p for p in policy if ip_address(address) in ip_network(p)]
    return policy[max(matching, key=lambda p: ip_network(p).prefixlen)] if matching else None


def inner_packet(frame: bytes, ip: Facts) -> bytes | None:
    """The IPv4 packet without the frame's padding; None: some of it is cut off."""
    length = int.from_bytes(frame[ip.l3 + 2 : ip.l3 + 4], "big")
    return frame[ip.l3 : ip.l3 + length] if ip.l3 + length <= len(frame) else None


def unsealed(packet: bytes, association: Association, sequence: int) -> bytes:
    """The inner packet of an ESP packet that has this sequence number; checks all around it."""
    spi, low, vector = struct.unpack("!II8s", packet[:16])
    assert spi == association.spi
    assert low == sequence & 0xFFFFFFFF
    aad = struct.pack("!IQ" if association.extended else "!II", spi, sequence)
    inside = AESGCM(association.key).decrypt(association.salt + vector, packet[16:], aad)
    assert len(inside) % 4 == 0
    padding = inside[-2]
    assert padding < 4  # no more than it takes
    assert inside[-2 - padding : -2] == bytes(range(1, padding + 1))
    assert inside[-1] == IP_IN_IP
    return inside[: -2 - padding]


def check_outer(sent: bytes, inner: bytes, l3: int, association: Association) -> None:
    """The outer header, as RFC 4301 section 5.1.2.1 makes it of the inner one."""
    outer = facts(sent)
    assert isinstance(outer, Facts)
    assert (outer.l3, outer.l4) == (l3, l3 + 20)
    assert (outer.src, outer.dst) == association.ends
    assert outer.protocol == ESP
    assert has_right_header_checksum(sent, outer)
    assert int.from_bytes(sent[l3 + 2 : l3 + 4], "big") == len(sent) - l3
    assert sent[l3 + 1] == inner[1]  # DSCP, ECN
    dont_fragment = int.from_bytes(inner[6:8], "big") & DONT_FRAGMENT
    assert int.from_bytes(sent[l3 + 6 : l3 + 8], "big") == dont_fragment
    assert sent[l3 + 8] == 64


def check(ran: Run, frames: Frames, policy: Policy, otherwise: str = "discarded") -> Counter[str]:
    """Walks through the frames beside what was sent."""
    count: Counter[str] = Counter()
    sequences: dict[int, int] = defaultdict(int)
    vectors = set()
    sent = iter(ran.sent)
    for frame in frames:
        ip = facts(frame)
        if isinstance(ip, NotIp) or ip.version != 4:
            fate = "malformed" if isinstance(ip, NotIp) and ip.malformed else "not_ipv4"
            if fate == "not_ipv4" and otherwise == "bypassed":
                assert next(sent) == frame
            count[fate] += 1
            continue
        choice = chosen(policy, ip.dst) or otherwise
        if isinstance(choice, str):
            if choice == "bypassed":
                assert next(sent) == frame
            count[choice] += 1
            continue
        inner = inner_packet(frame, ip)
        if inner is None:
            count["malformed"] += 1
            continue
        after = next(sent)
        assert after[: ip.l3] == frame[: ip.l3]
        check_outer(after, inner, ip.l3, choice)
        sequences[choice.spi] += 1
        assert unsealed(after[ip.l3 + 20 :], choice, sequences[choice.spi]) == inner
        vectors.add((choice.key, after[ip.l3 + 28 : ip.l3 + 36]))
        count["protected"] += 1
    assert next(sent, None) is None
    assert len(vectors) == count["protected"], "no initialisation vector twice under one key"
    for name in FATES:
        assert ran.counters[name] == count[name], name
    return count


def ran_with(run: Runner, frames: Frames, text: str, *options: str) -> Run:
    return run("ipsec", frames, "--policy", run.file("policy", text), *options)


@pytest.mark.parametrize("text", [POLICY, (ROOT / "examples/ipsec.policy").read_text()])
def test_real_capture(run: Runner, capture: list[bytes], text: str) -> None:
    count = check(ran_with(run, capture, text), capture, read_policy(text))
    assert count["protected"] > 100


@REAL_PROGRAM
@given(seed=SEEDS)
def test_random_frames(run: Runner, seed: int) -> None:
    draw = Random(seed)
    frames = random_frames(draw)
    text = "\n".join(POLICY.splitlines()[draw.randrange(3) :])  # also without the default tunnel
    default = draw.choice(["bypass", "discard"])
    ran = ran_with(run, frames, text, "--default", default)
    check(ran, frames, read_policy(text), {"bypass": "bypassed", "discard": "discarded"}[default])


def datagram(size: int, destination: str = "10.0.0.9", sport: int = 1000) -> bytes:
    """A frame whose IPv4 packet has `size` bytes."""
    ip = IP(src="10.9.9.9", dst=destination) / UDP(sport=sport, dport=2000) / Raw(bytes(size - 28))
    return bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / ip)


def test_every_length_is_padded_to_words(run: Runner) -> None:
    frames = [datagram(size) for size in range(28, 128)]
    assert check(ran_with(run, frames, POLICY), frames, read_policy(POLICY))["protected"] == 100


def test_tags_stay(run: Runner) -> None:
    packet = Ether() / Dot1Q(vlan=7) / Dot1Q(vlan=8) / IP(dst="10.0.0.9", flags="DF", tos=0xB9)
    frames = [bytes(packet / UDP() / Raw(b"tagged"))]
    check(ran_with(run, frames, POLICY), frames, read_policy(POLICY))


def test_what_does_not_fit_is_dropped(run: Runner) -> None:
    """36 bytes before, 2 and 16 behind, and padding: 1446 bytes of inner packet make 1500."""
    frames = [datagram(1446), datagram(1447), datagram(1514)]
    ran = ran_with(run, frames, POLICY, "--mtu", "1500")
    assert ran.counters["protected"] == 1
    assert ran.counters["too_big"] == 2
    assert len(ran.sent[0]) == 14 + 1500
    jumbo = [datagram(size) for size in (1500, 2034, 4000)]  # the last two fill their buffers
    ran = ran_with(run, jumbo, POLICY)
    assert (ran.counters["protected"], ran.counters["too_big"]) == (1, 2)


def test_another_run_has_other_vectors(run: Runner) -> None:
    """A key in a file outlives the process: with the same vector it would be given away."""
    frames = [datagram(100)] * 3
    first, second = (ran_with(run, frames, POLICY) for _ in range(2))
    vectors = {packet[14 + 28 : 14 + 36] for packet in first.sent + second.sent}
    assert len(vectors) == 6
    sequences = {packet[14 + 24 : 14 + 28] for packet in first.sent + second.sent}
    assert len(sequences) == 3


def splitmix64(state: int) -> tuple[int, int]:
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)


def synthetic(count: int) -> dict[int, Association]:
    """By SPI, as functions/ipsec_policy.h says."""
    found, state = {}, 0
    for n in range(count):
        words = b""
        for _ in range(3):
            state, word = splitmix64(state)
            words += word.to_bytes(8, "little")
        ends = ("192.0.2.1", "198.51.100.1")
        found[256 + n] = Association(256 + n, ends, words[:16], words[16:20], extended=True)
    return found


def test_many_associations(run: Runner) -> None:
    """Each flow has one of them, and all are used about alike."""
    flows = [datagram(60, sport=1024 + i) for i in range(4000)]
    ran = run("ipsec", flows * 2, "--synthetic", "1000")
    assert ran.counters["associations"] == 1000
    known = synthetic(1000)
    sequences: Counter[int] = Counter()
    of_flow: dict[bytes, int] = {}
    for before, after in zip(flows * 2, ran.sent, strict=True):
        spi = int.from_bytes(after[34:38], "big")
        sequences[spi] += 1
        assert unsealed(after[34:], known[spi], sequences[spi]) == before[14:]
        assert of_flow.setdefault(before, spi) == spi
    assert len(sequences) > 950  # of 4000 thrown into 1000, 18 are missed on average
    assert max(sequences.values()) < 40


def test_the_oracle_sees_a_wrong_key() -> None:
    association = Association(256, ("192.0.2.1", "198.51.100.1"), bytes(16), bytes(4), False)
    packet = struct.pack("!II8s", 256, 1, bytes(8)) + bytes(64)
    with pytest.raises(InvalidTag):
        unsealed(packet, association, 1)

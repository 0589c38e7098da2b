"""wanopt: what leaves is inflated by zlib, and has to be what came."""

import zlib
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from tests.functions.facts import Facts, NotIp, facts, has_right_header_checksum
from tests.functions.function_run import Frames, Run, Runner
from tests.functions.random_frames import REAL_PROGRAM, SEEDS, random_frames

ESP, AH, IPCOMP = 50, 51, 108
DEFLATE = 2
FATES = (
    "compressed", "no_gain", "too_short", "opaque", "fragment", "segmented", "malformed",
    "not_ipv4",
)  # fmt: skip


def payload_of(frame: bytes, ip: Facts) -> bytes | None:
    """What follows the IP header; None: some of it is cut off."""
    end = ip.l3 + int.from_bytes(frame[ip.l3 + 2 : ip.l3 + 4], "big")
    return frame[ip.l4 : end] if end <= len(frame) else None


def fate(frame: bytes, least: int) -> str:
    """What has to become of it, but for whether it shrinks."""
    ip = facts(frame)
    if isinstance(ip, NotIp) and ip.malformed:
        return "malformed"
    if isinstance(ip, NotIp) or ip.version != 4:
        return "not_ipv4"
    payload = payload_of(frame, ip)
    if payload is None:
        return "malformed"
    if ip.fragment:
        return "fragment"
    if ip.protocol in {ESP, AH, IPCOMP}:
        return "opaque"
    return "too_short" if len(payload) < least else "tried"


def inflated(frame: bytes, ip: Facts) -> bytes:
    """The packet as it was, of one that was compressed: frame's header, IP header, payload."""
    header, data = frame[ip.l4 : ip.l4 + 4], frame[ip.l4 + 4 :]
    assert header[1] == 0
    assert int.from_bytes(header[2:], "big") == DEFLATE
    stream = zlib.decompressobj(wbits=-15)
    payload = stream.decompress(data)
    assert stream.eof
    assert stream.unused_data == b""
    whole = bytearray(frame[: ip.l4] + payload)
    whole[ip.l3 + 9] = header[0]
    whole[ip.l3 + 2 : ip.l3 + 4] = (len(whole) - ip.l3).to_bytes(2, "big")
    return bytes(whole)


def check(ran: Run, frames: Frames, least: int = 64) -> Counter[str]:
    count: Counter[str] = Counter()
    before_bytes = after_bytes = 0
    for before, after in zip(frames, ran.sent, strict=True):
        what = fate(before, least)
        if what == "tried":
            what = "no_gain" if after == before else "compressed"
        count[what] += 1
        if what != "compressed":
            assert after == before
            continue
        old, new = facts(before), facts(after)
        assert isinstance(old, Facts)
        assert isinstance(new, Facts)
        assert new.protocol == IPCOMP
        assert payload_of(after, new) == after[new.l4 :]  # no padding behind it
        assert has_right_header_checksum(after, new) == has_right_header_checksum(before, old)
        payload = payload_of(before, old)
        assert payload is not None
        assert len(after) - new.l4 < len(payload)
        whole, came = bytearray(inflated(after, new)), bytearray(before[: old.l4] + payload)
        for frame in (whole, came):  # the checksum was looked at
            frame[old.l3 + 10 : old.l3 + 12] = b"\0\0"
        assert whole == came
        before_bytes += len(payload)
        after_bytes += len(after) - new.l4
    for name in FATES:
        assert ran.counters[name] == count[name], name
    assert ran.counters["payload_bytes_before"] == before_bytes
    assert ran.counters["payload_bytes_after"] == after_bytes
    return count


def check_way_back(run: Runner, frames: Frames, sent: Frames) -> None:
    """The other end makes of what was sent what came, but for padding of frames that shrank."""
    ran = run("wanopt", sent, "--mode", "expand")
    for came, small, back in zip(frames, sent, ran.sent, strict=True):
        if small == came:
            assert back == came
            continue
        ip = facts(came)
        assert isinstance(ip, Facts)
        assert back == came[: ip.l3 + int.from_bytes(came[ip.l3 + 2 : ip.l3 + 4], "big")]


def is_ipcomp(frame: bytes) -> bool:
    ip = facts(frame)
    return isinstance(ip, Facts) and ip.protocol == IPCOMP


@pytest.mark.parametrize("level", ["0", "1", "6", "12"])
def test_real_capture(run: Runner, capture: list[bytes], level: str) -> None:
    ran = run("wanopt", capture, "--level", level)
    assert check(ran, capture)["compressed"] > 0
    check_way_back(run, capture, ran.sent)


@REAL_PROGRAM
@given(seed=SEEDS)
def test_random_frames(run: Runner, seed: int) -> None:
    draw = Random(seed)
    frames = [frame for frame in random_frames(draw) if not is_ipcomp(frame)]
    frames += [datagram(draw.randbytes(8) * draw.randrange(1, 120)) for _ in range(30)]
    draw.shuffle(frames)
    least = draw.choice([6, 20, 64])
    ran = run("wanopt", frames, "--min-payload", str(least), "--level", str(draw.randrange(13)))
    assert check(ran, frames, least)["compressed"] > 0
    check_way_back(run, frames, ran.sent)


def datagram(payload: bytes, proto: int = 17) -> bytes:
    ip = IP(src="10.0.0.1", dst="10.0.0.2", proto=proto)
    return bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / ip / Raw(payload))


def test_it_shrinks_what_repeats_and_nothing_else(run: Runner) -> None:
    frames = [datagram(b"abc" * 400), datagram(Random(1).randbytes(1200))]
    ran = run("wanopt", frames)
    assert check(ran, frames) == {"compressed": 1, "no_gain": 1}
    assert len(ran.sent[0]) < 80
    before, after = ran.counters["payload_bytes_before"], ran.counters["payload_bytes_after"]
    assert (before, after) == (1200, len(ran.sent[0]) - 34)


def test_damage_on_the_way_is_dropped(run: Runner) -> None:
    small = run("wanopt", [datagram(b"abc" * 400)]).sent[0]
    cut, flipped = small[:-4], small[:40] + bytes([small[40] ^ 0x55]) + small[41:]
    ran = run("wanopt", [cut, small], "--mode", "expand")
    assert ran.counters["corrupt"] == 1
    assert len(ran.sent) == 1
    ran = run("wanopt", [flipped], "--mode", "expand")  # what inflates nevertheless, checksums find
    assert ran.counters["corrupt"] + ran.counters["no_room"] + ran.counters["expanded"] == 1


def test_it_leaves_alone_what_others_compressed(run: Runner) -> None:
    other = datagram(bytes([17, 0, 0, 3]) + bytes(80), proto=IPCOMP)  # LZS
    assert run("wanopt", [other], "--mode", "expand").sent == [other]
    assert run("wanopt", [other]).sent == [other]


def test_jumbo_frames_stay(run: Runner) -> None:
    frames = [datagram(bytes(size)) for size in (1500, 3000)]
    ran = run("wanopt", frames)
    assert (ran.counters["compressed"], ran.counters["segmented"]) == (1, 1)
    assert ran.sent[1] == frames[1]


def test_a_transport_header_comes_back_too(run: Runner) -> None:
    packet = IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=53, dport=5353) / Raw(b"answer" * 50)
    frames = [bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / packet)]
    sent = run("wanopt", frames).sent
    back = run("wanopt", sent, "--mode", "expand").sent
    assert back == frames

"""dpi: every packet against Python's regular expressions."""

import re
from collections import Counter
from dataclasses import dataclass
from random import Random

from hypothesis import given
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from tests.functions.facts import TCP_PROTOCOL, UDP_PROTOCOL, NotIp, facts
from tests.functions.function_run import ROOT, Frames, Run, Runner
from tests.functions.random_frames import REAL_PROGRAM, SEEDS, random_frames

EXAMPLE = (ROOT / "examples/dpi.rules").read_text()
FLAGS = {"i": re.IGNORECASE, "s": re.DOTALL, "m": re.MULTILINE}
SIGHTS = ("scanned", "no_payload", "not_ip", "malformed", "later_fragment")


@dataclass(frozen=True)
class Rule:
    """A line of the file."""

    number: int
    action: str
    pattern: re.Pattern[bytes]


def read_rules(text: str) -> list[Rule]:
    rules = []
    for line in text.splitlines():
        if not line.strip() or line.strip().startswith("#"):
            continue
        number, action, letters, pattern = line.split(maxsplit=3)
        flags = re.RegexFlag(0)
        for letter in letters.strip("-"):
            flags |= FLAGS[letter]
        rules.append(Rule(int(number), action, re.compile(pattern.strip().encode(), flags)))
    return rules


def sight(frame: bytes) -> tuple[str, bytes]:
    """What there is to see of a frame, and the bytes that are looked at."""
    ip = facts(frame)
    if isinstance(ip, NotIp):
        return ("malformed" if ip.malformed else "not_ip"), b""
    if ip.later:
        return "later_fragment", b""
    header = 0
    if ip.protocol == TCP_PROTOCOL:
        header = (ip.l4_bytes[12] >> 4) * 4 if len(ip.l4_bytes) >= 20 else 0
        if header < 20:
            return "malformed", b""
    elif ip.protocol == UDP_PROTOCOL:
        header = 8
    if len(ip.l4_bytes) < header:
        return "malformed", b""
    payload = ip.l4_bytes[header:]
    return ("scanned" if payload else "no_payload"), payload


def check(ran: Run, frames: Frames, rules: list[Rule]) -> Counter[str]:
    sights: Counter[str] = Counter()
    matches: Counter[int] = Counter()
    passed, seen_bytes, matched = [], 0, 0
    for frame in frames:
        what, payload = sight(frame)
        sights[what] += 1
        seen_bytes += len(payload)
        hits = [rule for rule in rules if what == "scanned" and rule.pattern.search(payload)]
        matches.update(rule.number for rule in hits)
        matched += bool(hits)
        verdicts = [rule.action for rule in hits if rule.action != "alert"]
        if verdicts[:1] != ["drop"]:
            passed.append(frame)
    for rule in rules:
        assert ran.counters[f"rule_{rule.number}"] == matches[rule.number], rule
    for name in SIGHTS:
        assert ran.counters[name] == sights[name], name
    assert ran.counters["scanned_bytes"] == seen_bytes
    assert ran.counters["matched"] == matched
    assert ran.counters["dropped_by_rule"] == len(frames) - len(passed)
    assert ran.sent == passed
    return Counter({str(number): times for number, times in matches.items()})


def checked(run: Runner, frames: Frames, text: str) -> Counter[str]:
    ran = run("dpi", frames, "--rules", run.file("rules", text))
    return check(ran, frames, read_rules(text))


def test_the_example_on_a_real_capture(run: Runner, capture: list[bytes]) -> None:
    assert checked(run, capture, EXAMPLE).total() > 0


# Short patterns, so that they meet in real payloads; of each kind that Hyperscan handles apart.
SHORT = r"""
1  alert   -  \x00\x00
2  alert   i  [a-f]{3}
3  drop    s  ^.\x00.{0,20}\xff
4  forward -  ^\x17\x03\x03
5  drop    -  \x17\x03\x03
6  alert   i  (com|net|org)\b
7  alert   s  ^[\x80-\xff].*[\x00-\x0f]$
8  alert   m  ^[A-Z]
9  drop    -  (\xde|\xad)[^\x00]{2,6}(\xbe|\xef)
10 alert   -  \w{12}
"""


def test_short_patterns_on_a_real_capture(run: Runner, capture: list[bytes]) -> None:
    assert len(checked(run, capture, SHORT)) >= 5


@REAL_PROGRAM
@given(seed=SEEDS)
def test_random_frames(run: Runner, seed: int) -> None:
    draw = Random(seed)
    frames = random_frames(draw)
    lines = [line for line in SHORT.splitlines() if line]
    draw.shuffle(lines)
    checked(run, frames, "\n".join(lines))


def frame(*layers: Packet) -> bytes:
    packet: Packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    for layer in layers:
        packet /= layer
    return bytes(packet)


def test_the_first_that_is_no_alert_decides(run: Runner) -> None:
    payloads = [b"a", b"b", b"ab", b"c", b"bc", b"d", b"acd", b"x"]
    frames = [frame(IP(), UDP(), Raw(payload)) for payload in payloads]
    text = "1 forward - a\n2 drop - b\n3 forward - c\n4 alert - d\n"
    ran = run("dpi", frames, "--rules", run.file("rules", text))
    check(ran, frames, read_rules(text))
    assert ran.sent == [frames[i] for i in (0, 2, 3, 5, 6, 7)]


def test_what_the_example_is_for(run: Runner) -> None:
    request = b"GET /%s HTTP/1.1\r\nHost: example.com\r\n\r\n"
    attacks = [b"../../../../etc/passwd", b"?q=1 union select 2", b"${jndi:ldap://x/a}"]
    frames = [frame(IP(), TCP(), Raw(request % what)) for what in [b"index.html", *attacks]]
    frames.append(frame(IPv6(), TCP(), Raw(request % attacks[0])))
    health = b"GET /health HTTP/1.1\r\nX: ../../../..\r\n\r\n"
    frames.append(frame(IP(), TCP(), Raw(health)))
    ran = run("dpi", frames, "--rules", str(ROOT / "examples/dpi.rules"))
    check(ran, frames, read_rules(EXAMPLE))
    assert ran.sent == [frames[0], frames[5]]
    assert ran.counters["rule_200"] == 5  # a blank in the path is none


def test_a_packet_of_several_buffers_is_seen_whole(run: Runner) -> None:
    """2048 bytes are what one holds."""
    payload = bytes(2000) + b"needle" + bytes(2000) + b"haystack"
    frames = [frame(IP(), UDP(), Raw(payload)), frame(IP(), UDP(), Raw(payload[:-1]))]
    counts = checked(run, frames, "1 alert - needle\n2 drop s needle.*haystack$\n")
    assert counts == {"1": 2, "2": 1}

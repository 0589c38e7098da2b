"""firewall: its verdicts against rules matched one by one in Python."""

from functools import cache
from ipaddress import ip_address, ip_network
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from tests.functions.facts import NotIp, facts
from tests.functions.function_run import ROOT, Frames, Runner
from tests.functions.random_frames import REAL_PROGRAM, SEEDS, random_frames

NAMES = {"icmp": 1, "tcp": 6, "udp": 17}


network = cache(ip_network)
Rule = list[str]


@cache
def address_matches(pattern: str, address: str) -> bool:
    return pattern == "*" or ip_address(address) in network(pattern)


def port_matches(pattern: str, port: int) -> bool:
    if pattern == "*":
        return True
    first, _, last = pattern.partition("-")
    return int(first) <= port <= int(last or first)


def protocol_matches(pattern: str, protocol: int) -> bool:
    return pattern == "*" or NAMES.get(pattern, -1) == protocol or pattern == str(protocol)


def parsed(rules: str) -> list[Rule]:
    return [words for line in rules.splitlines() if (words := line.partition("#")[0].split())]


def allowed(frame: bytes, rules: list[Rule], otherwise: str) -> bool:
    """The first rule that matches decides."""
    ip = facts(frame)
    if isinstance(ip, NotIp) or ip.version != 4:
        return otherwise == "allow"
    for action, src, dst, sport, dport, protocol in rules:
        if (
            address_matches(src, ip.src)
            and address_matches(dst, ip.dst)
            and port_matches(sport, ip.sport)
            and port_matches(dport, ip.dport)
            and protocol_matches(protocol, ip.protocol)
        ):
            return action == "allow"
    return otherwise == "allow"


def check(run: Runner, frames: Frames, rules: str, otherwise: str) -> int:
    ran = run("firewall", frames, "--rules", run.file("rules", rules), "--default", otherwise)
    table = parsed(rules)
    expected = [frame for frame in frames if allowed(frame, table, otherwise)]
    assert ran.sent == expected
    return len(expected)


CAPTURE_RULES = """
allow 192.168.0.0/16 *            *         443        tcp   # out
allow 192.168.0.0/16 *            *         443        udp
deny  216.58.0.0/16  *            443       *          udp
deny  *              *            443       *          tcp   # back: forgotten
allow *              *            1024-3000 *          udp
deny  192.168.1.6    *            *         *          *
allow *              10.0.0.0/8   *         *          *
deny  *              *            *         1900       17
"""


@pytest.mark.parametrize("otherwise", ["allow", "deny"])
def test_real_capture(run: Runner, capture: list[bytes], otherwise: str) -> None:
    passed = check(run, capture, CAPTURE_RULES, otherwise)
    assert 0 < passed < len(capture)


@pytest.mark.parametrize("otherwise", ["allow", "deny"])
def test_example_rules(run: Runner, capture: list[bytes], otherwise: str) -> None:
    assert check(run, capture, Path(ROOT / "examples/firewall.rules").read_text(), otherwise) > 0


@pytest.mark.parametrize("otherwise", ["allow", "deny"])
def test_no_rules(run: Runner, capture: list[bytes], otherwise: str) -> None:
    passed = check(run, capture, "# none\n", otherwise)
    assert passed == (len(capture) if otherwise == "allow" else 0)


ADDRESSES = ["*", "*", "*", "10.0.0.0/8", "10.0.0.1", "10.128.0.0/9", "8.8.8.8/32", "8.8.0.0/16",
             "0.0.0.0/0", "192.168.1.6/31", "172.16.0.0/12", "255.255.255.255"]  # fmt: skip
PORTS = ["*", "*", "*", "0", "53", "80-443", "0-1023", "1024-65535", "65535", "0-65535"]
PROTOCOLS = ["*", "*", "tcp", "udp", "icmp", "47", "0", "132"]


def random_rule(draw: Random) -> str:
    fields = [["allow", "deny"], ADDRESSES, ADDRESSES, PORTS, PORTS, PROTOCOLS]
    return " ".join(draw.choice(field) for field in fields)


@REAL_PROGRAM
@given(seed=SEEDS)
def test_random_rules_and_frames(run: Runner, seed: int) -> None:
    draw = Random(seed)
    rules = "\n".join(random_rule(draw) for _ in range(draw.randrange(1, 40)))
    check(run, random_frames(draw), rules, draw.choice(["allow", "deny"]))


def test_only_first_fragments_have_ports(run: Runner) -> None:
    fragments = [IP(src="10.0.0.1", dst="8.8.8.8", flags="MF", frag=at) for at in (0, 3)]
    frames = [bytes(Ether() / ip / UDP(sport=1, dport=53) / Raw(b"name")) for ip in fragments]
    assert check(run, frames, "deny * * * 53 udp", "allow") == 1
    assert check(run, frames, "allow * * 0 0 udp", "deny") == 1


def test_padding_is_not_taken_for_ports(run: Runner) -> None:
    frame = bytes(Ether() / IP(src="10.0.0.1", dst="8.8.8.8", proto=17) / Raw(b"x"))
    padded = frame + b"\0\x35" * 12
    assert check(run, [padded], "deny * * * 1-65535 *", "allow") == 1


def test_thousands_of_rules(run: Runner, capture: list[bytes]) -> None:
    lines = [f"deny 11.{i // 256}.{i % 256}.0/24 * * {i % 60000} udp" for i in range(4000)]
    assert check(run, capture[:200], "\n".join([*lines, CAPTURE_RULES]), "deny") > 0

"""router: every packet against a linear search for the longest prefix, and scapy's checksums."""

from collections import Counter
from functools import cache
from ipaddress import IPv4Network, ip_address, ip_network
from pathlib import Path
from random import Random

from hypothesis import given

from tests.functions.facts import NotIp, facts, has_right_header_checksum, with_header_checksum
from tests.functions.function_run import ROOT, Frames, Runner
from tests.functions.random_frames import REAL_PROGRAM, SEEDS, random_frames


def routed(frame: bytes, table: list[list[str]]) -> tuple[str, bytes]:
    """What becomes of a frame, and the frame that leaves."""
    ip = facts(frame)
    if isinstance(ip, NotIp):
        return ("malformed" if ip.malformed else "not_ipv4"), b""
    if ip.version != 4:
        return "not_ipv4", b""
    if not has_right_header_checksum(frame, ip):
        return "bad_checksum", b""
    ttl = frame[ip.l3 + 8]
    if ttl <= 1:
        return "ttl_expired", b""
    destination = ip_address(ip.dst)
    matching = [route for route in table if destination in prefix(route[0])]
    if not matching:
        return "no_route", b""
    _, next_hop, source = max(matching, key=lambda route: prefix(route[0]).prefixlen)
    macs = bytes.fromhex((next_hop + source).replace(":", ""))
    at = ip.l3 + 8
    new = macs + frame[12:at] + bytes([ttl - 1]) + frame[at + 1 :]
    return "forwarded", with_header_checksum(new, ip)


@cache
def prefix(text: str) -> IPv4Network:
    return IPv4Network(text)


def check(run: Runner, frames: Frames, routes: str) -> Counter[str]:
    table = [words for line in routes.splitlines() if (words := line.partition("#")[0].split())]
    ran = run("router", frames, "--routes", run.file("routes", routes))
    fates = [routed(frame, table) for frame in frames]
    assert ran.sent == [frame for fate, frame in fates if fate == "forwarded"]
    count = Counter(fate for fate, _ in fates)
    for fate in ("forwarded", "malformed", "not_ipv4", "bad_checksum", "ttl_expired", "no_route"):
        assert ran.counters[fate] == count[fate], fate
    return count


CAPTURE_ROUTES = """
192.168.0.0/16    02:00:00:00:00:01 02:00:00:00:00:10
192.168.1.0/24    02:00:00:00:00:02 02:00:00:00:00:10
192.168.1.6       02:00:00:00:00:03 02:00:00:00:00:10
192.168.1.109/32  02:00:00:00:00:04 02:00:00:00:00:10
52.112.0.0/14     02:00:00:00:00:05 02:00:00:00:00:11
52.114.77.33/32   02:00:00:00:00:06 02:00:00:00:00:11
31.13.80.0/20     02:00:00:00:00:07 02:00:00:00:00:11
216.58.128.0/17   02:00:00:00:00:08 02:00:00:00:00:11
216.58.212.96/28  02:00:00:00:00:09 02:00:00:00:00:11
"""


def test_real_capture(run: Runner, capture: list[bytes]) -> None:
    count = check(run, capture, CAPTURE_ROUTES)
    assert count["forwarded"] > 100


def test_one_route(run: Runner, capture: list[bytes]) -> None:
    count = check(run, capture, "192.168.1.0/24 02:00:00:00:00:01 02:00:00:00:00:02")
    assert count["no_route"] > 0


def test_example_routes(run: Runner, capture: list[bytes]) -> None:
    count = check(run, capture, Path(ROOT / "examples/routes.txt").read_text())
    assert count["no_route"] == 0


NETWORKS = ["10.0.0.1", "10.128.0.1", "8.8.8.8", "192.168.1.7", "255.255.255.255", "0.0.0.1"]


def random_routes(draw: Random) -> str:
    """Routes whose prefixes lie in each other."""
    mac = "02:00:00:00:00:{:02x}".format
    lengths = [draw.randrange(33) for _ in range(draw.randrange(1, 40))]
    prefixes = {ip_network(f"{draw.choice(NETWORKS)}/{n}", strict=False) for n in lengths}
    return "\n".join(f"{p} {mac(draw.randrange(8))} {mac(draw.randrange(8))}" for p in prefixes)


@REAL_PROGRAM
@given(seed=SEEDS)
def test_random_routes_and_frames(run: Runner, seed: int) -> None:
    draw = Random(seed)
    check(run, random_frames(draw), random_routes(draw))


def test_more_next_hops_than_a_small_table_holds(run: Runner, capture: list[bytes]) -> None:
    source = "02:00:00:00:00:01"
    lines = [
        f"52.114.{n // 4}.{n % 4 * 64}/26 02:00:00:01:{n // 256:02x}:{n % 256:02x} {source}"
        for n in range(1000)
    ]
    check(run, capture, "\n".join([*lines, "0.0.0.0/0 02:00:00:00:00:02 02:00:00:00:00:03"]))

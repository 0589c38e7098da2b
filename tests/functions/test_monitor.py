"""monitor: its flow counters against a dict."""

import csv
from collections import defaultdict
from pathlib import Path
from random import Random

from hypothesis import given

from tests.functions.facts import NotIp, facts
from tests.functions.function_run import Frames, Runner
from tests.functions.random_frames import REAL_PROGRAM, SEEDS, random_frames

Flow = tuple[str, str, int, int, int]
Flows = dict[Flow, list[int]]


def count(frames: Frames, max_flows: int) -> tuple[Flows, list[int], list[int]]:
    """Packets and bytes of each flow, of those that found the table full, and of what is not IP."""
    flows: Flows = defaultdict(lambda: [0, 0])
    other, not_ip = [0, 0], [0, 0]
    known = {4: 0, 6: 0}
    for frame in frames:
        ip = facts(frame)
        if isinstance(ip, NotIp):
            entry = not_ip
        else:
            flow = (ip.src, ip.dst, ip.protocol, ip.sport, ip.dport)
            if flow not in flows and known[ip.version] == max_flows:
                entry = other
            else:
                known[ip.version] += flow not in flows
                entry = flows[flow]
        entry[0] += 1
        entry[1] += len(frame)
    return dict(flows), other, not_ip


def check(run: Runner, frames: Frames, max_flows: int = 65536) -> Flows:
    file = run.folder / "flows.csv"
    ran = run("monitor", frames, "--csv", str(file), "--max-flows", str(max_flows))
    assert ran.sent == list(frames)
    flows, other, not_ip = count(frames, max_flows)
    assert read_csv(file) == flows
    assert ran.counters["flows"] == len(flows)
    assert [ran.counters["other_packets"], ran.counters["other_bytes"]] == other
    assert [ran.counters["not_ip_packets"], ran.counters["not_ip_bytes"]] == not_ip
    return flows


def read_csv(file: Path) -> Flows:
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    sizes = [int(row["bytes"]) for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    return {
        (
            row["src"],
            row["dst"],
            int(row["protocol"]),
            int(row["src_port"]),
            int(row["dst_port"]),
        ): [
            int(row["packets"]),
            int(row["bytes"]),
        ]
        for row in rows
    }


def test_real_capture(run: Runner, capture: list[bytes]) -> None:
    assert len(check(run, capture)) > 8


def test_full_table_counts_the_rest_together(run: Runner, capture: list[bytes]) -> None:
    assert len(check(run, capture, max_flows=8)) == 8


@REAL_PROGRAM
@given(seed=SEEDS)
def test_random_frames(run: Runner, seed: int) -> None:
    check(run, random_frames(Random(seed)))


@REAL_PROGRAM
@given(seed=SEEDS)
def test_random_frames_full_table(run: Runner, seed: int) -> None:
    check(run, random_frames(Random(seed)), max_flows=8)


def test_prints_the_top_flows(run: Runner, capture: list[bytes]) -> None:
    ran = run("monitor", capture, "--top", "3")
    flows, _, _ = count(capture, 65536)
    top = sorted((size for _, size in flows.values()), reverse=True)[:3]
    lines = ran.report.partition("Top 3 of")[2].splitlines()[2:]
    assert [int(line.split()[1]) for line in lines] == top
    assert "Top" not in run("monitor", capture, "--top", "0").report

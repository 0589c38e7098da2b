"""A function profiled on this machine, and what it is planned with."""

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.machine import Machine
from unis.slo.model import load

# 4000 cycles a packet: what the function passes is little beside what source and sink can.
_SLOW = ("--", "--cost", "4000")
_SHORT = ("--rounds", "2", "--window", "0.03", "--tolerance", "20%")
_WORKLOAD = """apiVersion: unis/slo/v1
name: w
servers: {a: {count: 9, cores: 9, ways: 16}}
slos:
  s: {function: slow, throughput: 10 %, p95_latency: 900 ms}
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "unis" / "profiles"


@pytest.mark.long
def test_a_function_is_profiled_and_planned_with(
    machine: Machine, tmp_path: Path, cache: Path
) -> None:
    file = tmp_path / "nf.yaml"
    said = machine.unis(
        "profile", "nf", "macswap", "--name", "slow", *_SHORT, "-o", str(file), *_SLOW
    )
    assert "1 of about 10: what passes" in said
    assert "p95 latency at 55 % of it: " in said
    workload = tmp_path / "w.yaml"
    workload.write_text(_WORKLOAD + file.read_text())
    (slo,) = load(workload).slos
    profile = slo.profile
    assert profile.solo_mpps > 0
    assert profile.p95_us_by_load[0][0] == 0.1
    assert "macswap --cost 4000; 64 B, 256 flows" in profile.source
    # Where nobody can set cache ways, it says so.
    assert "throughput by ways measured" in profile.source or "-m evaluation profile" in said
    (kept,) = cache.glob("slow-*.json")
    readings = json.loads(kept.read_text())
    assert {"10.0", "55.0", "100.0"} <= set(readings["latencies"])
    assert machine.unis("profile", "nf", "macswap", "--help")


def test_ctrl_c_says_what_is_missing_and_keeps_the_rest(machine: Machine, cache: Path) -> None:
    process = machine.start(
        "profile", "nf", "macswap", "--name", "slow", "--rounds", "8", "--window", "0.05", *_SLOW
    )

    def measured() -> bool:
        return any(json.loads(file.read_text())["mpps"] for file in cache.glob("slow-*.json"))

    machine.wait_for(measured, "nothing was measured")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "interrupted: at least " in said
    assert "p95 latency at " in said
    assert "the same call goes on there" in said
    assert measured()
    assert "Traceback" not in said

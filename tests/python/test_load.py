"""unis bench load: rows of windows, and the picture."""

import os
import time
from pathlib import Path

import pytest

from tests.python.signalling import wait_until
from tools.keep_load import DOCUMENTS, KEPT, Kept, renewed
from unis.bench.beside import ALONE, NICE_0, _computing, _run_ns, _Turns
from unis.bench.load import (
    CHAINS,
    LOADS,
    PMD_MAXSLEEP,
    POLLING,
    SLEEPING,
    row_of,
    took_from_platform,
)
from unis.report import curves
from unis.v1 import engine_pb2 as pb
from unis.v1.common_pb2 import LatencyHistogram


def window(
    functions_ms: float,
    engine_ms: float,
    offered: int = 0,
    dropped: int = 0,
    delivered: int = 0,
    us: int = 90,
) -> pb.MeasureReply:
    """Of 100 ms; `us`: what the slowest tenth of the packets waited."""
    histogram = LatencyHistogram(value_ns=[10_000, 1_000 * us], count=[90, 10])
    return pb.MeasureReply(
        window_ns=100_000_000,
        function_cpu_ns={"a": round(functions_ms * 5e5), "b": round(functions_ms * 5e5)},
        engine_cpu_ns=round(engine_ms * 1e6),
        latency=histogram,
        offered=offered,
        dropped=dropped,
        delivered=delivered,
    )


def test_a_row_has_the_median_share_of_a_cpu_and_the_losses_of_all_windows() -> None:
    rounds = [
        {SLEEPING: window(20, 50, offered=1000, dropped=0), POLLING: window(100, 100)},
        {SLEEPING: window(30, 60, offered=1000, dropped=30), POLLING: window(100, 100)},
        {SLEEPING: window(90, 70, offered=1000, dropped=0), POLLING: window(100, 100)},
    ]
    row = row_of("light", SLEEPING, 0.25, [(8.0, rounds)])
    assert row.cpu_functions == pytest.approx(0.3)
    assert row.cpu_platform == pytest.approx(0.6)
    assert row.quartiles["cpu_functions"].q3 == pytest.approx(0.6)
    assert row.lost == pytest.approx(0.01)
    assert row.offered_mpps == pytest.approx(3000 / 0.3 / 1e6)
    assert row.latency_us["p50"] == pytest.approx(10, rel=0.05)
    assert row.latency_us["p95"] == pytest.approx(90, rel=0.05)
    assert (row.most_mpps, row.windows) == (8.0, 3)
    assert row.ratio_to_pmd_maxsleep is None


def test_nothing_offered_is_nothing_lost() -> None:
    row = row_of("light", POLLING, 0.0, [(8.0, [{POLLING: window(1, 1)}])])
    assert row.lost == 0
    assert row.ns_per_packet == pytest.approx(1e6), "as of one packet"


def test_cpu_time_by_packet_is_compared_within_a_round() -> None:
    """The machine became slower by half from the first round to the second; one arm lost more."""
    rounds = [
        {SLEEPING: window(10, 1, delivered=100), PMD_MAXSLEEP: window(20, 1, delivered=100)},
        {SLEEPING: window(20, 1, delivered=100), PMD_MAXSLEEP: window(20, 1, delivered=50)},
    ]
    runs = [(1.0, [{POLLING: window(1, 1), **each} for each in rounds])]
    row, own = (row_of("openvswitch", arm, 0.1, runs) for arm in (SLEEPING, PMD_MAXSLEEP))
    assert row.ns_per_packet == pytest.approx(150_000)
    assert row.ratio_to_pmd_maxsleep is not None
    assert row.ratio_to_pmd_maxsleep.median == pytest.approx(0.5)
    assert own.ns_per_packet == pytest.approx(300_000)


def test_bring_ups_are_told_apart_and_latency_is_compared_within_a_round() -> None:
    """The second bring-up is slower by a third, whatever the functions do."""
    runs = [
        (9.0, [{POLLING: window(100, 100, us=20), SLEEPING: window(20, 50, us=100)}] * 3),
        (6.0, [{POLLING: window(100, 100, us=50), SLEEPING: window(30, 50, us=130)}] * 3),
    ]
    row, base = (row_of("light", arm, 0.1, runs) for arm in (SLEEPING, POLLING))
    assert row.most_mpps == pytest.approx(7.5)
    assert row.cpu_functions_by_run == pytest.approx([0.2, 0.3])
    added = row.added_us["p95"]
    assert added is not None
    assert added.median == pytest.approx(80, rel=0.05)
    assert base.added_us == {"p50": None, "p95": None, "p99": None}


def test_other_processes_on_the_platform_s_cpu_are_told_of() -> None:
    """It polls beside functions that poll, but not without traffic or while they sleep."""
    shares = {(POLLING, 0.0): 3, (POLLING, 0.1): 99, (SLEEPING, 0.1): 50}
    rows = [
        row_of("light", policy, load, [(8.0, [{policy: window(10, ms), POLLING: window(10, ms)}])])
        for (policy, load), ms in shares.items()
    ]
    assert took_from_platform(rows) is None
    spoiled = row_of("light", POLLING, 0.5, [(8.0, [{POLLING: window(10, 60)}])])
    assert "up to 40%" in (took_from_platform([*rows, spoiled]) or "")


def _state(stat: Path) -> str:
    return stat.read_text().rpartition(")")[2].split()[0]


def test_a_process_computes_only_in_its_own_windows() -> None:
    with _computing(NICE_0, max(os.sched_getaffinity(0))) as pid:
        stat = Path(f"/proc/{pid}/stat")
        turns = _Turns({NICE_0: pid})
        turns.begin(ALONE)
        assert wait_until(lambda: _state(stat) == "T")
        before = _run_ns(pid)
        time.sleep(0.05)
        assert _run_ns(pid) == before
        turns.begin(NICE_0)
        assert turns.running
        since = turns.running[2]
        assert wait_until(lambda: _run_ns(pid) > since)
        turns.end()
        assert list(turns.shares) == [NICE_0]
        assert 0 < turns.shares[NICE_0][0] <= 1
        assert wait_until(lambda: _state(stat) == "T")
    assert not stat.exists()


def test_the_picture_has_two_plots_for_each_chain(tmp_path: Path) -> None:
    curve = [(load, load, 0.5, 10.0 if load else None, 90.0 if load else None) for load in LOADS]
    chains = {chain: {POLLING: curve, SLEEPING: curve} for chain in ("light", "medium")}
    file = tmp_path / "load.svg"
    curves.load(chains, file)
    text = file.read_text()
    for chain in chains:
        for what in ("CPU", "latency"):
            assert f"{chain}: {what} over load" in text


def test_docs_say_what_the_results_say() -> None:
    kept = Kept.model_validate_json(KEPT.read_text())
    told = ""
    for document in DOCUMENTS:
        text = document.read_text()
        assert renewed(text, kept) == text, document
        told += text
    for chain in CHAINS:
        assert f"<!-- load {chain} -->" in told
    assert kept.result.settings.runs >= 5

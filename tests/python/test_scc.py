"""`unis bench scc`: rows, claims and what stands of the paper."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from evaluation.app import app
from evaluation.scc import figures, outside, paper
from evaluation.scc.arms import BLOCKING, DEFAULT, HAND_OVER, ORDERS, SLEEPING, SccArm, policy_arms
from evaluation.scc.chains import ChainSpec
from evaluation.scc.claims import Kept, accounts_claim, claims, judge
from evaluation.scc.experiments import (
    EXPERIMENTS,
    Measurements,
    SccBench,
    SccSettings,
    kernel_settings,
    order_trouble,
)
from evaluation.scc.outside import SchedTimes, schedstat
from evaluation.scc.results import results_of
from evaluation.scc.rows import Load, SccRow, fits, joined, line, ratios, row_of
from evaluation.scc.windows import SccRounds, SccWindow
from unis.errors import UnisError
from unis.measure.paired import Ratio
from unis.measure.summary import MachineSummary
from unis.plan.machine import Machine
from unis.v1 import engine_pb2 as pb
from unis.v1.common_pb2 import LatencyHistogram

NUMBERS = st.floats(-1e6, 1e6)
HERE = MachineSummary(cpu_model="a CPU", cpus=2, kernel="6.18", dpdk="22.11")
RATIOS = st.tuples(*[st.floats(1e-3, 1e3)] * 3).map(sorted).map(
    lambda three: Ratio(lo=three[0], median=three[1], hi=three[2])
)  # fmt: skip


def window(kpps: float, us: float | None, *, run: float = 1.0, delay: float = 0.0) -> SccWindow:
    """Of a second; all its packets took `us`."""
    latency = LatencyHistogram()
    if us is not None:
        latency = LatencyHistogram(value_ns=[round(1000 * us)], count=[1000])
    reply = pb.MeasureReply(
        window_ns=1_000_000_000, delivered=round(1000 * kpps), offered=round(2000 * kpps),
        latency=latency,
    )  # fmt: skip
    return SccWindow(reply, SchedTimes(run, delay, 10.0), ("other",))


def rounds_of(**arms: list[SccWindow]) -> SccRounds:
    names = {"polling": DEFAULT.name, "blocking": BLOCKING.name, "handover": HAND_OVER.name}
    count = len(next(iter(arms.values())))
    return [{names[arm]: windows[at] for arm, windows in arms.items()} for at in range(count)]


def a_row(arm: SccArm = HAND_OVER, load: Load = "overload", **more: object) -> SccRow:
    rounds = rounds_of(
        polling=[window(10, 40_000)] * 5,
        blocking=[window(50, 90)] * 5,
        handover=[window(100, 20)] * 5,
    )
    if arm.order:
        rounds = [{each.name: window(10, 20) for each in ORDERS}] * 5
    row = row_of("policy", ChainSpec(4), arm, load, rounds)
    return row.model_copy(update=more)


# ------------------------------------------------------------------ rows


def test_a_row_compares_windows_of_one_round() -> None:
    rounds = rounds_of(
        polling=[window(10, 1000), window(20, 2000), window(5, None)],
        handover=[window(100, 10), window(100, 10), window(100, 10)],
    )
    row = row_of("policy", ChainSpec(4, batch=8), HAND_OVER, "half", rounds)
    assert row.kpps == pytest.approx(100)
    assert row.offered_kpps == pytest.approx(200)
    assert row.latency_us["p50"] == pytest.approx(10)
    kpps, p50 = row.ratio_to_default["kpps"], row.ratio_to_default["p50"]
    assert kpps
    assert (kpps.median, kpps.lo, kpps.hi) == pytest.approx((10, 5, 20))
    assert p50  # of the two rounds in which both had packets
    assert (p50.lo, p50.hi) == pytest.approx((0.005, 0.01))
    assert row.ratio_to_blocking == {"kpps": None, "p50": None}
    lower = row.times_lower["default"]
    assert lower
    assert (lower.lo, lower.hi) == pytest.approx((100, 200))
    assert row.times_lower["blocking"] is None
    assert (row.length, row.batch, row.policy, row.rounds) == (4, 8, "hand-over", 3)
    named = {
        "experiment", "link", "driver", "length", "batch", "policy", "quantum_ms", "order", "kpps",
        "latency_us", "ratio_to_default", "paper", "verdict",
    }  # fmt: skip
    assert named <= {*row.model_dump()}
    assert {"p5", "p50", "p95", "p99"} <= {*row.latency_us}


def test_the_base_has_no_ratio_to_itself_and_a_row_without_packets_no_latency() -> None:
    rounds = rounds_of(polling=[window(0, None)] * 2, handover=[window(5, 10)] * 2)
    row = row_of("policy", ChainSpec(1), DEFAULT, "half", rounds)
    assert row.ratio_to_default == {"kpps": None, "p50": None}
    assert row.latency_us["p50"] is None
    other = row_of("policy", ChainSpec(1), HAND_OVER, "half", rounds)
    assert other.ratio_to_default == {"kpps": None, "p50": None}  # of what passed nothing


@given(st.lists(st.tuples(st.floats(1, 1e3), st.floats(1, 1e3)), min_size=1, max_size=9))
def test_ratios_of_two_arms_are_inverse(windows: list[tuple[float, float]]) -> None:
    rounds = rounds_of(
        polling=[window(one, one) for one, _ in windows],
        handover=[window(other, other) for _, other in windows],
    )
    there = ratios(rounds, HAND_OVER.name, DEFAULT.name)["kpps"]
    back = ratios(rounds, DEFAULT.name, HAND_OVER.name)["kpps"]
    assert there
    assert back
    assert there.lo <= there.median <= there.hi
    if len(windows) % 2:
        assert there.median * back.median == pytest.approx(1, rel=0.01)


def test_chains_of_one_arm_are_laid_side_by_side() -> None:
    parts = [(name, rounds_of(blocking=[window(at, at)] * 2)) for name, at in (("a", 1), ("b", 9))]
    rounds = joined(parts, BLOCKING)
    assert [sorted(windows) for windows in rounds] == [["a", "b"]] * 2
    spec = ChainSpec(1, batch=8)
    row = row_of(
        "batch", spec, BLOCKING, "half", rounds + rounds, key="b", default="a", bring_ups=2
    )
    assert row.ratio_to_default["p50"]
    assert row.ratio_to_default["p50"].median == pytest.approx(9)
    assert (row.rounds, row.bring_ups, row.default) == (4, 2, "a")


def test_contention_is_of_all_windows_together() -> None:
    rounds = rounds_of(polling=[window(1, 1, run=1, delay=3), window(1, 1, run=3, delay=5)])
    row = row_of("policy", ChainSpec(2), DEFAULT, "half", rounds)
    assert row.contention == pytest.approx(2)
    assert row.wait == pytest.approx(4)  # (20 - 4) ÷ 4
    still = row_of("x", ChainSpec(1), DEFAULT, "half", rounds_of(polling=[window(1, 1, run=0)]))
    assert still.contention is None


@given(st.integers(0, 2**60), st.integers(0, 2**60), st.integers(0, 2**60))
def test_schedstat_is_read_as_the_kernel_writes_it(run: int, delay: int, turns: int) -> None:
    assert schedstat(f"{run} {delay} {turns}\n") == (run, delay)


@given(NUMBERS, NUMBERS, st.lists(st.integers(1, 8), min_size=2, max_size=8, unique=True))
def test_a_line_is_found_again(slope: float, intercept: float, xs: list[int]) -> None:
    found = line([(x, slope * x + intercept) for x in xs])
    assert found
    assert [*found] == pytest.approx([slope, intercept], rel=1e-6, abs=1e-3)
    assert line([(xs[0], 1.0), (xs[0], 2.0)]) is None


def test_latency_over_length_stands_beside_the_papers() -> None:
    rows = [
        a_row(DEFAULT, length=length, latency_us={"p50": 1000.0 * length + 50})
        for length in (1, 2, 4, 8)
    ]
    rows += [a_row(HAND_OVER, length=1), a_row(HAND_OVER, length=2)]  # too few
    (fit,) = fits(rows, paper.slope)
    assert (fit.slope_us, fit.intercept_us) == pytest.approx((1000, 50))
    assert fit.paper
    assert fit.paper.low == 1335


# ------------------------------------------------------------------ claims


@given(RATIOS, st.floats(1e-3, 1e3))
def test_a_verdict_follows_the_interval(ratio: Ratio, least: float) -> None:
    verdict, why = judge(ratio, least)
    assert (verdict == "holds") == (ratio.lo >= least)
    assert (verdict == "does not hold") == (ratio.hi < least)
    assert bool(why) == (verdict != "holds")
    assert judge(None, least)[0] == "not measured"


def test_claims_are_judged_by_their_rows_and_rows_say_so() -> None:
    rows = [a_row(DEFAULT), a_row(), a_row(load="half"), a_row(length=8, batch=1)]
    found = {claim.claim: claim for claim in claims(rows, {"batch": "no time"})}
    told = [claim for text, claim in found.items() if "4 functions" in text]
    assert [claim.verdict for claim in told] == ["holds", "holds", "holds", "holds"]
    assert [claim.at_least for claim in told] == [8, 1.7, 500, 1.5]
    assert told[2].ratio
    assert told[2].ratio.median == pytest.approx(2000)  # 40 ms by 20 µs
    assert [row.verdict for row in rows] == [None, "holds; holds", "holds; holds", None]
    assert all(
        claim.verdict == "not measured" for text, claim in found.items() if "8 functions" in text
    )
    assert {claim.why for claim in found.values() if claim.experiment == "batch"} == {"no time"}


def kept(**more: object) -> Kept:
    account = {
        "chain": "c", "offered": 10, "delivered": 8, "dropped_on_links": 2, "dropped": 0,
        "in_flight": 0, "unaccounted": 0, "exact": True, "doubt": "",
    }  # fmt: skip
    return Kept.model_validate({**account, **more})


def test_every_account_must_be_whole() -> None:
    assert accounts_claim([kept(), kept()]).verdict == "holds"
    missing = accounts_claim([kept(), kept(chain="the one", unaccounted=1)])
    assert (missing.verdict, missing.why) == ("does not hold", "packets are missing: the one")
    assert accounts_claim([kept(exact=False)]).verdict == "does not hold"
    assert accounts_claim([]).verdict == "not measured"


def test_an_order_that_was_another_is_told() -> None:
    def trouble(chain: float | None, reverse: float | None) -> str | None:
        rows = [a_row(arm) for arm in ORDERS]
        rows[0].out_of_order, rows[1].out_of_order = chain, reverse
        return order_trouble(*rows)

    assert trouble(None, None) is None
    assert trouble(0.01, 0.9) is None
    assert trouble(0.5, 0.9) == "50% of the switches left the order of the chain"
    assert trouble(0.0, 0.2) == "only 20% of the switches were reverse"
    lower = {"default": Ratio(median=3, lo=2.8, hi=3.2), "blocking": None}
    rows = [a_row(ORDERS[0], experiment="order", length=8, times_lower=lower)]
    for left_out, verdict in (({}, "holds"), ({"order": "another"}, "not measured")):
        assert [each.verdict for each in claims(rows, left_out) if each.experiment == "order"] == [
            verdict
        ]


# ------------------------------------------------------------------ the paper


def test_the_papers_tables_are_those_of_its_pages() -> None:
    data = paper.paper()
    assert {remark["experiment"] for remark in data["remark"]} <= {*EXPERIMENTS}
    assert data["table7"]["32"] == 84.20
    lengths = {"1", "2", "4", "8"}
    assert all({*column} == lengths for column in data["table8"].values())
    fit = paper.latency_of_chain("veth", "default", 8)
    assert str(fit) == "11106 µs (Fig. 10)"
    assert paper.latency_of_chain("veth", "default", 1) is None  # fitted from 2 on
    assert paper.latency_of_chain("ovs", "default", 4) is None
    assert str(paper.slope("ovs", "default")) == "1769 µs (Fig. 9)"
    assert str(paper.latency_of_batch(1)) == "270–310 µs (Fig. 8)"
    assert paper.latency_of_batch(256) is None
    assert str(paper.contention("ovs", "batch", None, 2)) == "4.34 (Table 8)"
    assert str(paper.contention("veth", "batch", 32, 8)) == "2.98 (Table 8)"
    assert paper.contention("veth", "", 32, 8) is None
    assert "32 % less" in paper.remarks("contention")[0]


# ------------------------------------------------------------------ arms, chains, steps


@pytest.mark.parametrize("length", range(1, 9))
@pytest.mark.parametrize("arm", policy_arms(quick=False, may_wait=True), ids=str)
def test_a_window_holds_turns_of_every_function(arm: SccArm, length: int) -> None:
    span = arm.span(length, 0.25, 0.1)
    slice_s = (arm.quantum_ms or (100 if arm.policy == "rr" else 4)) / 1000
    if arm.mode == "polling" and arm.policy != "hand-over" and length > 1:
        assert span.window >= 3 * length * slice_s - 1e-9
        assert span.settle >= 2 * length * slice_s - 1e-9
    assert span.window >= 0.25


def test_arms_have_names_of_their_own() -> None:
    every = [*policy_arms(quick=False, may_wait=True), *ORDERS]
    assert len({arm.name for arm in every}) == len(every)
    assert {DEFAULT, BLOCKING, HAND_OVER, SLEEPING} <= {*policy_arms(quick=True, may_wait=True)}
    assert not any(arm.mode == "blocking" for arm in policy_arms(quick=False, may_wait=False))
    assert not any(arm.policy == "fifo" and arm.mode == "polling" for arm in every)


@pytest.mark.parametrize(
    "spec",
    [
        ChainSpec(3),
        ChainSpec(1, batch=1, calls="single", size=1500),
        ChainSpec(4, driver="af_packet", batch=None, slots=4096),
        ChainSpec(2, link="bridge", driver="af_packet", batch=None),
    ],
)
def test_chains_are_valid_chain_files(spec: ChainSpec) -> None:
    file = spec.loaded(1).file
    assert len(file.functions) == spec.length
    assert {link.kind for link in file.links} == {spec.link}
    assert [link.wait for link in file.links] == [spec.may_wait] * (spec.length + 1)
    assert len({spec.name, ChainSpec(3, batch=8).name}) == 2


def test_steps_are_those_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def steps(**settings: object) -> list[str]:
        asked = SccSettings(quick=True, **settings)  # type: ignore[arg-type]
        return [step.experiment for step in SccBench(asked, Machine.this(), print).steps]

    assert steps(only=("contention",), lengths=(1, 4)) == ["policy"] * 2
    assert steps(only=("queue", "order")) == ["order", "queue", "queue", "queue"]
    monkeypatch.setattr("unis.links.KINDS", {})
    bench = SccBench(SccSettings(quick=True, only=("ovs", "testpmd")), Machine.this(), print)
    assert bench.steps == []
    assert bench.found.left_out["ovs"] == "this UNiS has no links of kind ovs"


def test_a_quick_evaluation_is_expected_to_end_in_time() -> None:
    every = SccBench(SccSettings(quick=True), Machine.this(), print)
    assert every.seconds < 12 * 60
    assert SccBench(SccSettings(quick=False), Machine.this(), print).seconds > every.seconds


def test_a_step_that_fails_is_told_and_the_others_go_on() -> None:
    def fails() -> list[SccRow]:
        raise UnisError("no such thing")

    told: list[str] = []
    bench = SccBench(SccSettings(quick=True, only=("queue",)), Machine.this(), told.append)
    runs = [fails, lambda: [a_row()], lambda: [a_row()]]
    bench.steps = [replace(bench.steps[0], run=run, title="here") for run in runs]
    *_, found = bench.measure()
    assert len(found.rows) == 2
    assert found.left_out["queue"] == "no such thing"
    assert found.failed == ["queue, here: no such thing"]
    assert any(line.startswith("2 of 3") for line in told)


def test_results_have_everything_and_pictures(tmp_path: Path) -> None:
    rows = [
        a_row(arm, load, experiment=experiment, length=length, slots=256)
        for experiment in EXPERIMENTS
        for load in ("half", "overload")
        for length in (2, 4, 8)
        for arm in (DEFAULT, BLOCKING, HAND_OVER)
    ]
    found = Measurements(rows, [kept()], {"ovs": "why"}, [])
    results = results_of(found, SccSettings(quick=True), HERE, "abc")
    data = json.loads(results.model_dump_json())
    assert len(data["rows"]) == len(rows)
    assert data["left_out"]["ovs"] == "why"
    assert data["kernel_settings"] == {
        "other, polling": ["other"], "other, blocking": ["other"], "hand-over, polling": ["other"],
    }  # fmt: skip
    assert all(row.verdict is None for row in found.rows)  # which are judged again later
    made = figures.draw(results.rows, tmp_path)
    assert [file.name for file in made] == [f"{name}.png" for name in figures._PLOTS]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in made)
    assert kernel_settings([]) == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "fig9"], "there is no 'fig9'"),
        (["--lengths", "0"], "write 1 to 8"),
        (["--rounds", "1"], "x>=2"),
    ],
)
def test_bad_input_is_told(words: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["scc", *words])
    assert result.exit_code == 2
    assert said in result.output


# ------------------------------------------------------------------ from outside


@pytest.fixture
def packet_socket() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as one:
        yield one


@pytest.mark.system
def test_sockets_of_others_are_told_to_wait(packet_socket: socket.socket) -> None:
    with outside.packet_sockets([os.getpid()]) as sockets:
        mine = [each for each in sockets if _inode(each) == _inode(packet_socket)]
        assert mine
        outside.let_wait(mine, waits=False)
        assert not os.get_blocking(packet_socket.fileno())
        outside.let_wait(mine, waits=True)
        assert os.get_blocking(packet_socket.fileno())
    assert packet_socket.fileno() >= 0  # only the duplicates are closed


def _inode(one: socket.socket) -> int:
    return os.fstat(one.fileno()).st_ino


@pytest.mark.system
def test_the_kernel_says_how_it_runs_a_thread() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            os.sched_setscheduler(process.pid, os.SCHED_BATCH, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, process.pid, 5)
            told = outside.kernel_class(process.pid)
            assert (told.policy, told.nice, told.priority) == ("batch", 5, 0)
            os.sched_setscheduler(process.pid, os.SCHED_RR, os.sched_param(3))
            told = outside.kernel_class(process.pid)
            assert (told.policy, told.priority) == ("rr", 3)
            assert str(told).startswith("rr, priority 3, slice ")
            assert outside.sched_ns(process.pid, process.pid)[0] > 0
        finally:
            process.kill()


_YIELDS = """
import mmap, os, sys
at, cpu, log = int(sys.argv[1]), int(sys.argv[2]), open(sys.argv[3], "r+b")
turns = mmap.mmap(log.fileno(), 0)
os.sched_setaffinity(0, {cpu})
os.kill(os.getpid(), 19)
for _ in range(400_000):
    count = int.from_bytes(turns[:8], "little")
    turns[8 + count % 8] = at
    turns[:8] = (count + 1).to_bytes(8, "little")
    os.sched_yield()
"""


@pytest.mark.system
def test_real_time_threads_queue_up_in_the_order_that_is_asked(tmp_path: Path) -> None:
    """Four take turns on a CPU; the last eight turns are written down."""
    log = tmp_path / "turns"
    log.write_bytes(bytes(16))
    cpu = max(os.sched_getaffinity(0))
    words = [sys.executable, "-c", _YIELDS]
    processes = [subprocess.Popen([*words, str(at), str(cpu), str(log)]) for at in range(4)]
    try:
        for process in processes:
            os.waitpid(process.pid, os.WUNTRACED)
            os.sched_setscheduler(process.pid, os.SCHED_FIFO, os.sched_param(2))
        for process in processes:
            os.kill(process.pid, 18)
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, before - {cpu} or before)
        try:
            outside.queue_up([process.pid for process in processes[::-1]])
            time.sleep(0.002)
            seen = log.read_bytes()
        finally:
            os.sched_setaffinity(0, before)
        count = int.from_bytes(seen[:8], "little")
        last = [seen[8 + (count - back) % 8] for back in range(1, 9)]
        steps = [(one - other) % 4 for one, other in zip(last[1:], last[:-1], strict=True)]
        assert steps.count(1) >= 5  # backwards in time the numbers grow: the order is reverse
    finally:
        for process in processes:
            process.kill()
            process.wait()

"""`unis bench scc`: rows, claims and what stands of the paper."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from evaluation.app import app
from evaluation.commands import scc as command
from evaluation.scc import figures, paper
from evaluation.scc.arms import (
    BATCH_800,
    BLOCKING,
    DEFAULT,
    HAND_OVER,
    ORDERS,
    SLEEPING,
    SccArm,
    policy_arms,
)
from evaluation.scc.chains import ChainSpec, chain_of_testpmd
from evaluation.scc.claims import NOT_YET, Kept, SccClaim, accounts_claim, claims, judge, step_name
from evaluation.scc.experiments import (
    EXPERIMENTS,
    Measurements,
    SccBench,
    SccSettings,
    kernel_settings,
    order_trouble,
    paper_of,
    paper_of_batch,
)
from evaluation.scc.outside import SchedTimes
from evaluation.scc.results import results_of
from evaluation.scc.rows import (
    MIN_ROUNDS,
    Load,
    SccRatio,
    SccRow,
    arm_of,
    fits,
    joined,
    line,
    paper_name,
    ratios,
    row_of,
    spec_of,
)
from evaluation.scc.windows import SccRounds, SccWindow
from unis.chain.model import PcapSource
from unis.errors import UnisError
from unis.measure.paired import interval_of_blocks
from unis.measure.summary import MachineSummary
from unis.plan.machine import Machine
from unis.v1 import engine_pb2 as pb
from unis.v1.common_pb2 import LatencyHistogram

NUMBERS = st.floats(-1e6, 1e6)
HERE = MachineSummary(cpu_model="a CPU", cpus=2, kernel="6.18", dpdk="22.11")
RATIOS = st.tuples(*[st.floats(1e-3, 1e3)] * 3).map(sorted).map(
    lambda three: SccRatio(lo=three[0], median=three[1], hi=three[2], rounds=6, bring_ups=1)
)  # fmt: skip


def window(
    kpps: float,
    us: float | None,
    *,
    offered: float | None = None,
    run: float = 1.0,
    delay: float = 0.0,
    block: int = 0,
) -> SccWindow:
    """Of a second; all its packets took `us`. `offered`: kpps, by default what passed."""
    latency = LatencyHistogram()
    if us is not None:
        latency = LatencyHistogram(value_ns=[round(1000 * us)], count=[1000])
    reply = pb.MeasureReply(
        window_ns=1_000_000_000, delivered=round(1000 * kpps),
        offered=round(1000 * (kpps if offered is None else offered)), latency=latency,
    )  # fmt: skip
    return SccWindow(reply, SchedTimes(run, delay, 10.0), ("other",), block=block)


def rounds_of(**arms: list[SccWindow]) -> SccRounds:
    names = {"polling": DEFAULT.name, "blocking": BLOCKING.name, "handover": HAND_OVER.name}
    count = len(next(iter(arms.values())))
    return [{names[arm]: windows[at] for arm, windows in arms.items()} for at in range(count)]


def a_row(arm: SccArm = HAND_OVER, load: Load = "overload", **more: object) -> SccRow:
    rounds = rounds_of(
        polling=[window(10, 40_000)] * 6,
        blocking=[window(50, 90)] * 6,
        handover=[window(100, 20)] * 6,
    )
    if arm.order:
        rounds = [{each.name: window(10, 20) for each in ORDERS}] * 6
    rounds = [{**windows, arm.name: windows.get(arm.name, window(10, 20))} for windows in rounds]
    row = row_of("policy", ChainSpec(4), arm, load, rounds)
    return row.model_copy(update=more)


# ------------------------------------------------------------------ rows


def test_a_row_compares_windows_of_one_round() -> None:
    rounds = rounds_of(
        polling=[window(10, 1000), window(20, 2000), window(5, None)],
        handover=[window(100, 10, offered=200)] * 3,
    )
    row = row_of("policy", ChainSpec(4, batch=8), HAND_OVER, "half", rounds)
    assert row.kpps == pytest.approx(100)
    assert row.offered_kpps == pytest.approx(200)
    assert row.passed == pytest.approx(0.5)
    assert row.saturated
    assert row.base_passed == {"default": pytest.approx(1), "blocking": None}
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
    def of_block(block: int) -> SccRounds:
        return joined(
            [
                (name, rounds_of(blocking=[window(at, at, block=block)] * 2))
                for name, at in (("a", 1), ("b", 9))
            ],
            BLOCKING,
        )

    assert [sorted(windows) for windows in of_block(0)] == [["a", "b"]] * 2
    spec = ChainSpec(1, batch=8)
    rounds = of_block(0) + of_block(1)
    row = row_of("batch", spec, BLOCKING, "half", rounds, key="b", default="a")
    assert row.ratio_to_default["p50"]
    assert row.ratio_to_default["p50"].median == pytest.approx(9)
    assert (row.rounds, row.bring_ups, row.default) == (4, 2, "a")


def test_windows_of_one_bring_up_are_one_sample_also_where_some_are_missing() -> None:
    """The last window of the second bring-up had no packets."""
    blocks: list[list[float | None]] = [[10.0, 11.0], [20.0, None], [40.0, 41.0]]
    rounds = rounds_of(
        polling=[window(1, 1, block=at) for at, block in enumerate(blocks) for _ in block],
        handover=[window(1, us, block=at) for at, block in enumerate(blocks) for us in block],
    )
    found = ratios(rounds, HAND_OVER.name, DEFAULT.name)["p50"]
    assert found
    assert (found.rounds, found.bring_ups) == (5, 3)
    assert (found.lo, found.hi) == pytest.approx(interval_of_blocks([[10, 11], [20], [40, 41]]))


def test_contention_is_of_all_windows_together() -> None:
    rounds = rounds_of(polling=[window(1, 1, run=1, delay=3), window(1, 1, run=3, delay=5)])
    row = row_of("policy", ChainSpec(2), DEFAULT, "half", rounds)
    assert row.contention == pytest.approx(2)
    assert row.wait == pytest.approx(4)  # (20 - 4) ÷ 4
    still = row_of("x", ChainSpec(1), DEFAULT, "half", rounds_of(polling=[window(1, 1, run=0)]))
    assert still.contention is None


@given(NUMBERS, NUMBERS, st.lists(st.integers(1, 8), min_size=2, max_size=8, unique=True))
def test_a_line_is_found_again(slope: float, intercept: float, xs: list[int]) -> None:
    found = line([(x, slope * x + intercept) for x in xs])
    assert found
    assert [*found] == pytest.approx([slope, intercept], rel=1e-6, abs=1e-3)
    assert line([(xs[0], 1.0), (xs[0], 2.0)]) is None


def test_latency_over_length_stands_beside_the_papers() -> None:
    def rows(load: Load, batch: int) -> list[SccRow]:
        return [
            a_row(DEFAULT, load, length=at, batch=batch, latency_us={"p50": 1000.0 * at + 50})
            for at in (1, 2, 4, 8)
        ]

    few = [a_row(HAND_OVER, length=1), a_row(HAND_OVER, length=2)]
    (fit,) = fits([*rows("overload", 1), *few])
    assert (fit.slope_us, fit.intercept_us) == pytest.approx((1000, 50))
    assert fit.paper
    assert fit.paper.low == 1335
    assert [fit.paper for fit in fits([*rows("half", 1), *rows("overload", 32)])] == [None, None]


# ------------------------------------------------------------------ claims


@given(RATIOS, st.floats(1e-3, 1e3))
def test_a_verdict_follows_the_interval(ratio: SccRatio, least: float) -> None:
    verdict, why = judge(ratio, least)
    assert (verdict == "holds") == (ratio.lo >= least)
    assert (verdict == "does not hold") == (ratio.hi < least)
    assert bool(why) == (verdict != "holds")
    assert judge(None, least)[0] == "not measured"
    few = ratio.model_copy(update={"rounds": 5})
    assert judge(few, least) == ("not measured", "too few rounds: 5 of 6")


def test_an_interval_of_few_rounds_says_how_sure_it_is() -> None:
    def cells(rounds: int, bring_ups: int = 1) -> tuple[str, str]:
        return command._ratio_cells(
            SccRatio(median=2, lo=1, hi=3, rounds=rounds, bring_ups=bring_ups)
        )

    assert cells(2) == ("2.00", "1.00–3.00 (of 50%)")
    assert cells(MIN_ROUNDS) == cells(4, bring_ups=2) == ("2.00", "1.00–3.00")
    assert SccSettings(quick=True).rounds >= MIN_ROUNDS


BATCH_OUT = {"batch, 64 B, batch 1 to 256": "no time"}


def test_claims_are_judged_by_their_rows_and_rows_say_so() -> None:
    rows = [a_row(DEFAULT), a_row(), a_row(load="half"), a_row(length=8, batch=1)]
    found = {claim.claim: claim for claim in claims(rows, BATCH_OUT, {})}
    told = [claim for text, claim in found.items() if "load, 4 functions" in text]
    assert [claim.verdict for claim in told] == ["holds", "holds", "holds", "holds"]
    assert [claim.at_least for claim in told] == [8, 1.7, 500, 1.5]
    assert told[2].ratio
    assert told[2].ratio.median == pytest.approx(2000)  # 40 ms by 20 µs
    assert [row.verdict for row in rows] == [None, "holds; holds", "holds; holds", None]
    assert all(
        claim.verdict == "not measured" for text, claim in found.items() if "8 functions" in text
    )
    assert {claim.why for claim in found.values() if claim.experiment == "batch"} == {"no time"}


def test_a_step_that_fails_voids_its_own_claims_alone() -> None:
    left_out = {
        step_name("policy", ChainSpec(3).name): "another step",
        step_name("policy", ChainSpec(8).name): "no memory",
        step_name("testpmd", chain_of_testpmd("xdp").name): "no AF_XDP",
    }
    rows = [
        a_row(),
        a_row(experiment="testpmd", program="testpmd", driver="af_packet", batch=None),
    ]
    found = claims(rows, left_out, {})

    def told(part: str) -> list[tuple[str, str]]:
        return [(each.verdict, each.why) for each in found if part in each.claim]

    assert told("overload, 4 functions") == [("holds", "")] * 2
    assert told("overload, 8 functions") == [("not measured", "no memory")] * 2
    assert told("on af_packet") == [("holds", "")]
    assert told("on af_xdp") == [("not measured", "no AF_XDP")]


def test_a_verdict_says_whose_queues_were_full() -> None:
    rounds = rounds_of(
        polling=[window(10, 40_000, offered=40)] * 6,
        blocking=[window(40, 90)] * 6,
        handover=[window(40, 20)] * 6,
    )

    def told(load: Load) -> list[SccClaim]:
        row = row_of("policy", ChainSpec(4), HAND_OVER, load, rounds)
        return [each for each in claims([row], {}, {}) if each.ratio]

    by_polling, by_blocking = told("half")
    assert str(by_polling) == (
        "holds (`other, polling` passed 25% of this load: that latency is of full queues)"
    )
    assert str(by_blocking) == "holds"
    assert [each.note for each in told("overload")] == ["", ""]  # where all queues are full
    polling = row_of("policy", ChainSpec(4), DEFAULT, "half", rounds)
    assert command._passed(polling) == "10.0 ÷ 40.0, 25%, saturated"
    handover = row_of("policy", ChainSpec(4), HAND_OVER, "half", rounds)
    assert command._passed(handover) == "40.0 ÷ 40.0, 100%"


def kept(**more: object) -> Kept:
    account = {
        "chain": "c", "offered": 10, "delivered": 8, "dropped_on_links": 2, "dropped": 0,
        "by_functions": 0, "in_flight": 0, "unaccounted": 0, "exact": True, "doubt": "",
    }  # fmt: skip
    return Kept.model_validate({**account, **more})


def test_every_account_must_be_whole() -> None:
    assert accounts_claim([kept(), kept()]).verdict == "holds"
    missing = accounts_claim([kept(), kept(chain="the one", unaccounted=1)])
    assert (missing.verdict, missing.why) == ("does not hold", "packets are missing: the one")
    unsure = kept(exact=False, unaccounted=3, doubt="a counter was lost")
    doubted = accounts_claim([kept(), unsure])
    assert str(doubted) == "not measured: a counter was lost"
    both = accounts_claim([kept(chain="the one", unaccounted=1), unsure])
    assert (both.verdict, both.why) == ("does not hold", "packets are missing: the one")
    assert accounts_claim([]).verdict == "not measured"
    assumed = accounts_claim([kept(dropped=3, by_functions=2), kept(dropped=1, by_functions=1)])
    assert assumed.verdict == "holds"
    assert assumed.note.startswith("3 packets by functions: nobody counted them")
    assert accounts_claim([kept()]).note == ""


def test_an_order_that_was_another_is_told() -> None:
    def trouble(chain: float | None, reverse: float | None) -> str | None:
        rows = [a_row(arm) for arm in ORDERS]
        rows[0].out_of_order, rows[1].out_of_order = chain, reverse
        return order_trouble(*rows)

    assert trouble(None, None) is None
    assert trouble(0.01, 0.9) is None
    assert trouble(0.5, 0.9) == "50% of the switches left the order of the chain"
    assert trouble(0.0, 0.2) == "only 20% of the switches were reverse"
    three = SccRatio(median=3, lo=2.8, hi=3.2, rounds=6, bring_ups=1)
    lower = {"default": three, "blocking": None}
    rows = [a_row(ORDERS[0], experiment="order", length=8, times_lower=lower)]
    another = {step_name("order", ChainSpec(8).name): "another"}
    # Where rows exist, another step of the same experiment that failed says nothing of them.
    for left_out, doubted, verdict in (
        ({}, {}, "holds"),
        (another, {}, "holds"),
        ({}, another, "not measured"),
    ):
        found = claims(rows, left_out, doubted)
        assert [each.verdict for each in found if each.experiment == "order"] == [verdict]


# ------------------------------------------------------------------ the paper


def test_the_papers_tables_are_those_of_its_pages() -> None:
    data = paper.paper()
    assert {remark["experiment"] for remark in data["remark"]} <= {*EXPERIMENTS}
    assert data["table7"]["32"] == 84.20
    lengths = {"1", "2", "4", "8"}
    assert all({*column} == lengths for column in data["table8"].values())
    fit = paper.latency_of_chain("veth", "default", 8)
    assert str(fit) == "11106 µs (Fig. 10, its line)"
    assert paper.latency_of_chain("veth", "default", 1) is None  # fitted from 2 on
    assert paper.latency_of_chain("ovs", "default", 4) is None
    assert str(paper.slope("ovs", "default")) == "1769 µs (Fig. 9)"
    assert str(paper.latency_of_batch(1, 64)) == "270–310 µs (Fig. 8)"
    assert str(paper.latency_of_batch(256, 64)) == "155 µs (Table 7, calculated)"
    assert paper.latency_of_batch(256, 1500) is None
    assert str(paper.contention("ovs", "batch_800", 2)) == "4.34 (Table 8)"
    assert str(paper.contention("veth", "batch_800_mux32", 8)) == "2.98 (Table 8)"
    assert paper.contention("veth", "", 8) is None
    assert "32 % less" in paper.remarks("contention")[0]


def test_figures_of_the_paper_stand_beside_its_own_arms_alone() -> None:
    one, many = ChainSpec(4, batch=1), ChainSpec(4, batch=32)
    assert paper_of(one, DEFAULT, "overload")
    assert paper_of(one, BATCH_800, "overload")
    for spec, arm, load in (
        (one, DEFAULT, "half"),
        (one, DEFAULT, "light"),
        (one, SccArm("batch", "polling"), "overload"),  # nice 0
        (one, BLOCKING, "overload"),
        (many, DEFAULT, "overload"),
        (many, BATCH_800, "overload"),  # in the picture only
    ):
        assert paper_of(spec, arm, load) is None  # type: ignore[arg-type]
    assert paper_name(many, BATCH_800) == "batch_800_mux32"
    assert paper_name(ChainSpec(4, "ovs", batch=1, calls="single"), DEFAULT) == "default"
    assert paper_of_batch(ChainSpec(1, batch=8), DEFAULT)
    assert paper_of_batch(ChainSpec(1, batch=8), HAND_OVER) is None


def test_every_figure_of_the_paper_is_used() -> None:
    """Names in the file are those of arms that are measured, or nothing would show the figure."""
    names = {
        paper_name(ChainSpec(2, batch=batch), SccArm(policy, "polling", None, nice))
        for policy, nice in (("other", None), ("batch", -1), ("batch", -19))
        for batch in (1, 2, 32)
    }
    data = paper.paper()
    assert {*data} >= {"fig8", "fig9", "fig10", "table7", "table8", "remark"}
    assert {*data["fig9"], *data["fig10"]} <= names
    assert {key.split("_", 1)[1] for key in data["table8"]} <= names
    assert all({*fit} <= {"slope", "intercept"} for fit in data["fig9"].values())


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
    assert steps(only=("queue", "order")) == ["order", "queue", "queue"]
    monkeypatch.setattr("unis.links.KINDS", {})
    bench = SccBench(SccSettings(quick=True, only=("ovs", "testpmd")), Machine.this(), print)
    assert bench.steps == []
    assert bench.found.left_out["ovs"] == "this UNiS has no links of kind ovs"


def test_a_quick_evaluation_is_expected_to_end_in_time() -> None:
    every = SccBench(SccSettings(quick=True), Machine.this(), print)
    assert every.seconds < 24 * 60
    assert SccBench(SccSettings(quick=False), Machine.this(), print).seconds > every.seconds


def test_a_step_that_fails_is_told_and_the_others_go_on() -> None:
    def fails() -> list[SccRow]:
        raise UnisError("no such thing")

    told: list[str] = []
    bench = SccBench(SccSettings(quick=True, only=("queue",)), Machine.this(), told.append)
    runs = [fails, lambda: [a_row()], lambda: [a_row()]]
    bench.steps = [
        replace(bench.steps[0], run=run, title=title)
        for run, title in zip(runs, "abc", strict=True)
    ]
    left_out = [dict(found.left_out) for found in bench.measure()]
    assert len(bench.found.rows) == 2
    failed = {"queue, a": "no such thing"}
    # What a command that is ended now would leave behind.
    assert left_out == [{**failed, "queue, c": NOT_YET}, failed, failed]
    assert bench.found.failed == ["queue, a: no such thing"]
    assert any(line.startswith("2 of 3") for line in told)


def test_results_have_everything_and_pictures(tmp_path: Path) -> None:
    rows = [
        a_row(arm, load, experiment=experiment, length=length, slots=256)
        for experiment in EXPERIMENTS
        for load in ("half", "overload")
        for length in (2, 4, 8)
        for arm in (DEFAULT, BLOCKING, HAND_OVER)
    ]
    found = Measurements(rows, [kept()], {"ovs": "why"}, {}, [])
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


class FakeBench:
    """Passes more under blocking each time that it is asked."""

    def __init__(self) -> None:
        self.asked: list[float | None] = []
        self.probed: list[SccArm] = []

    def most_kpps(self, arm: SccArm, *_: float) -> float:
        self.probed.append(arm)
        return 1.0 if arm == DEFAULT else 10.0 * len(self.probed)

    def window(self, *_: object) -> SccWindow:
        return window(1, 1)

    def rounds(
        self, arms: list[SccArm], count: int, _window: float, pps: float | None
    ) -> SccRounds:
        self.asked.append(pps)
        return [{arm.name: window(1, 1) for arm in arms}] * count


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeBench:
    bench = FakeBench()
    monkeypatch.setattr(SccBench, "_on", lambda _self, _spec, look: look(bench))
    return bench


def test_frames_that_are_not_ip_come_of_a_capture_and_have_claims_of_their_own(
    fake: FakeBench,
) -> None:
    spec = ChainSpec(4, frames="local")
    source = spec.loaded(1).file.traffic.source
    assert isinstance(source, PcapSource)
    frame = Path(source.file).read_bytes()[24 + 16 :]
    assert (len(frame) + 4, frame[12:14].hex()) == (spec.size, "88b5")
    four, _ = SccBench(SccSettings(quick=True, only=("frames",)), Machine.this(), print).steps
    rows = four.run()
    assert fake.asked == [None]
    assert {spec_of(row) for row in rows} == {spec}
    told = [claim for claim in claims(rows, {}, {}) if claim.verdict != "not measured"]
    assert [claim.experiment for claim in told] == ["frames", "frames"]


def test_each_block_measures_the_rate_that_saturates_batch_1(fake: FakeBench) -> None:
    bench = SccBench(SccSettings(quick=True, only=("batch",)), Machine.this(), print)
    rows = bench.steps[0].run()
    assert fake.probed == [BLOCKING] * 5
    assert list(dict.fromkeys(fake.asked)) == [10_500, 21_000, 31_500, 42_000, 52_500]
    assert {(row.rounds, row.bring_ups) for row in rows} == {(10, 5)}
    assert {row.passed for row in rows} == {1.0}


def test_policy_has_a_load_that_polling_passes(fake: FakeBench) -> None:
    asked = SccSettings(quick=True, only=("policy",), lengths=(1, 4))
    one, four = SccBench(asked, Machine.this(), print).steps
    assert {row.load for row in one.run()} == {"half", "overload"}
    fake.probed.clear()
    fake.asked.clear()
    rows = [row for row in four.run() if row.experiment == "policy"]
    assert fake.probed == [DEFAULT, BLOCKING]
    assert fake.asked == [500, 10_000, None]  # light, half of what blocking passes, all
    light = [row for row in rows if row.load == "light"]
    assert {arm_of(row) for row in light} == {DEFAULT, BLOCKING, HAND_OVER, SLEEPING}
    assert {spec_of(row) for row in rows} == {ChainSpec(4)}


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

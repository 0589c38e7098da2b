"""`unis bench scc --only profiler`: what it says of results that are made up."""

import inspect
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.caches.geometry import PAPER
from evaluation.scc import paper
from evaluation.scc.arms import BATCH_800, BLOCKING, DEFAULT, HAND_OVER, SccArm
from evaluation.scc.chains import ROUTER, ChainSpec
from evaluation.scc.claims import SccClaim, judge, step_name
from evaluation.scc.experiments import Measurements, SccBench, SccSettings
from evaluation.scc.outside import SchedTimes
from evaluation.scc.profiler import disturb
from evaluation.scc.profiler.claims import (
    EXPERIMENT,
    LENGTHS,
    length_title,
    missing_first,
    profiler_claims,
)
from evaluation.scc.profiler.contexts import CONTEXTS, UserSeen, kernel_row, user_row
from evaluation.scc.profiler.follow import FollowedWindow
from evaluation.scc.profiler.found import LengthRow, ProfilerFound, References
from evaluation.scc.profiler.injections import INJECTIONS, Injection, Pair, injected_row
from evaluation.scc.profiler.kernel_router import frame
from evaluation.scc.profiler.lengths import ProfiledChain, arm_name, profiled, slopes, wait_row
from evaluation.scc.profiler.pictures import draw_profiler
from evaluation.scc.profiler.primitives import level_rows, memory_points, primitive_rows
from evaluation.scc.profiler.steps import PER_SECOND
from evaluation.scc.profiler.tables import print_profiler
from evaluation.scc.results import results_of
from evaluation.scc.rows import SccRatio
from evaluation.scc.windows import SccRounds, SccWindow
from tests.python.test_profile_chain import chain_parts
from unis.cli import profile_chain_command
from unis.errors import UnisError
from unis.measure.primitives import Group, MedianNs, Primitive, Primitives
from unis.measure.summary import MachineSummary
from unis.parts.accounting import BLOCKED, PROCESSING, QUEUEING, SEND
from unis.parts.result import TracingCost, WindowParts
from unis.plan.machine import Machine
from unis.v1 import engine_pb2 as pb
from unis.v1.common_pb2 import LatencyHistogram

HERE = MachineSummary(cpu_model="a CPU", cpus=2, kernel="6.18", dpdk="22.11")
BUSY, SLEEP, HOG, FILTER, STOP = INJECTIONS
VETH = ChainSpec(1)


def window(us: float, *, run: float = 1.0, delay: float = 0.0) -> SccWindow:
    latency = LatencyHistogram(value_ns=[round(1000 * us)], count=[1000])
    reply = pb.MeasureReply(window_ns=1_000_000_000, delivered=1000, offered=1000, latency=latency)
    return SccWindow(reply, SchedTimes(run, delay, 10.0))


def a_length(
    arm: SccArm = BLOCKING,
    length: int = 1,
    residual: float = 0.05,
    *,
    us: float = 10.0,
    throughput: float = 0.98,
    spec: ChainSpec = VETH,
) -> LengthRow:
    parts = chain_parts(residual, length).model_copy(
        update={
            "rounds": 6, "residual_interval": (residual - 0.01, residual + 0.01),
            "median_latency_ns": 1000 * us, "explained_ns": 1000 * us * (1 - residual),
            "tracing_cost": TracingCost(
                latency=1,
                throughput=throughput,
                throughput_interval=(throughput, throughput),
                ns_per_packet=1,
            ),
        }
    )  # fmt: skip
    return LengthRow(arm=arm_name(spec, arm), length=length, profile=parts)


# ------------------------------------------------------------------ verdicts


def a_ratio(low: float, high: float, rounds: int = 6) -> SccRatio:
    return SccRatio(median=(low + high) / 2, lo=low, hi=high, rounds=rounds, bring_ups=1)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.9, 1.1, "holds"),
        (0.85, 1.15, "holds"),
        (0.8, 1.0, "too close to tell"),
        (1.0, 1.2, "too close to tell"),
        (0.5, 1.5, "too close to tell"),
        (0.5, 0.8, "does not hold"),
        (1.2, 1.3, "does not hold"),
    ],
)
def test_a_verdict_of_two_bounds_follows_the_interval(
    low: float, high: float, verdict: str
) -> None:
    assert judge(a_ratio(low, high), 0.85, 1.15)[0] == verdict
    assert judge(a_ratio(low, high, rounds=5), 0.85, 1.15)[0] == "not measured"


@given(st.floats(0, 2), st.floats(0, 2), st.floats(0, 2))
def test_an_upper_bound_is_the_lower_one_turned_round(one: float, other: float, at: float) -> None:
    low, high = sorted((one, other))
    upper = judge(a_ratio(low, high), None, at)[0]
    assert (
        upper == judge(a_ratio(2 - high, 2 - low), 2 - at)[0]
        or abs(at - low) < 1e-9
        or (abs(at - high) < 1e-9)
    )  # where rounding decides


def claims_of(found: ProfilerFound, left_out: dict[str, str] | None = None) -> dict[str, SccClaim]:
    return {claim.claim: claim for claim in profiler_claims(found, left_out or {})}


def test_each_chain_must_be_explained_to_within_its_bound() -> None:
    rows = [a_length(length=1, residual=0.12), a_length(length=4, residual=-0.2),
            a_length(length=8, residual=-0.2)]  # fmt: skip
    why = {step_name(EXPERIMENT, length_title(ChainSpec(2).name)): "no memory"}
    found = claims_of(ProfilerFound(lengths=rows), why)

    def told(length: int) -> tuple[str, str]:
        claim = found[f"veth, other, blocking, length {length}: explained ÷ measured latency"]
        return claim.verdict, claim.why

    assert told(1) == ("holds", "")
    assert told(4) == ("does not hold", "the interval begins above 1.15")
    assert told(8) == ("holds", "")
    assert told(2) == ("not measured", "no memory")
    # Those that fail are told first.
    verdicts = [claim.verdict for claim in profiler_claims(ProfilerFound(lengths=rows), why)]
    assert verdicts == sorted(verdicts, key=lambda verdict: verdict == "holds")


def costs_of(rows: list[LengthRow]) -> dict[str, SccClaim]:
    found = claims_of(ProfilerFound(lengths=rows)).items()
    return {text.split(":")[0]: claim for text, claim in found if "followed" in text}


def test_the_cost_of_following_is_judged_by_link_and_the_worst_is_named() -> None:
    ring = ChainSpec(1, "ring", "", None)
    rows = [
        *(a_length(arm, length, throughput=0.99 + length / 1000)
          for arm in (BLOCKING, DEFAULT, HAND_OVER) for length in LENGTHS),
        *(a_length(HAND_OVER, length, throughput=0.93 - length / 1000, spec=ring)
          for length in LENGTHS),
    ]  # fmt: skip
    found = costs_of(rows)
    # Rings are not hidden behind the many chains that cost nothing.
    assert {link: claim.verdict for link, claim in found.items()} == {
        "veth": "holds", "ring": "does not hold", "memif": "not measured",
    }  # fmt: skip
    assert found["ring"].note == "least: 0.92, ring, hand-over, polling, length 8"
    assert found["ring"].ratio
    assert found["ring"].ratio.bring_ups == 4
    # The interval is over bring-ups: of four, one that costs almost too much leaves it open.
    rows[-4:] = [a_length(HAND_OVER, length, throughput=0.951 if length == 8 else 0.999, spec=ring)
                 for length in LENGTHS]  # fmt: skip
    assert costs_of(rows)["ring"].verdict == "too close to tell"


def test_one_bring_up_is_no_verdict_on_the_cost_of_following() -> None:
    rows = [a_length(arm, throughput=0.99) for arm in (BLOCKING, DEFAULT, HAND_OVER)]
    assert costs_of(rows)["veth"].verdict == "not measured"


def test_rows_that_miss_come_first() -> None:
    rows = [a_length(length=1), a_length(length=2, residual=0.3), a_length(length=8, residual=0.2)]
    assert [row.length for row in missing_first(rows)] == [2, 1, 8]
    assert [row.misses for row in rows] == [False, True, False]


# ------------------------------------------------------------------ latency by length


def test_each_further_function_adds_what_the_slopes_say() -> None:
    rows = [
        a_length(HAND_OVER, length, 0.1, us=20.0 * length + 7 * (length == 1))
        for length in (1, 2, 4, 8)
    ]
    (slope,) = slopes([*rows, a_length(BLOCKING, 1), a_length(BLOCKING, 2)])
    assert slope.arm == "veth, hand-over, polling"
    assert slope.measured_us == pytest.approx(20)  # fitted from two on
    assert slope.explained_us == pytest.approx(18)
    assert slope.share == pytest.approx(0.9)
    assert (slope.paper_measured.low, slope.paper_explained.low) == (1769, 864)
    flat = slopes([a_length(length=length, us=5) for length in (2, 4)])
    assert flat[0].share is None


def test_waiting_and_contention_share_the_time_off_the_cpu() -> None:
    rounds: SccRounds = [{DEFAULT.name: window(1, run=2, delay=5)}] * 2
    row = wait_row(ChainSpec(4), DEFAULT, rounds)
    assert row.contention == pytest.approx(2.5)
    assert row.wait == pytest.approx(1.5)  # (10 - 2 - 5) ÷ 2
    assert row.paper_contention
    assert row.paper_contention.low == 3.11
    assert row.paper_wait
    assert row.paper_wait.low == 30.2
    batch = wait_row(ChainSpec(4), BATCH_800, [{BATCH_800.name: window(1)}])
    assert batch.paper_contention
    assert batch.paper_contention.low == 2.91  # of 32 frames a call, as ours
    assert batch.paper_wait is None


# ------------------------------------------------------------------ what is injected


def pair(
    injection: Injection,
    injected: float,
    found: float,
    elsewhere: float = 0.0,
    block: int = 0,
    base: float = 1000.0,
) -> Pair:
    """`found` in the first of its parts, `elsewhere` in the send call of the other function."""
    key, other = (injection.place, injection.parts[0]), ("f9", SEND)
    off = {key: base, other: base, ("f9", PROCESSING): base}
    on = {**off, key: base + found, other: base + elsewhere}
    return Pair(
        FollowedWindow(window(1), WindowParts(parts=off), 0),
        FollowedWindow(window(1 + injected / 1000), WindowParts(parts=on), 0),
        injected,
        block,
    )


def test_what_is_injected_is_compared_with_what_grew() -> None:
    pairs = [pair(FILTER, 20_000, 19_000 + at, elsewhere=-400) for at in range(6)]
    row = injected_row(FILTER, pairs)
    assert row.injected_ns == 20_000
    assert row.found_ns == pytest.approx(19_002.5)
    assert row.share
    assert row.share.lo <= 0.95 <= row.share.hi + 1e-3
    assert row.elsewhere
    assert (row.elsewhere.place, row.elsewhere.part, row.elsewhere.ns) == ("f9", SEND, -400)
    assert row.elsewhere_share
    assert row.elsewhere_share.median == pytest.approx(0.02)  # whatever its sign
    assert row.latency_ns == pytest.approx(20_000, rel=0.05)
    verdicts = claims_of(ProfilerFound(injected=[row]))
    assert verdicts["slowed sender: found in its part ÷ injected"].verdict == "holds"
    assert verdicts["slowed sender: most found in another part ÷ injected"].verdict == "holds"


def test_an_amount_that_is_badly_known_is_no_verdict() -> None:
    amounts = (20_000, 30_000, 15_000, 20_000, 28_000, 16_000)
    row = injected_row(FILTER, [pair(FILTER, amount, 20_000) for amount in amounts])
    assert (row.injected_ns, row.found_ns) == (20_000, 20_000)
    found = claims_of(ProfilerFound(injected=[row]))
    assert found["slowed sender: found in its part ÷ injected"].verdict == "too close to tell"


def test_the_cpu_time_of_a_packet_is_that_of_all_functions() -> None:
    measured = FollowedWindow(window(1), WindowParts(parts={}), 3_000_000_000)
    measured.window.reply.function_cpu_ns.update({"f1": 4_000_000, "f2": 1_000_000})
    assert measured.cpu_ns == pytest.approx(5000)  # of a thousand packets
    assert measured.began_ns == 2_000_000_000


def test_a_delay_in_the_wrong_part_is_told() -> None:
    pairs = [pair(BUSY, 20_000, 100 + block, elsewhere=19_900, block=block)
             for block in (0, 0, 1, 1, 2, 2)]  # fmt: skip
    row = injected_row(BUSY, pairs)
    assert row.share
    assert row.share.bring_ups == 3
    verdicts = claims_of(ProfilerFound(injected=[row]))
    assert verdicts["busy loop: found in its part ÷ injected"].verdict == "does not hold"
    assert verdicts["busy loop: most found in another part ÷ injected"].verdict == "does not hold"


def test_parts_that_belong_together_are_added() -> None:
    assert STOP.parts == (BLOCKED, QUEUEING)
    one = pair(STOP, 1000, 600)
    one.on.parts.parts[STOP.place, QUEUEING] = 350.0
    row = injected_row(STOP, [one] * 6)
    assert row.found_ns == pytest.approx(950)
    assert row.elsewhere
    assert row.elsewhere.ns == 0


def test_nothing_injected_is_no_share() -> None:
    row = injected_row(HOG, [pair(HOG, 0, 10)] * 6)
    assert row.share is None
    assert claims_of(ProfilerFound(injected=[row]))[
        "competing process: found in its part ÷ injected"
    ].verdict == "not measured"  # fmt: skip


def test_a_typical_wait_is_the_middle_of_all() -> None:
    often = [(at * 100, at * 100 + 80) for at in range(200)]
    # Of packets at any time a fifth wait for nothing, the others for 0 to 80: half of all for 30.
    assert disturb.typical_wait_ns(often) == pytest.approx(30, abs=0.5)
    always = [(at * 100, (at + 1) * 100) for at in range(200)]
    assert disturb.typical_wait_ns(always) == pytest.approx(50, abs=0.5)
    rarely = [(at * 100, at * 100 + 10) for at in range(200)]
    assert disturb.typical_wait_ns(rarely) == 0
    assert disturb.typical_wait_ns([]) == 0
    half = [(at * 100, at * 100 + 50) for at in range(200)]
    assert disturb.typical_wait_ns(half) == pytest.approx(2.5, abs=0.1)  # 0 of half of them, to 10


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 90)), min_size=1, max_size=30),
    st.integers(1, 9),
)
def test_a_typical_wait_grows_with_the_times(gaps: list[tuple[int, int]], factor: int) -> None:
    intervals, at = [], 0
    for gap, busy in gaps:
        intervals.append((at + gap, at + gap + busy))
        at += gap + busy
    ns = disturb.typical_wait_ns(intervals)
    assert 0 <= ns <= max(end - begin for begin, end in intervals)
    longer = [(factor * begin, factor * end) for begin, end in intervals]
    assert disturb.typical_wait_ns(longer) == pytest.approx(factor * ns, rel=0.01, abs=0.1)


def test_a_filter_is_one_that_the_kernel_takes() -> None:
    """Its last instruction returns, and the kernel has room for no more than 4096."""
    body = disturb.slow_filter()
    assert len(body) <= 4096
    assert body[-1] == (0x06, 0)
    assert not any(operation == 0x34 and value == 0 for operation, value in body)  # ÷ 0
    assert body.count((0x34, 7)) == disturb.INSTRUCTIONS // 2


# ------------------------------------------------------------------ Table 2, Figs. 3 and 4


def a_primitive(group: Group, name: str, ns: float, **labels: int | str) -> Primitive:
    median = MedianNs(samples=6, median_ns=ns, low_ns=ns, high_ns=ns)
    return Primitive(group=group, name=name, labels=labels, provider="a clock", ns=median)


PRIMITIVES = Primitives.of(
    1,
    0,
    [
        a_primitive("switch", "fifo", 900, by="yield", between="processes"),
        a_primitive("switch", "fifo", 100, by="yield", between="threads"),
        Primitive(group="switch", name="rr", labels={"by": "yield", "between": "processes"},
                  provider="a clock", missing="it did not switch"),
        a_primitive("packet", "empty recv", 220),
        *(
            a_primitive("memory", order, size / 1e4, array_bytes=size, stride_bytes=stride,
                        page_bytes=4096)
            for order in ("random", "forward")
            for size in (4096, 1 << 18, 1 << 20, 1 << 27)
            for stride in (64, 4096)
        ),
        a_primitive("memory", "random", 1e9, array_bytes=4096, stride_bytes=64, part="tlb"),
        a_primitive("memory", "random", 1e9, array_bytes=4096, stride_bytes=64, page_bytes=1 << 21),
    ],
)  # fmt: skip


def test_primitives_stand_beside_the_papers() -> None:
    rows = {row.what: row for row in primitive_rows(PRIMITIVES)}
    fifo, rr = rows["context switch, fifo"], rows["context switch, rr"]
    assert fifo.ns
    assert fifo.ns.median_ns == 900  # between processes, as in the paper
    assert str(fifo.paper) == "940 ns (Table 2)"
    assert (rr.ns, rr.missing) == (None, "it did not switch")
    assert str(rows["I/O call, empty recv"].paper) == "41 ns (Table 2)"


def test_memory_is_told_by_the_level_that_an_array_fits_into() -> None:
    points = memory_points(PRIMITIVES)
    assert len(points) == 17  # no difference of two
    levels = {row.level: (row.low_ns, row.high_ns) for row in level_rows(points, PAPER)}
    assert levels == {
        "L1": pytest.approx((0.4096, 0.4096)),
        "L2": pytest.approx((26.2144, 26.2144)),
        "L3": pytest.approx((104.8576, 104.8576)),
        "DRAM": pytest.approx(((1 << 27) / 1e4,) * 2),
    }
    assert str(level_rows(points, PAPER)[1].paper) == "1.25–5 ns (Fig. 3)"


REFERENCES = References(provider="modelled: x", l1=100, l2=9, l3=2, dram=0.1)


def contexts() -> ProfilerFound:
    user, kernel = CONTEXTS[1], CONTEXTS[2]
    seen = UserSeen([9.0, 11.0, 10.0], [900.0, 1000.0, 1100.0], 9.5)
    rounds = [
        {"routed_ns": 700.0 + at, "ended_ns": 300.0, "sent": 10.0, "came": 10.0} for at in range(6)
    ]
    return ProfilerFound(contexts=[user_row(user, seen, REFERENCES), kernel_row(kernel, rounds)])


def test_a_router_stands_beside_the_papers() -> None:
    user, kernel = contexts().contexts
    assert (user.latency_us, user.ns_per_packet, user.parts_us) == (10, 1000, 9.5)
    assert (user.paper.low, user.paper_references.dram) == (216.97, 2964)
    assert "not modelled" in user.no_references  # what the kernel touches
    assert kernel.ns_per_packet == pytest.approx(402.5)
    assert kernel.latency_us == pytest.approx(0.4025)
    assert kernel.references is None
    lost = [{"routed_ns": 7.0, "ended_ns": 3.0, "sent": 10.0, "came": 9.0}]
    with pytest.raises(UnisError, match="lost frames in 1 of 1 windows"):
        kernel_row(CONTEXTS[2], lost)


def test_the_kernel_gets_a_frame_that_it_can_route() -> None:
    data = frame(bytes(6), 0x0800)
    assert len(data) == 60
    total = sum(struct.unpack("!10H", data[14:34]))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    assert total == 0xFFFF  # a checksum that is right


def test_the_papers_profiler_is_that_of_its_pages() -> None:
    data = paper.paper()
    of_profiler = {"table2", "fig3", "table4", "fig5", "table5"}
    of_others = {"fig8", "fig9", "fig10", "table7", "table8", "remark"}
    assert {*data} == of_profiler | of_others
    assert {*data["table4"]} == {context.key for context in CONTEXTS}
    assert {*data["fig3"]} == {"L1", "L2", "L3", "DRAM"}
    assert {*data["table2"]} == {"other", "batch", "rr", "fifo", "call"}
    assert {*data["table5"]["wait"]} == {str(length) for length in LENGTHS}
    assert paper.wait("veth", "default", 1) is None
    assert len(paper.remarks("profiler")) == 2


# ------------------------------------------------------------------ the whole


@pytest.mark.parametrize("chain", profiled(LENGTHS), ids=lambda chain: chain.spec.name)
def test_chains_that_are_profiled_are_valid_chain_files(chain: ProfiledChain) -> None:
    file = chain.spec.loaded(1).file
    assert len(file.functions) == chain.spec.length
    assert {link.kind for link in file.links} == {chain.spec.link}
    assert chain.waits == (chain.spec.link == "veth")


def test_routers_and_second_functions_have_arguments_of_their_own() -> None:
    file = ChainSpec(2, of_second=("--cost", "7")).loaded(1).file
    first, second = (function.args for function in file.functions.values())
    assert first == ["--ports", "net_mmsg0,net_mmsg1"]
    assert second == [*first, "--cost", "7"]
    (router,) = ChainSpec(1, "ring", "", None, program=ROUTER).loaded(1).file.functions.values()
    assert (router.program, router.args) == (ROUTER, ["--routes", "routes.txt"])


def test_the_steps_take_less_than_twelve_minutes_and_their_claims_name_them() -> None:
    bench = SccBench(SccSettings(quick=True, only=("profiler",)), Machine.this(), print)
    assert bench.seconds < 12 * 60
    # Packets of eight functions that poll under the kernel's policy take long: so do windows.
    (eight,) = (step for step in bench.steps if length_title(ChainSpec(8).name) in step.name)
    assert eight.seconds > 120
    titles = {step.name for step in bench.steps}
    told = dict.fromkeys(titles, "why not")
    unasked = [claim.claim for claim in profiler_claims(ProfilerFound(), told)
               if claim.why != "why not"]  # fmt: skip
    # That of what it costs is of all steps together.
    assert [text.split(":")[0] for text in unasked] == ["veth", "ring", "memif"]
    few = SccSettings(quick=True, only=("profiler",), lengths=(2,))
    assert len(SccBench(few, Machine.this(), print).steps) < len(bench.steps)


def test_packets_are_followed_as_often_as_by_default() -> None:
    """For what following costs is claimed of the default."""
    default = inspect.signature(profile_chain_command.chain).parameters["per_second"].default
    assert default == PER_SECOND


def whole() -> ProfilerFound:
    lengths = [
        a_length(arm, length, 0.3 if length == 4 else 0.02, us=9.0 * length, spec=chain.spec)
        for chain in profiled(LENGTHS)
        for arm in chain.arms
        for length in (chain.spec.length,)
    ]
    injected = [
        injected_row(each, [pair(each, 20_000, 19_000 + at) for at in range(6)])
        for each in INJECTIONS
    ]
    waits = [
        wait_row(ChainSpec(length), arm, [{arm.name: window(1, delay=length)}])
        for length in LENGTHS
        for arm in (DEFAULT, BATCH_800)
    ]
    return ProfilerFound(
        calibrated="today", primitives=primitive_rows(PRIMITIVES),
        memory=memory_points(PRIMITIVES), levels=level_rows(memory_points(PRIMITIVES), PAPER),
        contexts=contexts().contexts, lengths=lengths, slopes=slopes(lengths), waits=waits,
        injected=injected, notes=["no counters"],
    )  # fmt: skip


def test_results_have_everything_and_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Measurements(profiler=whole())
    results = results_of(found, SccSettings(quick=True), HERE, "abc")
    data = json.loads(results.model_dump_json())
    assert len(data["profiler"]["lengths"]) == 20
    assert data["profiler"]["injected"][0]["share"]["median"] == pytest.approx(0.95, abs=0.01)
    assert len(data["remarks"]["profiler"]) == 2
    told = {claim["claim"]: claim["verdict"] for claim in data["claims"]}
    assert told["ring, hand-over, polling, length 4: explained ÷ measured latency"] == (
        "does not hold"
    )
    made = draw_profiler(results.profiler, tmp_path)
    assert [file.name for file in made] == [
        f"profiler-{name}.png"
        for name in ("memory", "contexts", "lengths", "parts", "waits", "injected")
    ]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in made)
    monkeypatch.setenv("COLUMNS", "220")
    print_profiler(results.profiler)
    said, warned = capsys.readouterr()
    assert warned.startswith("The parts of 5 of 20 profiles do not explain the latency")
    assert said.index("Fig. 5") < said.index("Known delays") < said.index("Table 2")
    assert "stopped reader" in said
    # The paper's slope stands beside chains like its own only.
    slopes_said = [line for line in said.splitlines() if "2, 4, 8" in line]
    assert len(slopes_said) == 5
    assert [line.split(" 2, ")[0].strip() for line in slopes_said if "1769" in line] == [
        "veth, other, polling"
    ]
    assert draw_profiler(ProfilerFound(), tmp_path) == []
    assert ProfilerFound().empty

"""`unis bench model`: the fit, the prediction and the judgement, where the truth is known."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.captures import FLOWS, write_capture
from evaluation.model import figures
from evaluation.model.chains import CASES, DEAR, IDLE, LONG, MIXED, SHAPES, ModelCase, chains_of
from evaluation.model.fit import KnownCosts, LinkTerms, fitted, is_long, machine_file, predicted
from evaluation.model.judging import ModelRow, judged, verdict_of, wrong_term
from evaluation.model.overload import (
    ARMS,
    HAND_OVER,
    KERNEL,
    LOADS,
    MOST,
    OverloadWindow,
    in_hardware,
    points,
)
from evaluation.model.windows import ModelReading
from unis.capacity.files import load_machine
from unis.capacity.here import this_machine
from unis.measure.paired import Ratio

CYCLES = sorted({each for shape in SHAPES for each in shape.cycles})
KNOWN = KnownCosts({cycles: cycles / 2.5 for cycles in CYCLES}, switch_ns=1300)
TRUTH = LinkTerms(
    hop=60, byte=0.05, crossing=35, crossing_byte=0.2, clock=1.2, switch=1300, turn=800,
    source=30, sink=20, carry=0, long=0,
)  # fmt: skip


def reading(case: ModelCase, truth: LinkTerms, more: float = 0.0) -> ModelReading:
    """As a machine would have it that is as the model says, with `more` ns in its last function."""
    shape = case.shape
    count = len(shape.cycles)
    hop = truth.hop + truth.byte * case.size
    functions = [hop + truth.clock * KNOWN.work_ns[cycles] for cycles in shape.cycles]
    functions[0] += truth.crossing + truth.crossing_byte * case.size
    functions[-1] += more
    switches = count * truth.switch / truth.turn if count > 1 else 0.0
    platform = truth.source + truth.sink
    carried = (count + 1) * truth.carry + truth.long * is_long(case)
    ns = max(platform + carried, sum(functions) + switches)
    return ModelReading(
        pps=1e9 / ns,
        offered=1e9 / ns,
        functions_ns=dict(zip(shape.functions, functions, strict=True)),
        packets_per_turn=truth.turn,
        platform_ns={"source": truth.source, "sink": truth.sink},
        platform_busy={"source": truth.source / ns, "sink": truth.sink / ns},
    )


def round_of(truth: LinkTerms) -> dict[str, ModelReading]:
    return {case.name: reading(case, truth) for case in CASES}


def test_no_chain_that_tests_has_the_length_or_a_cost_of_one_that_fits() -> None:
    fit = [shape for shape in SHAPES if shape.fits]
    for shape in SHAPES:
        if not shape.fits:
            assert len(shape.cycles) not in {len(each.cycles) for each in fit}
            assert not {*shape.cycles} & {cycles for each in fit for cycles in each.cycles}


@given(
    st.floats(10, 2000), st.floats(0, 0.5), st.floats(0, 200), st.floats(0.7, 2), st.floats(5, 60)
)
def test_a_machine_that_is_as_the_model_says_is_predicted(
    hop: float, byte: float, crossing: float, clock: float, platform: float
) -> None:
    truth = replace(
        TRUTH, hop=hop, byte=byte, crossing=crossing, clock=clock, source=platform, sink=platform
    )
    readings = round_of(truth)
    terms = fitted("memif", readings, KNOWN)
    for case in CASES:
        if not case.shape.fits:
            said = predicted("memif", case, terms, KNOWN)
            assert said.pps == pytest.approx(readings[case.name].pps, rel=0.02)
            assert said.bottleneck == "CPU 1"


def test_the_fit_finds_each_parameter() -> None:
    found = fitted("memif", round_of(TRUTH), KNOWN)
    assert vars(found) == pytest.approx(vars(TRUTH), rel=1e-6)


def test_the_machine_file_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "machine.yaml"
    terms = replace(TRUTH, hop=60.0)
    file.write_text(machine_file("memif", terms, 10.0, this_machine().cpus))
    link = load_machine(file).links["memif"]
    assert link.receive.value + link.send.value == pytest.approx(50)
    assert {link.receive.source, link.send.source} == {"measured"}


def test_what_tests_is_not_looked_at_by_the_fit() -> None:
    readings = round_of(TRUTH)
    before = fitted("memif", readings, KNOWN)
    for case in CASES:
        if not case.shape.fits:
            readings[case.name] = readings[case.name].model_copy(update={"pps": 1.0})
    assert fitted("memif", readings, KNOWN) == before


def test_source_and_sink_are_the_bottleneck_where_their_cpu_is_full() -> None:
    truth = replace(TRUTH, hop=5, byte=0, crossing=0, crossing_byte=0, source=40, sink=30)
    readings = round_of(truth)
    terms = fitted("ring", readings, KNOWN)
    said = predicted("ring", ModelCase(IDLE, 64), terms, KNOWN)
    assert said.bottleneck == "CPU 0"
    assert said.pps == pytest.approx(1e9 / 70)
    assert predicted("ring", ModelCase(DEAR, 64), terms, KNOWN).bottleneck == "CPU 1"


def test_open_vswitch_is_the_bottleneck_where_functions_wait_for_it() -> None:
    truth = replace(TRUTH, source=9000, sink=0, carry=3500, long=20000, turn=1)
    readings = {
        name: each.model_copy(update={"switch_ns": 1.0}) for name, each in round_of(truth).items()
    }
    terms = fitted("ovs", readings, KNOWN)
    for case in CASES:
        said = predicted("ovs", case, terms, KNOWN)
        assert said.pps == pytest.approx(readings[case.name].pps, rel=0.01)
        assert said.bottleneck == "CPU 0"


def test_a_round_on_a_slower_machine_has_a_fit_of_its_own() -> None:
    slower = LinkTerms(**{name: 1.8 * value for name, value in vars(TRUTH).items()})
    known = replace(KNOWN, switch_ns=TRUTH.switch)
    slower = replace(slower, turn=TRUTH.turn, switch=TRUTH.switch)
    rows, _ = judged("memif", [round_of(TRUTH), round_of(slower)] * 3, known)
    assert max(abs(row.error) for row in rows) < 0.01
    assert verdict_of(rows, {}).verdict == "holds"
    assert verdict_of(rows, {"ring: overload": "why"}).verdict == "holds"
    missing = verdict_of(rows, {"ovs: chains": "no Open vSwitch"})
    assert (missing.verdict, missing.why) == (
        "not measured",
        "the others hold; left out: ovs: chains",
    )


def test_where_the_model_misses_the_wrong_term_is_named() -> None:
    readings = round_of(TRUTH)
    case = ModelCase(LONG, 64)
    readings[case.name] = reading(case, TRUTH, more=300)
    rows, _ = judged("memif", [readings] * 6, KNOWN)
    row = next(row for row in rows if (row.chain, row.size) == (LONG.title, 64))
    assert row.error > 0.25
    assert row.wrong.startswith("function 5 of 5 (150 cycles): ")
    assert [each.wrong for each in rows if each is not row] == [""] * (len(rows) - 1)
    verdict = verdict_of(rows, {})
    assert verdict.verdict == "does not hold"
    assert LONG.title in verdict.worst_chain


def test_time_in_no_function_is_named_as_switches() -> None:
    case = ModelCase(MIXED, 64)
    found = reading(case, TRUTH)
    slow = found.model_copy(update={"pps": 1e9 / (found.ns + 500)})
    assert wrong_term(case, [slow], [TRUTH], KNOWN).startswith("switches: ")


def row(ratio: tuple[float, float, float], rounds: int = 8, *, fits: bool = False) -> ModelRow:
    return ModelRow(
        link="ring", chain="3", length=1, size=64, fits=fits, predicted_pps=1e6, measured_pps=1e6,
        ratio=Ratio(median=ratio[0], lo=ratio[1], hi=ratio[2]), bottleneck="CPU 1", rounds=rounds,
    )  # fmt: skip


GOOD, OFF = (1.02, 0.99, 1.04), (1.4, 1.3, 1.5)


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ([row(GOOD)] * 3, "holds"),
        ([row(GOOD), row(OFF)], "does not hold"),
        ([row(GOOD), row(GOOD), row((1.2, 1.1, 1.3))], "too close to tell"),
        ([row((0.85, 0.84, 0.86))] * 3, "does not hold"),  # the median of errors
        ([row(GOOD, rounds=3)], "not measured"),
        ([row(GOOD), row(OFF, fits=True)], "holds"),  # what fits tests nothing
        ([], "not measured"),
    ],
)
def test_the_verdict(rows: list[ModelRow], verdict: str) -> None:
    assert verdict_of(rows, {}).verdict == verdict


def test_overload_is_relative_to_what_the_policy_passed_at_most_in_the_same_round() -> None:
    rounds = []
    for speed in (1, 2):  # the machine got faster
        windows = {}
        for policy, most, falls in ((HAND_OVER, 1e6 * speed, 0.0), (KERNEL, 2e5 * speed, 0.4)):
            windows[policy, MOST] = OverloadWindow(most, most)
            for load in LOADS:
                passed = min(load, 1.0) - falls * max(0.0, load - 1)
                windows[policy, load] = OverloadWindow(load * most, passed * most)
        rounds.append(windows)
    found = {(each.policy, each.load): each for each in points("ring", rounds)}
    assert len(found) == len(ARMS) * len(LOADS)
    assert found[HAND_OVER, 2.0].passed.median == pytest.approx(1.0)
    assert found[KERNEL, 2.0].passed.median == pytest.approx(0.6)
    assert found[KERNEL, 2.0].offered.hi == pytest.approx(2.0)
    assert found[KERNEL, 2.0].most.median == pytest.approx(0.2)


def test_what_drops_in_hardware_passes_as_much_however_much_more_comes() -> None:
    assert in_hardware([0.5, 1.0, 2.0]) == pytest.approx([0.5, 1.0, 1.0])


def test_a_capture_has_packets_of_one_chain(tmp_path: Path) -> None:
    scapy = pytest.importorskip("scapy.all")
    file = tmp_path / "one.pcap"
    write_capture(file, 5003, 512)
    frames = scapy.rdpcap(str(file))
    assert len(frames) == FLOWS
    assert {len(frame) for frame in frames} == {508}
    assert {frame[scapy.UDP].dport for frame in frames} == {5003}
    assert len({frame[scapy.UDP].sport for frame in frames}) == FLOWS
    first = frames[0]
    told = first[scapy.IP].chksum
    del first[scapy.IP].chksum
    assert scapy.IP(bytes(first[scapy.IP])).chksum == told


def test_each_chain_has_its_own_packets(tmp_path: Path) -> None:
    chain = chains_of("memif", SHAPES, tmp_path / "one.pcap", 1)
    ports = [chain.file.chains[shape.name].match[0].dst_port for shape in SHAPES]
    assert len({*ports}) == len(SHAPES)
    assert {link.kind for link in chain.file.links} == {"memif"}
    assert len(chain.file.links) == sum(len(shape.cycles) + 1 for shape in SHAPES)


def test_pictures(tmp_path: Path) -> None:
    rows, _ = judged("ring", [round_of(replace(TRUTH, byte=0, crossing_byte=0))] * 2, KNOWN)
    windows = {(policy, MOST): OverloadWindow(1e6, 1e6) for policy in ARMS}
    windows |= {
        (policy, load): OverloadWindow(load * 1e6, 5e5) for policy in ARMS for load in LOADS
    }
    made = figures.draw_model(rows, points("ring", [windows]), tmp_path)
    assert [file.name for file in made] == ["model.png", "overload.png"]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in made)
    assert figures.draw_model([], [], tmp_path) == []

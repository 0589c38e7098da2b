"""python -m evaluation promises: what is planned from profiles, and what is said of windows."""

import json
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evaluation.app import app
from evaluation.promises import blocks as promises
from evaluation.promises.blocks import PromiseSettings, judged, result
from evaluation.promises.core import CorePlanner
from evaluation.promises.mixed import write_mixed
from evaluation.promises.result import FunctionProfile, PromiseBlock, PromisesResult, Together
from evaluation.promises.windows import ChainReading, RunWindow, p95s, pooled_p95_us, undisturbed
from unis.errors import UnisError
from unis.plan.machine import Machine
from unis.simulate.capture import packet_sizes
from unis.slo.cores import added_by_part
from unis.slo.profile import Profile, Slo
from unis.v1.common_pb2 import LatencyHistogram

MACHINE = Machine(cpus=frozenset({0, 1}))
SETTINGS = PromiseSettings(("1000", "2500"), (0.3, 0.4), 100.0, 1, 4, 5, 0.1, 2)
FAST = FunctionProfile(
    name="fast", solo_mpps=3.0, p95_us_by_load={0.1: 2.0, 0.5: 1.9, 0.8: 4.0, 0.9: 8.0},
    disturbed=0,
)  # fmt: skip
SLOW = FunctionProfile(
    name="slow", solo_mpps=1.2, p95_us_by_load={0.1: 3.0, 0.5: 4.0, 0.8: 9.0, 0.9: 15.0},
    disturbed=0,
)  # fmt: skip
SLO = Slo("fast", Profile("fast", 3.0, (1.0,), ((0.1, 2.0), (0.9, 8.0))), 0.9, 10.0)


CORE = CorePlanner((FAST, SLOW), 1.0, 100.0)


def seen(
    mpps: float, p95_us: float | None, disturbance: float = 0.0, packets: int = 1
) -> RunWindow:
    """All of its packets as late."""
    late = LatencyHistogram()
    if p95_us is not None:
        late = LatencyHistogram(value_ns=[round(p95_us * 1000)], count=[packets])
    return RunWindow({"of-fast": ChainReading(mpps, 0.9, late)}, disturbance)


def test_both_promises_are_placed_on_one_core() -> None:
    workload, placement = CORE.planned((0.3, 0.4))
    ((core,),) = [machine.cores for machine in placement.machines]
    assert core.load == pytest.approx(0.7)
    assert [slo.p95_us for slo in workload.slos] == [100.0, 100.0]
    assert [slo.mpps for slo in workload.slos] == pytest.approx([0.9, 0.48])
    # A latency that falls by chance is none that the planner could read a load off.
    assert workload.slos[0].profile.p95_us_by_load[1] == (0.5, 2.0)


def test_the_least_latencies_are_those_that_would_be_promised_just_so() -> None:
    _, placement = CORE.planned((0.3, 0.4))
    parts = placement.machines[0].cores[0].parts
    late = dict(zip((part.slo for part in parts), added_by_part(parts, 1.0), strict=True))
    least = CORE.least_us((0.3, 0.4))
    assert least
    for of, us in zip((FAST, SLOW), least, strict=True):
        assert us == pytest.approx(of.p95_us_by_load[0.1] + late[of.name], rel=0.051)
    replace(CORE, p95_us=max(least)).planned((0.3, 0.4))
    with pytest.raises(UnisError, match="cannot be promised at 30% and 40%"):
        replace(CORE, p95_us=0.9 * min(least)).planned((0.3, 0.4))
    slower = replace(CORE, yield_us=2.0).least_us((0.3, 0.4))
    assert slower
    assert all(one > other for one, other in zip(slower, least, strict=True))
    # It is never said to be more than what is promised.
    bound = max(least) / 1.01
    assert max(replace(CORE, p95_us=bound).least_us((0.3, 0.4)) or [bound]) <= bound


@pytest.mark.parametrize("late_us", [1.0, 20_000.0])
@pytest.mark.parametrize("yield_us", [0.1, 1_000.0])
def test_half_a_second_can_be_promised_on_any_machine(late_us: float, yield_us: float) -> None:
    """As the end-to-end test does, which knows nothing of the machine that it runs on."""
    late = [
        of.model_copy(update={"p95_us_by_load": dict.fromkeys(of.p95_us_by_load, late_us)})
        for of in (FAST, SLOW)
    ]
    core = CorePlanner(late, yield_us, 500_000.0)
    _, placement = core.planned((0.3, 0.4))
    assert len(placement.machines[0].cores[0].parts) == 2
    assert sum(core.refused((0.3, 0.4))) > 0.7
    assert core.least_us(core.refused((0.3, 0.4))) is None


def test_more_than_a_core_is_not_planned() -> None:
    with pytest.raises(UnisError, match="60% and 45% together exceed one core"):
        CORE.planned((0.6, 0.45))
    with pytest.raises(UnisError, match="100 µs cannot be promised at 60% and 39%"):
        CORE.planned((0.6, 0.39))


def test_the_least_parts_that_are_refused_are_just_beyond_what_is_promised() -> None:
    refused = CORE.refused((0.3, 0.4))
    factor = refused[0] / 0.3
    assert refused == pytest.approx((factor * 0.3, factor * 0.4))
    with pytest.raises(UnisError):
        CORE.planned(refused)
    CORE.planned(((factor - 0.05) * 0.3, (factor - 0.05) * 0.4))
    assert CORE.least_us(refused) is None
    assert CORE.least_us((0.6, 0.45)) is None


def test_a_promise_holds_by_all_packets_and_the_median_throughput() -> None:
    """One late window of twenty is what a p95 allows; of three it is not."""
    good = [seen(0.9, 9.0)] * 19
    found = judged(SLO, 0.3, 9.2, [*good, seen(0.9, 30.0)])
    assert (found.kept, found.least_kept) == (True, True)
    assert (found.windows, found.windows_kept) == (20, 19)
    assert found.p95_ratio == pytest.approx(0.9, rel=0.01)
    assert not judged(SLO, 0.3, 9.2, [*good[:2], seen(0.9, 30.0)]).kept
    # Windows weigh as they have packets.
    assert judged(SLO, 0.3, 9.2, [seen(0.9, 9.0, packets=99), seen(0.9, 30.0)]).kept
    assert not judged(SLO, 0.3, 8.0, [seen(0.9, 9.0)]).least_kept
    assert judged(SLO, 0.3, None, [seen(0.9, 9.0)]).least_kept is None
    short = judged(SLO, 0.3, 9.2, [seen(0.87, 9.0)])
    assert (short.kept, short.least_kept, short.windows_kept) == (False, False, 0)


def test_windows_that_others_disturbed_do_not_count_while_there_are_others() -> None:
    good, bad = seen(0.9, 9.0), seen(0.5, 4000.0, disturbance=1.1)
    assert undisturbed([good, bad, good, bad]) == [good, good]
    assert undisturbed([good, bad, bad]) == [good, bad, bad]
    assert p95s([good, bad], "of-fast") == pytest.approx([9.0, 4000.0], rel=0.01)
    with pytest.raises(UnisError, match="of-fast delivered nothing"):
        p95s([good, seen(0.0, None)], "of-fast")
    with pytest.raises(UnisError, match="of-fast delivered nothing"):
        pooled_p95_us([seen(0.0, None)], "of-fast")


def together(late: float, disturbances: tuple[float, ...]) -> Together:
    of = judged(SLO, 0.3, 9.2, [seen(0.9, late)])
    windows = [
        {"mpps": {"of-fast": 0.9}, "p95_us": {"of-fast": late}, "disturbance": disturbance}
        for disturbance in disturbances
    ]
    return Together.model_validate({"parts": (0.3, 0.4), "promises": [of, of], "windows": windows})


def block(*, holds: bool, counts: bool = True, **more: Any) -> PromiseBlock:
    disturbances = (0.1, 0.9, 1.1) if counts else (0.1, 1.1, 1.2)
    return PromiseBlock(
        profiles=[FAST, SLOW], yield_us=1.0, load=0.7, steady=True,
        promised=together(8.0 if holds else 12.0, disturbances),
        refused=together(150.0, (0.1,)),
    ).model_copy(update=more)  # fmt: skip


def test_a_block_counts_where_nothing_disturbed_it() -> None:
    assert block(holds=True).counts
    assert not block(holds=True, counts=False).counts
    assert not block(holds=True, steady=False).counts
    far = FAST.model_copy(update={"disturbed": 0.6})
    falls = FAST.model_copy(update={"p95_us_by_load": {0.1: 2.0, 0.5: 37.6, 0.8: 26.1, 0.9: 40.0}})
    assert (FAST.falls, falls.falls) == (False, True)
    for profile in (far, falls):
        assert not block(holds=True, profiles=[profile, SLOW]).counts


def test_blocks_that_do_not_count_decide_nothing() -> None:
    yes, no = block(holds=True), block(holds=False)
    disturbed = block(counts=False, holds=False)
    said = [
        result(blocks, 0, replace(SETTINGS, blocks=2), MACHINE)
        for blocks in ([yes, disturbed], [yes, no], [disturbed, disturbed], [yes])
    ]
    assert [found.kept for found in said] == [True, False, None, None]
    assert [found.least_kept for found in said] == [True, False, None, None]
    assert said[0].verdict.startswith("Both promises hold: p95 is at most 80%")
    assert "do not hold: p95 is at most 120%" in said[1].verdict
    assert "No verdict" in said[2].verdict
    assert "1 of 2 blocks" in said[3].verdict
    assert "held for 2 of 4" in said[1].tightness[0]
    assert (
        "refused 30% and 40%: that load would not have kept the latency, p95 150 and 150"
        in said[0].tightness[1]
    )


def test_the_command_says_it_and_ends_with_1_where_a_promise_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = [block(holds=False)]
    monkeypatch.setattr(promises, "measure", lambda *_: iter([(blocks, 0)]))
    done = CliRunner().invoke(app, ["promises", "--blocks", "1", "-o", str(tmp_path)])
    assert done.exit_code == 1
    assert "do not hold" in done.output
    written = PromisesResult.model_validate_json((tmp_path / "results.json").read_text())
    assert written.kept is False
    (of,) = json.loads((tmp_path / "results.json").read_text())["blocks"]
    assert (of["counts"], of["promised"]["kept"], of["promised"]["disturbed"]) == (True, False, 1)


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        ("--costs", "1000", "two numbers of cycles"),
        ("--costs", "light,heavy", "two numbers of cycles"),
        ("--parts", "30", "two percentages"),
        ("--parts", "60,40", "two percentages"),
        ("--parts", "a,b", "two percentages"),
    ],
)
def test_what_cannot_be_is_refused(option: str, text: str, said: str) -> None:
    done = CliRunner().invoke(app, ["promises", option, text])
    assert done.exit_code == 2
    assert said in done.output


def test_packets_of_a_mixed_capture_are_of_either_by_chance(tmp_path: Path) -> None:
    file = tmp_path / "mixed.pcap"
    shares = write_mixed(file, {5001: 3.0, 5002: 1.0})
    assert shares == pytest.approx({5001: 0.75, 5002: 0.25}, abs=1e-3)
    sizes = [*packet_sizes(file)]
    assert set(sizes) == {64}
    data, record = file.read_bytes()[24:], 16 + 60
    ports = [
        struct.unpack_from("!H", data, at * record + 16 + 14 + 20 + 2)[0]
        for at in range(len(sizes))
    ]
    assert ports.count(5002) / len(ports) == pytest.approx(0.25, abs=1e-3)
    # As often as where each is drawn: 2 · ¾ · ¼ of neighbours differ.
    changes = sum(one != other for one, other in pairwise(ports)) / len(ports)
    assert changes == pytest.approx(0.375, abs=0.02)
    assert write_mixed(tmp_path / "again.pcap", {5001: 3.0, 5002: 1.0}) == shares
    assert (tmp_path / "again.pcap").read_bytes() == file.read_bytes()


def test_a_rate_of_both_is_the_sum_and_each_has_its_chain(tmp_path: Path) -> None:
    functions = {"macswap1": "1000", "macswap2": "2500"}
    chain = promises.chain_of(
        functions, 1, {"macswap1": 0.9, "macswap2": 0.48}, tmp_path / "m.pcap"
    )
    assert chain.file.traffic.pps == pytest.approx(1.38e6)
    assert chain.file.traffic.arrivals == "poisson"
    assert [of.path for of in chain.file.chains.values()] == [["macswap1"], ["macswap2"]]
    (alone,) = promises.chain_of({"macswap1": "1000"}, 1).file.chains.values()
    assert alone.match is None or not alone.match


def test_a_block_with_disturbed_profiles_is_made_anew_before_anything_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = {0.1: 2.0, 0.5: 400.0, 0.8: 4.0, 0.9: 8.0}  # of which nothing could be promised
    falls = FAST.model_copy(update={"p95_us_by_load": late})
    cores = [replace(CORE, profiles=(falls, SLOW)), CORE]
    told: list[str] = []
    monkeypatch.setattr(promises, "line_transfer_ns", lambda *_: 50.0)
    monkeypatch.setattr(promises, "_profile_both", lambda *_: cores.pop(0))
    monkeypatch.setattr(promises, "_run_both", lambda *_: together(8.0, (0.1,)))
    ((blocks, left_out),) = promises.measure(SETTINGS, MACHINE, told.append)
    assert (len(blocks), left_out) == (1, 1)
    assert any("repeating" in sentence for sentence in told)

"""unis bench promises: what is planned from profiles, and what is said of windows."""

import json
import struct
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unis.bench import promises
from unis.bench.mixed import write_mixed
from unis.bench.promised import OfChain, Window, calm, p95s
from unis.bench.promises import (
    Block,
    FunctionProfile,
    Result,
    Settings,
    kept,
    least_us,
    planned,
    result,
)  # fmt: skip
from unis.cli.app import app
from unis.errors import UnisError
from unis.plan.machine import Machine
from unis.simulate.capture import packet_sizes
from unis.slo.cores import added_by_part
from unis.slo.profile import Profile, Slo

MACHINE = Machine(cpus=frozenset({0, 1}))
SETTINGS = Settings(("1000", "2500"), (0.3, 0.4), 100.0, 1, 4, 0.1)
FAST = FunctionProfile(
    name="fast", solo_mpps=3.0, p95_us_by_load={0.1: 2.0, 0.5: 1.9, 0.8: 4.0, 0.9: 8.0},
    disturbed=0,
)  # fmt: skip
SLOW = FunctionProfile(
    name="slow", solo_mpps=1.2, p95_us_by_load={0.1: 3.0, 0.5: 4.0, 0.8: 9.0, 0.9: 15.0},
    disturbed=0,
)  # fmt: skip
SLO = Slo("fast", Profile("fast", 3.0, (1.0,), ((0.1, 2.0), (0.9, 8.0))), 0.9, 10.0)


def seen(
    mpps: float, p95_us: float | None, disturbance: float = 0.0, offered: float = 0.9
) -> Window:
    return Window({"of-fast": OfChain(mpps, offered, p95_us)}, disturbance)


def test_both_promises_are_placed_on_one_core() -> None:
    workload, placement = planned((FAST, SLOW), (0.3, 0.4), 100.0, 1.0)
    ((core,),) = [machine.cores for machine in placement.machines]
    assert core.load == pytest.approx(0.7)
    assert [slo.p95_us for slo in workload.slos] == [100.0, 100.0]
    assert [slo.mpps for slo in workload.slos] == pytest.approx([0.9, 0.48])
    # A latency that falls by chance is none that the planner could read a load off.
    assert workload.slos[0].profile.latency_us[1] == (0.5, 2.0)


def test_the_least_latencies_are_those_that_would_be_promised_just_so() -> None:
    _, placement = planned((FAST, SLOW), (0.3, 0.4), 100.0, 1.0)
    parts = placement.machines[0].cores[0].parts
    late = dict(zip((part.slo for part in parts), added_by_part(parts, 1.0), strict=True))
    least = least_us((FAST, SLOW), (0.3, 0.4), 100.0, 1.0)
    for of, us in zip((FAST, SLOW), least, strict=True):
        assert us == pytest.approx(of.p95_us_by_load[0.1] + late[of.name], rel=0.051)
    planned((FAST, SLOW), (0.3, 0.4), max(least), 1.0)
    with pytest.raises(UnisError, match="cannot be promised at 30% and 40%"):
        planned((FAST, SLOW), (0.3, 0.4), 0.9 * min(least), 1.0)
    slower = least_us((FAST, SLOW), (0.3, 0.4), 100.0, 2.0)
    assert all(one > other for one, other in zip(slower, least, strict=True))
    # It is never said to be more than what is promised.
    assert least_us((FAST, SLOW), (0.3, 0.4), max(least) / 1.01, 1.0)[1] <= max(least) / 1.01


def test_more_than_a_core_is_not_planned() -> None:
    with pytest.raises(UnisError, match="60% and 45% are more than a core"):
        planned((FAST, SLOW), (0.6, 0.45), 100.0, 1.0)
    with pytest.raises(UnisError, match="100 µs cannot be promised at 60% and 39%"):
        planned((FAST, SLOW), (0.6, 0.39), 100.0, 1.0)


def test_a_promise_holds_by_the_median_of_its_windows() -> None:
    found = kept(SLO, 0.3, 9.2, [seen(0.9, 9.0), seen(0.89, 9.5), seen(0.9, 30.0)])
    assert found.kept
    assert (found.windows, found.windows_kept) == (3, 2)
    assert found.p95_ratio == pytest.approx(0.95)
    assert not kept(SLO, 0.3, 9.2, [seen(0.9, 9.0), seen(0.9, 10.1), seen(0.9, 30.0)]).kept
    short = kept(SLO, 0.3, 9.2, [seen(0.87, 9.0)])
    assert (short.kept, short.windows_kept) == (False, 0)
    # What did not come in a window could not be passed; what came beyond the promise need not be.
    assert kept(SLO, 0.3, 9.2, [seen(0.8, 9.0, offered=0.81)]).kept
    assert kept(SLO, 0.3, 9.2, [seen(0.9, 9.0, offered=1.1)]).kept


def test_windows_that_others_disturbed_do_not_count_while_there_are_others() -> None:
    good, bad = seen(0.9, 9.0), seen(0.5, 4000.0, disturbance=1.1)
    assert calm([good, bad, good, bad]) == [good, good]
    assert calm([good, bad, bad]) == [good, bad, bad]
    assert p95s([good, bad], "of-fast") == [9.0, 4000.0]
    with pytest.raises(UnisError, match="of-fast delivered nothing"):
        p95s([good, seen(0.0, None)], "of-fast")


def block(*, counts: bool, holds: bool) -> Block:
    of = kept(SLO, 0.3, 9.2, [seen(0.9, 8.0 if holds else 12.0)])
    return Block(
        profiles=[FAST, SLOW], yield_us=1.0, load=0.7, promises=[of, of], windows=4,
        disturbed=0 if counts else 4, counts=counts, kept=holds,
    )  # fmt: skip


def test_blocks_that_do_not_count_decide_nothing() -> None:
    yes, no = block(counts=True, holds=True), block(counts=True, holds=False)
    disturbed = block(counts=False, holds=False)
    said = [
        result(blocks, 0, SETTINGS, MACHINE)
        for blocks in ([yes, disturbed], [yes, no], [disturbed, disturbed])
    ]
    assert [of.kept for of in said] == [True, False, None]
    assert "held for 2 of 2" in said[0].tightness
    assert "held for 2 of 4" in said[1].tightness
    assert said[0].verdict.startswith("Both promises hold: p95 at most 80%")
    assert "do not hold: p95 at most 120%" in said[1].verdict
    assert "Too disturbed to tell" in said[2].verdict


def test_the_command_says_it_and_ends_with_1_where_a_promise_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = [block(counts=True, holds=False)]
    monkeypatch.setattr(promises, "measure", lambda *_: iter([(blocks, 0)]))
    done = CliRunner().invoke(app, ["bench", "promises", "-o", str(tmp_path)])
    assert done.exit_code == 1
    assert "do not hold" in done.output
    written = Result.model_validate_json((tmp_path / "results.json").read_text())
    assert written.kept is False
    assert json.loads((tmp_path / "results.json").read_text())["blocks"][0]["load"] == 0.7


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
    done = CliRunner().invoke(app, ["bench", "promises", option, text])
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

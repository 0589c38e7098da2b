"""`unis bench unmodified`, without a machine: its chains, the reference, what it writes."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.python.planned import path_of, wired
from unis.bench import blocks, third_party, unmodified
from unis.bench.unmodified import UnmodifiedResult, summarise
from unis.engine import transfer
from unis.measure.windows import Arm, Rounds
from unis.plan.machine import Machine
from unis.plan.naming import name_links
from unis.runtime.errors import LaunchError
from unis.v1 import engine_pb2 as pb

TRIALS = {8: 0.9, 64: 1.1}


def window(mpps: float) -> pb.MeasureReply:
    return pb.MeasureReply(delivered=round(mpps * 1e6), window_ns=1_000_000_000)


def rounds(**mpps: float) -> list[dict[str, pb.MeasureReply]]:
    return [{policy: window(of) for policy, of in mpps.items()} for _ in range(6)]


def test_the_result_has_each_policy_with_its_ratio_to_other() -> None:
    measured = rounds(unis=4.0, rr=0.0, other=0.1, cooperative=5.0)
    chain = summarise(measured, ["a", "b"], TRIALS, 16, blocks=1)
    data = json.loads(UnmodifiedResult(chains={"testpmd": chain}).model_dump_json())
    policies = data["chains"]["testpmd"]["policies"]
    assert set(policies) == {"unis", "cooperative", "rr", "other"}
    assert policies["unis"]["mpps"] == {"median": 4.0, "q1": 4.0, "q3": 4.0}
    assert policies["unis"]["ratio_to_other"]["median"] == pytest.approx(40)
    assert {"low", "high", "q1", "q3"} <= policies["unis"]["ratio_to_other"].keys()
    assert policies["unis"]["ratio_to_cooperative"]["median"] == pytest.approx(0.8)
    assert policies["rr"]["ratio_to_other"]["median"] == 0
    assert data["chains"]["testpmd"]["yield_every"] == 16


def test_a_kernel_under_which_nothing_passes_is_no_base() -> None:
    chain = summarise(
        rounds(unis=4.0, rr=0.0, other=0.0, cooperative=5.0), ["a"], TRIALS, 16, blocks=1
    )
    assert chain.policies["unis"].ratio_to_other is None


@given(st.floats(1, 1000), st.floats(500, 5000))
def test_our_function_imitates_what_a_program_costs_beyond_testpmd(
    cost_ns: float, mhz: float
) -> None:
    cycles = third_party.imitated_cycles(60 + cost_ns, mhz)
    assert cycles == pytest.approx(cost_ns * mhz / 1000, abs=1)
    assert third_party.imitated_cycles(60, mhz) == 0


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "third-party" / "bin"
    folder.mkdir(parents=True)
    for program in {one for chain in third_party.CHAINS.values() for one in chain}:
        (folder / program.program).touch()
    monkeypatch.setenv("UNIS_BUILD", str(tmp_path))
    return folder


@pytest.mark.parametrize("name", third_party.CHAINS)
def test_third_party_and_reference_have_the_same_links(name: str, fetched: Path) -> None:
    theirs = third_party.third_party_chain(name, 1, fetched).file
    ours = third_party.reference_chain(name, 1, fetched, 16).file
    # But for the queues, of which ours know one.
    kinds = [
        [
            (link.name, link.kind, link.slots)
            for link in name_links("x", wired(file), {"chain": 2048}, fetched, {}).plans()
        ]
        for file in (theirs, ours)
    ]
    assert kinds[0] == kinds[1]
    assert {theirs.function(one).cpu for one in theirs.functions} == {1}
    assert {ours.function(one).yield_every for one in ours.functions} == {16}
    assert list(theirs.functions) == list(ours.functions)
    assert path_of(theirs, "chain") == path_of(ours, "chain") == sorted(ours.functions)


def test_open_vswitch_may_be_alone_and_is_told_how_long_to_sleep(fetched: Path) -> None:
    alone = third_party.third_party_chain("openvswitch", 1, fetched, alone=True).file
    assert list(alone.functions) == ["f1"]
    told = fetched / "told"
    vsctl = fetched / "ovs-vsctl"
    vsctl.write_text(f'#!/bin/sh\necho "$@" >> "{told}"\n')
    vsctl.chmod(0o755)
    database = fetched / "ovs-Ab12" / "db.sock"
    database.parent.mkdir()
    database.touch()
    third_party.let_openvswitch_sleep(fetched, 100.0)
    assert f"--db=unix:{database} set Open_vSwitch . " in told.read_text()
    assert told.read_text().endswith(" other_config:pmd-maxsleep=100\n")


@pytest.mark.parametrize("name", third_party.CHAINS)
def test_a_missing_program_is_told_with_its_cure(name: str, fetched: Path) -> None:
    for program in {*third_party.CHAINS[name]}:
        file = fetched / program.program
        file.unlink()
        wanted = f"{file.name} is missing.*third-party {program.part}"
        with pytest.raises(LaunchError, match=wanted):
            third_party.check(name)
        file.touch()


def test_cpus_that_moved_apart_are_seen() -> None:
    assert transfer.steady([27.0, 39.0, 30.0])
    assert transfer.steady([None, None])
    assert transfer.steady([170.0, None, 165.0])
    assert not transfer.steady([27.0, None, 165.0])


def test_a_cpu_that_is_not_there_has_no_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    assert transfer.line_transfer_ns(0, 1000) is None
    monkeypatch.setenv("UNIS_BUILD", "/nowhere")
    assert transfer.line_transfer_ns(0, 1) is None


@pytest.mark.parametrize(
    ("distances", "blocks_left_out", "kept"),
    [
        ([27, 28, 29] * 2, 0, [28, 28]),
        ([27, 28, 170] + [170, 171, 172] * 2, 1, [171, 171]),
        ([27, 28, 170] * 6, 4, [28, 28]),  # without rest: twice as many as blocks, no more
    ],
)
def test_a_block_during_which_a_cpu_moved_is_measured_again(
    monkeypatch: pytest.MonkeyPatch, distances: list[float], blocks_left_out: int, kept: list[float]
) -> None:
    found = iter(distances)
    first: list[str] = []

    def measured(_bench: object, _make: object, arms: tuple[Arm, ...], count: int) -> Rounds:
        first.append(arms[0].policy)
        return rounds(**{str(arm): 1.0 for arm in arms})[:count]

    monkeypatch.setattr(blocks, "line_transfer_ns", lambda *_: next(found))
    monkeypatch.setattr(third_party, "check", lambda _: None)
    monkeypatch.setattr(unmodified._UnmodifiedBench, "_measured", measured)
    monkeypatch.setattr(Machine, "this", lambda: Machine(cpus=frozenset({0, 1})))
    arms = (Arm("unis"), Arm("rr"), Arm("other"))
    settings = unmodified.UnmodifiedSettings(rounds=12, window=0.1, arms=arms)
    result = unmodified.compare("testpmd", settings, lambda _: None)
    assert (result.blocks, result.blocks_left_out) == (2, blocks_left_out)
    assert result.line_transfer_ns == kept
    assert [block.line_transfer_ns for block in result.by_block] == kept
    assert all(set(block.mpps.values()) == {1.0} for block in result.by_block)
    assert result.windows == 12
    assert first[-2:] == ["cooperative", "unis"]  # the second block has the reference first

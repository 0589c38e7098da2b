"""unis bench throughput: what is compared with what."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tests.python.planned import path_of
from unis.bench import blocks, throughput
from unis.bench.synthetic import macswap_chain
from unis.bench.throughput import ThroughputCase, ThroughputSettings, compare, result
from unis.cli.app import app
from unis.measure.windows import Arm, Rounds
from unis.plan.machine import Machine
from unis.v1 import engine_pb2 as pb

MACHINE = Machine(cpus=frozenset({0, 1}))
MPPS = {"fused": 6.0, "priority": 4.0, "handover": 5.5, "cooperative": 5.0, "cooperative/16": 5.0}


def reply(mpps: float) -> pb.MeasureReply:
    return pb.MeasureReply(
        delivered=round(mpps * 1e6), window_ns=1_000_000_000, dropped=7, switches=11
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """What was measured, of which chain; co-operative is best with 16 bursts."""
    seen: list[tuple[str, list[str]]] = []

    def measured(case: object, arms: Sequence[Arm], count: int, *, fused: bool) -> Rounds:
        assert isinstance(case, throughput._CaseBench)
        part = "fused" if fused else "chain"
        case._slots[part], case._costs[part] = 4096, {}
        seen.append(("fused" if fused else "chain", [str(replace(arm, name="")) for arm in arms]))
        return [{str(arm): reply(MPPS.get(str(arm), 3.0)) for arm in arms}] * count

    monkeypatch.setattr(throughput._CaseBench, "_measured", measured)
    monkeypatch.setattr(throughput, "_slots", lambda *_: 4096)
    monkeypatch.setattr(blocks, "line_transfer_ns", lambda *_: 30.0)
    return seen


def settings(*policies: str) -> ThroughputSettings:
    return ThroughputSettings(policies, rounds=8, blocks=2, window=0.1)


@pytest.mark.usefixtures("asked")
def test_each_policy_has_a_row_beside_both_baselines() -> None:
    of = settings("priority", "handover", "cooperative", "fused")
    (rows,) = compare(ThroughputCase("light", 5, None), of, MACHINE, lambda _: None)
    data = json.loads(result(rows, MACHINE).model_dump_json())["rows"]
    assert [(row["policy"], row["controller"]) for row in data] == [
        ("unis", "priority"), ("unis", "handover"), ("cooperative", None), ("fused", None),
    ]  # fmt: skip
    first = data[0]
    assert (first["experiment"], first["cost"], first["length"]) == ("throughput", "light", 5)
    assert first["ring"] == 4096
    assert first["mpps"] == {"median": 4.0, "q1": 4.0, "q3": 4.0}
    assert first["ratio_to_cooperative"] == {"median": 0.8, "lo": 0.8, "hi": 0.8}
    assert first["ratio_to_fused"]["median"] == pytest.approx(4 / 6)
    assert (first["drops"], first["switches_per_s"]) == (7.0, 11.0)
    assert set(first["latency_us"]) == {"p5", "p50", "p95", "p99"}
    assert [row["yield_every"] for row in data] == [None, None, 16, None]


def test_the_baseline_is_tuned_first_and_then_measured_anew(
    asked: list[tuple[str, list[str]]],
) -> None:
    of = settings("priority", "cooperative", "fused")
    list(compare(ThroughputCase("light", 2, 2048), of, MACHINE, lambda _: None))
    assert asked[0][1] == ["unis", *(f"cooperative/{every}" for every in (8, 16, 24, 32, 64))]
    chain = ("chain", ["unis/priority", "cooperative/16", "cooperative/8"])
    fused = ("fused", ["unis"])
    assert asked[1:] == [chain, fused, fused, chain]  # the second block the other way round


def test_each_controller_has_the_rings_that_it_would_have(
    asked: list[tuple[str, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = {"priority": 16384, "handover": 4096, "signal": 16384}
    monkeypatch.setattr(throughput, "_slots", lambda case, *_: slots[case.controller])
    of = settings("priority", "handover", "signal", "other", "fused")
    tables = list(compare(ThroughputCase("light", 5, None), of, MACHINE, lambda _: None))
    names = [[row.controller or row.policy for row in rows] for rows in tables]
    assert names == [["priority", "signal", "other", "fused"], ["handover", "other", "fused"]]
    asked.clear()
    list(compare(ThroughputCase("light", 5, 512), of, MACHINE, lambda _: None))
    chain = ["unis/priority", "unis/handover", "unis/signal", "other"]
    assert asked[0] == ("chain", chain)


@pytest.mark.usefixtures("asked")
def test_a_distance_that_was_best_in_the_trials_only_is_not_the_baseline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(MPPS, "cooperative", 2.0)
    ((_, row),) = compare(
        ThroughputCase("light", 2, 2048),
        settings("handover", "cooperative"),
        MACHINE,
        lambda _: None,
    )
    assert (row.yield_every, row.mpps.median) == (8, 3.0)
    ((row, _),) = compare(
        ThroughputCase("light", 2, 2048),
        settings("handover", "cooperative"),
        MACHINE,
        lambda _: None,
    )
    assert row.ratio_to_cooperative
    assert row.ratio_to_cooperative.median == pytest.approx(5.5 / 3)


def test_without_a_baseline_there_is_no_ratio(asked: list[tuple[str, list[str]]]) -> None:
    ((row,),) = compare(
        ThroughputCase("light", 2, 2048), settings("handover"), MACHINE, lambda _: None
    )
    assert row.ratio_to_cooperative is None
    assert row.ratio_to_fused is None
    assert asked == [("chain", ["unis/handover"])] * 2


def test_fused_is_one_process_that_does_the_work_of_all() -> None:
    chain = macswap_chain("x", "variable", 5, 1, ring=512).file
    fused = macswap_chain("x", "variable", 5, 1, ring=512, fused=True).file
    assert len(path_of(chain, "chain")) == 5
    (only,) = fused.functions.values()
    assert only.args[-2:] == ["--stages", "5"]
    assert only.args[:2] == chain.functions["macswap1"].args
    assert chain.traffic == fused.traffic
    assert chain.chains["chain"].ring == fused.chains["chain"].ring == 512


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--cost", "cheap"], "light, medium, heavy, variable"),
        (["--length", "0"], "lengths from 1"),
        (["--ring", "3000"], "auto or a power of two"),
        (["--policies", "best"], "priority, handover"),
    ],
)
def test_a_mistake_is_told_with_what_could_be_written(arguments: list[str], told: str) -> None:
    ended = CliRunner().invoke(app, ["bench", "throughput", *arguments])
    assert ended.exit_code == 2
    assert told in " ".join(ended.output.replace("│", " ").split())


def test_two_parts_with_an_arm_of_one_name_are_no_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocks, "line_transfer_ns", lambda *_: 30.0)
    parts = {part: lambda: [{"unis": reply(1.0)}] for part in ("one", "other")}
    with pytest.raises(ValueError, match="arm of one name"):
        blocks.measure_blocks(parts, 1, (0, 1), "a chain", lambda _: None)

"""Which functions the cache model knows, and what it is given of them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.caches import functions as of
from evaluation.caches.geometry import PAPER, Caches
from evaluation.caches.model import CacheProfile
from evaluation.caches.references import Recorded, RecordedProgram, RecordingError
from tests.python.planned import places, planned, small
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile
from unis.counted.flows import Flows
from unis.plan.machine import Machine
from unis.plan.model import Plan
from unis.plan.planner import make_plan


def one(tmp_path: Path, *args: str, **source: object) -> Plan:
    data = small(
        traffic={"source": {"kind": "synthetic", **source}},
        functions={"fw": {"program": "sh", "args": [*args]}},
        chains={"c": {"path": ["fw"]}},
    )
    chain = LoadedChain(tmp_path / "chain.yaml", ChainFile.model_validate(data))
    return make_plan(chain, Machine(frozenset(range(8))), (), places)


def test_chains_and_captures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="not chains"):
        of.by_ways(planned(small()), PAPER, pytest.fail)
    plan = one(tmp_path)
    capture = {"kind": "pcap", "file": "x.pcap"}
    file = ChainFile.model_validate(small(traffic={"source": capture}))
    with pytest.raises(RecordingError, match="not captures"):
        of.by_ways(replace(plan, traffic=file.traffic), PAPER, pytest.fail)


def test_nobody_runs_as_another_than_the_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of, "record", pytest.fail)
    plan = one(tmp_path)
    for confined in ({"user": "nobody"}, {"env": {"LD_PRELOAD": "x"}}):
        function = replace(plan.functions[0], **confined)
        with pytest.raises(RecordingError, match="is not started again without them"):
            of.record_function(plan, function)


def test_a_word_that_can_be_no_path_is_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words: list[tuple[str, ...]] = []

    def record(subject: RecordedProgram, *_: object, **__: object) -> Recorded:
        words.append(subject.arguments)
        return Recorded("sh", tmp_path / "refs", 1, 1)

    monkeypatch.setattr(of, "record", record)
    long = "x" * 5000
    plan = one(tmp_path, long)
    of.record_function(plan, plan.functions[0])
    assert words == [(long,)]


def test_what_is_recorded_is_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program, arguments with the files of the chain file's folder, and as many flows."""
    (tmp_path / "rules").write_text("allow * * * * *\n")
    asked: list[tuple[RecordedProgram, Flows]] = []

    def record(
        subject: RecordedProgram, flows: Flows, *, report: Callable[[str], None]
    ) -> Recorded:
        report("it is recorded")
        asked.append((subject, flows))
        return Recorded("sh", tmp_path / "refs", flows.total, flows.flows)

    def profiled(_: Recorded, caches: Caches) -> CacheProfile:
        misses = tuple(float(20 - ways) for ways in range(20))
        none = (0.0,) * 20
        return CacheProfile(
            name="sh", caches=caches, packets=1, instructions=100, references=50, l2_hits=10,
            llc_references=20, io_hits=0, misses=misses, port_misses=none, written_back=none,
            device_spills=0, occupancy_lines=(0,) * 20,
        )  # fmt: skip

    monkeypatch.setattr(of, "record", record)
    monkeypatch.setattr(of, "cache_profile", profiled)
    plan, said = one(tmp_path, "--rules", "rules", "-v", flows=50_000), list[str]()
    found = of.by_ways(plan, PAPER, said.append)
    ((subject, flows),) = asked
    rules = (tmp_path / "rules").resolve()
    assert subject.program.name == "sh"
    assert subject.arguments == ("--rules", str(rules), "-v")
    assert subject.files == (rules,)
    assert flows == Flows(50_000, 150_000)
    assert said == ["it is recorded"]
    assert len(found.shares) == 20
    assert list(found.shares) == sorted(found.shares)
    assert found.extra_ns == pytest.approx([(20 - ways) * 65 / 3.5 for ways in range(1, 21)])
    assert "cache of 20 ways simulated" in found.source
    assert PAPER.name in found.source

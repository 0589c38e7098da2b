"""`python -m evaluation agent` as a whole, but for the engine, and when things are recorded."""

import itertools
import os
import re
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evaluation.caches import geometry
from evaluation.caches.references import Recorded
from evaluation.emulation import counters
from evaluation.emulation.machine import EmulatedCache, EmulatedMachine
from evaluation.emulation.tree import EmulatedTree
from tests.python import test_agent_modelled as of
from tests.python.commands import evaluation, run, stale_run
from tests.python.engine_answers import Answers
from unis.agent import watch
from unis.runtime.process import ProcessId
from unis.v1 import engine_pb2 as pb

recordings = of.recordings  # a fixture
MACHINE = EmulatedMachine(
    l3=EmulatedCache(16, of.WAY, (3, 5), shareable=0xC000), rmids=64, cpus={3: (0, 1), 5: (6, 7)}
)


def stats_by_look() -> Callable[[], pb.Stats]:
    """Of a run whose function passes a packet a microsecond, on a CPU of the second cache."""
    looks = itertools.count(1)

    def stats() -> pb.Stats:
        look = next(looks)
        return pb.Stats(
            time_ns=look * 1_000_000,
            functions=[pb.FunctionStats(name="monitor", cpu=7, pid=os.getpid())],
            chains=[pb.ChainStats(name="watched", functions=["monitor"], delivered=look * 1000)],
        )

    return stats


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    """Of the command, for a server with promises."""
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setattr(geometry, "read_caches", lambda: of.CACHES)
    book = tmp_path / "book.json"
    assert run("admit", of.CLUSTER, of.EXAMPLES / "edge.yaml", "--book", book)[0] == 0
    return "agent", of.CLUSTER, "xeon:0", "--book", book


@pytest.mark.system
def test_it_shows_what_the_model_says(
    tmp_path: Path,
    words: tuple[Any, ...],
    monkeypatch: pytest.MonkeyPatch,
    recordings: Mapping[str, Recorded],
) -> None:
    """Two ways are leased, and the nat of the recording wants more."""
    EmulatedTree(tmp_path / "run" / "resctrl", MACHINE).inject()
    stale_run(tmp_path, "office", launcher=ProcessId.me())

    def record(member: watch.Member, report: Callable[[str], None]) -> Recorded:
        report(f"recording {member.function}")
        return recordings["large"]

    monkeypatch.setattr(watch, "EngineClient", Answers(stats_by_look()))
    monkeypatch.setattr(counters, "record_member", record)
    monkeypatch.setattr(counters, "IdleWorker", of.Worker)
    code, said = evaluation(*words, "--looks", "6", "--interval", "0.05")
    assert code == 0, said
    assert said.count("recording monitor") == 1
    assert "ways used (modelled)" in said
    assert "MB/s (modelled)" in said
    found = re.search(r"^ ?office.watched +\d+ +– +1 +(\S+) +(\S+)", said, re.MULTILINE)
    assert found, said
    assert float(found[1]) == pytest.approx(2, abs=0.1)
    assert float(found[2]) > 1


def test_a_signal_while_it_ends_does_not_keep_it_from_telling(
    words: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(watch.RunWatch, "close", close)
    code, said = evaluation(*words, "--looks", "1")
    assert code == 0, said
    assert "office.watched" in said


def test_release_says_what_others_have_removed(tmp_path: Path, words: tuple[Any, ...]) -> None:
    tree = EmulatedTree(tmp_path / "run" / "resctrl", MACHINE)
    tree.make("unis-office.watched")  # nobody is in it: the agent takes it over
    assert evaluation(*words, "--looks", "1")[0] == 0
    tree.remove("unis-office.watched")
    code, said = evaluation(*words, "--release")
    assert code == 0, said
    assert "is as it was before, but for this" in said
    assert "unis-office.watched was there before the agent" in " ".join(said.split())
    assert "but for this" not in run(*words, "--release")[1]

"""What the model says of functions in an emulated cache: real recordings, made runs."""

import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from evaluation.caches import geometry
from evaluation.caches.geometry import CacheLevel, Caches
from evaluation.caches.model import beside
from evaluation.caches.references import Recorded, RecordingError, record
from evaluation.emulation import counters
from evaluation.emulation.counters import (
    ModelledCache,
    ModelledCounters,
    ModelledWatch,
)
from evaluation.emulation.machine import EmulatedCache as EmulatedCache
from evaluation.emulation.machine import EmulatedMachine, Question
from evaluation.emulation.tree import EmulatedTree
from evaluation.resq.reference_subjects import reference_subject
from tests.needs import need
from tests.python.commands import evaluation, run, stale_run
from tests.python.engine_answers import Answers
from tests.python.isolating import FixedThreads
from unis.agent import watch
from unis.agent.agent import Agent, AgentEvent, AgentSettings
from unis.agent.duties import Duties
from unis.agent.notes import NotesFile
from unis.agent.watch import ChainSample, Member, RunWatch
from unis.counted.flows import Flows
from unis.isolate.hardware import IoWays
from unis.isolate.schemata import parse
from unis.isolate.tree import control_groups
from unis.runtime.process import ProcessId
from unis.v1 import engine_pb2 as pb

pytestmark = pytest.mark.system

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "slo"
CLUSTER = EXAMPLES / "cluster.yaml"
# Small, so that few flows need many ways: 32 KB a way. 3000 flows of nat want 8 of them, 400 two;
# macswap's 128 buffers stay in L2.
CACHES = Caches("test", CacheLevel(64, 8), CacheLevel(64, 8), CacheLevel(512, 16))
WAY = CACHES.llc.way_bytes
FLOWS = {"large": 3000, "small": 400, "macswap": 400}
PROGRAM = {"large": "nat", "small": "nat", "macswap": "macswap"}
TIDS = {"large": 100, "small": 101, "macswap": 102}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    need(shutil.which("valgrind") is not None, "needs valgrind: apt-get install valgrind")
    folder = tmp_path_factory.mktemp("references")
    found = {}
    for name, count in FLOWS.items():
        flows = Flows(count, packets=9000)
        subject = reference_subject(PROGRAM[name], folder, flows)
        found[name] = record(subject, flows, folder=folder, buffers=128)
    return found


class Worker(Executor):
    """Does what it is asked at once, or when it is told to."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.asked: list[Callable[..., Any]] = []
        self.waiting: list[Callable[[], None]] = []
        self._at_once = at_once

    def submit(self, of: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(of(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)

        self.asked.append(of)
        self.waiting.append(work)
        if self._at_once:
            self.work()
        return future

    def work(self) -> None:
        self.waiting.pop(0)()


@dataclass
class Made:
    """Functions at some rates, and the counters of the cache that they are in."""

    recordings: Mapping[str, Recorded]
    mpps: dict[str, float | None] = field(default_factory=lambda: dict.fromkeys(TIDS, 1.0))
    worker: Worker = field(default_factory=Worker)
    told: list[str] = field(default_factory=list)
    error: Exception | None = None
    now: float = 0.0

    def __post_init__(self) -> None:
        cache = ModelledCache(CACHES, 2, lambda cpu: cpu // 4 if cpu < 8 else None)
        self.counters = ModelledCounters(
            cache, self.record, self.told.append, self.worker, lambda: self.now
        )

    def record(self, member: Member, report: Callable[[str], None]) -> Recorded:
        report(f"at {member.function}")
        if member.function not in self.recordings:
            raise self.error or RecordingError(f"nobody knows {member.function}")
        return self.recordings[member.function]

    def look(self, names: list[str]) -> None:
        members = map(member, names)
        self.counters.seen(
            [ChainSample(of.threads, mpps=self.mpps[of.function], members=(of,)) for of in members]
        )

    def ask(
        self, mask: int, names: list[str], event: str = "llc_occupancy", **of: Any
    ) -> int | None:
        tids = frozenset(TIDS[name] for name in names)
        given = {"domain": 0, "group": "unis-a", **of}
        return self.counters.read(Question(event, tasks=tids, mask=mask, **given))

    def settled(self, mask: int, names: list[str], looks: int = 3) -> int | None:
        """Occupancy of a class once it is known."""
        for _ in range(looks):
            self.look(names)
            found = self.ask(mask, names)
        return found

    def misses(self, name: str) -> float:
        found = self.counters.misses_per_packet([member(name)])
        assert found is not None
        return found

    @property
    def plays(self) -> int:
        return self.worker.asked.count(beside)


def member(name: str, cpu: int = 1) -> Member:
    return Member("run", name, cpu, frozenset([TIDS[name]]))


def test_fewer_ways_hold_less_and_miss_more(recordings: dict[str, Recorded]) -> None:
    found = []
    for ways in (2, 4, 12):
        made = Made(recordings)
        occupied = made.settled((1 << ways) - 1, ["large"])
        assert occupied is not None
        found.append((occupied / WAY, made.misses("large")))
    assert [ways for ways, _ in found[:2]] == pytest.approx([2, 4], abs=0.1)
    assert 7 < found[2][0] < 10, "what it wants"
    assert all(less > more + 0.5 for (_, less), (_, more) in pairwise(found))


def test_a_class_is_shared_by_all_in_it(recordings: dict[str, Recorded]) -> None:
    """Each counted apart, in a MON group; who is alone in as many ways has more of them."""
    made = Made(recordings)
    both = ["large", "small"]
    for _ in range(3):
        made.look(both)
        parts = [made.ask(0xF, [name], group=f"unis-a/mon_groups/{name}") for name in both]
        whole = made.ask(0xF, both)
    assert None not in (*parts, whole)
    assert sum(map(int, filter(None, parts))) == whole
    assert whole == pytest.approx(4 * WAY, rel=0.05)
    alone = Made(recordings)
    assert alone.settled(0xF, ["small"]) is not None
    assert made.misses("small") > alone.misses("small") + 0.1


def test_a_class_is_played_again_when_something_has_changed(
    recordings: dict[str, Recorded],
) -> None:
    made = Made(recordings)
    both = ["large", "small"]
    made.settled(0xF, both)
    assert made.plays == 1
    made.mpps = {"large": 3.0, "small": 2.6}  # all are faster
    made.settled(0xF, both, looks=12)
    assert made.plays == 1
    misses = made.misses("small")
    for mpps in (0.5, 1.5, 0.5, 1.5, 0.5):  # a rate that will not settle is not followed
        made.mpps["small"] = mpps
        made.look(both)
        made.ask(0xF, both)
    assert made.plays == 2
    assert made.misses("small") > misses
    made.settled(0xFF, both)
    made.settled(0xFF, ["large"])
    assert made.plays == 4
    assert made.worker.asked.count(made.record) == 2


def test_who_passes_nothing_is_not_played(recordings: dict[str, Recorded]) -> None:
    made = Made(recordings)
    made.settled(0xF, ["large", "small"])
    assert made.ask(0xF, ["large"])
    made.mpps["large"] = 0.0
    made.settled(0xF, ["large", "small"])
    alone = Made(recordings)
    assert made.ask(0xF, ["large"]) == 0
    assert made.ask(0xF, ["small"]) == alone.settled(0xF, ["small"])


def test_traffic_to_memory_is_counted_since_it_is_known(recordings: dict[str, Recorded]) -> None:
    made = Made(recordings)
    made.settled(0x3, ["large"])
    before = made.ask(0x3, ["large"], "mbm_total_bytes")
    assert before == 0, "no time has passed"
    made.now = 2.0
    (alone,) = beside([*made.counters._simulations["unis-a", 0].neighbours.values()], CACHES)
    a_second = alone.memory_bytes_per_packet() * 1e6
    found = made.ask(0x3, ["large"], "mbm_total_bytes")
    assert found == pytest.approx(2 * a_second, rel=0.02)
    assert made.ask(0x3, ["large"], "mbm_local_bytes") == found
    made.mpps["large"] = 4.0
    made.now = 3.0  # from now on
    made.look(["large"])
    made.now = 4.0
    assert made.ask(0x3, ["large"], "mbm_total_bytes") == pytest.approx(7 * a_second, rel=0.02)


def test_what_cannot_be_recorded_is_told_once_and_nobody_beside_it_is_known(
    recordings: dict[str, Recorded],
) -> None:
    made = Made({name: of for name, of in recordings.items() if name != "large"})
    for _ in range(4):
        made.look(["large", "small", "macswap"])
        assert made.ask(0xF, ["large", "small"]) is None
        apart = made.ask(0xF0, ["macswap"], group="unis-b")
    assert apart is not None
    (sentence,) = [told for told in made.told if not told.startswith("at ")]
    assert "run.large and the functions that share its ways cannot be modelled" in sentence
    assert "nobody knows large" in sentence
    assert not made.counters.pending([member("large")])
    assert made.counters.misses_per_packet([member("small")]) is None


def test_it_is_waited_for(recordings: dict[str, Recorded]) -> None:
    """Nothing is known before the worker has been at it, and that is told."""
    worker = Worker(at_once=False)
    made = Made(recordings, worker=worker)
    for _ in range(2):  # it is recorded, and played
        assert made.settled(0xF, ["large"]) is None
        assert made.counters.pending([member("large")])
        assert len(worker.waiting) == 1
        worker.work()
    occupied = made.settled(0xF, ["large"])
    assert occupied == pytest.approx(4 * WAY, rel=0.05)
    assert not made.counters.pending([member("large")])
    made.look(["large", "small"])  # nobody has asked about both yet
    made.ask(0xF, ["large", "small"])
    made.look(["large", "small"])
    assert made.counters.pending([member("large")])
    while worker.waiting:
        worker.work()
    made.settled(0xF, ["large", "small"])
    while worker.waiting:
        worker.work()
    beside_small = made.settled(0xF, ["large", "small"])
    assert not made.counters.pending([member("large")])
    made.mpps["small"] = 0.5
    made.look(["large", "small"])
    assert not made.counters.pending([member("large")])
    assert made.settled(0xF, ["large", "small"], looks=12) == beside_small
    assert len(worker.waiting) == 1
    assert not made.counters.pending([member("large")]), "or nobody would divide as rates change"
    assert made.settled(0xFF, ["large", "small"]) == beside_small, "what is known"
    assert made.counters.pending([member("large")])


def test_a_rate_that_is_not_known_is_waited_for(recordings: dict[str, Recorded]) -> None:
    made = Made(recordings)
    made.mpps["large"] = None
    assert made.settled(0xF, ["large"]) is None
    assert made.counters.pending([member("large")])
    assert made.plays == 0


def test_threads_of_strangers_are_not_known(recordings: dict[str, Recorded]) -> None:
    made = Made(recordings)
    assert made.ask(0xF, []) == 0
    made.settled(0xF, ["large", "small"])
    made.look(["large"])
    assert made.ask(0xF, ["large", "small"]) is None


def test_functions_are_in_the_cache_of_their_cpu(recordings: dict[str, Recorded]) -> None:
    made = Made(recordings)
    for _ in range(3):
        there = member("large", cpu=5)
        made.counters.seen([ChainSample(there.threads, mpps=1.0, members=(there,))])
        found = [made.ask(0xF, ["large"], domain=domain) for domain in (0, 1)]
    assert found[0] == 0
    assert found[1] == pytest.approx(4 * WAY, rel=0.05)


def test_an_error_of_any_kind_is_told_and_ends_nothing(
    recordings: dict[str, Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made({}, error=OSError("File name too long"))
    assert made.settled(0xF, ["large"]) is None
    assert "OSError: File name too long" in made.told[-1]

    def broken(*_: object, **__: object) -> None:
        raise ValueError("no such cache")

    made = Made(recordings)
    with monkeypatch.context() as patch:
        patch.setattr(counters, "beside", broken)
        assert made.settled(0xF, ["large"]) is None
        assert made.told[-1] == "ValueError: no such cache"
        assert not made.counters.pending([member("large")])
        made.settled(0xF, ["large"], looks=40)
        assert made.worker.asked.count(broken) == 1
    assert made.settled(0xF, ["large"], looks=30) == pytest.approx(4 * WAY, rel=0.05)


@pytest.mark.parametrize("bad_input", [True, False])
def test_what_may_be_mended_is_tried_again(
    recordings: dict[str, Recorded], *, bad_input: bool
) -> None:
    made = Made({}, error=RecordingError("no memory", bad_input=bad_input))
    made.settled(0xF, ["large"], looks=40)
    assert made.told.count("at large") == 1
    made.recordings = recordings
    occupied = made.settled(0xF, ["large"], looks=30)
    assert made.told.count("at large") == (1 if bad_input else 2)
    assert (occupied is None) == bad_input


def test_what_nobody_waits_for_is_not_begun(recordings: dict[str, Recorded]) -> None:
    """The recording of a function that has gone, and of one that was started again."""
    made = Made(recordings, worker=Worker(at_once=False))
    made.look(["large", "small"])
    other = replace(member("small"), threads=frozenset([201]))
    made.counters.seen([ChainSample(other.threads, mpps=1.0, members=(other,))])
    while made.worker.waiting:
        made.worker.work()
    assert made.told == ["at small"]
    made.settled(0xF, ["small"])
    made.worker.work()
    made.settled(0xF, ["small"])  # a play waits, and then its class is another
    assert len(made.worker.waiting) == 1
    made.settled(0xFF, ["small"])
    assert len(made.worker.waiting) == 2
    made.worker.work()
    assert made.settled(0xFF, ["small"]) is None
    made.worker.work()
    assert made.settled(0xFF, ["small"])


def test_who_is_in_no_class_is_not_waited_for(recordings: dict[str, Recorded]) -> None:
    """Nobody asks about a function that has no ways, and its cache may be none that is known."""
    made = Made(recordings)
    waits = []
    for _ in range(4):
        made.look(["large"])
        waits.append(made.counters.pending([member("large")]))
    assert waits == [True, True, False, False], "at first its class is not made yet"
    made = Made(recordings)
    for _ in range(4):
        nowhere = member("large", cpu=99)
        made.counters.seen([ChainSample(nowhere.threads, mpps=1.0, members=(nowhere,))])
        made.ask(0xF, ["large"])
    assert not made.counters.pending([member("large")])


def test_one_class_does_not_wait_for_another(recordings: dict[str, Recorded]) -> None:
    made = Made(recordings)
    made.mpps["small"] = None
    for _ in range(4):
        made.look(["large", "small"])
        made.ask(0xF, ["large"])
        made.ask(0xF0, ["small"], group="unis-b")
    assert made.counters.pending([member("small")])
    assert not made.counters.pending([member("large")])


def test_a_group_that_was_not_asked_about_for_a_look_counts_on(
    recordings: dict[str, Recorded],
) -> None:
    made = Made(recordings)
    made.settled(0x3, ["large", "small"])
    made.now = 1.0
    moved = made.ask(0x3, ["large", "small"], "mbm_total_bytes")
    assert moved
    made.look(["large", "small"])
    made.ask(0x3, ["macswap"], group="unis-b")
    made.look(["large", "small"])
    found = made.ask(0x3, ["large", "small"], "mbm_total_bytes")
    assert found is not None
    assert found >= moved


# ---------------------------------------------------------------------- the agent

MACHINE = EmulatedMachine(l3=EmulatedCache(16, WAY, shareable=0xC000), rmids=64)
DDIO = IoWays("ddio", "the two highest ways", {0: 0xC000}, {0: WAY})


@dataclass
class Runs:
    """Runs whose packets are late by what they miss."""

    mpps: Mapping[str, float]
    counters: ModelledCounters | None = None

    def sample(self, chains: Mapping[str, str]) -> Mapping[str, ChainSample]:
        assert self.counters
        found = {}
        for name in chains:
            of = member(name)
            misses = self.counters.misses_per_packet([of]) or 0.0
            found[name] = ChainSample(of.threads, 80 + 100 * misses, self.mpps[name], members=(of,))
        return found


def test_the_agent_divides_by_what_is_modelled(
    tmp_path: Path, recordings: dict[str, Recorded]
) -> None:
    """A nat of many flows crowds out one of few, which misses much and has a class of its own:
    there its fair share holds what it needs. macswap needs nothing.
    """
    made = Made(recordings)
    runs = Runs({"large": 1.0, "small": 0.1, "macswap": 0.5}, made.counters)
    tree = EmulatedTree(tmp_path / "tree", MACHINE, FixedThreads(TIDS.values()), made.counters)
    events: list[AgentEvent] = []
    agent = Agent(
        tree, ModelledWatch(runs, made.counters), NotesFile(tmp_path), DDIO, events.append,
        # Latency here is of the model, which is some looks late.
        AgentSettings(settle=6, patience=2),
    )  # fmt: skip
    wanted = Duties({}, {"large": 1000.0, "small": 120.0, "macswap": 120.0}, 6)
    looks = []
    for _ in range(20):
        status = agent.tick(wanted)
        assert status.problem == ""
        looks.append(status.samples["small"].misses_per_packet)
    told = [(event.kind, event.promise) for event in events]
    assert told == [("broken", "small"), ("divided", ""), ("kept", "small")]
    classes = {
        name: parse(tree.read(f"{name}/schemata"))["L3"][0].bit_count()
        for name in control_groups(tree)
    }
    assert classes == {"unis-large": 3, "unis-small": 2, "unis-macswap": 1}
    crowded = max(misses for misses in looks if misses is not None)
    assert crowded > 0.5
    assert looks[-1] is not None
    assert looks[-1] < 0.2
    assert status.occupied["large"] == pytest.approx(3, abs=0.1)
    assert 1 < status.occupied["small"] <= 2
    assert status.occupied["macswap"] < 0.5


def test_nothing_is_divided_while_the_model_is_at_work(
    tmp_path: Path, recordings: dict[str, Recorded]
) -> None:
    made = Made(recordings, worker=Worker(at_once=False))

    class Late(Runs):
        def sample(self, chains: Mapping[str, str]) -> Mapping[str, ChainSample]:
            return {of: replace(look, p95_us=500.0) for of, look in super().sample(chains).items()}

    runs = Late({"large": 1.0, "small": 0.1}, made.counters)
    tree = EmulatedTree(tmp_path / "tree", MACHINE, FixedThreads(TIDS.values()), made.counters)
    events: list[AgentEvent] = []
    agent = Agent(
        tree, ModelledWatch(runs, made.counters), NotesFile(tmp_path), DDIO, events.append,
        AgentSettings(settle=2, patience=2),
    )  # fmt: skip
    for _ in range(10):
        agent.tick(Duties({}, {"large": 100.0, "small": 100.0}, 4))
    assert sorted(event.kind for event in events) == ["broken", "broken"]


def test_misses_that_hardware_counts_are_those_that_are_told(
    recordings: dict[str, Recorded],
) -> None:
    made = Made(recordings)
    made.settled(0x3, ["large"])

    class Counted(Runs):
        def sample(self, chains: Mapping[str, str]) -> Mapping[str, ChainSample]:
            return {
                of: replace(look, misses_per_packet=7.0)
                for of, look in super().sample(chains).items()
            }

    for kind, misses in ((Runs, made.misses("large")), (Counted, 7.0)):
        of_both = ModelledWatch(kind({"large": 1.0}, made.counters), made.counters)
        assert of_both.sample({"large": "run.large"})["large"].misses_per_packet == misses


def test_the_command_says_that_it_is_modelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setattr(geometry, "read_caches", lambda: CACHES)
    book = tmp_path / "book.json"
    assert run("admit", CLUSTER, EXAMPLES / "edge.yaml", "--book", book)[0] == 0
    looks = ("--looks", "2", "--interval", "0.05")
    code, said = evaluation("agent", CLUSTER, "xeon:0", "--book", book, *looks)
    assert code == 0, said
    assert said.count("occupancy, memory bandwidth and misses are modelled") == 1
    assert "ways used (modelled)" in said


def test_a_tree_that_counts_nothing_has_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setattr(geometry, "read_caches", lambda: CACHES)
    EmulatedTree(tmp_path / "run" / "resctrl", replace(MACHINE, rmids=0)).inject()
    book = tmp_path / "book.json"
    assert run("admit", CLUSTER, EXAMPLES / "edge.yaml", "--book", book)[0] == 0
    said = evaluation("agent", CLUSTER, "xeon:0", "--book", book, "--looks", "1")[1]
    assert "misses are not known" in said
    assert "modelled" not in said


def test_a_look_names_the_functions_of_a_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the engine's answer, with the threads of their processes."""
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path / "run"))
    stale_run(tmp_path, "edge", launcher=ProcessId.me())
    pid = os.getpid()
    stats = pb.Stats(
        functions=[pb.FunctionStats(name="fw", cpu=3, pid=pid), pb.FunctionStats(name="nat")],
        chains=[pb.ChainStats(name="c", functions=["fw"])],
    )

    monkeypatch.setattr(watch, "EngineClient", Answers(lambda: stats))
    look = RunWatch().sample({"p": "edge.c"})["p"]
    (found,) = look.members
    assert (found.run, found.function, found.cpu) == ("edge", "fw", 3)
    assert pid in found.threads == look.threads

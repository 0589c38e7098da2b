"""The agent of a server against the emulated tree: what it applies, divides, and mends."""

import contextlib
import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluation.emulation.machine import Question
from evaluation.emulation.state import Fault
from evaluation.emulation.tree import EmulatedTree
from tests.python.isolating import PAPER, THREADS, WAY, FixedThreads, picture
from tests.python.strategies import scaled
from unis.agent.agent import Agent, AgentEvent, AgentSettings, Released
from unis.agent.duties import Duties, ReservedDuty, duties
from unis.agent.notes import Notes, NotesFile, Standing
from unis.agent.watch import ChainSample
from unis.errors import UnisError
from unis.isolate.hardware import IoWays
from unis.isolate.masks import is_valid
from unis.isolate.schemata import parse
from unis.isolate.tree import Tree, TreeError, control_groups, inside, tasks
from unis.slo.book import Book, InstanceEntry, OnDemandEntry, ReservedEntry

PATIENT = AgentSettings(settle=2, patience=2)
DDIO = IoWays("ddio", "the two highest ways", {0: 0xC0000}, {0: 1 << 20})


@dataclass
class Functions:
    """Functions that need so many ways to be in time: the cache of an emulated machine.

    Where a class is too small for all in it, each has a part by what it needs, as under LRU.
    """

    needs: dict[str, float]
    threads: dict[str, int]
    counted: bool = True
    tree: Tree | None = None
    has: dict[str, float] = field(default_factory=dict)  # when they were last looked at

    def __post_init__(self) -> None:
        self.threads = {name: self.threads[name] for name in self.needs}

    def sample(self, chains: Mapping[str, str]) -> Mapping[str, ChainSample]:
        """Late where it has less than it needs."""
        with contextlib.suppress(TreeError):
            self._see()
        found = {}
        for name in chains:
            if name in self.threads:
                late = self.has.get(name, 0.0) < self.needs[name] - 0.01
                misses = 2.0 if late else 0.1
                p95_us = 150.0 if late else 80.0
                threads = frozenset([self.threads[name]])
                found[name] = ChainSample(threads, p95_us, 1.0, misses_per_packet=misses)
        return found

    def read(self, question: Question) -> int | None:
        """Occupancy. The tree is locked meanwhile, so it is of the last look."""
        if question.event != "llc_occupancy" or not self.counted:
            return None
        names = [name for name, tid in self.threads.items() if tid in question.tasks]
        return int(sum(min(self.needs[name], self.has.get(name, 0.0)) for name in names) * WAY)

    def _see(self) -> None:
        assert self.tree is not None
        self.has = dict.fromkeys(self.threads, 0.0)
        for group in ["", *control_groups(self.tree)]:
            there = {*tasks(self.tree, group)}
            needs = {of: self.needs[of] for of, tid in self.threads.items() if tid in there}
            mask = parse(self.tree.read(inside(group, "schemata")))["L3"][0]
            part = min(1.0, mask.bit_count() / (sum(needs.values()) or 1.0))
            self.has |= {of: need * part for of, need in needs.items()}


@dataclass
class Server:
    """An emulated server whose agent can be killed and started again."""

    folder: Path
    functions: Functions
    events: list[AgentEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tree = EmulatedTree(
            self.folder / "tree", PAPER, FixedThreads(THREADS), counters=self.functions
        )
        self.functions.tree = self.tree

    def agent(self, tree: Tree | None = None) -> Agent:
        tell = self.events.append
        return Agent(tree or self.tree, self.functions, NotesFile(self.folder), DDIO, tell, PATIENT)

    def told(self, kind: str) -> list[str]:
        return [event.promise for event in self.events if event.kind == kind]

    def classes(self) -> dict[str, int]:
        """Masks of our groups."""
        return {
            name: parse(self.tree.read(f"{name}/schemata"))["L3"][0]
            for name in control_groups(self.tree)
            if name.startswith("unis-")
        }

    def where(self, name: str) -> str:
        """The class of a function's thread."""
        tid = self.functions.threads[name]
        return next((of for of in control_groups(self.tree) if tid in tasks(self.tree, of)), "")


def see_that_it_is_right(server: Server, wanted: Duties) -> None:
    """Every function in a class of its own, as wide as promised; none overlaps; I/O is apart."""
    classes = server.classes()
    for name, of in wanted.reserved.items():
        assert classes[f"unis-{name}"].bit_count() == of.ways
        if name in server.functions.threads:
            assert server.where(name) == f"unis-{name}"
    shared = {server.where(name) for name in wanted.on_demand if name in server.functions.threads}
    assert all(of in classes for of in shared)
    taken = DDIO.masks[0]
    for mask in classes.values():
        assert is_valid(mask)
        assert not mask & taken
        taken |= mask
    leased = sum(
        mask.bit_count() for of, mask in classes.items() if of not in
        {f"unis-{name}" for name in wanted.reserved}
    )  # fmt: skip
    assert leased == (wanted.leased_ways if wanted.on_demand else 0)


RESERVED = {"fw": ReservedDuty(3, 100.0, None), "nat": ReservedDuty(5, 100.0, None)}
NEEDS = {"fw": 2.0, "nat": 4.0, "ids": 2.0, "lpm": 1.0, "vpn": 3.0}
TIDS = {name: 100 + at for at, name in enumerate(NEEDS)}


# ---------------------------------------------------------------------- what it does


def test_every_promise_has_its_class(tmp_path: Path) -> None:
    server = Server(tmp_path, Functions(NEEDS, TIDS))
    wanted = Duties(RESERVED, {"ids": 100.0, "lpm": 100.0}, 4)
    status = server.agent().tick(wanted)
    assert status.problem == ""
    see_that_it_is_right(server, wanted)
    assert server.where("ids") == server.where("lpm") == "unis-on-demand-0"


def test_what_is_promised_no_more_has_no_class(tmp_path: Path) -> None:
    server = Server(tmp_path, Functions(NEEDS, TIDS))
    agent = server.agent()
    agent.tick(Duties(RESERVED, {"ids": 100.0}, 4))
    fewer = Duties({"nat": RESERVED["nat"]})
    agent.tick(fewer)
    see_that_it_is_right(server, fewer)
    assert {*server.classes()} == {"unis-nat"}
    assert server.where("fw") == ""


def test_release_leaves_the_tree_as_it_was(tmp_path: Path) -> None:
    server = Server(tmp_path, Functions(NEEDS, TIDS))
    before = picture(server.tree)
    agent = server.agent()
    agent.tick(Duties(RESERVED, {"ids": 100.0, "lpm": 100.0, "vpn": 100.0}, 4))
    assert agent.release() == Released([], [])
    assert picture(server.tree) == before
    assert NotesFile(tmp_path).read() == Notes()


def test_who_misses_much_gets_a_class_of_its_own(tmp_path: Path) -> None:
    """vpn and lpm are crowded out by ids, which takes what it can; vpn's fair share would do."""
    server = Server(tmp_path, Functions({"ids": 9.0, "lpm": 0.5, "vpn": 2.0}, TIDS))
    promised = {"ids": 1000.0, "lpm": 100.0, "vpn": 100.0}
    wanted = Duties({}, promised, 6)
    agent = server.agent()
    for _ in range(12):
        agent.tick(wanted)
        see_that_it_is_right(server, wanted)
    assert {*server.told("broken")} == {"lpm", "vpn"}
    assert {*server.told("kept")} == {"lpm", "vpn"}
    assert server.told("more-instances") == []
    assert server.told("divided") == [""]
    own = server.classes()["unis-vpn"]
    assert own.bit_count() == 2


def test_what_cannot_be_kept_here_is_reported_once(tmp_path: Path) -> None:
    server = Server(tmp_path, Functions({"ids": 9.0, "vpn": 9.0}, TIDS))
    wanted = Duties({}, {"ids": 100.0, "vpn": 100.0}, 4)
    agent = server.agent()
    for _ in range(15):
        agent.tick(wanted)
    assert sorted(server.told("more-instances")) == ["ids", "vpn"]
    # A larger lease is a new beginning.
    larger = Duties({}, wanted.on_demand, 18)
    for _ in range(15):
        agent.tick(larger)
    assert sorted(server.told("kept")) == ["ids", "vpn"]
    assert sorted(server.told("more-instances")) == ["ids", "vpn"]


def test_where_nobody_counts_occupancy_nothing_is_divided(tmp_path: Path) -> None:
    server = Server(tmp_path, Functions({"ids": 9.0, "vpn": 2.0}, TIDS, counted=False))
    agent = server.agent()
    for _ in range(10):
        agent.tick(Duties({}, {"ids": 1000.0, "vpn": 100.0}, 4))
    assert server.told("divided") == []
    assert server.told("more-instances") == ["vpn"]


def test_a_reserved_promise_that_is_broken_is_told(tmp_path: Path) -> None:
    server = Server(tmp_path, Functions({"fw": 9.0}, TIDS))
    agent = server.agent()
    for _ in range(5):
        agent.tick(Duties({"fw": RESERVED["fw"]}))
    assert server.told("broken") == ["fw"]


@pytest.mark.parametrize(
    ("mpps", "lost", "broken"),
    [
        (0.9, 0.1, True),
        (0.9, 0.01, False),
        (1.1, 0.3, False),
        (0.0, 1.0, True),
    ],  # what is beyond the promise may go
)
def test_a_reserved_promise_of_throughput(
    tmp_path: Path, mpps: float, lost: float, broken: bool
) -> None:
    class Lossy(Functions):
        def sample(self, chains: Mapping[str, str]) -> Mapping[str, ChainSample]:
            return {
                name: replace(of, mpps=mpps, lost=lost, p95_us=of.p95_us if mpps else None)
                for name, of in super().sample(chains).items()
            }

    server = Server(tmp_path, Lossy({"fw": 2.0}, TIDS))
    agent = server.agent()
    for _ in range(4):
        agent.tick(Duties({"fw": ReservedDuty(3, 100.0, 1.0)}))
    assert (server.told("broken") == ["fw"]) == broken


def test_more_than_there_is_is_told_and_what_was_stays(tmp_path: Path) -> None:
    server = Server(tmp_path, Functions(NEEDS, TIDS))
    agent = server.agent()
    wanted = Duties(RESERVED)
    agent.tick(wanted)
    status = agent.tick(Duties({**RESERVED, "vpn": ReservedDuty(15, 100.0, None)}))
    assert "ways of L3 0 are asked for" in status.problem
    see_that_it_is_right(server, wanted)
    assert server.told("failed") == [""]
    agent.tick(wanted)
    assert server.told("mended") == [""]


# ---------------------------------------------------------------------- faults

FAULTS = st.builds(
    Fault,
    st.sampled_from(["write", "make", "remove", "read"]),
    st.sampled_from(["*", "*/schemata", "*/tasks", "unis-fw*", "unis-on-demand*", "schemata"]),
    errno=st.sampled_from([errno.EINVAL, errno.EIO, errno.ENOSPC]),
    vanish=st.booleans(),
    times=st.integers(1, 3),
)
PROMISES = st.sampled_from(
    [
        Duties(),
        Duties(RESERVED),
        Duties(
            {"nat": ReservedDuty(2, 100.0, None)}, {"ids": 100.0, "lpm": 100.0, "vpn": 100.0}, 6
        ),
        Duties({"fw": ReservedDuty(6, 100.0, None)}, {"ids": 100.0, "lpm": 100.0}, 2),
        Duties({}, {"vpn": 100.0}, 5),
    ]
)


class Killed(BaseException):
    """As by SIGKILL: nothing is caught."""


class Mortal:
    """A tree under whose hands an agent dies after so many commands; it sees each one's end."""

    emulated = True

    def __init__(self, tree: EmulatedTree, commands: int, seen: Callable[[], None]) -> None:
        self._tree, self._left, self._seen = tree, commands, seen

    @property
    def label(self) -> str:
        return self._tree.label

    def options(self) -> frozenset[str]:
        return self._tree.options()

    def read(self, path: str) -> str:
        return self._tree.read(path)

    def folders(self, path: str) -> list[str]:
        return self._tree.folders(path)

    def write(self, path: str, text: str) -> None:
        self._count(lambda: self._tree.write(path, text))

    def make(self, path: str) -> None:
        self._count(lambda: self._tree.make(path))

    def remove(self, path: str) -> None:
        self._count(lambda: self._tree.remove(path))

    def _count(self, command: Callable[[], None]) -> None:
        if self._left == 0:
            raise Killed
        self._left -= 1
        command()
        self._seen()


def see_that_classes_are_valid(server: Server) -> None:
    """At any moment: each function's thread in exactly one class, whose mask is no nonsense."""
    groups = ["", *control_groups(server.tree)]
    masks = {name: parse(server.tree.read(inside(name, "schemata")))["L3"][0] for name in groups}
    for tid in server.functions.threads.values():
        there = [name for name in groups if tid in tasks(server.tree, name)]
        assert len(there) == 1
        assert masks[there[0]]
        assert is_valid(masks[there[0]])


FEW = settings(
    max_examples=scaled(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@FEW
@given(st.lists(st.tuples(PROMISES, st.lists(FAULTS, max_size=2)), min_size=1, max_size=4))
def test_after_faults_it_comes_to_what_is_wanted(
    tmp_path_factory: pytest.TempPathFactory, turns: list[tuple[Duties, list[Fault]]]
) -> None:
    server = Server(tmp_path_factory.mktemp("agent"), Functions(NEEDS, TIDS))
    before = picture(server.tree)
    agent = server.agent()
    for wanted, faults in turns:
        server.tree.inject(*faults)
        agent.tick(wanted)
        server.tree.heal()
        see_that_classes_are_valid(server)
        for _ in range(2):
            status = agent.tick(wanted)
        assert status.problem == ""
        see_that_it_is_right(server, wanted)
    assert agent.release() == Released([], [])
    assert picture(server.tree) == before


@FEW
@given(st.lists(st.tuples(PROMISES, st.integers(0, 25)), min_size=1, max_size=5))
def test_an_agent_that_is_killed_anywhere_goes_on(
    tmp_path_factory: pytest.TempPathFactory, turns: list[tuple[Duties, int]]
) -> None:
    server = Server(tmp_path_factory.mktemp("agent"), Functions(NEEDS, TIDS))
    before = picture(server.tree)
    for wanted, commands in turns:
        mortal = Mortal(server.tree, commands, lambda: see_that_classes_are_valid(server))
        try:
            server.agent(mortal).tick(wanted)
        except Killed:
            see_that_classes_are_valid(server)
    last = turns[-1][0]
    agent = server.agent()
    assert agent.tick(last).problem == ""
    see_that_it_is_right(server, last)
    assert agent.release() == Released([], [])
    assert picture(server.tree) == before


def test_a_restart_drops_no_class(tmp_path: Path) -> None:
    server = Server(tmp_path, Functions(NEEDS, TIDS))
    wanted = Duties(RESERVED, {"ids": 100.0, "lpm": 100.0}, 4)
    server.agent().tick(wanted)
    before = picture(server.tree)

    def unchanged() -> None:
        raise AssertionError("something was written")

    server.agent(Mortal(server.tree, 100, unchanged)).tick(wanted)
    assert picture(server.tree) == before


def test_a_group_of_somebody_else_with_the_same_ways_is_told_once(tmp_path: Path) -> None:
    server = Server(tmp_path, Functions(NEEDS, TIDS))
    server.tree.make("db")  # its mask has all ways
    agent = server.agent()
    for _ in range(3):
        agent.tick(Duties(RESERVED))
    (note,) = [event.sentence for event in server.events if event.kind == "note"]
    assert note.startswith("the group db, which is not UNiS', has ways ")


def test_classes_that_strangers_use_up_are_told_and_taken_when_free(tmp_path: Path) -> None:
    server = Server(tmp_path, Functions(NEEDS, TIDS))
    wanted = Duties(RESERVED)
    names: list[str] = []
    while True:
        names.append(f"theirs{len(names)}")
        try:
            server.tree.make(names[-1])
        except TreeError:
            break
    agent = server.agent()
    assert "CLOSIDs" in agent.tick(wanted).problem
    assert server.classes() == {}
    for name in names[:2]:
        server.tree.remove(name)
    # The strangers that are left have all ways: it is told, not refused.
    assert agent.tick(wanted).problem == ""
    assert {*server.classes()} == {"unis-fw", "unis-nat"}


def test_a_group_that_vanishes_comes_again(tmp_path: Path) -> None:
    server = Server(tmp_path, Functions(NEEDS, TIDS))
    wanted = Duties(RESERVED)
    agent = server.agent()
    agent.tick(wanted)
    server.tree.remove("unis-fw")
    see_that_classes_are_valid(server)
    agent.tick(wanted)
    see_that_it_is_right(server, wanted)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"record": 1}', '{"record": {}}'])
def test_notes_that_cannot_be_read_are_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "agent.json").write_text(text)
    with pytest.raises(UnisError, match="cannot be read"):
        NotesFile(tmp_path).read()


def test_ways_are_those_that_were_told_and_stay_after_a_restart(tmp_path: Path) -> None:
    server = Server(tmp_path, Functions(NEEDS, TIDS))
    told = {"fw": ReservedDuty(3, 100.0, None, 9), "nat": ReservedDuty(5, 100.0, None, 2)}
    server.agent().tick(Duties(told, {"lpm": 100.0}, 2))
    classes = server.classes()
    assert (classes["unis-fw"], classes["unis-nat"]) == (0b111 << 9, 0b11111 << 2)
    # What comes before it by name does not move the one on demand.
    server.agent().tick(Duties({**told, "aaa": ReservedDuty(1, 100.0, None)}, {"lpm": 100.0}, 2))
    assert {**server.classes(), "unis-aaa": 0} == {**classes, "unis-aaa": 0}


def test_those_on_demand_give_classes_back_that_others_need(tmp_path: Path) -> None:
    server = Server(tmp_path, Functions({"ids": 9.0, "lpm": 0.5, "vpn": 2.0}, TIDS))
    promised = {"ids": 1000.0, "lpm": 100.0, "vpn": 100.0}
    agent = server.agent()
    for _ in range(8):
        agent.tick(Duties({}, promised, 6))
    assert len(server.classes()) == 3
    for number in range(12):
        server.tree.make(f"theirs{number}")
    wanted = Duties(
        {"fw": ReservedDuty(2, 100.0, None), "nat": ReservedDuty(2, 100.0, None)}, promised, 6
    )
    for _ in range(3):
        assert server.agent().tick(wanted).problem == ""
    assert {"unis-fw", "unis-nat"} <= {*server.classes()}


def test_one_good_look_mends_nothing() -> None:
    standing = Standing()
    seen = []
    for bad in (True, True, True, False, True, False, False, False):
        standing = standing.after(bad=bad, patience=3)
        seen.append(standing.broken)
    assert seen == [False, False, True, True, True, True, True, False]


def test_threads_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    functions = Functions(NEEDS, TIDS)
    server = Server(tmp_path, functions)
    agent = server.agent()
    for at in range(6):
        functions.threads["fw"] = 120 + at
        agent.tick(Duties(RESERVED))
        server.tree.write("tasks", f"{120 + at}\n")  # it leaves, as one that ends does
    record = NotesFile(tmp_path).read().record
    assert record
    assert len(record.before.seats) <= 4


def test_duties_are_those_of_one_server() -> None:
    def at(number: int, ways: int, first: int) -> InstanceEntry:
        return InstanceEntry(server="a", number=number, ways=ways, first=first)

    two = ReservedEntry(function="x", mpps=2.0, p95_us=50.0, instances=(at(0, 3, 0), at(0, 1, 3)))
    other = ReservedEntry(function="x", mpps=1.0, p95_us=60.0, instances=(at(1, 4, 0),))
    late = OnDemandEntry(function="y", p95_us=70.0, server="a", number=1)
    book = Book(reserved={"two": two, "other": other}, on_demand={"late": late})
    here = duties(book, "a", 0, 2)
    assert here.reserved == {
        "two": ReservedDuty(3, 50.0, None, 0),
        "two..2": ReservedDuty(1, 50.0, None, 3),
    }
    assert here.on_demand == {}
    assert here.chains == {"two": "two", "two..2": "two-2"}
    there = duties(book, "a", 1, 2)
    assert there.reserved == {"other": ReservedDuty(4, 60.0, 1.0, 0)}
    assert there.p95_us == {"other": 60.0, "late": 70.0}


def test_an_instance_is_a_chain_of_a_run_here() -> None:
    reserved = {"office.edge": RESERVED["fw"], "office.edge..2": RESERVED["fw"]}
    chains = Duties(reserved, {"office.watched..3": 100.0}, 2).chains
    assert chains["office.edge"] == "office.edge"
    assert chains["office.edge..2"] == "office-2.edge"  # both on this server
    assert chains["office.watched..3"] == "office.watched"  # the others are elsewhere

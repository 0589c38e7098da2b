"""Plans into a tree and out of it: nobody else is touched, and what was there comes back."""

import errno
import tempfile
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from evaluation.emulation.machine import EmulatedMachine
from evaluation.emulation.state import Fault
from evaluation.emulation.tree import EmulatedTree
from tests.python.isolating import AMD, CDP, PAPER, RICH, THREADS, masks, picture, requests, tree_of
from tests.python.strategies import scaled
from unis.errors import UnisError
from unis.isolate.apply import ApplyError, ForeignGroupError, apply, undo
from unis.isolate.hardware import io_ways
from unis.isolate.info import read_info
from unis.isolate.masks import is_valid
from unis.isolate.plan import CachePlan, plan
from unis.isolate.request import CacheRequest
from unis.isolate.schemata import parse
from unis.isolate.state import Record, foreign_groups
from unis.isolate.tree import TreeError, control_groups, inside, tasks

# Each command of an emulated tree replaces a file, for which a disk takes milliseconds.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
RECORD = TypeAdapter(Record)


class Kept:
    """Keeps records as a file would."""

    def __init__(self) -> None:
        self.text = b""

    def __call__(self, record: Record) -> None:
        self.text = RECORD.dump_json(record)

    @property
    def record(self) -> Record:
        return RECORD.validate_json(self.text)


class Watched:
    """A tree of which each command is seen, before and after."""

    def __init__(self, tree: EmulatedTree, threads: tuple[int, ...] = ()) -> None:
        self._tree = tree
        self._threads = threads
        self.commands: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tree, name)

    def write(self, path: str, text: str) -> None:
        self._tree.write(path, text)
        self._seen(f"{path} {text.strip()}")

    def make(self, path: str) -> None:
        self._tree.make(path)
        self._seen(f"+{path}")

    def remove(self, path: str) -> None:
        self._tree.remove(path)
        self._seen(f"-{path}")

    def _seen(self, command: str) -> None:
        self.commands.append(command)
        groups = control_groups(self._tree)
        seats = {
            tid: [name for name in groups if tid in tasks(self._tree, name)]
            for tid in self._threads
        }
        assert all(len(at) <= 1 for at in seats.values()), "a thread has one class"
        used = {at[0] for at in seats.values() if at}
        for name in ("", *used):
            text = self._tree.read(f"{name}/schemata" if name else "schemata")
            assert all(is_valid(mask, 1) for mask in masks(text)), f"{name} after {command}"
        if "L3:" in command:  # masks of one cache, while threads are in classes
            self._see_that_none_overlap(sorted(used), command)

    def _see_that_none_overlap(self, names: list[str], command: str) -> None:
        of = {name: parse(self._tree.read(f"{name}/schemata"))["L3"] for name in names}
        for first, second in combinations(names, 2):
            for domain, mask in of[first].items():
                assert not mask & of[second][domain], f"{first} and {second} after {command}"


def planned(
    tree: EmulatedTree, asked: dict[str, CacheRequest], there: CachePlan | None = None
) -> CachePlan:
    info = read_info(tree)
    previous = there.schemata if there else {}
    foreign = foreign_groups(tree, previous)
    return plan(asked, info, io_ways(info, {}, ""), foreign=foreign, previous=previous)


def threads_of(of: CachePlan, each: int = 2) -> dict[str, list[int]]:
    tids = iter(THREADS)
    return {name: [next(tids) for _ in range(each)] for name in sorted(of.places)}


def test_classes_masks_and_threads(tmp_path: Path) -> None:
    tree, kept = tree_of(tmp_path), Kept()
    asked = {
        "fw": CacheRequest(4),
        "nat": CacheRequest(6),
        "a": CacheRequest(1, share="core1"),
        "b": CacheRequest(2, share="core1"),
    }
    of = planned(tree, asked)
    apply(of, tree, kept, threads=threads_of(of))
    assert control_groups(tree) == ["unis-core1", "unis-fw", "unis-nat"]
    assert tree.read("unis-nat/schemata") == "L3:0=3f\n"
    assert tree.read("unis-fw/schemata") == "L3:0=3c0\n"
    assert tree.read("unis-core1/schemata") == "L3:0=1c00\n"
    assert tree.read("schemata") == "L3:0=3e000\n", "the rest, but for I/O's two"
    assert tree.read("info/L3/bit_usage") == "0=HHSSSSSSSSSSSSSSSSSS\n"
    assert tasks(tree, "unis-core1") == [100, 101, 102, 103]
    assert tasks(tree, "unis-core1/mon_groups/unis-a") == [100, 101]
    assert tasks(tree, "unis-fw") == [104, 105]
    assert undo(tree, kept.record) == []
    assert picture(tree) == picture(tree_of(tmp_path / "fresh"))


def test_the_same_again_writes_nothing(tmp_path: Path) -> None:
    tree, kept = tree_of(tmp_path, RICH), Kept()
    asked = {"fw": CacheRequest(4), "nat": CacheRequest(6), "ids": CacheRequest(2, share="nat2")}
    of = planned(tree, asked)
    first = apply(of, tree, kept, threads=threads_of(of))
    watched = Watched(tree)
    again = apply(of, watched, kept, first, threads_of(of))
    assert watched.commands == []
    assert again == first


def test_l2_and_bandwidth_are_as_others_set_them(tmp_path: Path) -> None:
    tree, kept = tree_of(tmp_path, RICH), Kept()
    for group in ("theirs", "unis-nat"):  # nobody uses the second any more
        tree.make(group)
    rest = {
        "": "L2:0=ff;1=3f;2=ff;3=ff\nMB:0=100;1=50",
        "theirs": "L2:0=f;1=ff;2=ff;3=ff\nMB:0=20;1=100",
        "unis-nat": "L2:0=ff;1=ff;2=3;3=ff\nMB:0=30;1=100",
    }
    for group, lines in rest.items():
        tree.write(inside(group, "schemata"), f"{lines}\n")
    before = picture(tree)
    apply(planned(tree, {"fw": CacheRequest(4), "nat": CacheRequest(5)}), tree, kept)
    new = "L2:0=ff;1=ff;2=ff;3=ff\nMB:0=100;1=100"
    assert {group: without_l3(tree, group) for group in (*rest, "unis-fw")} == {
        **rest, "unis-fw": new,
    }  # fmt: skip
    tree.write("schemata", "L2:0=3\nMB:0=70\n")  # by somebody else; `undo` restores what was there
    assert undo(tree, kept.record) == []
    assert picture(tree) == before


def without_l3(tree: EmulatedTree, group: str) -> str:
    lines = map(str.strip, tree.read(inside(group, "schemata")).splitlines())
    return "\n".join(line for line in lines if not line.startswith("L3"))


MACHINES = st.sampled_from([PAPER, RICH, AMD, CDP])


@settings(max_examples=scaled(60), deadline=None)
@given(st.data())
def test_undo_after_apply_is_the_identity(data: st.DataObject) -> None:
    """Over two plans one after the other, beside others' groups, with something that goes wrong."""
    machine = data.draw(MACHINES)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        tree, kept = tree_of(Path(folder), machine), Kept()
        first_l3 = next(name for name in tree.folders("info") if name.startswith("L3"))
        tree.make("theirs")
        tree.write("theirs/schemata", f"{first_l3}:0=1\n")
        tree.write("theirs/tasks", "100,101\n")
        if data.draw(st.booleans()):
            tree.make("unis-fw")  # of somebody who has left
        if machine is RICH:
            for at, name in enumerate(["", *control_groups(tree)]):
                tree.write(inside(name, "schemata"), f"L2:{at}=3c\nMB:0={10 + 10 * at}\n")
        before = picture(tree)
        asked = [data.draw(requests(ways=12)) for _ in range(2)]
        record: Record | None = None
        there: CachePlan | None = None
        for one in asked:
            try:
                of = planned(tree, one, there)
            except UnisError:
                continue  # more classes than there are
            was = picture(tree)
            if data.draw(st.booleans()):
                tree.inject(data.draw(FAULTS))
            try:
                record = apply(of, tree, kept, record, threads_of(of))
                there = of
            except ApplyError as error:
                unfinished = bool(error.problems)  # the fault came on the way back
                record = kept.record
            else:
                unfinished = True
            assert unfinished or picture(tree) == was
            tree.heal()
        if kept.text:
            assert undo(tree, kept.record) == []
        assert picture(tree) == before


FAULTS = st.builds(
    Fault,
    action=st.sampled_from(["write", "write", "make", "remove"]),
    path=st.sampled_from(["*", "schemata", "unis-*", "*/tasks", "*/mode", "unis-fw*"]),
    errno=st.sampled_from([errno.EINVAL, errno.EIO, errno.ENOSPC]),
)


@settings(max_examples=scaled(40), deadline=None)
@given(requests(ways=18), requests(ways=18), st.data())
def test_from_plan_to_plan_no_thread_is_without_a_class_and_no_two_overlap(
    first: dict[str, CacheRequest], second: dict[str, CacheRequest], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        tree, kept = tree_of(Path(folder), data.draw(st.sampled_from([PAPER, RICH]))), Kept()
        of = planned(tree, first)
        record = apply(of, tree, kept, threads=threads_of(of))
        previous = of.schemata if data.draw(st.booleans()) else None
        info = read_info(tree)
        then = plan(second, info, io_ways(info, {}, ""), previous=previous)
        watched = Watched(tree, tuple(THREADS))
        apply(then, watched, kept, record, threads_of(then))
        for one in then.classes:
            assert parse(tree.read(f"{one.name}/schemata"))["L3"] == one.schemata["L3"]
        for name, place in then.places.items():
            if place:
                assert set(threads_of(then)[name]) <= set(tasks(tree, place))


@pytest.mark.parametrize("machine", [PAPER, RICH], ids=["one cache", "two caches"])
def test_classes_change_places_without_overlapping(
    tmp_path: Path, machine: EmulatedMachine
) -> None:
    tree, kept = tree_of(tmp_path, machine), Kept()
    of = planned(tree, {"fw": CacheRequest(12), "nat": CacheRequest(4)})
    record = apply(of, tree, kept, threads=threads_of(of))
    then = planned(tree, {"fw": CacheRequest(4), "nat": CacheRequest(12)})
    apply(then, Watched(tree, tuple(THREADS)), kept, record, threads_of(then))
    for name, mask in (("unis-nat", 0xFFF), ("unis-fw", 0xF000)):
        found = parse(tree.read(f"{name}/schemata"))["L3"]
        assert found == dict.fromkeys(found, mask)


def test_a_stranger_s_group_of_our_name_is_refused(tmp_path: Path) -> None:
    tree, kept = tree_of(tmp_path), Kept()
    tree.make("unis-fw")
    tree.write("unis-fw/tasks", "100\n")
    before = picture(tree)
    info = read_info(tree)
    with pytest.raises(
        ForeignGroupError, match="unis-fw that this run did not make, with 1 thread"
    ):
        apply(plan({"fw": CacheRequest(2)}, info), tree, kept)
    assert (picture(tree), kept.text) == (before, b"")


def test_a_group_that_was_there_and_that_somebody_removed_stays_away(tmp_path: Path) -> None:
    tree, kept = tree_of(tmp_path), Kept()
    tree.make("unis-fw")  # of somebody who has left
    before = picture(tree)
    apply(planned(tree, {"fw": CacheRequest(2)}), tree, kept)
    assert picture(tree) != before
    tree.remove("unis-fw")
    assert undo(tree, kept.record) == []
    tree.make("unis-fw")
    assert picture(tree) == before


def test_a_failure_half_way_leaves_nothing(tmp_path: Path) -> None:
    tree, kept = tree_of(tmp_path), Kept()
    before = picture(tree)
    tree.inject(Fault("write", "unis-nat/schemata", errno.EINVAL, "Mask out of range\n"))
    with pytest.raises(
        ApplyError, match=r"Invalid argument: Mask out of range; everything is as it was"
    ):
        apply(planned(tree, {"fw": CacheRequest(4), "nat": CacheRequest(6)}), tree, kept)
    assert picture(tree) == before
    assert undo(tree, kept.record) == []
    assert picture(tree) == before


def test_what_cannot_be_put_back_is_said_and_can_be_later(tmp_path: Path) -> None:
    tree, kept = tree_of(tmp_path), Kept()
    before = picture(tree)
    tree.inject(
        Fault("write", "unis-nat/schemata", errno.EIO), Fault("remove", "unis-fw", errno.EIO)
    )
    with pytest.raises(ApplyError, match=r"not all could be put back: .*remove the group unis-fw"):
        apply(planned(tree, {"fw": CacheRequest(4), "nat": CacheRequest(6)}), tree, kept)
    assert control_groups(tree) == ["unis-fw"]
    assert undo(tree, kept.record) == []
    assert picture(tree) == before


class KilledError(BaseException):
    """As a signal would end us."""


@pytest.mark.parametrize("at", range(12))
def test_who_was_killed_is_undone_or_finished_by_another(tmp_path: Path, at: int) -> None:
    asked = {
        "fw": CacheRequest(4),
        "nat": CacheRequest(6),
        "a": CacheRequest(2, share="c"),
        "b": CacheRequest(1, share="c"),
    }

    class Dying(Watched):
        def _seen(self, command: str) -> None:
            self.commands.append(command)
            if len(self.commands) > at:
                raise KilledError

    for finish in (True, False):
        folder = tmp_path / str(finish)
        tree, kept = tree_of(folder), Kept()
        before = picture(tree)
        of = planned(tree, asked)
        with pytest.raises(KilledError):
            apply(of, Dying(tree), kept, threads=threads_of(of))
        # Another process finds the same tree, for it is the folder's.
        after = EmulatedTree(folder, threads=tree._threads)
        if finish:
            apply(of, after, kept, kept.record, threads_of(of))
            assert tasks(after, "unis-fw") == [104, 105]
            assert after.read("schemata") == "L3:0=3e000\n"
        assert undo(after, kept.record) == []
        assert picture(after) == before


def test_a_group_that_vanished_comes_again(tmp_path: Path) -> None:
    tree, kept = tree_of(tmp_path), Kept()
    of = planned(tree, {"fw": CacheRequest(4), "nat": CacheRequest(6)})
    record = apply(of, tree, kept, threads=threads_of(of))
    tree.remove("unis-fw")
    assert not {100, 101} & set(tasks(tree, "unis-nat"))
    apply(of, tree, kept, record, threads_of(of))
    assert tasks(tree, "unis-fw") == [100, 101]
    assert tree.read("unis-fw/schemata") == "L3:0=3c0\n"


def test_a_group_that_vanishes_while_it_is_written(tmp_path: Path) -> None:
    tree, kept = tree_of(tmp_path), Kept()
    before = picture(tree)
    tree.inject(Fault("write", "unis-fw/schemata", vanish=True))
    of = planned(tree, {"fw": CacheRequest(4), "nat": CacheRequest(6)})
    with pytest.raises(ApplyError, match="No such file or directory; everything is as it was"):
        apply(of, tree, kept, threads=threads_of(of))
    assert picture(tree) == before
    apply(of, tree, kept, threads=threads_of(of))
    assert tasks(tree, "unis-fw") == [100, 101]


def test_a_group_that_vanishes_while_it_is_undone(tmp_path: Path) -> None:
    tree, kept = tree_of(tmp_path), Kept()
    before = picture(tree)
    of = planned(tree, {"fw": CacheRequest(4), "nat": CacheRequest(6)})
    record = apply(of, tree, kept, threads=threads_of(of))
    tree.inject(Fault("read", "unis-fw/tasks", vanish=True))
    (told,) = undo(tree, record)
    assert told.endswith("cannot read unis-fw/tasks: No such file or directory")
    assert undo(tree, record) == []
    assert picture(tree) == before


def test_classes_that_a_stranger_used_up(tmp_path: Path) -> None:
    tree, kept = tree_of(tmp_path), Kept()
    of = planned(tree, {"fw": CacheRequest(4), "nat": CacheRequest(6)})
    for at in range(14):  # after the plan was made
        tree.make(f"theirs{at}")
    before = picture(tree)
    with pytest.raises(
        ApplyError, match="No space left on device: Out of CLOSIDs; everything is as"
    ):
        apply(of, tree, kept)
    assert picture(tree) == before
    with pytest.raises(UnisError, match="2 classes of service are asked for and 1 are left"):
        planned(tree, {"fw": CacheRequest(4), "nat": CacheRequest(6)})


def test_threads_that_have_ended_and_threads_of_others(tmp_path: Path) -> None:
    tree, kept = tree_of(tmp_path), Kept()
    tree.make("theirs")
    tree.write("theirs/tasks", "100\n")
    of = planned(tree, {"fw": CacheRequest(4)})
    record = apply(of, tree, kept, threads={"fw": [100, 101, 999]})
    assert tasks(tree, "unis-fw") == [100, 101]
    # Of the next plan one is not there any more: it goes home.
    record = apply(of, tree, kept, record, {"fw": [101]})
    assert (tasks(tree, "theirs"), tasks(tree, "unis-fw")) == ([100], [101])
    tree.write("theirs/tasks", "102\n")
    assert undo(tree, record) == []
    assert tasks(tree, "theirs") == [100, 102]


def test_ways_for_io_through_io_alloc(tmp_path: Path) -> None:
    tree, kept = tree_of(tmp_path, AMD), Kept()
    before = picture(tree)
    info = read_info(tree)
    of = plan({"fw": CacheRequest(6), "nat": CacheRequest(4)}, info, io_alloc=3)
    record = apply(of, tree, kept)
    assert tree.read("info/L3/io_alloc") == "enabled\n"
    assert tree.read("info/L3/io_alloc_cbm") == "0=e000\n"
    assert tree.read("info/L3/bit_usage") == "0=HHHSSSSSSSSSSSSS\n"
    # More for I/O: the others make room before it takes theirs.
    watched = Watched(tree)
    then = plan(
        {"fw": CacheRequest(6), "nat": CacheRequest(4)},
        read_info(tree),
        io_alloc=5,
        previous=of.schemata,
    )
    apply(then, watched, kept, record)
    assert watched.commands == ["schemata L3:0=400", "info/L3/io_alloc_cbm 0=f800"]
    assert undo(tree, kept.record) == []
    assert picture(tree) == before


def test_code_and_data_have_the_same_ways(tmp_path: Path) -> None:
    tree, kept = tree_of(tmp_path, CDP), Kept()
    apply(planned(tree, {"fw": CacheRequest(6)}), tree, kept)
    assert tree.read("unis-fw/schemata").split() == ["L3CODE:0=3f", "L3DATA:0=3f"]
    assert tree.read("schemata").split() == ["L3CODE:0=ffc0", "L3DATA:0=ffc0"]
    assert undo(tree, kept.record) == []


def test_a_record_is_of_one_tree(tmp_path: Path) -> None:
    one, other, kept = tree_of(tmp_path / "one"), tree_of(tmp_path / "other"), Kept()
    record = apply(planned(one, {"fw": CacheRequest(2)}), one, kept)
    with pytest.raises(UnisError, match=r"what was recorded is of emulated resctrl in .*one"):
        undo(other, record)


def test_nobody_goes_on_without_a_record(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    before = picture(tree)

    def full(_: Record) -> None:
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        apply(planned(tree, {"fw": CacheRequest(2)}), tree, full)
    assert picture(tree) == before
    with pytest.raises(TreeError):
        tree.read("unis-fw/schemata")

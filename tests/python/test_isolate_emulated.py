"""The emulated resctrl refuses what the kernel refuses, in its words, and outlives its process.

The words are those of Linux' fs/resctrl/rdtgroup.c and ctrlmondata.c.
"""

import errno
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from evaluation.emulation.files import cpu_mask, parse_cpu_mask
from evaluation.emulation.machine import (
    EmulatedCache,
    EmulatedMachine,
    ProcThreads,
    Question,
    Throttle,
)
from evaluation.emulation.state import Fault
from evaluation.emulation.tree import EmulatedTree, emulates
from tests.python.isolating import AMD, CDP, PAPER, RICH, WAY, FixedThreads, picture, tree_of
from unis.isolate.info import read_info
from unis.isolate.tree import NoTreeError, TreeError, tasks
from unis.plan.cpus import format_cpu_list, parse_cpu_list

STATUS = "info/last_cmd_status"


def refused(tree: EmulatedTree, path: str, text: str | None) -> tuple[int, str]:
    """Error and status of a write; of a mkdir where there is nothing to write."""
    before = picture(tree)
    command = partial(tree.make, path) if text is None else partial(tree.write, path, text)
    with pytest.raises(TreeError) as caught:
        command()
    assert picture(tree) == before
    return caught.value.errno, tree.read(STATUS)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("L3:0=f0f\n", "The mask f0f has non-consecutive 1-bits\n"),
        ("L3:0=100000\n", "Mask out of range\n"),
        ("L3:0=0\n", "Mask out of range\n"),
        ("L3:0=xyz\n", "Non-hex character in the mask xyz\n"),
        ("L3:0=3;0=3\n", "Duplicate domain 0\n"),
        ("L3:0\n", "Missing '=' or non-numeric domain\n"),
        ("L3:a=3\n", "Missing '=' or non-numeric domain\n"),
        ("L3:9=3\n", "ok\n"),  # the kernel says no more than EINVAL
        ("L3\n", "Missing ':'\n"),
        ("L3:\n", "Missing 'L3' value\n"),
        ("L4:0=1\n", "Unknown or unsupported resource name 'L4'\n"),
        ("MB:0=5\n", "MB value 5 out of range [10,100]\n"),
        ("MB:0=101\n", "MB value 101 out of range [10,100]\n"),
        ("MB:0=many\n", "Invalid MB value many\n"),
        ("L3:0=3\nL3:1=505\n", "The mask 505 has non-consecutive 1-bits\n"),
    ],
)
def test_schemata_hold_whole_or_not_at_all(tmp_path: Path, text: str, status: str) -> None:
    tree = tree_of(tmp_path, RICH)
    tree.make("a")
    assert refused(tree, "a/schemata", text) == (errno.EINVAL, status)


def test_a_command_ends_with_its_line(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    for path in ("schemata", "mode"):
        assert refused(tree, path, "L3:0=3")[0] == errno.EINVAL


def test_the_least_bits_and_sparse_masks(tmp_path: Path) -> None:
    haswell = tree_of(
        tmp_path / "h", EmulatedMachine(l3=EmulatedCache(20, WAY, closids=4, min_bits=2))
    )
    haswell.make("a")
    assert refused(haswell, "a/schemata", "L3:0=1\n")[1] == "Need at least 2 bits in the mask\n"
    amd = tree_of(tmp_path / "a", AMD)
    amd.make("a")
    amd.write("a/schemata", "L3:0=505\n")
    amd.write("a/schemata", "L3:0=0\n")
    assert amd.read("a/schemata") == "L3:0=0\n"


def test_bandwidth_is_rounded_up_to_a_step(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, RICH)
    tree.write("schemata", "MB:0=41;1=10\n")
    assert "MB:0=50;1=10\n" in tree.read("schemata")
    mibps = EmulatedMachine(throttle=Throttle(mibps=True))
    free = tree_of(tmp_path / "mibps", mibps)
    assert free.options() == {"mba_MBps"}
    free.write("schemata", "MB:0=12345\n")
    assert "MB:0=12345\n" in free.read("schemata")
    curved = tree_of(tmp_path / "curved", EmulatedMachine(throttle=Throttle(linear=False)))
    assert refused(curved, "schemata", "MB:0=50\n")[1] == "No support for non-linear MB domains\n"


def test_classes_run_out(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, RICH)  # L2 and MB have 8, L3 16
    for at in range(7):
        tree.make(f"g{at}")
    assert refused(tree, "g7", None) == (errno.ENOSPC, "Out of CLOSIDs\n")
    tree.remove("g3")
    tree.make("g7")
    few = tree_of(tmp_path / "few", replace(PAPER, rmids=3))
    few.make("a")
    few.make("a/mon_groups/m")
    assert refused(few, "b", None) == (errno.ENOSPC, "Out of RMIDs\n")
    assert refused(few, "a/mon_groups/n", None) == (errno.ENOSPC, "Out of RMIDs\n")


def test_where_groups_can_be(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    tree.make("a")
    for path, code in (
        ("a", errno.EEXIST), ("info", errno.EEXIST), ("a\n", errno.EINVAL), ("a/b", errno.EPERM),
        ("info/x", errno.ENODEV), ("a/mon_groups/mon_groups", errno.EPERM),
        ("none/x", errno.ENOENT), ("a/mon_groups/m/mon_groups/n", errno.ENOENT),
    ):  # fmt: skip
        assert refused(tree, path, None)[0] == code, path
    for path, code in (
        ("", errno.EBUSY),
        ("info", errno.EPERM),
        ("b", errno.ENOENT),
        ("a/mon_groups", errno.EPERM),
    ):
        with pytest.raises(TreeError) as caught:
            tree.remove(path)
        assert caught.value.errno == code
    counts_only = tree_of(tmp_path / "mon", EmulatedMachine(l3=None, rmids=8))
    with pytest.raises(TreeError, match="Operation not permitted"):
        counts_only.make("a")
    counts_only.make("mon_groups/m")
    with pytest.raises(TreeError):
        counts_only.read("schemata")


def test_a_new_class_has_what_is_shared_or_unused(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    tree.write("schemata", "L3:0=ff000\n")
    tree.make("a")
    assert tree.read("a/schemata") == "L3:0=fffff\n"
    tree.write("a/schemata", "L3:0=f\n")
    tree.write("a/mode", "exclusive\n")
    tree.make("b")
    assert tree.read("b/schemata") == "L3:0=ffff0\n", "but not what is exclusive"
    tree.write("b/schemata", "L3:0=ff0\n")
    tree.write("b/mode", "exclusive\n")
    assert tree.read("info/L3/bit_usage") == "0=XXSSSSSSEEEEEEEEEEEE\n"


def test_exclusive_is_alone(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    tree.make("a")
    tree.write("a/schemata", "L3:0=f\n")
    assert refused(tree, "a/mode", "exclusive\n") == (errno.EINVAL, "Schemata overlaps\n")
    tree.write("schemata", "L3:0=3fff0\n")
    tree.write("a/mode", "exclusive\n")
    assert refused(tree, "schemata", "L3:0=ff\n")[1] == "Overlaps with exclusive group\n"
    assert refused(tree, "a/schemata", "L3:0=1f\n")[1] == "Overlaps with other group\n"
    tree.write("a/schemata", "L3:0=3\n")
    tree.write("a/mode", "shareable\n")
    tree.write("a/schemata", "L3:0=c0000\n")
    told = refused(tree, "a/mode", "exclusive\n")[1]
    assert told == "Schemata overlaps\n", "with what hardware uses too"
    assert refused(tree, "a/mode", "locked\n")[1] == "Unknown or unsupported mode\n"
    only_limits = tree_of(tmp_path / "mb", EmulatedMachine(l3=None, throttle=Throttle()))
    assert refused(only_limits, "mode", "exclusive\n")[1] == "Cannot be exclusive without CAT/CDP\n"


def test_code_and_data_share_the_ways_of_a_cache(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, CDP)
    assert tree.options() == {"cdp"}
    assert read_info(tree).num_closids == 8
    tree.make("a")
    tree.write("a/schemata", "L3CODE:0=3\nL3DATA:0=c\n")
    tree.write("schemata", "L3CODE:0=fff0\nL3DATA:0=fff0\n")
    tree.write("a/mode", "exclusive\n")
    assert refused(tree, "schemata", "L3CODE:0=fffc\n")[1] == "Overlaps with exclusive group\n"


def test_a_thread_has_one_class(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    for path in ("a", "b", "a/mon_groups/m"):
        tree.make(path)
    assert len(tasks(tree, "")) == 40
    tree.write("a/tasks", "100,101,102\n")
    tree.write("a/mon_groups/m/tasks", "101\n")
    assert tasks(tree, "a") == [100, 101, 102], "those of its MON groups too"
    tree.write("b/tasks", "100\n")
    assert (tasks(tree, "a"), tasks(tree, "b")) == ([101, 102], [100])
    told = "Can't move task to different control group\nError while processing task 100\n"
    assert refused(tree, "a/mon_groups/m/tasks", "100\n") == (errno.EINVAL, told)
    tree.remove("a/mon_groups/m")
    assert tasks(tree, "a") == [101, 102]
    tree.remove("a")
    assert 101 in tasks(tree, "")


def test_of_several_threads_those_before_the_wrong_one_have_moved(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    tree.make("a")
    for text, code, status in (
        ("100,7,101\n", errno.ESRCH, "No task 7\nError while processing task 7\n"),
        ("100,x\n", errno.EINVAL, "Task list parsing error pid x\n"),
        ("-3\n", errno.EINVAL, "Invalid pid -3\n"),
    ):
        with pytest.raises(TreeError) as caught:
            tree.write("a/tasks", text)
        assert (caught.value.errno, tree.read(STATUS)) == (code, status)
        assert tasks(tree, "a") == [100]


def test_who_ends_is_nowhere_and_a_number_used_again_is_another(tmp_path: Path) -> None:
    threads = FixedThreads([5, 6])
    tree = EmulatedTree(tmp_path, PAPER, threads)
    tree.make("a")
    tree.write("a/tasks", "5\n")
    threads.alive.remove(5)
    assert tasks(tree, "a") == []
    born = {5: 1, 6: 0}

    class Again(FixedThreads):
        def born(self, tid: int) -> int | None:
            return born.get(tid)

    again = EmulatedTree(tmp_path, threads=Again([5, 6]))
    assert (tasks(again, "a"), tasks(again, "")) == ([], [5, 6])


def test_cpus_have_one_class(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, RICH)
    for path in ("a", "b", "a/mon_groups/m"):
        tree.make(path)
    tree.write("a/cpus_list", "1-2\n")
    assert [tree.read(f"{name}cpus_list") for name in ("", "a/")] == ["0,3\n", "1-2\n"]
    tree.write("a/mon_groups/m/cpus", "2\n")
    assert tree.read("a/mon_groups/m/cpus_list") == "1\n"
    tree.write("b/cpus", "6\n")
    assert (tree.read("a/cpus_list"), tree.read("b/cpus")) == ("\n", "6\n")
    assert refused(tree, "cpus_list", "0\n")[1] == "Can't drop CPUs from default group\n"
    assert refused(tree, "a/cpus_list", "9\n")[1] == "Can only assign online CPUs\n"
    assert refused(tree, "a/cpus", "zz\n")[1] == "Bad CPU list/mask\n"
    told = refused(tree, "a/mon_groups/m/cpus_list", "0\n")[1]
    assert told == "Can only add CPUs to mongroup that belong to parent\n"
    tree.remove("b")
    assert tree.read("cpus_list") == "0-3\n"


def test_masks_of_cpus() -> None:
    assert cpu_mask({0, 33}, 63) == "00000002,00000001"
    assert parse_cpu_mask("00000002,00000001\n") == {0, 33}
    assert format_cpu_list({0, 1, 2, 5}) == "0-2,5"
    assert parse_cpu_list("0-2,5\n") == {0, 1, 2, 5}


def test_io_alloc(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, AMD)
    assert tree.read("info/L3/io_alloc") == "disabled\n"
    told = "io_alloc is not enabled on L3\n"
    assert refused(tree, "info/L3/io_alloc_cbm", "0=f\n") == (errno.EINVAL, told)
    tree.write("info/L3/io_alloc", "1\n")
    assert tree.read("info/L3/io_alloc_cbm") == "0=ffff\n"
    tree.write("info/L3/io_alloc_cbm", "0=f000\n")
    tree.write("schemata", "L3:0=fff\n")
    assert tree.read("info/L3/bit_usage") == "0=HHHHSSSSSSSSSSSS\n"
    tree.make("a")
    assert tree.read("a/schemata") == "L3:0=fff\n", "I/O's ways are not for new classes"
    for at in range(13):
        tree.make(f"g{at}")
    assert refused(tree, "g13", None)[1] == "Out of CLOSIDs\n", "I/O has the highest"
    tree.write("info/L3/io_alloc", "0\n")
    tree.make("g13")
    told = "CLOSID (ctrl_hw_id) 15 for io_alloc is used by g13 group\n"
    assert refused(tree, "info/L3/io_alloc", "1\n") == (errno.ENOSPC, told)
    without = tree_of(tmp_path / "intel")
    assert refused(without, "info/L3/io_alloc", "1\n")[0] == errno.ENOENT


def test_files_that_nobody_writes(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    assert refused(tree, "info/L3/cbm_mask", "f\n")[0] == errno.EACCES
    assert refused(tree, "info/L3/none", "f\n")[0] == errno.ENOENT
    tree.write("info/L3_MON/max_threshold_occupancy", "4096\n")
    assert tree.read("info/L3_MON/max_threshold_occupancy") == "4096\n"


def test_size_mirrors_schemata(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, RICH)
    tree.write("schemata", "L3:0=f;1=1\nMB:1=20\n")
    assert [line.strip() for line in tree.read("size").splitlines()] == [
        "L2:0=1048576;1=1048576;2=1048576;3=1048576",
        f"L3:0={4 * WAY};1={WAY}",
        "MB:0=100;1=20",
    ]


class Counting:
    def __init__(self) -> None:
        self.asked: list[Question] = []

    def read(self, question: Question) -> int | None:
        self.asked.append(question)
        return len(question.tasks) * 1000 if question.event == "llc_occupancy" else None


def test_counters_are_asked_of_somebody_else(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    tree.make("a")
    tree.make("a/mon_groups/m")
    tree.write("a/tasks", "100,101\n")
    tree.write("a/mon_groups/m/tasks", "101\n")
    tree.write("a/schemata", "L3:0=ff\n")
    file = "mon_data/mon_L3_00/llc_occupancy"
    assert tree.read(f"a/{file}") == "Unavailable\n"
    counters = Counting()
    counted = EmulatedTree(tmp_path, threads=FixedThreads([100, 101]), counters=counters)
    assert counted.read(f"a/{file}") == "2000\n"
    assert counted.read(f"a/mon_groups/m/{file}") == "1000\n"
    assert counted.read("a/mon_data/mon_L3_00/mbm_total_bytes") == "Unavailable\n"
    assert counters.asked[1] == Question(
        "llc_occupancy", 0, "a/mon_groups/m", frozenset({101}), 0xFF
    )


def test_it_outlives_a_process(tmp_path: Path) -> None:
    """One that is killed in the middle of commands leaves a whole tree."""
    EmulatedTree(tmp_path, PAPER).make("a")
    script = (
        "from pathlib import Path; from evaluation.emulation.tree import EmulatedTree\n"
        f"tree = EmulatedTree(Path({str(tmp_path)!r}))\n"
        "tree.write('a/schemata', 'L3:0=f\\n'); print('begun', flush=True)\n"
        "while True: tree.make('b'); tree.remove('b')\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert child.stdout
    assert child.stdout.readline() == b"begun\n"
    child.kill()
    child.wait()
    after = EmulatedTree(tmp_path)
    assert after.read("a/schemata") == "L3:0=f\n"
    assert after.machine == PAPER
    after.write("a/tasks", f"{os.getpid()}\n")
    assert tasks(after, "a") == [os.getpid()]


def test_the_threads_of_this_machine() -> None:
    threads = ProcThreads()
    assert os.getpid() in set(threads.all())
    assert threads.born(os.getpid()) == threads.born(os.getpid()) is not None
    assert threads.born(2**22 + 1) is None


def test_a_folder_that_is_no_tree(tmp_path: Path) -> None:
    assert not emulates(tmp_path)
    tree = tree_of(tmp_path)
    assert not emulates(tmp_path), "who only looks leaves nothing"
    tree.make("a")
    assert emulates(tmp_path)
    with pytest.raises(NoTreeError, match="of another machine"):
        tree_of(tmp_path, AMD)
    (tmp_path / "tree.json").write_text("{")
    with pytest.raises(NoTreeError, match="is damaged"):
        tree_of(tmp_path)
    with pytest.raises(NoTreeError, match="cannot use it"):
        tree_of(tmp_path / "tree.json")


def test_faults_hit_whoever_uses_the_folder(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    tree.make("a")
    tree.inject(Fault("write", "a/*", errno.EIO, times=2), Fault("read", "a/tasks", vanish=True))
    other = EmulatedTree(tmp_path)
    for _ in range(2):
        with pytest.raises(TreeError, match="Input/output error"):
            other.write("a/schemata", "L3:0=f\n")
    other.write("a/schemata", "L3:0=f\n")
    with pytest.raises(TreeError, match="No such file"):
        other.read("a/tasks")
    assert other.folders("") == ["info", "mon_data", "mon_groups"]

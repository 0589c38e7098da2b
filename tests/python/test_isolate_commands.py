"""What users see of cache isolation: `unis cache` and `unis doctor`."""

import json
from pathlib import Path

from evaluation.emulation.here import folder
from evaluation.emulation.machine import EmulatedMachine, like
from tests.python.commands import evaluation, run
from tests.python.isolating import AMD, PAPER, RICH, tree_of
from unis.isolate.apply import apply
from unis.isolate.hardware import INTEL, CacheHardware, IoWays, LastLevelCache, detect, io_ways
from unis.isolate.info import CacheInfo, read_info
from unis.isolate.plan import plan
from unis.isolate.request import CacheRequest
from unis.isolate.state import read_usage
from unis.runtime.doctor import caches
from unis.runtime.doctor.finding import Level

# --------------------------------------------------------------- unis cache


def test_classes_are_shown_and_called_emulated() -> None:
    tree = tree_of(folder(), PAPER)
    info = read_info(tree)
    asked = {
        "ids": CacheRequest(5),
        "fw": CacheRequest(1, share="core3"),
        "vpn": CacheRequest(2, share="core3"),
    }
    apply(plan(asked, info, io_ways(info, {}, "")), tree, lambda _: None, threads={"ids": [100]})
    code, text = evaluation("cache")
    assert code == 0
    assert text.startswith("emulated resctrl in ")
    assert "no effect on hardware" in text
    rows = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "···············█████" in rows["unis-ids"]
    assert "██··················" in rows["DMA"]
    assert "unis-vpn" in rows
    assert "3 of 16 classes of service" in text
    shown = json.loads(evaluation("cache", "--json")[1])
    assert shown["emulated"] is True
    assert shown["classes"][1]["schemata"] == {"L3": {"0": 31}}


def test_what_others_limit_is_shown() -> None:
    tree = tree_of(folder(), RICH)
    tree.make("theirs")
    tree.write("theirs/schemata", "L2:3=f\nMB:1=20\n")
    code, text = evaluation("cache")
    assert code == 0
    theirs = [line for line in text.splitlines() if "theirs" in line]
    assert sum("····████" in line for line in theirs) == 1, "of four L2 caches"
    assert sum("bandwidth 20" in line for line in theirs) == 2, "of the L2 and the L3 1"


def test_an_emulation_begins_as_this_machine(tmp_path: Path) -> None:
    code, text = evaluation("cache")
    assert code == 0
    assert "everybody else" in text
    cache = LastLevelCache(3, 32 << 20, 16, frozenset({0, 1}))
    machine = like({3: cache})
    assert machine.l3
    assert (machine.l3.ways, machine.l3.way_bytes, machine.cpus) == (16, 2 << 20, {3: (0, 1)})
    assert read_info(tree_of(tmp_path, like({}))).caches["L3"].ways == 20


def test_the_option_of_before_says_where_the_emulation_is() -> None:
    for words in (("cache", "show"), ("agent", "cluster.yaml", "xeon:0")):
        code, text = run(*words, "--emulated")
        assert code == 2
        assert f"`uv run python -m evaluation {words[0]}`" in " ".join(text.split())


def test_without_resctrl_there_is_a_sentence() -> None:
    if detect().mounted:
        assert run("cache", "show")[0] == 0
        return
    code, text = run("cache", "show")
    assert code == 2
    assert "resctrl is not mounted" in text


def test_a_machine_that_only_counts_is_shown(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, EmulatedMachine(l3=None, rmids=8))
    tree.make("mon_groups/m")
    (root,) = read_usage(tree, NOBODY).classes
    assert ([part.name for part in root.parts], root.occupancy) == (["m"], {0: None})


# --------------------------------------------------------------- unis doctor

NOBODY = IoWays("none", "nothing is known")


def found_of(info: CacheInfo, io: IoWays = NOBODY, **more: object) -> CacheHardware:
    parts = {"mounted": True, "supported": True, "trouble": "", "caches": {}} | more
    return CacheHardware(info=info, io=io, **parts)  # type: ignore[arg-type]


def test_doctor_tells_what_there_is(tmp_path: Path) -> None:
    found = caches.isolation(found_of(read_info(tree_of(tmp_path / "rich", RICH))))
    assert found.level == Level.OK
    assert found.found == (
        "L3 CAT: 2 caches of 20 ways, at least 1 a class; L2 CAT: 4 caches of 8 ways, at least 1 a "
        "class; 8 classes of service; MBA: from 10 % in steps of 10; monitoring: llc_occupancy, "
        "mbm_total_bytes, mbm_local_bytes of 64 groups"
    )
    amd = caches.isolation(found_of(read_info(tree_of(tmp_path / "amd", AMD))))
    assert "L3 io_alloc disabled" in amd.found
    counts = read_info(tree_of(tmp_path / "mon", EmulatedMachine(l3=None, rmids=8)))
    assert "no CAT" in caches.isolation(found_of(counts)).found


def test_doctor_tells_what_is_missing_and_what_mends_it() -> None:
    unmounted = caches.isolation(found_of(CacheInfo(), mounted=False))
    assert (unmounted.level, unmounted.mend) == (
        Level.NOTE,
        "mount -t resctrl resctrl /sys/fs/resctrl",
    )
    nothing = caches.isolation(found_of(CacheInfo(), mounted=False, supported=False))
    assert "neither CAT nor MBA" in nothing.found
    assert nothing.mend == "", "there is no command for that"
    broken = caches.isolation(found_of(CacheInfo(), trouble="resctrl in x: cannot read y"))
    assert broken.found == "resctrl in x: cannot read y"


def test_doctor_tells_which_ways_dma_fills() -> None:
    cache = {0: LastLevelCache(0, 11 << 20, 11, frozenset({0}))}
    read = io_ways(CacheInfo(), cache, INTEL, lambda _: 0x600)
    assert caches.dma(found_of(CacheInfo(), read, caches=cache)).found.endswith(
        "2 of 11 ways of L3 cache 0 (██·········)"
    )
    assumed = io_ways(CacheInfo(), cache, INTEL, lambda _: None)
    told = caches.dma(found_of(CacheInfo(), assumed, caches=cache))
    assert (told.level, told.mend) == (Level.NOTE, "modprobe msr")
    assert caches.dma(found_of(CacheInfo())).found == "nothing is known"

"""What is read of a machine: resctrl's files, caches, the ways that DMA fills."""

import errno
import os
from pathlib import Path

import pytest

from evaluation.emulation.machine import EmulatedMachine
from tests.python.isolating import AMD, PAPER, RICH, tree_of
from unis.isolate.hardware import (
    INTEL,
    LastLevelCache,
    io_ways,
    last_level_caches,
    read_msr,
    vendor,
)
from unis.isolate.info import EIGHTHS, MIBPS, PERCENT, Bandwidth, CacheInfo, read_info
from unis.isolate.tree import KernelTree, NoTreeError, TreeError, control_groups, kernel_tree, tasks


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


# As a Xeon of two sockets shows it, Linux 6.12.
XEON = {
    "schemata": "    MB:0=100;1=100\n    L3:0=7ff;1=7ff\n",
    "size": "    MB:0=100;1=100\n    L3:0=20185088;1=20185088\n",
    "tasks": "1\n2\n",
    "mode": "shareable\n",
    "info/last_cmd_status": "ok\n",
    "info/L3/cbm_mask": "7ff\n",
    "info/L3/min_cbm_bits": "1\n",
    "info/L3/num_closids": "16\n",
    "info/L3/shareable_bits": "600\n",
    "info/L3/bit_usage": "0=XXSSSSSSSSS;1=XXSSSSSSSSS\n",
    "info/MB/num_closids": "8\n",
    "info/MB/min_bandwidth": "10\n",
    "info/MB/bandwidth_gran": "10\n",
    "info/MB/delay_linear": "1\n",
    "info/L3_MON/num_rmids": "176\n",
    "info/L3_MON/mon_features": "llc_occupancy\nmbm_total_bytes\nmbm_total_bytes_config\n",
    "info/L3_MON/max_threshold_occupancy": "114688\n",
    "mon_data/mon_L3_00/llc_occupancy": "0\n",
    "mon_data/mon_L3_01/llc_occupancy": "0\n",
    "theirs/tasks": "7\n",
}


def test_a_xeon(tmp_path: Path) -> None:
    tree = KernelTree(written(tmp_path, XEON))
    info = read_info(tree)
    l3 = info.caches["L3"]
    assert (l3.ways, l3.least, l3.domains, l3.shareable_bits) == (11, 1, (0, 1), 0x600)
    assert l3.way_bytes == {0: 1835008, 1: 1835008}
    assert l3.bit_usage[1] == "XXSSSSSSSSS"
    assert l3.io_alloc == "", "a file that an older kernel has not"
    assert info.num_closids == 8
    assert info.bandwidth == Bandwidth(8, 10, 10, PERCENT)
    assert info.monitoring
    assert info.monitoring.features == ("llc_occupancy", "mbm_total_bytes")
    assert info.monitoring.domains == (0, 1)
    assert control_groups(tree) == ["theirs"]
    assert tasks(tree, "theirs") == [7]


def test_amd_limits_bandwidth_in_eighths_of_a_gigabyte(tmp_path: Path) -> None:
    files = XEON | {"schemata": "MB:0=2048\nL3:0=ffff\n", "size": "MB:0=2048\nL3:0=33554432\n"}
    info = read_info(KernelTree(written(tmp_path, files)))
    assert info.bandwidth
    assert info.bandwidth.unit == EIGHTHS


def test_mount_options(tmp_path: Path) -> None:
    place = written(tmp_path / "resctrl", XEON)
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"tmpfs /tmp tmpfs rw 0 0\nresctrl {place} resctrl rw,relatime,cdp,mba_MBps 0 0\n"
    )
    tree = KernelTree(place, mounts)
    assert tree.is_mounted()
    assert {"cdp", "mba_MBps"} <= tree.options()
    info = read_info(tree)
    assert info.bandwidth
    assert info.bandwidth.unit == MIBPS
    assert not KernelTree(tmp_path, mounts).is_mounted()
    with pytest.raises(NoTreeError, match="mount -t resctrl resctrl"):
        kernel_tree(tmp_path)


def test_what_is_no_resctrl(tmp_path: Path) -> None:
    with pytest.raises(TreeError, match="cannot list info"):
        read_info(KernelTree(tmp_path))
    broken = XEON | {"info/L3/cbm_mask": "wide\n"}
    with pytest.raises(TreeError, match="cannot understand it"):
        read_info(KernelTree(written(tmp_path, broken)))


def test_what_the_kernel_says_is_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = XEON | {"info/last_cmd_status": "Mask out of range\n"}
    tree = KernelTree(written(tmp_path, files))

    def refuse(_: int, __: bytes) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "write", refuse)
    with pytest.raises(TreeError) as caught:
        tree.write("schemata", "L3:0=fff\n")
    assert str(caught.value) == (
        f"resctrl in {tmp_path}: cannot write 'L3:0=fff' to schemata: Invalid argument: "
        "Mask out of range"
    )
    # A file that is not there never came to the kernel, whose words are of an earlier command.
    with pytest.raises(TreeError) as caught:
        tree.write("gone/schemata", "L3:0=f\n")
    assert (caught.value.errno, caught.value.status) == (errno.ENOENT, "")


def test_groups_on_a_file_system(tmp_path: Path) -> None:
    tree = KernelTree(written(tmp_path, XEON))
    tree.make("unis-fw")
    assert control_groups(tree) == ["theirs", "unis-fw"]
    tree.remove("unis-fw")
    tree.write("schemata", "L3:0=f\n")
    assert tree.read("schemata").startswith("L3:0=f\n")
    with pytest.raises(TreeError, match="File exists"):
        tree.make("theirs")


def test_an_emulated_tree_reads_as_the_machine_that_it_is_of(tmp_path: Path) -> None:
    info = read_info(tree_of(tmp_path, RICH))
    assert sorted(info.caches) == ["L2", "L3"]
    assert info.caches["L2"].domains == (0, 1, 2, 3)
    assert info.num_closids == 8
    assert info.monitoring
    assert (info.monitoring.num_rmids, info.monitoring.domains) == (64, (0, 1))


def sysfs(folder: Path, cpus: dict[int, int], size: str = "36608K", ways: int = 11) -> Path:
    for cpu, ident in cpus.items():
        l3 = {"level": "3", "size": size, "ways_of_associativity": f"{ways}", "id": f"{ident}"}
        l2 = {"level": "2", "size": "1024K", "ways_of_associativity": "16", "id": f"{cpu}"}
        for at, index in enumerate((l2, l3)):
            written(folder / f"cpu{cpu}/cache/index{at}", index)
    return folder


def test_last_level_caches(tmp_path: Path) -> None:
    found = last_level_caches(sysfs(tmp_path, {0: 0, 1: 0, 2: 1}))
    assert found == {
        0: LastLevelCache(0, 36608 << 10, 11, frozenset({0, 1})),
        1: LastLevelCache(1, 36608 << 10, 11, frozenset({2})),
    }
    assert found[0].way_bytes == 3328 << 10
    (tmp_path / "cpu0/cache/index1/size").write_text("?")
    assert found[0].cpus - last_level_caches(tmp_path)[0].cpus == {0}
    assert last_level_caches(tmp_path / "nothing") == {}


CACHES = {
    0: LastLevelCache(0, 11 << 20, 11, frozenset({0, 1})),
    1: LastLevelCache(1, 11 << 20, 11, frozenset({2})),
}


def test_ddio_is_read_of_each_socket() -> None:
    asked = []

    def msr(cpu: int) -> int | None:
        asked.append(cpu)
        return {0: 0x600, 2: 0x700}[cpu]

    found = io_ways(CacheInfo(), CACHES, INTEL, msr)
    assert (found.source, found.masks, asked) == ("ddio", {0: 0x600, 1: 0x700}, [0, 2])
    assert found.bytes_of(0) == 2 << 20
    assert found.bytes_of(7) == 0
    assert "0xc8b" in found.told


@pytest.mark.parametrize("said", [None, 0, 1 << 11])
def test_what_cannot_be_is_not_believed_and_the_default_is_called_assumed(said: int | None) -> None:
    found = io_ways(CacheInfo(), CACHES, INTEL, lambda _: said)
    assert (found.source, found.masks) == ("assumed", {0: 0x600, 1: 0x600})
    assert "assumed" in found.told


def test_what_resctrl_says_of_io(tmp_path: Path) -> None:
    info = read_info(tree_of(tmp_path / "paper", PAPER))
    found = io_ways(info, {}, INTEL, lambda _: None)
    assert (found.source, found.masks) == ("shareable_bits", {0: 0xC0000})
    assert found.bytes_of(0) == 2 * ((45 << 20) // 20), "10 % of 45 MB"
    tree = tree_of(tmp_path / "amd", AMD)
    none = io_ways(read_info(tree), {}, "AuthenticAMD")
    assert (none.source, none.masks) == ("none", {})
    assert "io_alloc is there and not enabled" in none.told
    tree.write("info/L3/io_alloc", "1\n")
    tree.write("info/L3/io_alloc_cbm", "0=f000\n")
    found = io_ways(read_info(tree), {}, "AuthenticAMD")
    assert (found.source, found.masks) == ("io_alloc", {0: 0xF000})


def test_a_machine_of_which_nothing_is_told() -> None:
    assert io_ways(CacheInfo(), {}, INTEL).told == "the kernel tells no last-level cache"
    found = io_ways(CacheInfo(), CACHES, "AuthenticAMD")
    assert found.told == "no ways for DMA are known on a CPU of AuthenticAMD: none is told"


def test_the_register_is_read_where_it_stands(tmp_path: Path) -> None:
    device = tmp_path / "3" / "msr"
    device.parent.mkdir()
    device.write_bytes(bytes(0xC8B) + (0x600).to_bytes(8, "little"))
    assert read_msr(3, tmp_path) == 0x600
    assert read_msr(4, tmp_path) is None
    device.write_bytes(b"short")
    assert read_msr(3, tmp_path) is None


def test_the_maker_of_the_cpu(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nvendor_id\t: GenuineIntel\n")
    assert vendor(file) == INTEL
    assert vendor(tmp_path / "none") == ""


def test_an_emulated_cpu_is_in_the_cache_that_its_machine_says() -> None:
    two = EmulatedMachine(cpus={3: (0, 1), 5: (2, 3)})
    assert [two.domain_of(cpu) for cpu in (0, 3, 9)] == [3, 5, None]
    assert EmulatedMachine(cpus={3: (0, 1)}).domain_of(9) == 3

"""The cache model: geometry, costs, shares, and the program beneath it. No machine is needed."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.caches.geometry import PAPER, CacheError, CacheLevel, Caches, read_caches
from evaluation.caches.model import CacheProfile, ContendedCosts, PacketCost, share_by_ways
from unis.counted.flows import Flows
from unis.slo.profile import Profile


def profile_of(misses: tuple[float, ...], llc: float | None = None) -> CacheProfile:
    caches = Caches("test", CacheLevel(64, 8), CacheLevel(512, 8), CacheLevel(2048, len(misses)))
    return CacheProfile(
        name="f", caches=caches, packets=1000, instructions=400.0, references=150.0, l2_hits=2.0,
        llc_references=misses[0] + 1 if llc is None else llc, io_hits=1.0, misses=misses,
        port_misses=(0.0,) * len(misses), written_back=misses, device_spills=0.0,
        occupancy_lines=tuple(2048 * way for way in range(1, len(misses) + 1)),
    )  # fmt: skip


MISSES = st.lists(st.floats(0, 100), min_size=1, max_size=24).map(
    lambda values: tuple(sorted(values, reverse=True))
)
COSTS = st.builds(
    PacketCost,
    base_ns=st.none() | st.floats(1, 1e4),
    port_ns=st.floats(0, 100),
    llc_ns=st.floats(0, 50),
    memory_ns=st.floats(50, 500),
    overlap=st.floats(1, 16),
)


@given(misses=MISSES, cost=COSTS)
def test_shares_never_fall_and_make_a_profile(misses: tuple[float, ...], cost: PacketCost) -> None:
    shares = share_by_ways(profile_of(misses), cost)
    assert len(shares) == len(misses)
    assert all(less <= more for less, more in pairwise(shares))
    assert shares[-1] == 1
    Profile("f", 1.0, shares, ((1.0, 10.0),))  # raises where it is none


def test_a_packet_takes_its_hits_and_misses() -> None:
    profile = profile_of((4.0, 0.0), llc=6.0)
    cost = PacketCost(base_ns=100, port_ns=10, llc_ns=20, memory_ns=80, overlap=2)
    assert cost.ns(profile, 2) == 110 + 6 * 20 / 2
    assert cost.ns(profile, 1) == 110 + (2 * 20 + 4 * 80) / 2
    assert share_by_ways(profile, cost) == (170 / 290, 1.0)


def test_a_packet_beside_others_costs_as_one_with_such_misses() -> None:
    profile = profile_of((4.0, 1.0), llc=6.0)
    cost = PacketCost(port_ns=3)
    among = ContendedCosts(
        packets=10, instructions=400.0, llc_references=6.0, misses=4.0, port_misses=0.0,
        written_back=2.0, device_spills=1.0, occupancy_lines=7,
    )  # fmt: skip
    assert cost.ns_beside(among) == cost.ns(profile, 1)
    assert cost.ns_beside(replace(among, port_misses=1.0)) > cost.ns(profile, 1)
    assert among.memory_bytes_per_packet() == 64 * 7
    assert among.occupancy() == 7 * 64


def test_base_from_instructions() -> None:
    cost = PacketCost(ipc=2, ghz=2, llc_ns=0)
    assert cost.ns(profile_of((0.0,)), 1) == 100


def test_what_a_profile_tells_by_ways() -> None:
    profile = profile_of((4.0, 1.0))
    assert profile.misses_per_packet(2) == 1
    assert profile.memory_bytes_per_packet(1) == 64 * 8  # read, and written back
    assert profile.occupancy(2) == 2 * 2048 * 64
    for ways in (0, 3):
        with pytest.raises(ValueError, match="has 2"):
            profile.misses_per_packet(ways)


@pytest.mark.parametrize("bad", [{"overlap": 0.5}, {"ipc": 0}, {"memory_ns": 1}, {"base_ns": 0}])
def test_costs_that_cannot_be(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"above 0|at least 1"):
        PacketCost(**bad)


def sysfs(folder: Path, *caches: tuple[int, str, int, int, int]) -> Path:
    for number, (level, kind, sets, ways, line) in enumerate(caches):
        index = folder / "cpu1" / "cache" / f"index{number}"
        index.mkdir(parents=True)
        told = {
            "level": level, "type": kind, "number_of_sets": sets, "ways_of_associativity": ways,
            "coherency_line_size": line,
        }  # fmt: skip
        for name, value in told.items():
            (index / name).write_text(f"{value}\n")
    return folder


def test_caches_are_read_from_sysfs(tmp_path: Path) -> None:
    root = sysfs(
        tmp_path, (1, "Data", 64, 12, 64), (1, "Instruction", 64, 8, 64),
        (2, "Unified", 1024, 16, 64), (3, "Unified", 32768, 16, 64),
    )  # fmt: skip
    caches = read_caches(1, root)
    assert (caches.l1, caches.l2) == (CacheLevel(64, 12), CacheLevel(1024, 16))
    assert caches.llc.way_bytes == 2 << 20


def test_a_machine_that_tells_no_caches_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match="levels none"):
        read_caches(1, tmp_path)


def test_a_missing_level_and_other_lines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match="levels"):
        read_caches(1, sysfs(tmp_path / "a", (1, "Data", 64, 8, 64), (2, "Unified", 512, 8, 64)))
    with pytest.raises(CacheError, match="128 bytes"):
        read_caches(1, sysfs(tmp_path / "b", (1, "Data", 64, 8, 128)))


def test_the_papers_cache_has_45_mb() -> None:
    assert PAPER.llc.way_bytes * PAPER.llc.ways == 45 << 20


def test_traffic_has_each_flow_first() -> None:
    frames = list(Flows(flows=50, packets=200).frames())
    assert len(frames) == Flows(flows=50, packets=200).total
    assert len(set(frames[:50])) == 50
    assert set(frames[50:]) <= set(frames[:50])
    assert {len(frame) for frame in frames} == {60}
    with pytest.raises(ValueError, match="flows"):
        Flows(flows=0)

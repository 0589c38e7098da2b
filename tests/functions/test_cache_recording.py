"""The cache model the whole way: functions recorded under Valgrind, and run through caches."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

from evaluation.caches.geometry import CacheLevel, Caches
from evaluation.caches.model import (
    CacheProfile,
    Neighbour,
    PacketCost,
    beside,
    cache_profile,
    measured_latency_ns,
    share_by_ways,
)
from evaluation.caches.references import Recorded, RecordingError, record
from evaluation.resq.reference_subjects import reference_subject
from tests.needs import need
from unis.counted.flows import Flows

FLOWS = Flows(flows=3000, packets=9000)
# Small, so that few flows need many ways: 32 KB a way.
CACHES = Caches("test", CacheLevel(64, 8), CacheLevel(64, 8), CacheLevel(512, 16))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    need(shutil.which("valgrind") is not None, "needs valgrind: apt-get install valgrind")
    folder = tmp_path_factory.mktemp("references")
    return {
        name: record(reference_subject(name, folder, FLOWS), FLOWS, folder=folder)
        for name in ("monitor", "macswap")
    }


@pytest.fixture(scope="module")
def profiles(recorded: dict[str, Recorded]) -> dict[str, CacheProfile]:
    return {name: cache_profile(of, CACHES) for name, of in recorded.items()}


def test_only_work_on_packets_is_recorded(profiles: dict[str, CacheProfile]) -> None:
    """Macswap swaps two addresses: some 30 instructions. Its start was many millions."""
    assert 10 < profiles["macswap"].instructions < 100
    assert profiles["macswap"].references < profiles["macswap"].instructions
    assert 100 < profiles["monitor"].instructions < 1000
    for profile in profiles.values():
        assert 4400 <= profile.packets <= 4500  # half of what follows the first of each flow
        assert profile.io_hits == pytest.approx(1, abs=0.01)  # a frame of one line, as it arrived


def test_flows_need_ways_and_macswap_does_not(profiles: dict[str, CacheProfile]) -> None:
    macswap, monitor = share_by_ways(profiles["macswap"]), share_by_ways(profiles["monitor"])
    assert min(macswap[3:]) > 0.999  # mbufs of 1024 buffers take two ways
    assert monitor[0] < 0.9
    # A flow's entry and its key and its bucket are a line or two each.
    assert 3000 * 64 < profiles["monitor"].occupancy(16) < 8 * 3000 * 64 + 1024 * 64
    assert profiles["monitor"].misses_per_packet(1) > 1
    assert profiles["monitor"].memory_bytes_per_packet(1) > 64


def test_a_partition_isolates_and_a_shared_cache_does_not(recorded: dict[str, Recorded]) -> None:
    monitor = recorded["monitor"]

    def misses(mine: int, others: int | None) -> float:
        neighbours = [Neighbour(monitor, 1.0, mine)]
        if others is not None:
            neighbours += [Neighbour(monitor, 1.0, others)] * 2
        return beside(neighbours, CACHES, io_ways=2, packets=3000)[0].misses

    alone = misses(0x01FF, None)
    # The port writes 1024 buffers' lines into the two highest ways, which are nobody's here.
    assert misses(0x01FF, 0x3E00) == pytest.approx(alone, abs=0.05)
    assert misses(0x3FFF, 0x3FFF) > misses(0x3FFF, None) + 0.3


def test_one_alone_is_as_with_so_many_ways_to_itself(
    recorded: dict[str, Recorded], profiles: dict[str, CacheProfile]
) -> None:
    """But for what the device has put into ways of its own, which here everybody hits in."""
    profile = profiles["monitor"]
    for ways in (1, 4, 9):
        neighbour = Neighbour(recorded["monitor"], 1.0, (1 << ways) - 1)
        (alone,) = beside([neighbour], CACHES, packets=profile.packets)
        assert alone.instructions == pytest.approx(profile.instructions, rel=0.01)
        assert alone.misses == pytest.approx(profile.misses_per_packet(ways), rel=0.03, abs=0.02)
        assert 0.9 < alone.occupancy() / profile.occupancy(ways) <= 1.01
        memory = profile.memory_bytes_per_packet(ways)
        assert alone.memory_bytes_per_packet() == pytest.approx(memory, rel=0.05, abs=4)
        assert PacketCost().ns_beside(alone) == pytest.approx(PacketCost().ns(profile, ways), 0.02)


def test_a_recording_is_kept(recorded: dict[str, Recorded], tmp_path: Path) -> None:
    monitor = recorded["monitor"]
    before = monitor.file.stat().st_mtime_ns
    subject = reference_subject("monitor", tmp_path, FLOWS)
    assert record(subject, FLOWS, folder=monitor.file.parent) == monitor
    assert monitor.file.stat().st_mtime_ns == before
    assert [file.suffix for file in monitor.file.parent.iterdir()] == [".refs"] * 2


@pytest.mark.usefixtures("recorded")  # needs Valgrind
def test_what_a_killed_recording_left_is_swept_away(tmp_path: Path) -> None:
    """What others are recording stays."""
    old, young = tmp_path / ".recording-old", tmp_path / ".recording-young"
    for folder in (old, young):
        folder.mkdir()
        (folder / "in.pcap").touch()
    os.utime(old, (0, 0))
    flows = Flows(flows=100, packets=100)
    found = record(reference_subject("macswap", tmp_path, flows), flows, folder=tmp_path)
    assert {*tmp_path.iterdir()} == {young, found.file}


@pytest.mark.usefixtures("recorded")
def test_it_works_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that writes where it is does so nowhere else."""
    asked: list[Path] = []

    def run(*_: object, cwd: Path, **__: object) -> None:
        asked.append(cwd)
        raise subprocess.TimeoutExpired("valgrind", 1)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.chdir(tmp_path)
    flows = Flows(flows=100, packets=100)
    with pytest.raises(RecordingError, match="has not ended") as failed:
        record(reference_subject("macswap", tmp_path, flows), flows, folder=Path("kept"))
    assert not failed.value.bad_input, "it may have time enough another time"
    assert asked[0].parent == tmp_path / "kept"


def test_what_cannot_be_recorded_is_told(recorded: dict[str, Recorded], tmp_path: Path) -> None:
    assert recorded
    few = Flows(flows=64, packets=64)
    macswap = reference_subject("macswap", tmp_path, few)
    with pytest.raises(RecordingError, match=r"calls no function \*::Absent"):
        record(replace(macswap, entry="*::Absent(*"), few, folder=tmp_path)
    with pytest.raises(RecordingError, match="unknown option"):
        record(replace(macswap, arguments=("--frobnicate", "1")), few, folder=tmp_path)
    nat = replace(
        reference_subject("nat", tmp_path, few),
        arguments=("--public", "203.0.113.1", "--max-flows", "8"),
    )
    with pytest.raises(RecordingError, match="are its tables large enough"):
        record(nat, few, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_traffic_is_what_it_says() -> None:
    frames = list(Flows(flows=20, packets=1).frames())
    for frame, transport in zip(frames, [UDP, TCP] * 10, strict=False):
        packet = Ether(frame)
        assert packet[transport].dport == 443
        assert packet[IP].dst.split(".")[0] in map(str, range(64, 128))
        right = packet[IP].chksum
        del packet[IP].chksum
        assert Ether(bytes(packet))[IP].chksum == right


def test_a_larger_working_set_takes_longer_to_load() -> None:
    assert 0 < measured_latency_ns(16 << 10) < measured_latency_ns(256 << 20)

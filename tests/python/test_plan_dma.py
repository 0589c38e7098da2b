"""Queues of NICs that are as long as the ways that DMA fills allow."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.python.commands import run
from tests.python.planned import EIGHT_CPUS, places, small
from unis import built
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile
from unis.isolate.hardware import INTEL, CacheHardware, LastLevelCache, io_ways
from unis.isolate.info import CacheInfo
from unis.plan.difference import difference
from unis.plan.dma import LEAST_DESCRIPTORS, QUEUE_DESCRIPTORS, DmaChoice, IoCache, choice, fitting
from unis.plan.machine import OtherRun
from unis.plan.model import Plan
from unis.plan.planner import make_plan
from unis.plan.rings import Known
from unis.runtime.planning import io_cache

NIC = {"kind": "port", "device": "0000:03:00.0"}
OTHER_NIC = {"kind": "port", "device": "0000:04:00.0,a=1"}
TWO_WAYS = IoCache(2 << 20, "DMA fills two ways")  # 1310 frames of 1518 bytes


def file_of(
    source: Mapping[str, object] = NIC, sink: Mapping[str, object] = NIC
) -> dict[str, object]:
    return small(traffic={"source": {**source}, "sink": {**sink}})


def planned(
    io: IoCache | None, file: dict[str, object] | None = None, there: Plan | None = None
) -> Plan:
    chain = LoadedChain(Path("/somewhere/chain.yaml"), ChainFile.model_validate(file or file_of()))
    return make_plan(chain, EIGHT_CPUS, (), places, there, known=Known(io=io))


def chosen(io: IoCache | None, file: dict[str, object] | None = None) -> DmaChoice:
    found = planned(io, file).dma
    assert found
    return found


def notes(plan: Plan) -> list[str]:
    return [note for note in plan.notes if note.startswith("NICs")]


# --------------------------------------------------------------- what is chosen


def test_queues_are_as_long_as_the_ways_for_io_allow() -> None:
    of = planned(TWO_WAYS)
    assert of.dma
    assert (of.dma.rx, of.dma.tx, of.dma.fits, of.dma.leaky) == (512, 512, 1310, False)
    assert notes(of) == []
    assert "1310 frames of 1518 B; 1024 can be under way" in of.dma.why
    assert "queues have 512 descriptors, not 1024" in of.dma.why
    assert json.loads(json.dumps(of.as_dict()))["dma"]["ports"] == ["0000:03:00.0"]


def test_the_engine_is_told() -> None:
    wire = planned(TWO_WAYS).deploy({}, "").traffic
    assert (wire.port.descriptors, wire.sink_descriptors) == (512, 512)
    roomy = planned(IoCache(64 << 20, "DMA fills two ways")).deploy({}, "").traffic
    assert (roomy.port.descriptors, roomy.sink_descriptors) == (1024, 1024)


def test_only_the_way_that_is_used_counts() -> None:
    source = planned(TWO_WAYS, small(traffic={"source": NIC}))
    assert source.dma
    assert (source.dma.rx, source.dma.tx, source.dma.leaky) == (1024, None, False)
    assert not source.deploy({}, "").traffic.HasField("sink_descriptors")
    sink = chosen(TWO_WAYS, small(traffic={"sink": NIC}))
    assert (sink.rx, sink.tx) == (None, 1024)
    both = chosen(TWO_WAYS, file_of(sink=OTHER_NIC))
    assert both.ports == ("0000:03:00.0", "0000:04:00.0")
    assert (both.rx, both.tx) == (512, 512)


@pytest.mark.parametrize("io", [None, IoCache(0, "no ways for DMA are known")])
def test_where_the_ways_are_not_known_nothing_is_claimed(io: IoCache | None) -> None:
    of = chosen(io)
    assert (of.rx, of.tx, of.fits, of.leaky) == (1024, 1024, None, False)
    assert of.why.endswith("not bounded")


def test_without_nics_there_is_nothing_to_choose() -> None:
    assert planned(TWO_WAYS, small()).dma is None
    tap = planned(TWO_WAYS, file_of({"kind": "port", "device": "net_tap0"}, {"kind": "measure"}))
    assert tap.dma is None
    assert not tap.deploy({}, "").traffic.port.HasField("descriptors")


# --------------------------------------------------------------- what the file says


def test_the_file_is_obeyed_and_the_rest_shared() -> None:
    of = planned(TWO_WAYS, file_of({**NIC, "descriptors": 1024}))
    assert of.dma
    assert (of.dma.rx, of.dma.tx, of.dma.leaky) == (1024, 256, False)
    assert notes(of) == []


def test_what_the_file_says_is_noted_where_it_leaks() -> None:
    of = planned(TWO_WAYS, file_of({**NIC, "descriptors": 2048}))
    assert of.dma
    assert (of.dma.rx, of.dma.tx, of.dma.leaky) == (2048, 64, True)
    (note,) = notes(of)
    assert "1310 frames of 1518 B, and 2112 can be under way" in note
    assert "queues of 512 descriptors would fit, not of 2048 and 64" in note
    assert of.deploy({}, "").traffic.port.descriptors == 2048


def test_ports_that_are_no_nic_have_what_the_file_says() -> None:
    tap = {"kind": "port", "device": "net_tap0", "descriptors": 256}
    wire = planned(TWO_WAYS, file_of(tap, {**tap, "descriptors": 128})).deploy({}, "").traffic
    assert (wire.port.descriptors, wire.sink_descriptors) == (256, 128)


@pytest.mark.parametrize(("said", "near"), [(1000, 512), (32, 64), (65536, 32768)])
def test_lengths_that_no_queue_has(said: int, near: int) -> None:
    with pytest.raises(ValueError, match=f"a power of two from 64 to 32768, as {near}"):
        ChainFile.model_validate(file_of({**NIC, "descriptors": said}))


def test_hugepages_hold_what_the_queues_can() -> None:
    long = {"descriptors": 32768}
    more = planned(TWO_WAYS, file_of({**NIC, **long}, {**NIC, **long}))
    assert more.hugepages_mb > planned(TWO_WAYS).hugepages_mb + 2 * 32768 * 2048 / (1 << 20)


# --------------------------------------------------------------- beside other runs, and changed


def test_what_other_runs_can_fill_is_left_to_them() -> None:
    of = chosen(IoCache(TWO_WAYS.bytes, "two ways", taken=1024))
    assert (of.rx, of.tx, of.leaky) == (128, 128, False)
    assert "1024 of these are of other runs' NICs" in of.why


def test_where_others_fill_all_the_shortest_are_noted() -> None:
    of = planned(IoCache(TWO_WAYS.bytes, "two ways", taken=1300))
    assert of.dma
    assert (of.dma.rx, of.dma.tx, of.dma.leaky) == (64, 64, True)
    assert "not even queues of 64 descriptors, the shortest, would fit" in notes(of)[0]


def test_only_runs_of_the_same_cache_count() -> None:
    caches = {
        0: LastLevelCache(0, 11 << 20, 11, frozenset({0, 1})),
        1: LastLevelCache(1, 11 << 20, 11, frozenset({2, 3})),
    }
    ways = io_ways(CacheInfo(), caches, INTEL, lambda _: 0x600)
    found = CacheHardware(
        mounted=False, supported=False, trouble="", info=CacheInfo(), caches=caches, io=ways
    )
    beside = [
        OtherRun("near", frozenset({1}), frozenset({0}), nic_buffers=512),
        OtherRun("far", frozenset({3}), frozenset({2}), nic_buffers=256),
    ]
    of = io_cache(found, 1, beside)
    assert of
    assert (of.bytes, of.taken) == (2 << 20, 512)
    assert io_cache(found, 7, beside) is None


def test_a_run_that_is_there_keeps_its_queues() -> None:
    there = planned(TWO_WAYS)
    crowded = IoCache(TWO_WAYS.bytes, "two ways", taken=1024)
    again = planned(crowded, there=there)
    assert again.dma
    assert (again.dma.rx, again.dma.tx) == (512, 512)
    assert difference(there, again).refused == ()
    stated = planned(crowded, file_of({**NIC, "descriptors": 256}), there)
    (refused,) = difference(there, stated).refused
    assert "traffic.source stays kind port, device 0000:03:00.0 while" in refused


# --------------------------------------------------------------- always

WAYS = st.dictionaries(
    st.sampled_from(["rx", "tx"]),
    st.one_of(st.none(), st.sampled_from([64, 256, 1024, 8192])),
    min_size=1,
)


@given(WAYS, st.integers(1, 8 << 20), st.integers(0, 4096))
def test_it_leaks_only_by_what_is_stated_or_shortest(
    stated: dict[str, int | None], io_bytes: int, taken: int
) -> None:
    of = choice(["nic"], stated, 0, IoCache(io_bytes, "ways", taken))
    assert of
    for way in ("rx", "tx"):
        assert (of.of(way) is None) == (way not in stated)
    lengths = {way: of.of(way) or 0 for way in stated}
    opened = [way for way, length in stated.items() if length is None]
    assert all(lengths[way] == length for way, length in stated.items() if length)
    assert all(LEAST_DESCRIPTORS <= lengths[way] <= QUEUE_DESCRIPTORS for way in opened)
    assert all(lengths[way].bit_count() == 1 for way in lengths)
    assert of.leaky == (of.buffers + taken > fitting(io_bytes, 1518))
    if of.leaky:
        assert all(lengths[way] == LEAST_DESCRIPTORS for way in opened)


# --------------------------------------------------------------- shown, and the engine's own


def test_config_tells_of_nics(tmp_path: Path) -> None:
    file = tmp_path / "nic.yaml"
    file.write_text(json.dumps(file_of({**NIC, "descriptors": 2048})))
    code, text = run("config", file)
    assert code == 0, text
    assert "NICs 0000:03:00.0: descriptors 2048 to receive and " in text


def test_the_engine_s_own_lengths_are_as_the_plan_thinks() -> None:
    source = (built.clone() / "engine" / "platform" / "eth_port.h").read_text()
    said = {name: int(value) for name, value in re.findall(r"k(Least|Default) = (\d+);", source)}
    assert said == {"Least": LEAST_DESCRIPTORS, "Default": QUEUE_DESCRIPTORS}

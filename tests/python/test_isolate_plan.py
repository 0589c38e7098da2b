"""Requests and machines become masks, or a sentence that says why not."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.emulation.machine import EmulatedCache, EmulatedMachine
from tests.python.isolating import AMD, CDP, PAPER, RICH, requests, tree_of
from tests.python.strategies import scaled
from unis.isolate.hardware import IoWays, io_ways
from unis.isolate.info import CacheInfo, CacheResource, read_info
from unis.isolate.masks import is_valid
from unis.isolate.plan import CachePlan, plan
from unis.isolate.request import CacheRequest, PlanError
from unis.isolate.state import EXCLUSIVE, GroupState


def info_of(
    shareable: int = 0xC0000, closids: int = 16, least: int = 1, domains: tuple[int, ...] = (0,)
) -> CacheInfo:
    way_bytes = dict.fromkeys(domains, 1 << 20)
    l3 = CacheResource("L3", (1 << 20) - 1, least, closids, domains, shareable, way_bytes=way_bytes)
    return CacheInfo({"L3": l3})


def of_machine(tmp_path: Path, machine: EmulatedMachine) -> CacheInfo:
    return read_info(tree_of(tmp_path, machine))


def masks_of(of: CachePlan, resource: str = "L3", domain: int = 0) -> dict[str, int]:
    return {one.name: one.schemata[resource][domain] for one in of.classes} | {
        "": of.default.get(resource, {}).get(domain, 0)
    }


def refused(*asked: Any, **more: Any) -> str:
    with pytest.raises(PlanError) as caught:
        plan(*asked, **more)
    return str(caught.value)


IO_MASKS = st.sampled_from([0xC0000, 0x3, 0x600])


@settings(max_examples=scaled(300))
@given(requests(ways=18), st.randoms(), IO_MASKS, IO_MASKS)
def test_masks_are_disjoint_neighbours_and_not_io_s(
    asked: dict[str, CacheRequest], random: Any, first: int, second: int
) -> None:
    """Two caches; I/O has other ways in one than in the other."""
    info = info_of(shareable=first & second, domains=(0, 1))
    io = IoWays("ddio", "", {0: first, 1: second})
    try:
        of = plan(asked, info, io)
    except PlanError:
        middle = 0x600 in (first, second)
        assert middle, "only with I/O's ways in the middle may a class find no room"
        return
    order = list(asked.items())
    random.shuffle(order)
    assert plan(dict(order), info, io) == of, "the order of the requests does not matter"
    total = sum(request.ways for request in asked.values())
    for domain, io_mask in io.masks.items() if of.classes else ():
        found = masks_of(of, domain=domain)
        if total == 18:
            assert found.pop("") == io_mask, "functions have all others"
        used = 0
        for name, mask in found.items():
            assert is_valid(mask), name
            assert not mask & (used | io_mask)
            used |= mask
        for one in of.classes:
            ways = sum(asked[name].ways for name in one.members)
            assert found[one.name].bit_count() == ways
    for one in of.classes:
        assert one.name in (f"unis-{one.members[0]}", "unis-core1", "unis-core2")
    assert {*of.places} == {*asked}


def test_the_paper_s_server_full(tmp_path: Path) -> None:
    """18 ways for functions, and everybody else is left with those of I/O, which is said."""
    info = of_machine(tmp_path, PAPER)
    asked = {f"nf{at}": CacheRequest(2) for at in range(9)}
    of = plan(asked, info, io_ways(info, {}, ""))
    assert masks_of(of)[""] == 0xC0000
    assert of.notes == (
        "everybody else shares the ways of I/O in L3 0, for functions have all others",
    )


def test_what_is_asked_and_what_there_is() -> None:
    info = info_of()
    assert refused({"fw": CacheRequest(12), "nat": CacheRequest(7)}, info) == (
        "19 ways of L3 0 are asked for (fw 12, nat 7); of its 20 ways 18 are free (2 are I/O's)"
    )
    assert "a class needs neighbours, and those are 9, 9" in refused(
        {"fw": CacheRequest(10)}, info_of(shareable=0x600)
    )
    assert "3 classes of service are asked for and 2 are left: there are 3 (CLOSIDs)" in refused(
        {name: CacheRequest(1) for name in "abc"}, info_of(closids=3)
    )
    assert "fw asks for ways of L3, and this machine cannot allocate L3" in refused(
        {"fw": CacheRequest(1)}, CacheInfo()
    )
    assert "fw asks for -1 ways of L3" in refused({"fw": CacheRequest(-1)}, info)
    assert "`a/b` names no class" in refused({"a/b": CacheRequest(1)}, info)
    assert "b shares the class a, which is that of another alone" in refused(
        {"a": CacheRequest(1), "b": CacheRequest(1, share="a")}, info
    )


def test_nothing_left_for_everybody_else() -> None:
    told = refused({"fw": CacheRequest(20)}, info_of(shareable=0))
    assert "nothing of L3 0 is left for everybody else" in told


def test_who_asks_for_nothing_is_as_everybody_else() -> None:
    of = plan({"fw": CacheRequest(2), "idle": CacheRequest()}, info_of())
    assert [one.name for one in of.classes] == ["unis-fw"]
    assert of.places == {"fw": "unis-fw", "idle": ""}


def test_domains_are_divided_one_by_one(tmp_path: Path) -> None:
    info = of_machine(tmp_path, RICH)
    foreign = {"db": GroupState({"L3": {0: 0xF, 1: 0x3FC00}}, EXCLUSIVE)}
    asked = {"fw": CacheRequest(4), "nat": CacheRequest(5)}
    of = plan(asked, info, foreign=foreign)
    assert masks_of(of, domain=0) == {"unis-nat": 0x1F0, "unis-fw": 0x1E00, "": 0x3E000}
    assert masks_of(of, domain=1) == {"unis-nat": 0x1F, "unis-fw": 0x1E0, "": 0x200}
    # A class keeps its ways in one cache also where it cannot in another.
    previous = {"unis-nat": {"L3": {0: 0x3E000, 1: 0x7C00}}}
    of = plan(asked, info, foreign=foreign, previous=previous)
    assert [of.classes[1].schemata["L3"][domain] for domain in (0, 1)] == [0x3E000, 0x1F]
    for schemata in (of.default, *of.schemata.values()):
        assert [*schemata] == ["L3"], "L2 and bandwidth are not ours"
    told = refused({"fw": CacheRequest(11)}, info, foreign=foreign)
    assert "11 ways of L3 1 are asked for (fw 11); of its 20 ways 10 are free" in told


def test_code_and_data_are_alike(tmp_path: Path) -> None:
    of = plan({"fw": CacheRequest(3)}, of_machine(tmp_path, CDP))
    assert of.classes[0].schemata == {"L3CODE": {0: 0b111}, "L3DATA": {0: 0b111}}
    assert "8 classes of service are asked for and 7 are left" in refused(
        {name: CacheRequest(1) for name in "abcdefgh"}, of_machine(tmp_path, CDP)
    )


def test_fewer_ways_than_a_class_must_have() -> None:
    """Haswell wants two bits."""
    of = plan({"fw": CacheRequest(1), "nat": CacheRequest(3)}, info_of(least=2))
    assert masks_of(of)["unis-fw"].bit_count() == 2
    assert "fw asks for 1 way of L3 and gets 2, the fewest" in of.notes[0]


def test_beside_foreign_groups() -> None:
    exclusive = {"db": GroupState({"L3": {0: 0xF}}, EXCLUSIVE)}
    of = plan({"fw": CacheRequest(4)}, info_of(), foreign=exclusive)
    assert masks_of(of)["unis-fw"] == 0xF0
    told = refused({"fw": CacheRequest(15)}, info_of(), foreign=exclusive)
    assert "of its 20 ways 14 are free (2 are I/O's, 4 the group db's)" in told
    everywhere = {"db": GroupState({"L3": {0: 0xFFFFF}})}
    of = plan({"fw": CacheRequest(4)}, info_of(), foreign=everywhere)
    assert "the group db, which is not UNiS', has ways f of L3 0 too" in of.notes[0]


def test_who_shares_a_class_is_counted_apart_while_there_are_rmids(tmp_path: Path) -> None:
    asked = {"a": CacheRequest(1, share="core"), "b": CacheRequest(2, share="core")}

    def rmids(count: int) -> EmulatedMachine:
        return EmulatedMachine(l3=EmulatedCache(20, 1 << 20), rmids=count)

    of = plan(asked, of_machine(tmp_path / "4", rmids(4)))
    assert of.places["a"] == "unis-core/mon_groups/unis-a"
    of = plan(asked, of_machine(tmp_path / "3", rmids(3)))
    assert of.places == {"a": "unis-core", "b": "unis-core"}
    assert "not counted apart: there are only 3 RMIDs" in of.notes[0]
    told = refused(
        {"a": CacheRequest(1), "b": CacheRequest(1)}, of_machine(tmp_path / "2", rmids(2))
    )
    assert told == "3 groups need as many RMIDs, and there are 2"


def test_io_alloc_takes_ways_and_a_class(tmp_path: Path) -> None:
    info = of_machine(tmp_path, AMD)
    of = plan({"fw": CacheRequest(4)}, info, io_alloc=3)
    assert (of.io_alloc, masks_of(of)[""]) == ({0: 0xE000}, 0x1FF0)
    assert "1 to 15 can be" in refused({"fw": CacheRequest(4)}, info, io_alloc=16)
    assert "it has no io_alloc here" in refused({"fw": CacheRequest(4)}, info_of(), io_alloc=2)
    told = refused({f"f{at}": CacheRequest(1) for at in range(15)}, info, io_alloc=1)
    assert "15 classes of service are asked for and 14 are left" in told
    assert "everybody else's, I/O's" in told


def test_ways_that_are_told_of_io_are_kept_free() -> None:
    io = IoWays("ddio", "", {0: 0b11}, {0: 1 << 20})
    of = plan({"fw": CacheRequest(4)}, info_of(shareable=0), io)
    assert masks_of(of) == {"unis-fw": 0b111100, "": 0xFFFC0}

"""Masks, schemata, and the order in which masks are written."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.python.strategies import scaled
from unis.isolate import schemata
from unis.isolate.masks import is_valid, lay_out, mask_of, row, runs, transition

WAYS = 20


@given(st.integers(0, (1 << 32) - 1))
def test_runs_are_the_mask(mask: int) -> None:
    found = list(runs(mask))
    assert sum(mask_of(*run) for run in found) == mask
    assert all(first + length < after for (first, length), (after, _) in pairwise(found))
    assert is_valid(mask) == ("01" not in f"{mask:b}" and mask > 0)


def test_a_mask_needs_its_least_bits_side_by_side() -> None:
    assert is_valid(0b110, 2)
    assert not is_valid(0b100, 2)
    assert not is_valid(0, 0), "an empty mask is of no use, though AMD takes it"
    assert not is_valid(0b101, 1)
    assert row(0b1100, 5) == "·██··"


@pytest.mark.parametrize("text", ["", "0x", "fg", "-1", " "])
def test_what_is_no_mask(text: str) -> None:
    with pytest.raises(ValueError, match="expected hexadecimal digits"):
        schemata.parse_hex(text)


VALUES = st.dictionaries(st.integers(0, 40), st.integers(0, (1 << 32) - 1), min_size=1)


@given(st.dictionaries(st.sampled_from([*schemata.CACHES, "MB"]), VALUES))
def test_schemata_come_back(values: dict[str, dict[int, int]]) -> None:
    assert schemata.parse(schemata.format_lines(values)) == values


def test_schemata_as_kernels_write_them() -> None:
    text = "    MB:0=100;1= 70\nL3DATA:0=fffff;1=000f0\nL3CODE:0=1;1=2\n  SMBA:0=2048\n"
    assert schemata.parse(text) == {
        "MB": {0: 100, 1: 70}, "L3DATA": {0: 0xFFFFF, 1: 0xF0}, "L3CODE": {0: 1, 1: 2},
    }  # fmt: skip


@pytest.mark.parametrize("text", ["L3", "L3:0", "L3:x=1", "L3:0=1;0=2", "MB:0=f", "L3:0=1\nL3:0=1"])
def test_what_is_no_schemata(text: str) -> None:
    with pytest.raises(ValueError, match=r"`|twice"):
        schemata.parse(text)


@st.composite
def layouts(draw: st.DrawFn, count: int, ways: int = WAYS) -> dict[str, int]:
    """Masks that do not overlap."""
    cuts = draw(
        st.lists(st.integers(0, ways), min_size=2 * count, max_size=2 * count, unique=True)
        if 2 * count <= ways + 1
        else st.nothing()
    )
    cuts.sort()
    spans = draw(
        st.permutations([mask_of(a, b - a) for a, b in zip(cuts[::2], cuts[1::2], strict=True)])
    )
    return {f"c{at}": mask for at, mask in enumerate(spans)}


@st.composite
def packed(draw: st.DrawFn, count: int, ways: int) -> dict[str, int]:
    """The same with no way free."""
    inner = st.lists(st.integers(1, ways - 1), min_size=count - 1, max_size=count - 1, unique=True)
    cuts = [0, *sorted(draw(inner)), ways]
    spans = [mask_of(a, b - a) for a, b in pairwise(cuts)]
    return {f"c{at}": mask for at, mask in enumerate(draw(st.permutations(spans)))}


@st.composite
def changes(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, int]]:
    count = draw(st.integers(1, 8))
    one = st.one_of(layouts(count), packed(count, WAYS))
    return draw(one), draw(one)


@settings(max_examples=scaled(800))
@given(changes())
def test_masks_never_overlap_on_the_way(change: tuple[dict[str, int], dict[str, int]]) -> None:
    """At most 8 classes of 20 ways: there is always a way free, or one that shrinks."""
    now, wanted = dict(change[0]), change[1]
    done = transition(now, wanted, spare=mask_of(0, WAYS))
    for write in done:
        assert now[write.name] != write.mask, "nothing is written twice"
        now[write.name] = write.mask
        assert is_valid(write.mask, 1)
        assert not write.overlaps
        used = list(now.values())
        assert sum(used) == sum(mask.bit_count() and mask for mask in used)
        assert sum(mask.bit_count() for mask in used) == _union(used).bit_count()
    assert now == wanted


def _union(masks: list[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def test_where_no_way_is_free_the_overlap_is_told() -> None:
    """Two classes of a way each change places in a cache of two ways."""
    done = transition({"a": 1, "b": 2}, {"a": 2, "b": 1})
    assert [write.overlaps for write in done] == [True, False]
    assert not any(
        write.overlaps for write in transition({"a": 1, "b": 2}, {"a": 2, "b": 1}, spare=4)
    )


def test_who_grows_waits_until_another_has_shrunk() -> None:
    done = transition({"a": 0b0011, "b": 0b1100}, {"a": 0b0001, "b": 0b1110})
    assert [(write.name, write.mask) for write in done] == [("a", 0b0001), ("b", 0b1110)]
    # Also where there is room already: first everybody gives up what he shall not keep.
    done = transition({"a": 0b00011, "b": 0b11000}, {"a": 0b00111, "b": 0b01000})
    assert [write.name for write in done] == ["b", "a"]


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 6), max_size=6),
    st.integers(0, (1 << WAYS) - 1),
)
def test_a_layout_is_of_free_neighbours(sizes: dict[str, int], free: int) -> None:
    found = lay_out(sizes, free)
    if found is None:
        assert sum(sizes.values()) > free.bit_count() or not is_valid(free)
        return
    assert {name: mask.bit_count() for name, mask in found.items()} == sizes
    assert all(is_valid(mask) and not mask & ~free for mask in found.values())
    assert sum(sizes.values()) == _union(list(found.values())).bit_count()


def test_holes_are_filled_exactly_where_the_largest_first_would_not_fit() -> None:
    # Best fit puts 4 into the hole of 5, and then 3 and 2 find no place.
    found = lay_out({"a": 4, "b": 3, "c": 3, "d": 2}, mask_of(0, 5) | mask_of(6, 7))
    assert found is not None


def test_who_is_there_keeps_its_ways_if_the_others_find_room() -> None:
    there = {"a": 0b1100, "b": 0b0011}
    assert lay_out({"a": 2, "b": 2, "c": 1}, 0b11111, there) == {**there, "c": 0b10000}
    # b keeps none where c would not fit then.
    found = lay_out({"a": 2, "c": 3}, 0b11111, {"a": 0b01100})
    assert found is not None
    assert found["a"] != 0b01100

"""Packet buffers that stay in the ways for I/O."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unis.plan.dma import fitting, lines_of, power_of_two_below, size_buffers

MB = 1 << 20


def test_the_paper_s_numbers() -> None:
    """Section 4.3: 24576 buffers are 3 MB of small packets and 37.5 MB of large ones."""
    assert 24576 * lines_of(64) * 64 == 3 * MB
    assert 24576 * lines_of(1518) * 64 == 37.5 * MB


def test_two_ways_of_the_paper_s_cache() -> None:
    """10 % of 45 MB; 12 functions with 2048 descriptors each."""
    of = size_buffers(45 * MB // 10, {f"nf{at}": 2048 for at in range(12)})
    assert of.fits == 2949
    assert of.leaky
    assert "24576 can be under way" in of.told
    assert "leaky DMA" in of.told
    assert set(of.granted.values()) <= {245, 246}
    assert power_of_two_below(245) == 128
    small = size_buffers(45 * MB // 10, {f"nf{at}": 2048 for at in range(12)}, frame=64)
    assert not small.leaky
    assert small.granted == small.asked


WISHES = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 5000), max_size=12)


@given(st.integers(0, 8 * MB), WISHES, st.integers(64, 9000))
def test_no_more_than_fits_and_fair(io_bytes: int, asked: dict[str, int], frame: int) -> None:
    of = size_buffers(io_bytes, asked, frame)
    assert of.fits == fitting(io_bytes, frame)
    if sum(asked.values()) <= of.fits:
        assert of.granted == asked
        return
    assert sum(of.granted.values()) <= of.fits + 32 * len(asked)
    if asked and of.fits >= 32 * len(asked):
        assert sum(of.granted.values()) == of.fits, "none is left over"
        least = min(of.granted[name] for name in asked if of.granted[name] < asked[name])
        assert max(of.granted.values()) <= least + 1, "who got all that it asked for has no more"


@pytest.mark.parametrize(("asked", "frame"), [({"a": 0}, 64), ({"a": 1}, 0)])
def test_what_cannot_be(asked: dict[str, int], frame: int) -> None:
    with pytest.raises(ValueError, match="above 0"):
        size_buffers(MB, asked, frame)

"""How functions on demand share ways."""

from hypothesis import given
from hypothesis import strategies as st

from unis.agent.fair import CacheClass, Observation, WayShares, divided, undivided

KEPT_LITTLE = Observation(1.0, broken=False, misses_much=False)


def steps(shares: WayShares, seen: dict[str, Observation], most: int = 16) -> list[WayShares]:
    found = [shares]
    while (further := divided(found[-1], seen, most)) is not None:
        found.append(further)
        assert len(found) < 40
    return found


@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"),
        st.builds(Observation, st.floats(0, 12), broken=st.booleans(), misses_much=st.booleans()),
        min_size=1,
    ),
    st.integers(1, 20),
    st.integers(1, 10),
)
def test_every_way_and_function_is_in_one_class(
    seen: dict[str, Observation], ways: int, most: int
) -> None:
    for shares in steps(undivided([*seen], ways), seen, most):
        assert shares.ways == ways
        members = [name for one in shares.classes for name in one.members]
        assert sorted(members) == sorted(seen)
        assert all(one.ways >= 1 for one in shares.classes)
        assert len(shares.classes) <= most


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 6), min_size=2))
def test_who_needs_less_than_a_fair_share_gets_what_it_needs(occupied: dict[str, float]) -> None:
    """Max-min: what some leave is there for those who need more, never taken from the others."""
    ways = 24
    seen = {
        name: Observation(of, broken=of > ways / len(occupied), misses_much=True)
        for name, of in occupied.items()
    }
    for shares in steps(undivided([*seen], ways), seen)[1:]:
        for one in shares.settled:
            needs = sum(occupied[name] for name in one.members)
            assert one.ways >= round(min(needs, ways * len(one.members) / len(occupied)))


def test_where_all_promises_are_kept_nothing_is_divided() -> None:
    seen = dict.fromkeys("abc", KEPT_LITTLE)
    assert divided(undivided([*seen], 9), seen, 16) is None


def test_the_papers_procedure() -> None:
    seen = {
        "kept": Observation(1.2, broken=False, misses_much=True),
        "little": Observation(0.9, broken=True, misses_much=False),  # cache would not help it
        "much": Observation(2.0, broken=True, misses_much=True),
        "large": Observation(7.9, broken=False, misses_much=True),
    }
    shares = divided(undivided([*seen], 12), seen, 16)
    assert shares is not None
    assert set(shares.settled) == {
        CacheClass(("much",), 3),  # a fair share: a quarter of 12
        CacheClass(("kept", "little"), 2),  # as much as they occupy
    }
    assert shares.rest == CacheClass(("large",), 7)
    # What is left is looked at again; one function with all of it has its fair share.
    assert divided(shares, seen, 16) is None


def test_when_nobody_is_below_a_fair_share_nothing_can_be_done() -> None:
    seen = {name: Observation(4.0, broken=True, misses_much=True) for name in "ab"}
    assert divided(undivided([*seen], 8), seen, 16) is None


def test_without_classes_of_service_they_stay_together() -> None:
    seen = {name: Observation(1.0, broken=True, misses_much=True) for name in "abcd"}
    shares = divided(undivided([*seen], 8), seen, 2)
    assert shares is not None
    assert len(shares.classes) == 2
    assert divided(undivided([*seen], 8), seen, 1) is None

"""How long a function that dies again and again is waited for."""

from hypothesis import given
from hypothesis import strategies as st

from unis.runtime.backoff import FIRST, MOST, STABLE, Backoff


def test_it_doubles_up_to_a_bound_and_begins_anew_after_a_calm_while() -> None:
    backoff = Backoff()
    waits = [backoff.after(1.0) for _ in range(9)]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert backoff.after(STABLE) == FIRST
    assert backoff.after(STABLE - 1) == 2 * FIRST


@given(st.lists(st.floats(min_value=0, max_value=100)))
def test_it_is_never_out_of_bounds(ran: list[float]) -> None:
    backoff = Backoff()
    assert all(FIRST <= backoff.after(seconds) <= MOST for seconds in ran)

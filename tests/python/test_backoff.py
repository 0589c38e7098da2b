"""How long a function that dies again and again is waited for."""

from hypothesis import given
from hypothesis import strategies as st

from unis.runtime.functions import Backoff


def test_it_doubles_up_to_a_bound_and_begins_anew_after_a_calm_while() -> None:
    backoff = Backoff()
    waits = [backoff.after(1.0) for _ in range(9)]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert backoff.after(30.0) == 0.1
    assert backoff.after(29.0) == 0.2


@given(st.lists(st.floats(min_value=0, max_value=100)))
def test_it_is_never_out_of_bounds(ran: list[float]) -> None:
    backoff = Backoff()
    assert all(0.1 <= backoff.after(seconds) <= 10.0 for seconds in ran)

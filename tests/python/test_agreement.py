"""What the comparison of simulator and machine concludes."""

import pytest

from unis.bench.agreement import difference, macswap_chain
from unis.plan.machine import Machine


def test_the_difference_is_taken_within_the_rounds() -> None:
    machine = [{"unis": 0.8, "cooperative": 1.0}, {"unis": 8.0, "cooperative": 10.0}]
    simulator = [{"unis": 0.9, "cooperative": 1.0}, {"unis": 9.5, "cooperative": 10.0}]
    found = difference(machine, simulator)
    assert found
    assert found.median == pytest.approx(0.125)
    assert found.low == pytest.approx(0.1)
    assert found.high == pytest.approx(0.15)


def test_rounds_in_which_nothing_arrived_are_left_out_and_counted() -> None:
    machine = [{"unis": 0.8, "cooperative": 0.0}, {"unis": 0.8, "cooperative": 1.0}]
    simulator = [{"unis": 0.9, "cooperative": 1.0}] * 2
    found = difference(machine, simulator)
    assert found
    assert (found.rounds, found.left_out) == (1, 1)
    assert difference(machine[:1], simulator[:1]) is None


def test_the_chain_runs_on_one_cpu_that_is_not_the_platforms() -> None:
    file = macswap_chain(3, "light", Machine(frozenset({0, 1}))).file
    assert file.path("chain") == ["macswap1", "macswap2", "macswap3"]
    assert file.cpus == {1}

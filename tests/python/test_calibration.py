"""The simulator's parameters are found again in windows that a simulator with them has made."""

import pytest

from tests.python.test_paper import ALL, measured, window
from unis.bench.paper import arms
from unis.bench.paper.calibration import calibrated, with_switch
from unis.bench.paper.cases import MAIN
from unis.bench.paper.measured import Measured
from unis.bench.paper.simulated import agreement, simulate_case
from unis.bench.paper.virtual import mpps_of
from unis.simulate.scenario import MachineCosts

PREEMPT_NS = 4_000.0


def a_machine(lost_ns: float, factor: float) -> MachineCosts:
    machine = MachineCosts(
        switch_call_ns=4_000, yield_ns=1_200, source_ns=20, sink_ns=15, chain_factor=factor,
        scheduled_switch_ns=8_000,
    )  # fmt: skip
    return with_switch(machine, PREEMPT_NS, lost_ns)


def windows_of(key: str, machine: MachineCosts) -> Measured:
    """Of a case on that machine."""
    of = measured(ALL[key], lambda _: window(1))
    of.sets[MAIN] = [
        {arm: window(mpps_of(ALL[key], of, arm, machine)) for arm in ALL[key].sets[MAIN]}
    ]
    return of


@pytest.mark.parametrize("key", ["light-3", "medium-5"])
@pytest.mark.parametrize(("lost_ns", "factor"), [(4_000, 1.0), (11_000, 1.3), (12_000, 0.9)])
def test_what_a_machine_is_like_is_found(key: str, lost_ns: float, factor: float) -> None:
    found = calibrated(ALL[key], windows_of(key, a_machine(lost_ns, factor)))
    assert found.kernel_switch_ns == pytest.approx(lost_ns, rel=0.1)
    assert found.chain_factor == pytest.approx(factor, rel=0.03)


def test_the_simulator_then_says_what_it_has_not_seen() -> None:
    key = "medium-5"
    of = windows_of(key, a_machine(11_000, 1.3))
    machine = calibrated(ALL[key], of)
    held = agreement(ALL, {key: of}, {key: simulate_case(ALL[key], of, machine)}, {key: machine})
    assert {point.arm for point in held.points} == {arms.PRIORITY, arms.HANDOVER}
    assert held.worst_error is not None
    assert held.worst_error < 0.01

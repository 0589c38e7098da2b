"""The simulator's parameters are found again in windows that a simulator with them has made."""

import pytest

from evaluation.paper.simulated import agreement, simulate_case
from tests.python.test_paper import ALL, measured, window
from unis.calibrate import arms
from unis.calibrate.calibration import calibrated, with_switch
from unis.calibrate.case import MAIN
from unis.calibrate.measured import Measured, Window
from unis.calibrate.virtual import Calibrated, mpps_of
from unis.simulate.scenario import MachineCosts

PREEMPT_NS = 4_000.0
YIELD_NS = 1_200.0


def a_machine(key: str, lost_ns: float, first: float, others: float) -> Calibrated:
    """Where a packet costs the first function so many times what it costs it alone."""
    names = ALL[key].make().file.functions
    machine = MachineCosts(
        switch_call_ns=4_000, yield_ns=YIELD_NS, source_ns=20, sink_ns=15, scheduled_switch_ns=8_000
    )
    factors = dict.fromkeys(names, others) | {next(iter(names)): first}
    return with_switch(Calibrated(machine, factors), PREEMPT_NS, lost_ns)


def windows_of(key: str, machine: Calibrated) -> Measured:
    """Of a case on that machine; `measured` says that packets cost 20 ns alone."""
    of = measured(ALL[key], lambda _: window(1))
    windows: dict[str, Window] = {}
    for arm in ALL[key].sets[MAIN]:
        mpps = mpps_of(ALL[key], of, arm, machine)
        turn = 64 * arms.ALL[arm].arm.yield_every
        shares = {
            name: mpps / 1e3 * (20 * factor + (YIELD_NS / turn if turn else 0))
            for name, factor in machine.factors.items()
        }
        windows[arm] = window(mpps).model_copy(update={"cpu_share": shares})
    of.sets[MAIN] = [windows]
    return of


@pytest.mark.parametrize("key", ["light-3", "medium-5"])
@pytest.mark.parametrize(
    ("lost_ns", "first", "others"), [(4_000, 1, 1), (11_000, 1.3, 1.3), (8_000, 2.2, 1.1)]
)
def test_what_a_machine_is_like_is_found(
    key: str, lost_ns: float, first: float, others: float
) -> None:
    found = calibrated(ALL[key], windows_of(key, a_machine(key, lost_ns, first, others)))
    assert found.machine.kernel_switch_ns == pytest.approx(lost_ns, rel=0.1)
    assert [*found.factors.values()][:2] == pytest.approx([first, others], rel=0.02)


def test_the_simulator_then_says_what_it_has_not_seen() -> None:
    key = "medium-5"
    of = windows_of(key, a_machine(key, 8_000, 2.2, 1.1))
    machine = calibrated(ALL[key], of)
    held = agreement(ALL, {key: of}, {key: simulate_case(ALL[key], of, machine)}, {key: machine})
    assert {point.arm for point in held.points} == {arms.PRIORITY, arms.HANDOVER}
    assert held.worst_error is not None
    assert held.worst_error < 0.01

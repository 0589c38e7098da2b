"""The simulator beside the machine, in windows that a simulator has made."""

import pytest

from evaluation.paper import arms
from evaluation.paper.case import MAIN
from evaluation.paper.measured import ArmWindow, Measured
from evaluation.paper.simulated import agreement, calibration_of, mpps_of, simulate_case
from tests.python.test_paper import ALL, measured, window
from unis.calibrate.fit import Calibrated, short_slices, with_switch
from unis.chain.model import SchedulerPart
from unis.errors import UnisError
from unis.simulate.scenario import MachineCosts

KEY = "medium-5"
YIELD_NS = 1_200.0


def a_machine() -> Calibrated:
    names = ALL[KEY].make().file.functions
    machine = MachineCosts(
        switch_call_ns=4_000, yield_ns=YIELD_NS, source_ns=20, sink_ns=15, scheduled_switch_ns=8_000
    )
    factors = dict.fromkeys(names, 1.1) | {next(iter(names)): 2.2}
    return with_switch(Calibrated(machine, factors), 4_000, 8_000)


def windows_of(machine: Calibrated) -> Measured:
    """Of a case on that machine; `measured` says that packets cost 20 ns alone."""
    of = measured(ALL[KEY], lambda _: window(1))
    windows: dict[str, ArmWindow] = {}
    for arm in ALL[KEY].sets[MAIN]:
        mpps = mpps_of(ALL[KEY], of, arm, machine)
        turn = 64 * arms.SPECS[arm].arm.yield_every
        shares = {
            name: mpps / 1e3 * (20 * factor + (YIELD_NS / turn if turn else 0))
            for name, factor in machine.factors.items()
        }
        windows[arm] = window(mpps).model_copy(update={"cpu_share": shares})
    of.sets[MAIN] = [windows]
    return of


@pytest.mark.system
def test_the_simulator_says_what_it_has_not_seen() -> None:
    of = windows_of(a_machine())
    machine = calibration_of(ALL[KEY], of)
    assert machine.machine.kernel_switch_ns == pytest.approx(8_000, rel=0.1)
    assert [*machine.factors.values()][:2] == pytest.approx([2.2, 1.1], rel=0.02)
    held = agreement(ALL, {KEY: of}, {KEY: simulate_case(ALL[KEY], of, machine)}, {KEY: machine})
    assert {point.arm for point in held.points} == {arms.PRIORITY, arms.HANDOVER}
    assert held.worst_error is not None
    assert held.worst_error < 0.01


def test_a_case_without_packets_cannot_calibrate() -> None:
    of = measured(ALL["light-2"], lambda _: window(0))
    with pytest.raises(UnisError, match="no packet passed macswap1 while functions yielded every"):
        calibration_of(ALL["light-2"], of)


def test_short_slices_are_those_of_the_paper() -> None:
    part = ALL[KEY].make().file.scheduler
    assert isinstance(part, SchedulerPart)
    wanted = arms.SPECS[arms.SHORT].in_run(part, 2048)
    assert short_slices(part).scheduler == wanted.scheduler != b""

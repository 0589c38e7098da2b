"""The simulator's parameters are found again in readings that a simulator with them has made."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from unis.bench.synthetic import Stage, chain_of, size_of
from unis.calibrate.calibration import _cpu_ns
from unis.calibrate.fit import (
    BESIDE,
    DISTANCES,
    RING,
    Calibrated,
    Readings,
    calibrated,
    chain_mpps,
    cooperative,
    short_slices,
    with_switch,
)
from unis.chain.load import LoadedChain
from unis.errors import UnisError
from unis.simulate.scenario import MachineCosts
from unis.v1 import engine_pb2 as pb

pytestmark = pytest.mark.system

PREEMPT_NS = 4_000.0
ALONE_NS = 20.0  # a packet
ENGINE = MachineCosts(
    switch_call_ns=4_000, yield_ns=1_200, source_ns=20, sink_ns=15, scheduled_switch_ns=8_000
)


def chain(length: int) -> LoadedChain:
    path = [Stage("light", 1)] * length
    scheduler = {"controller": "priority", "gamma": 0.75, "cost": "static"}
    return chain_of(
        "calibrate", {"chain": path}, size=size_of("light"), ring=RING, scheduler=scheduler
    )


def readings(of: LoadedChain, factors: Sequence[float], short_ratio: float | None) -> Readings:
    """Where a packet costs each function so many times what it costs alone."""
    return Readings(
        chain=of,
        costs_ns={name: {64: ALONE_NS} for name in of.file.functions},
        cpu_ns={
            name: {every: [ALONE_NS * factor + ENGINE.yield_ns / 64 / every] for every in DISTANCES}
            for name, factor in zip(of.file.functions, factors, strict=True)
        },
        short_ratio=short_ratio,
        engine=ENGINE,
        preempt_ns=PREEMPT_NS,
    )


READINGS = readings(chain(3), [1, 1, 1], None)


@pytest.mark.parametrize("length", [3, 5])
@pytest.mark.parametrize(
    ("lost_ns", "first", "others"), [(4_000, 1, 1), (11_000, 1.3, 1.3), (8_000, 2.2, 1.1)]
)
def test_what_a_machine_is_like_is_found(
    length: int, lost_ns: float, first: float, others: float
) -> None:
    of = chain(length)
    seen = readings(of, [first] + [others] * (length - 1), None)
    factors = dict.fromkeys(of.file.functions, others) | {next(iter(of.file.functions)): first}
    machine = with_switch(Calibrated(ENGINE, factors), PREEMPT_NS, lost_ns)
    short, beside = (
        sum(chain_mpps(of, seen.costs_ns, arm, machine).values())
        for arm in (short_slices(of.file.scheduler), cooperative(BESIDE))
    )
    found = calibrated(replace(seen, short_ratio=short / beside))
    assert found.machine.kernel_switch_ns == pytest.approx(lost_ns, rel=0.1)
    assert found.factors == pytest.approx(factors, rel=0.02)


def test_without_short_slices_a_switch_takes_what_the_engine_measured() -> None:
    found = calibrated(READINGS)
    assert found.machine.kernel_switch_ns == ENGINE.scheduled_switch_ns - PREEMPT_NS
    assert found.machine.switch_ns == ENGINE.scheduled_switch_ns


@pytest.mark.parametrize("every", DISTANCES)
def test_where_no_packet_passes_that_is_told(every: int) -> None:
    cpu_ns = {**READINGS.cpu_ns, "macswap2": {**READINGS.cpu_ns["macswap2"], every: []}}
    told = f"no packet passed macswap2 while functions yielded every {every} bursts"
    with pytest.raises(UnisError, match=told) as caught:
        calibrated(replace(READINGS, cpu_ns=cpu_ns))
    assert caught.value.exit_code == 1


def test_windows_without_packets_are_left_out() -> None:
    def window(delivered: int) -> pb.MeasureReply:
        return pb.MeasureReply(delivered=delivered, function_cpu_ns={"f": 3_000})

    rounds = [
        {str(cooperative(every)): window(delivered) for every in DISTANCES}
        for delivered in (100, 0, 200)
    ]
    assert _cpu_ns(rounds, "f") == {every: [30, 15] for every in DISTANCES}

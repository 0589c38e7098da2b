"""How busy resources are below saturation, with what sleeping costs.

Functions that hand their CPU over sleep until a quarter of a link is full, or a packet has waited
for `max_delay_us`. Then each of the CPU has a turn, however few packets there are.
"""

from collections.abc import Mapping

from unis.capacity.case import Answered, CapacityCase
from unis.capacity.result import BusyRow

_US_PER_S = 1e6


def busy_at(case: CapacityCase, answered: Answered, share: float) -> list[BusyRow]:
    """Each resource while every chain has that share of what it passes at most."""
    rates = {name: rate * share for name, rate in answered.found.throughput.items()}
    woken = _woken(case, rates)
    rows = []
    for resource in answered.load.resources:
        used = sum(
            demand.amount * rates[demand.chain]
            for demand in answered.load.demands
            if demand.resource == resource.name
        )
        part = used / resource.capacity if resource.capacity else 1.0
        # With no time left between packets nobody sleeps.
        waking = max(0.0, min(woken.get(resource.name, 0.0), 1 - part))
        rows.append(BusyRow(name=resource.name, used=part + waking, waking=waking))
    return sorted(rows, key=lambda row: -row.used)


def _woken(case: CapacityCase, rates: Mapping[str, float]) -> dict[str, float]:
    """Share of each CPU's time that wake-ups take, and the turns that follow."""
    setting, machine = case.setting, case.machine
    if machine.wake is None or not setting.woken_by:
        return {}
    found = {}
    for cpu in case.cpus:
        passing = {
            name: sum(rates[chain.name] * chain.visits(name) for chain in case.chains)
            for name, use in case.functions.items()
            if use.cpu == cpu
        }
        pps = max(passing.values())
        often = min(pps, _US_PER_S / setting.max_delay_us) if setting.max_delay_us else 0.0
        turns = len(passing) if len(passing) > 1 else 0
        cycles = machine.cycles(machine.wake) + turns * machine.cycles(machine.switch)
        hz = machine.hz * setting.speed
        found[f"CPU {cpu}"] = max(pps / setting.woken_by, often) * cycles / hz
    return found

"""What the NICs of servers bear, for the planner of promises: by the equations of `unis model`."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from unis.capacity.chain import HARDWARE, FunctionCost, ModelChain, ModelFunction
from unis.capacity.demands import Setting, load_of
from unis.capacity.files import load_machine
from unis.capacity.machine import MachineFile
from unis.errors import UnisError
from unis.slo.profile import Flow, NicRates, PacketForm, PcieReading, Workload

_UNITS = {"bit": ("Gbit/s", 1e6), "operation": ("M operations/s", 1e3)}  # thousands in one
_NO_COST = FunctionCost(0.0, "cycles", "assumed")
_ALIKE = 1e-9


@dataclass(frozen=True)
class _Taken:
    """Of a NIC, by resource: what there is a second, what a packet takes, in which unit."""

    capacity: Mapping[str, float]
    amount: Mapping[str, float]
    unit: Mapping[str, str]


def with_nics(workload: Workload, file: Path) -> Workload:
    """With what NICs bear; machine files stand beside `file`. UnisError if one cannot be used."""
    machines = {
        server.name: load_machine(file.parent / server.machine)
        for server in workload.servers
        if server.machine
    }
    packets = {slo.packet for slo in workload.slos}
    taken = {
        (name, packet): _taken(name, machine, packet, workload.pcie)
        for name, machine in machines.items()
        for packet in packets
    }
    units = {name: unit for each in taken.values() for name, unit in each.unit.items()}
    amounts = _amounts(file, taken)
    rates = NicRates(
        tuple(Flow(name, *_UNITS[unit]) for name, unit in units.items()),
        {
            server: tuple(next(_of(taken, server, name), _ENDLESS) for name in units)
            for server in machines
        },
        {packet: tuple(amounts.get((packet, name), 0.0) for name in units) for packet in packets},
    )
    return replace(workload, nics=rates)


_ENDLESS = 1e15  # units/s, of what is not known to be a limit


def _of(taken: Mapping[tuple[str, PacketForm], _Taken], server: str, name: str) -> Iterator[float]:
    return (
        each.capacity[name] for (of, _), each in taken.items() if of == server and name in each.unit
    )


def _amounts(
    file: Path, taken: Mapping[tuple[str, PacketForm], _Taken]
) -> Mapping[tuple[PacketForm, str], float]:
    """What a packet takes of each resource, on whichever NIC has it. UnisError if they differ."""
    known: dict[tuple[PacketForm, str], tuple[str, float]] = {}
    for (server, packet), each in taken.items():
        for name, other in each.amount.items():
            first, one = known.setdefault((packet, name), (server, other))
            if not math.isclose(one, other, rel_tol=_ALIKE):
                raise UnisError(
                    f"{file}: a packet of {packet.size} bytes takes {one:g} of {name} on {first} "
                    f"and {other:g} on {server}; plan these servers in files of their own"
                )
    return {key: amount for key, (_, amount) in known.items()}


def _taken(server: str, machine: MachineFile, packet: PacketForm, pcie: PcieReading) -> _Taken:
    if not machine.nics:
        raise UnisError(f"servers {server}: machine file {machine.name} has no NIC")
    name = next(iter(machine.nics))
    functions = tuple(
        ModelFunction(f"function {at}", 0, _NO_COST) for at in range(packet.on_nic or 1)
    )
    kind = HARDWARE if packet.on_nic else "ring"
    chain = ModelChain.path("promise", functions, kind, sizes={packet.size: 1}, nic=name)
    load = load_of((chain,), machine, Setting(pcie=pcie))
    on_nic = [each for each in load.resources if each.name.startswith(f"{name} ")]
    by_name = {demand.resource: demand.amount for demand in load.demands}
    told = {each.name: each.name.removeprefix(f"{name} ") for each in on_nic}
    return _Taken(
        {told[each.name]: each.capacity for each in on_nic},
        {told[each.name]: by_name[each.name] for each in on_nic},
        {told[each.name]: each.unit for each in on_nic},
    )

"""Chains on a machine: what they pass, and the same with something changed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from unis.capacity.chain import HARDWARE, ModelChain, ModelFunction, functions_of
from unis.capacity.demands import Load, Setting, load_of
from unis.capacity.machine import MachineFile, Nic
from unis.capacity.resources import CapacityError, Objective, Throughputs, solve


@dataclass(frozen=True)
class Answered:
    """A case with its answer."""

    load: Load
    found: Throughputs


@dataclass(frozen=True)
class CapacityCase:
    """Everything that the answer rests on."""

    chains: tuple[ModelChain, ...]
    machine: MachineFile
    setting: Setting = field(default_factory=Setting)
    objective: Objective = "max-min"
    tenants: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def answered(self) -> Answered:
        """CapacityError if it has no answer. Solved once."""
        return self._solved

    @cached_property
    def _solved(self) -> Answered:
        load = load_of(self.chains, self.machine, self.setting)
        found = solve(load.resources, load.demands, self.objective, self.tenants)
        return Answered(load, found)

    @property
    def functions(self) -> dict[str, ModelFunction]:
        """Of all chains."""
        return functions_of(self.chains)

    @property
    def cpus(self) -> list[int]:
        """Those of functions."""
        return sorted({use.cpu for use in self.functions.values()})

    @property
    def nic(self) -> tuple[str, Nic] | None:
        """The one that the chains use."""
        used = next((chain.nic for chain in self.chains if chain.nic), None)
        return (used, self.machine.nics[used]) if used else None

    @property
    def is_hardware(self) -> bool:
        """Whether every link is the NIC's switch."""
        return all(link.kinds == (HARDWARE,) for chain in self.chains for link in chain.links)

    def changed(self, change: Callable[[ModelChain], ModelChain]) -> "CapacityCase":
        """With other chains."""
        return replace(self, chains=tuple(map(change, self.chains)))

    def linked_by(self, kind: str) -> "CapacityCase":
        """With links of one kind."""
        return self.changed(lambda chain: chain.linked_by(kind))

    def of_size(self, size: int) -> "CapacityCase":
        """With packets of one size."""
        return self.changed(lambda chain: chain.of_size(size))

    def of_length(self, length: int) -> "CapacityCase":
        """With so many functions a chain; of paths only."""
        return self.changed(lambda chain: chain.of_length(length))

    def with_nic(self, **update: object) -> "CapacityCase":
        """With other properties of the NIC that the chains use. CapacityError if they use none."""
        if self.nic is None:
            raise CapacityError("the machine has no NIC")
        name, nic = self.nic
        other = nic.model_copy(update=update)
        machine = self.machine.model_copy(update={"nics": {**self.machine.nics, name: other}})
        return replace(self, machine=machine)

    def with_setting(self, **update: object) -> "CapacityCase":
        """With another setting."""
        return replace(self, setting=replace(self.setting, **update))  # type: ignore[arg-type]

    def spread(self, count: int) -> "CapacityCase":
        """With the functions on so many CPUs, as even as the largest first makes it.

        The platform's CPUs stay its own. CapacityError if the machine has too few.
        """
        setting = self.setting
        platform = {setting.source_cpu, setting.sink_cpu, setting.scheduler_cpu}
        kept = self.cpus
        free = [
            cpu
            for cpu in range(int(self.machine.cpus.count.value))
            if cpu not in platform and cpu not in kept
        ]
        cpus = [*kept, *free][:count]
        if len(cpus) < count:
            raise CapacityError(f"the machine has no CPU for {count} CPUs of functions")
        work = self._work()
        loads = dict.fromkeys(cpus, 0.0)
        placed: dict[str, int] = {}
        for name in sorted(work, key=lambda name: -work[name]):
            placed[name] = min(cpus, key=lambda cpu: loads[cpu])
            loads[placed[name]] += work[name]
        return self.changed(lambda chain: chain.placed(placed))

    def _work(self) -> dict[str, float]:
        """Cycles/s of each function now: alone on a CPU of its own it would take as many."""
        apart = {name: -1 - at for at, name in enumerate(self.functions)}
        case = self.changed(lambda chain: chain.placed(apart))
        load = load_of(case.chains, case.machine, case.setting)
        rates = self.answered().found.throughput
        found = dict.fromkeys(self.functions, 0.0)
        cpus = {f"CPU {cpu}": name for name, cpu in apart.items()}
        for demand in load.demands:
            if demand.resource in cpus:
                found[cpus[demand.resource]] += demand.amount * max(rates[demand.chain], 1.0)
        return found

"""What packets of chains take of a machine's resources: the equations of docs/model.md.

On software links a packet passes the NIC once: RX + n·SF + (n − 1)·SW + TX. On virtual functions it
passes the NIC at each function: n·(RX + SF + TX).
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from unis.capacity import pcie
from unis.capacity.chain import HARDWARE, ModelChain, ModelLink, functions_of
from unis.capacity.machine import LinkCost, MachineFile, Nic, PortCost
from unis.capacity.parameter import Parameter, assumed
from unis.capacity.pcie import PcieMode, Transfer
from unis.capacity.resources import CapacityError, PacketDemand, Resource
from unis.chain.values import EGRESS, INGRESS

Switchings = Literal["n", "n+1"]
Ends = Literal["platform", "functions"]

_BITS = 8
_FREE = assumed(0.0, "cycles", "not stated for this machine")
_NO_COST = LinkCost(receive=_FREE, send=_FREE)
_TOUCHED = 2  # a copy reads and writes


@dataclass(frozen=True)
class Setting:
    """How a machine is used."""

    source_cpu: int = 0
    sink_cpu: int = 0  # which has the bridges too
    scheduler_cpu: int = 0
    carrier_cpu: int | None = None  # of Open vSwitch; None: as the sink
    # Who receives from the NIC and sends to it, with software links: UNiS's source and sink, or the
    # first and the last function, as in the paper.
    ends: Ends = "platform"
    turn: float = 2048  # packets of a function's turn, before the next function of its CPU runs
    batch: float = 32  # packets of a burst
    woken_by: float = 0  # packets that wait when functions are woken; 0: they never sleep
    max_delay_us: float = 0  # or when one has waited so long; 0: however long
    speed: float = 1.0  # of all CPUs, beside what the machine's are: costs in ns follow it too
    pcie: PcieMode = "paper"
    pcie_shared: bool = False  # whether both ways of the PCIe bus share its bandwidth
    # What the NIC switches of a chain of n functions on virtual functions: n + 1 times in the
    # paper's formula, n times in its example.
    switchings: Switchings = "n+1"


@dataclass(frozen=True)
class Load:
    """Resources, and what packets take of them."""

    resources: tuple[Resource, ...]
    demands: tuple[PacketDemand, ...]
    # Of each demand what it is made of: cycles, bits and so on by a name.
    terms: Mapping[tuple[str, str], Mapping[str, float]]
    # Numbers that capacities and demands rest on, by where they stand in the machine file.
    used: Mapping[str, Parameter]


def load_of(chains: Sequence[ModelChain], machine: MachineFile, setting: Setting) -> Load:
    """CapacityError if the machine lacks what a chain needs."""
    _see_that_cpus_are_there(chains, machine)
    _see_that_vfs_suffice(chains, machine)
    account = _Ledger(machine, setting, _crowds(chains))
    for chain in chains:
        account.add(chain)
    return account.load()


def _see_that_cpus_are_there(chains: Sequence[ModelChain], machine: MachineFile) -> None:
    count = int(machine.cpus.count.value)
    for name, use in functions_of(tuple(chains)).items():
        if use.cpu >= count:
            raise CapacityError(
                f"{name} is on CPU {use.cpu}, and {machine.name} has CPUs 0 to {count - 1}"
            )


def _see_that_vfs_suffice(chains: Sequence[ModelChain], machine: MachineFile) -> None:
    """A function has one at each end of a link of the NIC's switch."""
    needed = Counter(
        chain.nic
        for chain in chains
        for link in chain.links
        for end, kind in ((link.origin, link.kinds[0]), (link.to, link.kinds[-1]))
        if kind == HARDWARE and end in chain.functions
    )
    for name, nic in machine.nics.items():
        if nic.virtual_functions is None:
            continue
        there = int(nic.virtual_functions.value * nic.ports.value)
        if needed[name] > there:
            raise CapacityError(
                f"the chains need {needed[name]} virtual functions, and {name} has {there}"
            )


def _crowds(chains: Sequence[ModelChain]) -> Mapping[int, int]:
    """How many functions a CPU has."""
    return Counter(use.cpu for use in functions_of(tuple(chains)).values())


@dataclass
class _Ledger:
    machine: MachineFile
    setting: Setting
    crowds: Mapping[int, int]
    resources: dict[str, Resource] = field(default_factory=dict)
    terms: defaultdict[tuple[str, str], defaultdict[str, float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )
    used: dict[str, Parameter] = field(default_factory=dict)

    def load(self) -> Load:
        amounts = {key: dict(parts) for key, parts in self.terms.items()}
        demands = (
            PacketDemand(chain, resource, sum(parts.values()))
            for (chain, resource), parts in amounts.items()
        )
        return Load(
            tuple(self.resources.values()), tuple(demands), MappingProxyType(amounts), self.used
        )

    def add(self, chain: ModelChain) -> None:
        for link in chain.links:
            _EdgeDemands(self, chain, link).add()
        for use in chain.functions.values():
            visits = chain.visits(use.name)
            cost = use.cost.mean(chain.sizes)
            self.cpu(chain, use.cpu, use.name, cost, visits, named=f"functions.{use.name}")
            if self.crowds[use.cpu] > 1:
                turns = visits / self.setting.turn
                self.cpu(chain, use.cpu, "switches", self.machine.switch, turns, named="switch")
                if self.machine.platform:
                    self.cpu(
                        chain, self.setting.scheduler_cpu, "decisions",
                        self.machine.platform.decision, turns, named="platform.decision",
                    )  # fmt: skip

    # ------------------------------------------------------------------ resources

    def cpu(
        self,
        chain: ModelChain,
        cpu: int,
        term: str,
        cost: Parameter | None,
        times: float = 1.0,
        *,
        named: str,
    ) -> None:
        """A cost of a CPU."""
        if cost is None or not times:
            return
        cpus = self.machine.cpus
        lost = cpus.lost.value if cpus.lost else 0.0
        sources = {"cpus.frequency": cpus.frequency}
        if cpus.lost:
            sources["cpus.lost"] = cpus.lost
        name = f"CPU {cpu}"
        self._resource(name, self.machine.hz * (1 - lost) * self.setting.speed, "cycles", sources)
        self._take(chain, name, term, self.machine.cycles(cost) * times)
        self.used[named] = cost

    def line(
        self, chain: ModelChain, name: str, nic: Nic, way: Literal["in", "out"], share: float
    ) -> None:
        """The frame, its preamble and its gap on the line."""
        last = min(1, int(nic.ports.value) - 1)
        port = last if (way == "out") != chain.back else 0
        line = f"{name} port {port} {way}"
        rate = {f"nics.{name}.line_rate": nic.line_rate}
        self._resource(line, nic.line_rate.value, "bit", rate)
        self.used[f"nics.{name}.gap"] = nic.gap
        self._take(chain, line, "frame and gap", share * (chain.mean_size + nic.gap.value) * _BITS)

    def operations(
        self, chain: ModelChain, name: str, nic: Nic, term: Literal["receive", "switch", "send"],
        times: float,
    ) -> None:  # fmt: skip
        """The NIC's packet engine, if it is known."""
        cost: Parameter = getattr(nic, term)
        if nic.operations is None or not cost.value:
            return
        engine = f"{name} operations"
        known = {f"nics.{name}.operations": nic.operations}
        self._resource(engine, nic.operations.value, "operation", known)
        self._take(chain, engine, term, cost.value * times)
        self.used[f"nics.{name}.{term}"] = cost

    def bus(
        self,
        chain: ModelChain,
        name: str,
        nic: Nic,
        moved: Callable[[int], Transfer],
        term: str,
        share: float,
    ) -> None:
        """PCIe, and the memory behind it."""
        rate = nic.pcie.bit_rate
        by_size = {size: moved(size) for size in chain.sizes}
        for way, bits in (
            ("to host", chain.mean({size: each.to_host for size, each in by_size.items()})),
            ("from host", chain.mean({size: each.from_host for size, each in by_size.items()})),
        ):
            if bits:
                bus = f"{name} PCIe" if self.setting.pcie_shared else f"{name} PCIe {way}"
                sources = {f"nics.{name}.pcie.bandwidth": rate}
                self._resource(bus, rate.value, "bit", sources)
                self._take(chain, bus, term, bits * share)
        for key in pcie.RESTS_ON[self.setting.pcie]:
            self.used[f"nics.{name}.pcie.{key}"] = getattr(nic.pcie, key)
        self.memory(chain, f"{name} {term}", share)

    def memory(self, chain: ModelChain, term: str, times: float) -> None:
        """Bytes that are read or written."""
        if self.machine.memory and times:
            bandwidth = self.machine.memory.bandwidth
            self._resource("memory", bandwidth.value, "byte", {"memory.bandwidth": bandwidth})
            self._take(chain, "memory", term, chain.mean_size * times)

    def _resource(
        self, name: str, capacity: float, unit: str, sources: Mapping[str, Parameter]
    ) -> None:
        self.used.update(sources)
        self.resources.setdefault(name, Resource(name, capacity, unit, tuple(sources.values())))

    def _take(self, chain: ModelChain, resource: str, term: str, amount: float) -> None:
        self.terms[chain.name, resource][term] += amount


@dataclass
class _EdgeDemands:
    """What an edge of a chain takes."""

    account: _Ledger
    chain: ModelChain
    link: ModelLink

    def add(self) -> None:
        first, last = self.link.kinds[0], self.link.kinds[-1]
        setting = self.account.setting
        if self.link.is_copy:
            pass  # sent and received with the packet that it is a copy of
        elif self.link.origin == INGRESS:
            self._enter(first)
        else:
            self._send(first, self._cpu_of(self.link.origin))
        if not self._is_direct:
            for before, after in itertools.pairwise(self.link.kinds):
                self._bridge(before, after)
                self._carry(before)
            self._carry(last)
        if self.link.to == EGRESS:
            self._leave(last)
        elif not self._is_direct:
            # Copies that nobody takes on go to the platform, which drops them.
            to = self._cpu_of(self.link.to) if self.link.to else setting.sink_cpu
            self._receive(last, to)
            if self.link.to and last != HARDWARE and self._sender_cpu != to:
                machine, size = self.account.machine, self.chain.mean_size
                told = "from another CPU"
                self._cpu(to, told, machine.crossing, "crossing")
                self._cpu(to, told, machine.crossing_per_byte, "crossing_per_byte", size)
        if HARDWARE in self.link.kinds and not self._is_end:
            self.account.operations(self.chain, *self._named, "switch", self.link.share)

    @property
    def nic(self) -> Nic | None:
        """That of the chain's ends."""
        if self.chain.nic is None:
            return None
        return self.account.machine.nics[self.chain.nic]

    @property
    def _named(self) -> tuple[str, Nic]:
        if self.chain.nic is None or self.nic is None:
            raise CapacityError(
                f"chain {self.chain.name} has links of kind {HARDWARE}, and the machine has no NIC"
            )
        return self.chain.nic, self.nic

    @property
    def _sender_cpu(self) -> int:
        """Of the sender of the last link."""
        if len(self.link.kinds) > 1:
            return self.account.setting.sink_cpu
        if self.link.origin == INGRESS:
            return self.account.setting.source_cpu
        return self._cpu_of(self.link.origin)

    @property
    def _is_end(self) -> bool:
        return self.link.origin == INGRESS or self.link.to == EGRESS

    @property
    def _is_direct(self) -> bool:
        """Whether the function itself has the NIC's port, and there is no link."""
        return (
            self._is_end
            and self.nic is not None
            and HARDWARE not in self.link.kinds
            and self.account.setting.ends == "functions"
        )

    def _cpu_of(self, function: str) -> int:
        return self.chain.functions[function].cpu

    # ------------------------------------------------------------------ ends

    def _enter(self, kind: str) -> None:
        account, setting, machine = self.account, self.account.setting, self.account.machine
        if self.nic is None:
            if machine.platform:
                self._cpu(setting.source_cpu, "source", machine.platform.source, "platform.source")
            self._send(kind, setting.source_cpu)
            return
        name, nic = self._named
        account.line(self.chain, name, nic, "in", self.link.share)
        account.operations(self.chain, name, nic, "receive", self.link.share)
        if kind == HARDWARE:
            account.operations(self.chain, name, nic, "switch", self.link.share)
        elif self._is_direct:
            self._port(nic.driver, "receive", self._cpu_of(self.link.to))
        else:
            self._port(nic.driver, "receive", setting.source_cpu)
            self._send(kind, setting.source_cpu)

    def _leave(self, kind: str) -> None:
        account, setting, machine = self.account, self.account.setting, self.account.machine
        if self.nic is None:
            self._receive(kind, setting.sink_cpu)
            if machine.platform:
                self._cpu(setting.sink_cpu, "sink", machine.platform.sink, "platform.sink")
            return
        name, nic = self._named
        account.line(self.chain, name, nic, "out", self.link.share)
        account.operations(self.chain, name, nic, "send", self.link.share)
        if kind == HARDWARE:
            if setting.switchings == "n+1":
                account.operations(self.chain, name, nic, "switch", self.link.share)
        elif self._is_direct:
            self._port(nic.driver, "send", self._cpu_of(self.link.origin))
        else:
            self._receive(kind, setting.sink_cpu)
            self._port(nic.driver, "send", setting.sink_cpu)

    # ------------------------------------------------------------------ both ends of a link

    def _receive(self, kind: str, cpu: int) -> None:
        if kind == HARDWARE:
            nic = self._named[1]
            self._port(nic.vf_driver or nic.driver, "receive", cpu)
        else:
            self._moved(f"links.{kind}", self._costs(kind), "receive", kind, cpu)

    def _send(self, kind: str, cpu: int) -> None:
        if self._is_direct:  # `_leave` takes it
            return
        if kind == HARDWARE:
            nic = self._named[1]
            self._port(nic.vf_driver or nic.driver, "send", cpu)
        else:
            self._moved(f"links.{kind}", self._costs(kind), "send", kind, cpu)
            copies = self._costs(kind).copies
            if copies:
                self.account.memory(
                    self.chain, f"{kind} copies", copies.value * _TOUCHED * self.link.share
                )
                if self.account.machine.memory:
                    self.account.used[f"links.{kind}.copies"] = copies

    def _port(self, driver: str, way: Literal["receive", "send"], cpu: int) -> None:
        """A port of the NIC, or of a virtual function."""
        name, nic = self._named
        costs = self.account.machine.driver(driver)
        self._moved(f"drivers.{driver}", costs, way, driver, cpu)
        mode = self.account.setting.pcie
        by = pcie.received if way == "receive" else pcie.sent
        term = "received" if way == "receive" else "sent"
        self.account.bus(
            self.chain, name, nic, lambda size: by(nic.pcie, size, mode), term, self.link.share
        )

    def _moved(
        self, where: str, costs: PortCost, way: Literal["receive", "send"], told: str, cpu: int
    ) -> None:
        term = f"{told} {way}"
        self._cpu(cpu, term, costs.receive if way == "receive" else costs.send, f"{where}.{way}")
        self._cpu(cpu, term, costs.per_byte, f"{where}.per_byte", self.chain.mean_size)
        bursts = 1 / self.account.setting.batch
        self._cpu(cpu, term, costs.per_burst, f"{where}.per_burst", bursts)

    # ------------------------------------------------------------------ between

    def _bridge(self, before: str, after: str) -> None:
        cpu = self.account.setting.sink_cpu
        if not self.link.is_copy:
            self._receive(before, cpu)
        if self.account.machine.platform:
            bridge = self.account.machine.platform.bridge
            self._cpu(cpu, "bridge", bridge, "platform.bridge")
        self._send(after, cpu)

    def _carry(self, kind: str) -> None:
        if kind == HARDWARE:
            return
        costs, setting = self._costs(kind), self.account.setting
        cpu = setting.sink_cpu if setting.carrier_cpu is None else setting.carrier_cpu
        term, size = f"{kind} carries", self.chain.mean_size
        self._cpu(cpu, term, costs.carry, f"links.{kind}.carry")
        self._cpu(cpu, term, costs.carry_per_byte, f"links.{kind}.carry_per_byte", size)

    def _costs(self, kind: str) -> LinkCost:
        return self.account.machine.links.get(kind, _NO_COST)

    def _cpu(
        self, cpu: int, term: str, cost: Parameter | None, named: str, times: float = 1.0
    ) -> None:
        self.account.cpu(self.chain, cpu, term, cost, times * self.link.share, named=named)

"""File and machine become a plan. Whatever is decided about a run is decided from here."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from unis import links, workload
from unis.chain.graph import ChainGraph
from unis.chain.load import LoadedChain
from unis.chain.model import Function, PcapSource, PortSink, PortSource, Traffic
from unis.chain.problem import Problem
from unis.chain.sizes import mean_cost, shares
from unis.engine.limits import broken
from unis.links.kind import EalDevice
from unis.plan import cpus, dma, memory, users
from unis.plan.alone import alone
from unis.plan.arguments import arguments, place_problems
from unis.plan.gamma import GammaChoice
from unis.plan.link_problems import link_problems, process_problems
from unis.plan.machine import Machine, OtherRun
from unis.plan.model import (
    ChainPlan,
    EnginePlan,
    FunctionPlan,
    HopPlan,
    Places,
    Plan,
    PortPlan,
)
from unis.plan.naming import Links, name_links
from unis.plan.numbers import Numbers
from unis.plan.programs import capture_problem, find_program, program_problem
from unis.plan.rings import Known, RingChoice, choices, goal_problems
from unis.plan.rings import gamma as gamma_for
from unis.plan.thresholds import threshold_problems
from unis.plan.wiring import Wiring, wire
from unis.workload.kind import OFFLOADS, Start, engine_prefix

_T = TypeVar("_T")
# How programs are switched, by default, that do not load UNiS' plug-in.
_WITHOUT_PLUGIN = "priority"
_PCI_ADDRESS = re.compile(r"([0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")


def make_plan(
    chain: LoadedChain,
    machine: Machine,
    others: Sequence[OtherRun],
    places: Callable[[str], Places],
    there: Plan | None = None,
    known: Known | None = None,
) -> Plan:
    """What `chain` becomes on `machine` beside `others`; `places` gives those of a run by its name.

    Where the run is `there` already, all that stays keeps its names, lcores and CPUs, and rings
    that are `auto` their length; else that is chosen by what is `known` of the machine, without
    which goals on latency are not held against anything. Raises
    ChainFileError with everything that is wrong with the file here. The same arguments make the
    same plan.
    """
    here = places(chain.file.name)
    folders = users.folders(chain.file, here.folders)
    wired = wire(chain.file, chain.graph)
    rings = choices(chain.file, wired, known or Known(), _ring_lengths(there))
    slots = {name: choice.slots for name, choice in rings.items()}
    gamma = gamma_for(chain.file, wired, rings, known or Known())
    named = name_links(
        chain.file.name, wired, slots, here.directory, folders, there.links if there else ()
    )
    platform, notes, problems = cpus.platform(
        chain.file, machine, others, there.platform_cpus if there else ()
    )
    problems += cpus.function_problems(chain.file, machine, others, platform)
    problems += link_problems(chain.file, wired)
    problems += process_problems(chain.file, wired)
    problems += users.user_problems(chain.file, wired)
    problems += place_problems(chain.file, wired)
    problems += threshold_problems(chain.file.scheduler, wired, slots, gamma.value)
    problems += _file_problems(chain)
    if known:
        hints, unmet = goal_problems(chain.file, wired, rings, known, _ring_lengths(there))
        notes, problems = [*notes, *hints], [*problems, *unmet]
    if problems:
        raise chain.error(problems)
    # In the order of the file; alone, a function has no memif to another.
    direct = {name for place in wired.direct() for name in place.functions}
    measured = {
        name: make_plan(alone(chain, name), machine, others, places)
        for name in chain.file.functions
        if name in direct
    }
    numbers = Numbers(len(platform), chain.file, there)
    plan = _Planner(chain, wired, named, rings, gamma, here, platform, numbers).plan(
        notes, measured
    )
    if known:
        plan = _with_dma(plan, known, there)
    # Bounds that no part of the file has by itself, as of paths.
    if sentences := broken(plan.deploy({}, "")):
        raise chain.error([Problem((), f"the engine refuses it: {s}") for s in sentences])
    return plan


def _ring_lengths(there: Plan | None) -> dict[str, int]:
    """By chain, of those that are there: what `ring` was, whatever single links are."""
    return {chain.name: chain.ring.slots for chain in (there.chains if there else ()) if chain.ring}


def _file_problems(chain: LoadedChain) -> list[Problem]:
    found: dict[str, Problem] = {}
    for name, function in chain.file.functions.items():
        if sentence := program_problem(function.executable, chain.directory):
            found.setdefault(
                sentence,
                Problem(
                    ("functions", name, "program" if function.program else "command"), sentence
                ),
            )
    source = chain.file.traffic.source
    if isinstance(source, PcapSource) and (
        sentence := capture_problem(chain.directory / source.file)
    ):
        found[sentence] = Problem(("traffic", "source", "file"), sentence)
    return list(found.values())


def _ports(traffic: Traffic) -> list[PortSource | PortSink]:
    return [end for end in (traffic.source, traffic.sink) if isinstance(end, PortSource | PortSink)]


def _with_dma(plan: Plan, known: Known, there: Plan | None) -> Plan:
    slots = sum(link.slots for link in plan.links if link.kind == "ring")
    stated = {
        "rx" if isinstance(end, PortSource) else "tx": end.descriptors
        for end in _ports(plan.traffic)
        if _nic(end)
    }
    kept = there.dma if there else None
    chosen = dma.choice(plan.engine.pci, stated, slots, known.io, kept)
    notes = [f"NICs: {chosen.why}"] if chosen and chosen.leaky else []
    return replace(plan, dma=chosen, notes=(*plan.notes, *notes))


def _port_packets(traffic: Traffic) -> int:
    """What queues of source and sink hold at most, with the short ones of ways not used."""
    lengths = [end.descriptors or dma.QUEUE_DESCRIPTORS for end in _ports(traffic)]
    return sum(length + dma.LEAST_DESCRIPTORS for length in lengths)


def _nic(end: PortSource | PortSink) -> str:
    """Its PCI address; empty for devices of other kinds, which have no DMA of their own."""
    address = end.device.partition(",")[0]
    return address if _PCI_ADDRESS.fullmatch(address) else ""


def pci_addresses(traffic: Traffic) -> tuple[str, ...]:
    """The NICs among source and sink, which DPDK must be let probe."""
    return tuple(dict.fromkeys(filter(None, map(_nic, _ports(traffic)))))


class _Planner:
    """Puts the parts together; the file is known to be right."""

    def __init__(
        self,
        chain: LoadedChain,
        wired: Wiring,
        named: Links,
        rings: Mapping[str, RingChoice],
        gamma: GammaChoice,
        places: Places,
        platform: Sequence[int],
        numbers: Numbers,
    ) -> None:
        self._chain = chain
        self._file = chain.file
        self._wired = wired
        self._named = named
        self._rings = rings
        self._gamma = gamma
        self._places = places
        self._platform = tuple(platform)
        self._prefix = engine_prefix(chain.file.name)
        self._numbers = numbers

    def plan(self, notes: Sequence[str], measured: Mapping[str, Plan]) -> Plan:
        functions = tuple(map(self._function, self._file.functions))
        packets = _port_packets(self._file.traffic)
        memory_mb = memory.engine_mb(self._named.plans(), functions, packets)
        return Plan(
            name=self._file.name,
            chain_file=self._chain.path.resolve(),
            directory=self._chain.directory,
            platform_cpus=self._platform,
            cpus=tuple(sorted(self._file.cpus)),
            engine=self._engine(memory_mb),
            links=self._named.plans(),
            functions=functions,
            chains=tuple(map(self._chain_plan, self._chain.graph.chains.values())),
            traffic=self._file.traffic,
            scheduler=self._file.scheduler,
            gamma=self._gamma,
            policy=self._file.scheduler.policy,
            controller=self._controller(functions),
            hugepages_mb=memory_mb + memory.own_mb(functions),
            restart=self._file.platform.restart,
            notes=tuple(notes),
            alone=measured,
        )

    def _controller(self, functions: Sequence[FunctionPlan]) -> str:
        """The file's; by default another where nobody could hand the CPU over."""
        scheduler, plugin = self._file.scheduler, str(self._places.port_plugin)
        loaded = any(plugin in word for function in functions for word in function.argv)
        if loaded or "controller" in scheduler.model_fields_set:
            return scheduler.controller
        return _WITHOUT_PLUGIN

    def _engine(self, memory_mb: int) -> EnginePlan:
        pci = pci_addresses(self._file.traffic)
        hugepages = self._places.hugepages
        return EnginePlan(
            argv=(
                *("--socket", str(self._places.engine_socket)),
                *("--file-prefix", self._prefix),
                *("--cpus", ",".join(map(str, self._platform))),
                *("--memory", str(memory_mb)),
                *(("--hugepage-dir", str(hugepages)) if hugepages else ()),
                *(("--ports",) if _ports(self._file.traffic) else ()),
                *(word for address in pci for word in ("--pci", address)),
            ),
            file_prefix=self._prefix,
            pci=pci,
        )

    def _function(self, name: str) -> FunctionPlan:
        function = self._file.function(name)
        cpu = _stated(function.cpu)
        group = self._wired.groups[name]
        devices, ports = self._ports(name)
        kind = workload.KINDS[group]
        first = self._numbers.lcore(name, function.lcores)
        start = Start(
            file_prefix=kind.file_prefix(self._file.name, name),
            lcores=self._lcores(first, function.lcores, cpu),
            port_driver=self._places.port_driver,
            port_plugin=self._places.port_plugin if function.plugin else None,
            devices=devices,
        )
        beside = replace(start, lcores=self._lcores(first, function.lcores, self._platform[0]))
        program = find_program(function.executable, self._chain.directory)
        return FunctionPlan(
            name=name,
            program=_stated(program),
            argv=tuple(arguments(function, kind.eal(start), start, cpu)),
            argv_beside=tuple(arguments(function, kind.eal(beside), beside, cpu)),
            words=tuple(function.args if function.command is None else function.command[1:]),
            stdin=None if function.command is None else function.stdin or "",
            terminal=function.terminal,
            cpu=cpu,
            lcores=start.lcores,
            group=group,
            file_prefix=start.file_prefix,
            env={**function.env, **_offloads(function)},
            user=users.other(function),
            capabilities=users.capabilities(function, self._capabilities(name)),
            folder=users.folders(self._file, self._places.folders).get(name),
            cwd=self._chain.directory,
            cost_ns=self._cost(function),
            yield_every=function.yield_every or 0,
            restart=_stated(function.restart),
            ports=tuple(ports),
        )

    def _cost(self, function: Function) -> float | None:
        """What the scheduler reckons with, in the mean over this traffic (section 5.1.2)."""
        if function.cost_ns is None:
            return None
        return mean_cost(function.cost_ns, shares(self._file.traffic))

    def _lcores(self, first: int, count: int, cpu: int) -> str:
        cpus = [cpu] if count == 1 else [self._platform[0], *[cpu] * (count - 1)]
        return ",".join(f"{first + at}@{cpu}" for at, cpu in enumerate(cpus))

    def _capabilities(self, name: str) -> list[str]:
        ports = self._wired.ports[name]
        return [needed for port in ports for needed in links.KINDS[port.kind].capabilities]

    def _ports(self, name: str) -> tuple[list[EalDevice], list[PortPlan]]:
        devices: list[EalDevice] = []
        ports: list[PortPlan] = []
        for at, place in enumerate(self._wired.ports[name]):
            kind = links.KINDS[place.kind]
            port = f"{name}.{at}"
            number = self._numbers.device(port) if kind.of_group else at
            ends = self._named.port(name, port, number, place)
            device = kind.device(ends)
            rx, tx = (link.name if link else "" for link in (ends.rx, ends.tx))
            devices.append(device)
            ports.append(PortPlan(port, device.name, rx, tx, ends.client))
        return devices, ports

    def _chain_plan(self, chain: ChainGraph) -> ChainPlan:
        ways = self._wired.ways
        part = self._file.chains[chain.name]
        passed = self._wired.passed[chain.name]
        first, last = passed[chain.edges[0]][0], passed[chain.edges[-1]][-1]
        ingress, egress = self._named.names([first, last])
        return ChainPlan(
            name=chain.name,
            match=tuple(part.match),
            ingress=ingress,
            hops=tuple(HopPlan(name, *ways[name][chain.name]) for name in chain.functions),
            egress=egress,
            goal_ns=part.slo.p95_ns if part.slo else None,
            ring=self._rings[chain.name],
        )


def _offloads(function: Function) -> dict[str, str]:
    """What its environment says of them."""
    return {OFFLOADS: ",".join(function.offloads)} if function.offloads else {}


def _stated(value: _T | None) -> _T:
    """What a file without problems has."""
    if value is None:
        raise ValueError("the file was not checked")
    return value

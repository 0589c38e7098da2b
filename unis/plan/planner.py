"""File and machine become a plan, in stages that are walked once: graph, places, sizes, names."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from unis import links, workload
from unis.chain.graph import ChainGraph, Edge
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile, Function, PortSource
from unis.chain.problem import Problem
from unis.chain.sizes import mean_cost, shares
from unis.chain.values import EGRESS, INGRESS
from unis.engine.limits import broken
from unis.links.kind import EalDevice, LinkPlan
from unis.plan import dma, memory, users
from unis.plan.alone import on_its_links
from unis.plan.arguments import arguments
from unis.plan.devices import nic, port_packets, traffic_ports
from unis.plan.gamma import GammaChoice
from unis.plan.machine import Machine, OtherRun
from unis.plan.model import (
    BranchPlan,
    ChainPlan,
    EdgePlan,
    EnginePlan,
    FunctionPlan,
    HopPlan,
    Places,
    Plan,
    PortPlan,
    SplitPlan,
)
from unis.plan.naming import Links, name_links
from unis.plan.numbers import Numbers
from unis.plan.outline import Outline, outline
from unis.plan.rings import Known, RingChoice, choices, goal_problems
from unis.plan.rings import gamma as gamma_for
from unis.plan.subject import Subject
from unis.plan.thresholds import threshold_problems
from unis.workload.kind import Start, engine_prefix

_T = TypeVar("_T")


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
    return finish(outline(chain, machine, others, there), places, known)


def finish(outlined: Outline, places: Callable[[str], Places], known: Known | None = None) -> Plan:
    """The plan, where what is `known` of the machine has been looked up."""
    chain, wiring, there = outlined.chain, outlined.wiring, outlined.there
    here = places(chain.file.name)
    sizes = _sizes(outlined, known or Known())
    notes, problems = [*outlined.notes], [*outlined.problems]
    problems += threshold_problems(chain.file.scheduler, wiring, sizes.slots, sizes.gamma.value)
    if known:
        lengths = _ring_lengths(there)
        hints, unmet = goal_problems(_as_switched(outlined), wiring, sizes.rings, known, lengths)
        notes, problems = [*notes, *hints], [*problems, *unmet]
    if problems:
        raise chain.error(problems)
    named = name_links(
        chain.file.name,
        wiring,
        sizes.slots,
        here.directory,
        users.folders(chain.file, here.folders),
        there.links if there else (),
    )
    chosen = _dma(outlined, named.plans(), known) if known else None
    notes += [f"NICs: {chosen.why}"] if chosen and chosen.leaky else []
    plan = replace(
        _Planner(outlined, sizes, named, here).plan(notes, chosen),
        linked=frozenset(name for place in wiring.direct() for name in place.functions),
        make_alone=partial(_plan_alone, replace(outlined, there=None), places),
    )
    # Bounds that no part of the file has by itself, as of paths.
    if sentences := broken(plan.deploy({}, "")):
        raise chain.error([Problem((), f"the engine refuses it: {s}") for s in sentences])
    return plan


def _plan_alone(outlined: Outline, places: Callable[[str], Places], name: str) -> Plan:
    """Of a function by itself, to measure it."""
    by_itself = on_its_links(outlined.chain, outlined.wiring, name)
    return make_plan(by_itself, outlined.machine, outlined.others, places)


@dataclass(frozen=True)
class _Sizes:
    rings: Mapping[str, RingChoice]  # by chain
    gamma: GammaChoice

    @property
    def slots(self) -> dict[str, int]:
        """Of each ring of a chain, by chain."""
        return {name: choice.slots for name, choice in self.rings.items()}


def _sizes(outlined: Outline, known: Known) -> _Sizes:
    file, wiring = _as_switched(outlined), outlined.wiring
    rings = choices(file, wiring, known, _ring_lengths(outlined.there))
    return _Sizes(rings, gamma_for(file, wiring, rings, known))


def _as_switched(outlined: Outline) -> ChainFile:
    """The file with the controller that the run has, by which rings are chosen."""
    file = outlined.chain.file
    scheduler = file.scheduler.model_copy(update={"controller": outlined.controller})
    return file.model_copy(update={"scheduler": scheduler})


def _ring_lengths(there: Plan | None) -> dict[str, int]:
    """By chain, of those that are there: what `ring` was, whatever single links are."""
    return {chain.name: chain.ring.slots for chain in (there.chains if there else ()) if chain.ring}


def _dma(outlined: Outline, wires: Sequence[LinkPlan], known: Known) -> dma.DmaChoice | None:
    slots = sum(link.slots for link in wires if links.KINDS[link.kind].of_group)
    stated = {
        "rx" if isinstance(end, PortSource) else "tx": end.descriptors
        for end in traffic_ports(outlined.chain.file.traffic)
        if nic(end)
    }
    kept = outlined.there.dma if outlined.there else None
    return dma.choice(outlined.pci, stated, slots, known.io, kept)


class _Planner:
    """Puts the parts together; the file is known to be right."""

    def __init__(self, outlined: Outline, sizes: _Sizes, named: Links, places: Places) -> None:
        self._outlined = outlined
        self._chain = outlined.chain
        self._file = outlined.chain.file
        self._wired = outlined.wiring
        self._platform = outlined.platform
        self._sizes = sizes
        self._named = named
        self._places = places
        self._prefix = engine_prefix(self._file.name)
        self._numbers = Numbers(len(self._platform), self._file, outlined.there)

    def plan(self, notes: Sequence[str], chosen: dma.DmaChoice | None) -> Plan:
        functions = tuple(map(self._function, self._outlined.subjects))
        packets = port_packets(self._file.traffic)
        memory_mb = memory.engine_mb(self._named.plans(), functions, packets)
        return Plan(
            name=self._file.name,
            chain_file=self._chain.path.resolve(),
            directory=self._chain.directory,
            platform_cpus=self._platform,
            cpus=tuple(sorted(self._chain.graph.cpus)),
            engine=self._engine(memory_mb),
            links=self._named.plans(),
            functions=functions,
            chains=tuple(map(self._chain_plan, self._chain.graph.chains.values())),
            traffic=self._file.traffic,
            scheduler=self._file.scheduler,
            gamma=self._sizes.gamma,
            policy=self._file.scheduler.policy,
            controller=self._outlined.controller,
            hugepages_mb=memory_mb + memory.own_mb(functions),
            restart=self._file.platform.restart,
            dma=chosen,
            notes=tuple(notes),
        )

    def _engine(self, memory_mb: int) -> EnginePlan:
        pci = self._outlined.pci
        hugepages = self._places.hugepages
        return EnginePlan(
            argv=(
                *("--socket", str(self._places.engine_socket)),
                *("--file-prefix", self._prefix),
                *("--cpus", ",".join(map(str, self._platform))),
                *("--memory", str(memory_mb)),
                *(("--hugepage-dir", str(hugepages)) if hugepages else ()),
                *(("--ports",) if traffic_ports(self._file.traffic) else ()),
                *(word for address in pci for word in ("--pci", address)),
            ),
            file_prefix=self._prefix,
            pci=pci,
        )

    def _function(self, subject: Subject) -> FunctionPlan:
        name = subject.name
        function = self._chain.graph.functions[name]
        cpu = _stated(function.cpu)
        group = self._wired.groups[name]
        devices, ports = self._ports(name)
        kind = workload.KINDS[group]
        first = self._numbers.lcore(name, function.lcores) if group == "engine" else 0
        start = Start(
            file_prefix=kind.file_prefix(self._file.name, name),
            lcores=self._lcores(first, function.lcores, cpu),
            port_driver=self._places.port_driver,
            port_plugin=self._places.port_plugin if function.plugin else None,
            devices=devices,
        )
        beside = replace(start, lcores=self._lcores(first, function.lcores, self._platform[0]))
        return FunctionPlan(
            name=name,
            program=subject.program,
            argv=tuple(arguments(function, kind.eal(start), start, cpu)),
            argv_beside=tuple(arguments(function, kind.eal(beside), beside, cpu)),
            words=subject.words,
            stdin=subject.stdin,
            terminal=subject.terminal,
            cpu=cpu,
            lcores=start.lcores,
            group=group,
            file_prefix=start.file_prefix,
            env=subject.env,
            user=subject.user,
            capabilities=subject.capabilities,
            folder=users.folders(self._file, self._places.folders).get(name),
            cwd=subject.cwd,
            cost_ns=self._cost(function),
            yield_every=subject.yield_every,
            restart=_stated(function.restart),
            plugin=function.plugin,
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
            ports.append(PortPlan(port, device.name, rx, tx, ends.end))
        return devices, ports

    def _chain_plan(self, chain: ChainGraph) -> ChainPlan:
        ways = self._wired.ways
        part = self._file.chains[chain.name]
        passed = self._wired.passed[chain.name]
        first, last = passed[chain.out_of(INGRESS)[0]][0], passed[chain.into(EGRESS)[0]][-1]
        ingress, egress = self._named.names([first, last])
        plain = chain.is_path
        return ChainPlan(
            name=chain.name,
            match=tuple(part.match),
            ingress=ingress,
            hops=tuple(
                HopPlan(name, *ways[name][chain.name])
                for name in (chain.functions if plain else ())
            ),
            egress=egress,
            goal_ns=part.slo.p95_ns if part.slo else None,
            ring=self._sizes.rings[chain.name],
            edges=() if plain else tuple(self._edge(chain.name, edge) for edge in chain.edges),
            splits=() if plain else self._splits(chain),
            drains=tuple(self._named.names(self._wired.drains[chain.name])),
        )

    def _edge(self, chain: str, edge: Edge) -> EdgePlan:
        origin, to = (end if end in self._wired.groups else "" for end in edge.ends)
        return EdgePlan(
            origin,
            self._wired.out_port(chain, edge),
            to,
            self._wired.in_port(chain, edge),
            tuple(self._named.names(self._wired.passed[chain][edge])),
        )

    def _splits(self, chain: ChainGraph) -> tuple[SplitPlan, ...]:
        """Wherever an edge passes two links; of one branch it is a mere bridge."""
        found: dict[str, list[BranchPlan]] = {}
        for edge in sorted(chain.edges, key=lambda edge: edge.rank):
            names = self._named.names(self._wired.passed[chain.name][edge])
            for link, to in itertools.pairwise(names):
                branch = BranchPlan(to, edge.match, edge.weight, edge.tap)
                found.setdefault(link, []).append(branch)
        return tuple(SplitPlan(link, tuple(branches)) for link, branches in found.items())


def _stated(value: _T | None) -> _T:
    """What a file without problems has."""
    if value is None:
        raise ValueError("the file was not checked")
    return value

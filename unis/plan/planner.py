"""File and machine become a plan, in stages that are walked once: graph, places, sizes, names."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from unis import links, workload
from unis.chain.graph import ChainGraph, Edge
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile, Kernel
from unis.chain.problem import Problem
from unis.chain.values import EGRESS, INGRESS, mean_cost
from unis.engine.limits import broken, limit
from unis.links.kind import LinkPlan
from unis.links.sriov import SriovPlan, nic_of
from unis.plan import dma
from unis.plan.containers import with_folders
from unis.plan.cpus import assign
from unis.plan.machine import Machine, OtherRun
from unis.plan.model import (
    BranchPlan,
    ChainPlan,
    EdgePlan,
    EnginePlan,
    FunctionPlan,
    HopPlan,
    NicPlan,
    Places,
    Plan,
    PortPlan,
    SplitPlan,
    SwitchPlan,
)
from unis.plan.naming import Links, name_links
from unis.plan.programs import ProgramPlan, Programs, arguments, look_at_programs
from unis.plan.resources import Numbers, engine_mb, own_mb
from unis.plan.rings import Known, KnownQuery, Sizes, size
from unis.plan.solo import on_its_links
from unis.plan.virtual import look_at_nics, next_hops, plugin_hops
from unis.plan.wiring import PortPlace, Wiring, wire, wiring_problems
from unis.workload import Start, engine_prefix, order_problem

_T = TypeVar("_T")
_SWITCH_PRIORITY = int(limit("KernelScheduling.priority").max or 1)  # above all functions


def make_plan(
    chain: LoadedChain,
    machine: Machine,
    others: Sequence[OtherRun],
    places: Callable[[str], Places],
    there: Plan | None = None,
    known: Known | Callable[[KnownQuery], Known] | None = None,
) -> Plan:
    """What `chain` becomes on `machine` beside `others`; `places` gives those of a run by its name.

    Where the run is `there` already, all that stays keeps its names, lcores and CPUs, and rings
    that are `auto` their length; else that is chosen by what is `known` of the machine (a function
    looks it up), without which goals on latency are not held against anything. Raises
    ChainFileError with everything that is wrong with the file here. The same arguments make the
    same plan.
    """
    here = places(chain.file.name)
    wiring = wire(chain.file, chain.graph)
    platform = assign(chain.file, machine, others, there.platform_cpus if there else ())
    programs = look_at_programs(chain, wiring, here.folders)
    on_nics = look_at_nics(chain.file, wiring, machine.sysfs)
    file = programs.file
    if callable(known):
        cpu = next(iter(platform.cpus), None)
        query = KnownQuery(programs.found, file.traffic, file.scheduler.controller, cpu)
        known = known(query)
    chains = there.chains if there else ()
    lengths = {chain.name: chain.ring.slots for chain in chains if chain.ring}
    # What the scheduler assumes, in the mean over this traffic (section 5.1.2).
    costs = {
        name: mean_cost(function.cost_ns, file.traffic.size_shares)
        for name, function in file.functions.items()
        if function.cost_ns is not None
    }
    sizes = size(file, wiring, costs, known, lengths)
    if problems := [
        *platform.problems,
        *wiring_problems(file, wiring),
        *programs.problems,
        *on_nics.problems,
        *sizes.narrow,
        *sizes.unmet,
    ]:
        raise chain.error(problems)
    stay = there.links if there else ()
    named = name_links(
        file.name,
        wiring,
        sizes.slots,
        here.directory,
        programs.folders,
        stay,
        here.port_plugin.parent,
        on_nics.choices,
    )
    slots = sum(link.slots for link in named.plans() if links.KINDS[link.kind].of_group)
    before = there.dma if there else None
    queues = dma.queues(file.traffic, slots, known.io, before) if known else None
    notes = [*platform.notes, *programs.notes, *sizes.notes, *on_nics.notes]
    notes += [f"NICs: {queues.why}"] if queues and queues.leaky else []
    if file.platform.share and (why := _share_does_nothing(file, len(platform.cpus))):
        notes.append(f"platform.share does nothing {why}")
    states_kernel = any(file.function(name).kernel for name in file.functions)
    if states_kernel and file.scheduler.policy in ("unis", "cooperative"):
        notes.append(f"kernel of functions does nothing under policy {file.scheduler.policy}")
    numbers = Numbers(len(platform.cpus), file, there)
    builder = _PlanBuilder(
        chain, programs, wiring, platform.cpus, costs, sizes, named, here, numbers, queues
    )
    plan = replace(
        builder.plan(notes),
        linked=frozenset(name for place in wiring.direct for name in place.functions),
        make_solo=partial(_solo_plan, chain, wiring, machine, others, places),
    )
    if problems := [
        Problem(("functions", function.name), sentence)
        for function in plan.functions
        if (sentence := order_problem([port.device for port in function.ports]))
    ]:
        raise chain.error(problems)
    # Bounds that no part of the file has by itself, as of paths.
    if sentences := broken(plan.deploy({}, "")):
        raise chain.error([Problem((), f"the engine refuses it: {s}") for s in sentences])
    return plan


def _share_does_nothing(file: ChainFile, cpus: int) -> str | None:
    """Why the key is without effect; None: it has one."""
    if file.traffic.from_port:
        return "with a device as source, for packets may come at any time"
    if file.traffic.rate == "max":
        return "at rate: max, for the source always sends"
    if cpus > 1:
        return f"where the platform has {cpus} CPUs"
    if any(links.KINDS[link.kind].drops for link in file.links):
        return "beside links of kernel devices, for the engine must look at them"
    if file.max_delay_us == 0:
        return "with max_delay_us: 0, for functions poll"
    if (file.scheduler.policy, file.scheduler.controller) != ("unis", "handover"):
        return "under another policy or controller than unis and handover"
    return None


def _solo_plan(
    chain: LoadedChain,
    wiring: Wiring,
    machine: Machine,
    others: Sequence[OtherRun],
    places: Callable[[str], Places],
    name: str,
) -> Plan:
    """The plan to measure one function. Not a closure, because plans are passed to processes."""
    return make_plan(on_its_links(chain, wiring, name), machine, others, places)


@dataclass(frozen=True)
class _PlanBuilder:
    """Makes the plan of its parts; the file is known to be right."""

    chain: LoadedChain
    programs: Programs
    wiring: Wiring
    platform: tuple[int, ...]
    costs: Mapping[str, float]  # that are stated, ns a packet
    sizes: Sizes
    named: Links
    places: Places
    numbers: Numbers
    queues: dma.DmaChoice | None

    def plan(self, notes: Sequence[str]) -> Plan:
        functions = tuple(map(self._function, self.programs.found))
        packets = dma.port_packets(self.chain.file.traffic)
        memory_mb = engine_mb(self.named.plans(), functions, packets)
        return Plan(
            name=self.chain.file.name,
            chain_file=self.chain.path.resolve(),
            directory=self.chain.directory,
            platform_cpus=self.platform,
            cpus=tuple(sorted(self.chain.file.cpus)),
            engine=self._engine(memory_mb),
            links=self.named.plans(),
            functions=functions,
            chains=tuple(map(self._chain_plan, self.chain.graph.chains.values())),
            traffic=self.chain.file.traffic,
            scheduler=self.programs.file.scheduler,
            gamma=self.sizes.gamma,
            policy=self.chain.file.scheduler.policy,
            controller=self.programs.file.scheduler.controller,
            hugepages_mb=memory_mb + own_mb(functions),
            restart=self.chain.file.platform.restart,
            share=self.chain.file.platform.share,
            dma=self.queues,
            switch=self._switch(),
            nics=tuple(self._nics()),
            notes=tuple(notes),
            variables=self.chain.variables,
            digest=self.chain.digest,
        )

    def _nics(self) -> Iterator[NicPlan]:
        drivers = dma.pci_drivers(self.chain.file.traffic)
        for link in self.named.plans():
            drivers |= dict(links.KINDS[link.kind].binds(link))
        yield from map(NicPlan, drivers, drivers.values())

    def _switch(self) -> SwitchPlan | None:
        """By default above all functions, where it is among them."""
        if not any(link.kind == "ovs" for link in self.named.plans()):
            return None
        stated = self.chain.file.ovs
        among = stated.cpu in self.chain.file.cpus
        kernel = stated.kernel or (Kernel(policy="fifo") if among else Kernel())
        if kernel.policy in ("fifo", "rr") and kernel.priority is None:
            kernel = kernel.model_copy(update={"priority": _SWITCH_PRIORITY if among else 1})
        return SwitchPlan(self.platform if stated.cpu is None else (stated.cpu,), kernel)

    def _engine(self, memory_mb: int) -> EnginePlan:
        pci = dma.pci_addresses(self.chain.file.traffic)
        pci += tuple(address for link in self.named.plans() if (address := _of_engine(link)))
        hugepages = self.places.hugepages
        of_host = self.chain.file.traffic.interfaces
        return EnginePlan(
            argv=(
                *("--socket", str(self.places.engine_socket)),
                *("--file-prefix", engine_prefix(self.chain.file.name)),
                *("--cpus", ",".join(map(str, self.platform))),
                *("--memory", str(memory_mb)),
                *(("--hugepage-dir", str(hugepages)) if hugepages else ()),
                *(("--ports",) if dma.traffic_ports(self.chain.file.traffic) else ()),
                *(word for address in pci for word in ("--pci", address)),
                *(("--driver", str(self.places.mmsg_driver)) if of_host else ()),
            ),
            file_prefix=engine_prefix(self.chain.file.name),
            pci=pci,
        )

    def _function(self, program: ProgramPlan) -> FunctionPlan:
        name = program.name
        function = self.chain.graph.functions[name]
        cpu = _stated(function.cpu)
        group = self.wiring.groups[name]
        devices, ports, drivers = self._ports(name)
        kind = workload.KINDS[group]
        first = self.numbers.lcore(name, function.lcores) if group == "engine" else 0
        ours = {"net_unis": self.places.port_driver, "net_mmsg": self.places.mmsg_driver}
        start = Start(
            file_prefix=kind.file_prefix(self.chain.file.name, name),
            lcores=self._lcores(first, function.lcores, cpu),
            drivers=[file for driver, file in ours.items() if driver in drivers],
            port_plugin=self.places.port_plugin if function.plugin else None,
            devices=devices,
            needed=self._needed(name),
            telemetry=function.telemetry,
        )
        macs = self._macs(name)
        written = macs, next_hops(self.wiring, name, macs)
        beside = replace(start, lcores=self._lcores(first, function.lcores, self.platform[0]))
        handed = [link for link in self.named.plans() if link.name in {port.rx for port in ports}]
        container = with_folders(
            program.container,
            self.programs.folders.get(name),
            self.places.port_plugin.parent,
            handed,
        )
        env = dict(program.env)
        if hops := plugin_hops(self.wiring, name, devices, macs):
            env[workload.NEXT_HOPS] = hops
        return FunctionPlan(
            **vars(replace(program, container=container, env=env)),
            argv=tuple(arguments(function, kind.eal(start), start, cpu, *written)),
            argv_beside=tuple(arguments(function, kind.eal(beside), beside, cpu, *written)),
            cpu=cpu,
            lcores=start.lcores,
            group=group,
            file_prefix=start.file_prefix,
            namespace=(
                f"{engine_prefix(self.chain.file.name)}.{name}"
                if function.namespace == "own"
                else None
            ),
            folder=self.programs.folders.get(name),
            cost_ns=self.costs.get(name),
            may_sleep=function.may_sleep,
            kernel=function.kernel or Kernel(),
            restart=_stated(function.restart),
            plugin=function.plugin,
            telemetry=function.telemetry,
            ports=tuple(ports),
        )

    def _lcores(self, first: int, count: int, cpu: int) -> str:
        cpus = [cpu] if count == 1 else [self.platform[0], *[cpu] * (count - 1)]
        return ",".join(f"{first + at}@{cpu}" for at, cpu in enumerate(cpus))

    def _ports(self, name: str) -> tuple[list[str], list[PortPlan], set[str]]:
        devices: list[str] = []
        ports: list[PortPlan] = []
        drivers: set[str] = set()
        for at, place in enumerate(self.wiring.ports[name]):
            kind = links.KINDS[place.kind]
            port = f"{name}.{at}"
            number = self.numbers.device(port) if kind.of_group else at
            ends = self.named.port(name, port, number, place)
            device = kind.device(ends)
            rx, tx = (link.name if link else "" for link in (ends.rx, ends.tx))
            devices.append(device)
            drivers.add(kind.driver_of(ends))
            ports.append(PortPlan(port, device, rx, tx, ends.end))
        return devices, ports, drivers

    def _macs(self, name: str) -> dict[str, str]:
        """Addresses of its ports on NICs, and of those at the other ends, by their places."""
        found: dict[str, str] = {}
        for at, place in enumerate(self.wiring.ports[name]):
            if links.KINDS[place.kind].on_nics:
                ends = self.named.port(name, f"{name}.{at}", at, place)
                macs = nic_of(ends.link).macs
                found[f"mac{at}"] = macs[ends.end]
                # Behind the wire by which packets come nobody waits for any.
                there = macs[1 - ends.end] if len(macs) > 1 else self._behind(place)
                found |= {f"next_mac{at}": there} if there else {}
        return found

    def _behind(self, port: PortPlace) -> str | None:
        """The address to which a function sends over a wire."""
        out = port.tx is not None and port.tx.origin is not None
        return self.chain.file.traffic.next_hop if out else None

    def _needed(self, name: str) -> list[str]:
        kinds = [links.KINDS[place.kind] for place in self.wiring.ports[name]]
        return [*dict.fromkeys(word for kind in kinds for word in kind.eal)]

    def _chain_plan(self, chain: ChainGraph) -> ChainPlan:
        ways = self.wiring.ways
        part = self.chain.file.chains[chain.name]
        passed = self.wiring.passed[chain.name]
        first, last = passed[chain.out_of(INGRESS)[0]][0], passed[chain.into(EGRESS)[0]][-1]
        ingress, egress = self.named.names([first, last])
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
            ring=self.sizes.rings[chain.name],
            edges=() if plain else tuple(self._edge(chain.name, edge) for edge in chain.edges),
            splits=() if plain else self._splits(chain),
            drains=tuple(self.named.names(self.wiring.drains[chain.name])),
        )

    def _edge(self, chain: str, edge: Edge) -> EdgePlan:
        origin, to = (end if end in self.wiring.groups else "" for end in edge.ends)
        return EdgePlan(
            origin,
            self.wiring.out_port(chain, edge),
            to,
            self.wiring.in_port(chain, edge),
            tuple(self.named.names(self.wiring.passed[chain][edge])),
        )

    def _splits(self, chain: ChainGraph) -> tuple[SplitPlan, ...]:
        """Wherever an edge passes two links; of one branch it is a mere bridge."""
        found: dict[str, list[BranchPlan]] = {}
        for edge in sorted(chain.edges, key=lambda edge: edge.rank):
            names = self.named.names(self.wiring.passed[chain.name][edge])
            for link, to in itertools.pairwise(names):
                branch = BranchPlan(to, edge.match, edge.weight, edge.tap)
                found.setdefault(link, []).append(branch)
        return tuple(SplitPlan(link, tuple(branches)) for link, branches in found.items())


def _of_engine(link: LinkPlan) -> str:
    """The VF of a link that the engine itself opens."""
    sriov = link.details if isinstance(link.details, SriovPlan) else None
    return sriov.nic.addresses[0] if sriov and sriov.vfio and sriov.engine_end else ""


def _stated(value: _T | None) -> _T:
    """What a file without problems has."""
    if value is None:
        raise ValueError("the file was not checked")
    return value

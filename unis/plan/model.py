"""What a run will be, as plain data. Made by `unis.plan.planner`; carried out by the runtime."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from unis.chain.model import Kernel, Match, SchedulerPart, Traffic
from unis.links.kind import LinkPlan
from unis.links.sriov import SriovPlan
from unis.plan.contract import (
    fair_slice_ns,
    flow_match,
    kernel_scheduling,
    scheduler_settings,
    traffic_config,
)
from unis.plan.dma import DmaChoice
from unis.plan.programs import ProgramPlan
from unis.plan.rings import GammaChoice, RingChoice
from unis.v1 import engine_pb2 as pb
from unis.workload import GroupName

_GROUPS = {"engine": pb.GROUP_ENGINE, "own": pb.GROUP_OWN}


@dataclass(frozen=True)
class Places:
    """Where a run keeps what its processes share; the runtime knows, the planner is told."""

    directory: Path  # sockets of links are made here
    engine_socket: Path
    port_driver: Path  # the run's copy of the net_unis driver
    mmsg_driver: Path  # the same of net_mmsg
    port_plugin: Path  # the same of what every program loads
    folders: Path  # of functions that run as another user, a folder each
    hugepages: Path | None = None  # mounted hugetlbfs; None: as DPDK finds it


@dataclass(frozen=True)
class PortPlan:
    """A port of a function, as the program counts them."""

    name: str
    device: str  # value of --vdev, or of -a
    rx: str  # link; empty: nothing is received here
    tx: str  # link; empty: nothing is sent here
    end: int = 0  # of a link both ways: 0 is there first, as the server of a memif, 1 is later

    def message(self) -> pb.PortConfig:
        """Its message of the contract."""
        return pb.PortConfig(
            name=self.name,
            rx=self.rx,
            tx=self.tx,
            end=self.end,
            device=self.device_name,
        )

    @property
    def device_name(self) -> str:
        """What the program calls the device."""
        return self.device.partition(",")[0]


@dataclass(frozen=True)
class FunctionPlan(ProgramPlan):
    """A function's process."""

    argv: tuple[str, ...]  # behind the program: EAL's arguments, `--`, its own
    # The same for a start beside functions that leave it no time on its CPU: it comes up on one of
    # the platform's, and the engine moves it.
    argv_beside: tuple[str, ...]
    cpu: int
    lcores: str  # as EAL has it
    group: GroupName
    file_prefix: str
    namespace: str | None  # network namespace of its own; None: that of UNiS
    folder: Path | None  # its user's own, where its links' sockets are; None: it has none
    cost_ns: float | None  # per packet; None: not stated
    may_sleep: bool
    kernel: Kernel  # how the kernel runs it where the kernel decides
    restart: str  # when it ends: never, on-failure
    plugin: bool  # whether UNiS' EAL plug-in is loaded
    telemetry: bool  # whether DPDK's stays on
    ports: tuple[PortPlan, ...]

    @property
    def is_command(self) -> bool:
        """A program by its own command line; those of ours have no input."""
        return self.stdin is not None

    @property
    def waits(self) -> bool:
        """Whether it waits in its receive call for packets."""
        return any("wait=1" in port.device.split(",") for port in self.ports)

    def message(self, cost_ns: float) -> pb.FunctionConfig:
        """Its message of the contract; `cost_ns` stands in where the plan has none."""
        return pb.FunctionConfig(
            name=self.name,
            cpu=self.cpu,
            cost_ns=cost_ns if self.cost_ns is None else self.cost_ns,
            yield_every=self.yield_every,
            group=_GROUPS[self.group],
            ports=[port.message() for port in self.ports],
            stays_awake=not self.may_sleep,
            kernel=kernel_scheduling(self.kernel),
            waits=self.waits,
        )


@dataclass(frozen=True)
class HopPlan:
    """A chain's way through a function: positions in its ports."""

    function: str
    in_port: int
    out_port: int


@dataclass(frozen=True)
class EdgePlan:
    """Where packets of a chain with branches pass. Both ends are functions, or empty."""

    origin: str
    out_port: int
    to: str
    in_port: int
    links: tuple[str, ...]  # one behind the other; the engine carries packets between them

    def message(self) -> pb.ChainEdge:
        """Its message of the contract."""
        edge = pb.ChainEdge(
            to=self.to, out_port=self.out_port, in_port=self.in_port, links=self.links
        )
        setattr(edge, "from", self.origin)
        return edge


@dataclass(frozen=True)
class BranchPlan:
    """Which packets of a link the engine carries to another."""

    to: str
    match: tuple[Match, ...] = ()
    weight: int | None = None
    copy: bool = False

    def message(self) -> pb.Branch:
        """Its message of the contract."""
        return pb.Branch(
            to=self.to,
            match=[flow_match(match) for match in self.match],
            weight=self.weight or 0,
            copy=self.copy,
        )


@dataclass(frozen=True)
class SplitPlan:
    """A link that the engine empties into others."""

    link: str
    branches: tuple[BranchPlan, ...]

    def message(self) -> pb.Split:
        """Its message of the contract."""
        split = pb.Split(branches=[branch.message() for branch in self.branches])
        setattr(split, "from", self.link)
        return split


@dataclass(frozen=True)
class ChainPlan:
    """From the ring that the source fills to the ring that the sink empties."""

    name: str
    match: tuple[Match, ...]
    ingress: str
    hops: tuple[HopPlan, ...]
    egress: str
    goal_ns: float | None = None  # on p95 latency
    ring: RingChoice | None = None  # of those that the file does not state one by one
    # Of a chain with branches, which has no hops:
    edges: tuple[EdgePlan, ...] = ()
    splits: tuple[SplitPlan, ...] = ()
    drains: tuple[str, ...] = ()  # links whose packets, copies all, the engine frees

    @property
    def functions(self) -> frozenset[str]:
        """Every function that its packets pass."""
        ends = {end for edge in self.edges for end in (edge.origin, edge.to)}
        return frozenset({hop.function for hop in self.hops} | ends - {""})

    def is_down_without(self, functions: Collection[str]) -> bool:
        """Whether no packet comes through while these do not run."""
        if not self.edges:
            return not self.functions.isdisjoint(functions)
        copied = {
            (split.link, branch.to)
            for split in self.splits
            for branch in split.branches
            if branch.copy
        }
        reached = {""}  # the source
        for edge in self.edges:  # each behind those that lead to it
            passes = edge.origin in reached and edge.links not in copied
            if passes and not edge.to:
                return False
            if passes and edge.to not in functions:
                reached.add(edge.to)
        return True

    def message(self) -> pb.ChainConfig:
        """Its message of the contract."""
        return pb.ChainConfig(
            name=self.name,
            match=[flow_match(match) for match in self.match],
            ingress=self.ingress,
            hops=[
                pb.Hop(function=hop.function, in_port=hop.in_port, out_port=hop.out_port)
                for hop in self.hops
            ],
            egress=self.egress,
            edges=[edge.message() for edge in self.edges],
            splits=[split.message() for split in self.splits],
            drains=self.drains,
        )


@dataclass(frozen=True)
class EnginePlan:
    """The engine's process."""

    argv: tuple[str, ...]  # behind the program
    file_prefix: str  # of the DPDK group that it is primary of
    pci: tuple[str, ...]  # NICs that DPDK may probe
    joins: str | None = None  # the DPDK group of others, of which it is a secondary instead


@dataclass(frozen=True)
class NicPlan:
    """A PCI device of the run."""

    address: str
    driver: str  # that it has meanwhile; empty: its own


@dataclass(frozen=True)
class SwitchPlan:
    """The thread of Open vSwitch that carries packets."""

    cpus: tuple[int, ...]
    kernel: Kernel


@dataclass(frozen=True)
class Plan:
    """All that is decided before anything is started."""

    name: str
    chain_file: Path
    directory: Path  # of the chain file, in which functions run
    platform_cpus: tuple[int, ...]  # of source, sink and scheduler
    cpus: tuple[int, ...]  # of functions
    engine: EnginePlan
    links: tuple[LinkPlan, ...]
    functions: tuple[FunctionPlan, ...]  # in the order in which they are started
    chains: tuple[ChainPlan, ...]
    traffic: Traffic
    scheduler: SchedulerPart
    gamma: GammaChoice
    policy: str
    controller: str
    hugepages_mb: int  # of the whole run
    restart: str = "never"  # of all of it, when unisd dies: never, on-failure
    share: bool = False  # whether others may use what is left of the platform's CPU
    dma: DmaChoice | None = None  # of the NICs among source and sink
    switch: SwitchPlan | None = None  # None: no link is of kind ovs
    nics: tuple[NicPlan, ...] = ()  # of source, sink and links
    notes: tuple[str, ...] = ()  # sentences that the user should read
    # Functions with a link to another: each is measured in a run of its own, before this one.
    linked: frozenset[str] = frozenset()
    make_solo: Callable[[str], "Plan"] | None = field(default=None, compare=False, repr=False)
    foreign: bool = False  # functions and links are somebody else's
    variables: Mapping[str, str] = field(default_factory=dict)  # that the chain file used
    digest: str = ""  # of the text of the chain file

    @property
    def packet_cpus(self) -> frozenset[int]:
        """CPUs of what carries packets beside functions."""
        return frozenset({*self.platform_cpus, *self.switch_cpus})

    @property
    def switch_cpus(self) -> tuple[int, ...]:
        """That of Open vSwitch, if there is one."""
        return self.switch.cpus if self.switch else ()

    @property
    def wires(self) -> dict[str, str]:
        """The MAC address to which others send, by chain; of those that begin at a wire."""
        into = {link.name: link.details for link in self.links}
        return {
            chain.name: details.nic.macs[0]
            for chain in self.chains
            if isinstance(details := into.get(chain.ingress), SriovPlan) and details.wire
        }

    @property
    def goals_ns(self) -> dict[str, float]:
        """Goals on the p95 latency, of the chains that have one."""
        return {chain.name: chain.goal_ns for chain in self.chains if chain.goal_ns is not None}

    def function(self, name: str) -> FunctionPlan:
        """The function called `name`; KeyError if there is none."""
        for function in self.functions:
            if function.name == name:
                return function
        raise KeyError(name)

    def solo(self, name: str) -> "Plan":
        """The plan by which a function is measured without the others, made when it is wanted:
        few are. ChainFileError if there is none.
        """
        if self.make_solo is None:
            raise ValueError("a plan that was made of no chain file")
        return self.make_solo(name)

    def served_by(self, function: FunctionPlan) -> list[Path]:
        """The sockets by which other functions find links to this one, which it makes."""
        sockets = {link.name: link.socket for link in self.links if link.socket}
        return [sockets[port.rx] for port in function.ports if port.rx in sockets and port.end == 0]

    def with_clients(self, functions: Collection[str]) -> frozenset[str]:
        """These functions, the clients of their sockets, the clients' clients, and so on: a client
        does not reconnect to a server that was restarted.
        """
        found = {function.name for function in self.functions} & {*functions}
        while more := {peer.name for peer in self.functions if self.servers(peer) & found} - found:
            found |= more
        return frozenset(found)

    def servers(self, function: FunctionPlan) -> frozenset[str]:
        """The functions to whose sockets this one connects."""
        sockets = {link.name for link in self.links if link.socket}
        links = sockets & {port.rx for port in function.ports if port.end == 1}
        return frozenset(
            other.name
            for other in self.functions
            for port in other.ports
            if port.rx in links and port.end == 0 and other is not function
        )

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        plain: dict[str, Any] = _plain(self)
        return {key: plain[key] for key in plain if key not in ("linked", "make_solo")}

    def deploy(self, costs: Mapping[str, float], run_id: str) -> pb.DeployRequest:
        """What Deploy takes; `costs` (ns, by function) stand in where the file states none."""
        # At any rate the source polls all the same, and others would get nothing.
        share = self.share and self.traffic.rate != "max"
        return pb.DeployRequest(
            run=self.name,
            run_id=run_id,
            links=[link.message() for link in self.links],
            functions=[part.message(costs.get(part.name, 0.0)) for part in self.functions],
            chains=[chain.message() for chain in self.chains],
            traffic=traffic_config(self.traffic, self.directory, self.dma),
            scheduler=scheduler_settings(self.scheduler, self.gamma.value, share),
            rr_timeslice_ms=self.scheduler.rr_timeslice_ms or 0,
            fair_slice_ns=fair_slice_ns(self.scheduler),
        )


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        plain = {part.name: _plain(getattr(value, part.name)) for part in fields(value)}
        if isinstance(value, LinkPlan):  # under the name of its kind
            details = plain.pop("details")
            plain |= {value.kind: details} if details else {}
        return plain
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value

"""The chain file as one pydantic model: the CLI, the plan, the simulator's input and
docs/chain-file.schema.json all come from here. What must hold between its parts is in
`unis.chain.consistency`. Nothing here looks at the machine.
"""

from typing import Annotated, Literal

from pydantic import Field

from unis.chain import defaults
from unis.chain.goals import Goals
from unis.chain.link import Descriptors, Link, Queues, QueuesOrCount, Ring
from unis.chain.part import Part
from unis.chain.values import (
    Argument,
    ArrivalsName,
    Capability,
    ChainName,
    ControllerName,
    Cost,
    CostSource,
    Cpu,
    Destination,
    FunctionPort,
    Gamma,
    Ipv4Prefix,
    Lead,
    Name,
    Offload,
    Origin,
    PolicyName,
    Port,
    Protocol,
    Quota,
    Rate,
    Restart,
    Said,
    Size,
    User,
    Variable,
    YieldEvery,
    protocol_number,
    rate_in,
)
from unis.engine.limits import bounds, limit

API_VERSION = "unis/v1"
NS_PER_US = 1000
NS_PER_MS = 1_000_000
_MOST_LCORES = 64  # of a function


class SyntheticSource(Part):
    """Packets made by the platform."""

    kind: Literal["synthetic"]
    size: Size = defaults.DEFAULT_SIZE
    """Bytes of a packet with FCS; `imix`: 64, 594 and 1518 at 7:4:1; `datacenter`: 200 and 1400."""
    flows: Annotated[int, Field(ge=1, **bounds("SyntheticTraffic.flows"))] = defaults.DEFAULT_FLOWS
    """Distinct 5-tuples."""


class PcapSource(Part):
    """A capture, read into memory and replayed for as long as the chain runs."""

    kind: Literal["pcap"]
    file: str
    """A pcap or pcapng file, relative to the chain file."""


class PortSource(Part):
    """Packets that a DPDK port receives."""

    kind: Literal["port"]
    device: str = Field(min_length=1)
    """EAL device string, as `net_pcap0,rx_pcap=FILE`, `net_tap0` or the PCI address of a NIC."""
    descriptors: Descriptors | None = None
    """Of its receive queue, a power of two; absent: 1024, of a NIC fewer where the cache ways that
    DMA fills hold no more."""


class MeasureSink(Part):
    """Counts packets, measures their latency and frees them."""

    kind: Literal["measure"]


class PortSink(Part):
    """Sends packets out of a DPDK port."""

    kind: Literal["port"]
    device: str = Field(min_length=1)
    """EAL device string."""
    descriptors: Descriptors | None = None
    """Of its send queue, likewise."""


class Traffic(Part):
    """Where packets come from, how fast, and where they go."""

    source: Annotated[SyntheticSource | PcapSource | PortSource, Field(discriminator="kind")] = (
        SyntheticSource(kind="synthetic")
    )
    """kind `synthetic`, `pcap` or `port`."""
    rate: Rate = "max"
    """`max`: as fast as the first rings take packets; else as `2.5Mpps` or `1Gbps`, not of a
    port."""
    arrivals: ArrivalsName = defaults.ARRIVALS
    """How far apart the packets of a rate fall due: `constant`, or `poisson`, with exponentially
    distributed gaps."""
    sink: Annotated[MeasureSink | PortSink, Field(discriminator="kind")] = MeasureSink(
        kind="measure"
    )
    """kind `measure` or `port`."""

    @property
    def pps(self) -> float:
        """Packets per second; 0 unless the rate is given so."""
        return rate_in(self.rate, "pps")

    @property
    def bps(self) -> float:
        """Bits per second; 0 unless the rate is given so."""
        return rate_in(self.rate, "bps")


class SchedulerPart(Part):
    """Which function of a core runs, and for how long."""

    policy: PolicyName = defaults.POLICY
    """`unis` is Algorithm 1 of the paper; the others are what it is compared with."""
    controller: ControllerName = defaults.CONTROLLER
    """How a function is put to running or waiting."""
    gamma: Gamma = defaults.GAMMA
    """γ: share of the egress that a time slice fills; `auto`: all but two bursts, 0.75 to 0.95."""
    theta_min: Annotated[int, Field(ge=0, **bounds("SchedulerSettings.theta_min"))] = (
        defaults.THETA_MIN
    )
    """θmin, packets: a function with no more at its ingress has no meaningful work."""
    theta_max: Annotated[int, Field(**bounds("SchedulerSettings.theta_max"))] | None = None
    """θmax, packets: a function with as many at its egress must not run; γ · capacity."""
    interval_us: Annotated[
        float, Field(**bounds("SchedulerSettings.interval_ns", unit=NS_PER_US))
    ] = defaults.INTERVAL_US
    """T: how often the scheduler decides, µs."""
    occupancy: bool = True
    """The interface occupancy based optimisation (section 4.4); false: time slices alone."""
    lead_us: Lead = "auto"
    """How early a switch is started, µs; `auto`: as long as a switch takes on this machine."""
    max_wait_us: Annotated[
        float, Field(ge=0, **bounds("SchedulerSettings.max_wait_ns", unit=NS_PER_US))
    ] = defaults.MAX_WAIT_US
    """A function whose packets, though no more than θmin, waited so long runs; 0: never."""
    cost: CostSource = defaults.COST
    """What a packet costs: `online` follows it while the chains run, from what was stated or
    measured before; `static` keeps that."""
    quota: Quota = defaults.QUOTA
    """Packets of a turn where functions hand the CPU over, at most γ of their links; `auto`: 2048
    packets."""
    idle_us: Annotated[
        float, Field(ge=0, **bounds("SchedulerSettings.idle_ns", unit=NS_PER_US))
    ] = defaults.IDLE_US
    """The functions of a CPU sleep once none has had a packet for so long, µs; 0: they poll on."""
    rr_timeslice_ms: (
        Annotated[int, Field(ge=1, **bounds("DeployRequest.rr_timeslice_ms"))] | None
    ) = None
    """The kernel's SCHED_RR time slice while the chains run; absent: as it is."""
    fair_slice_ms: (
        Annotated[float, Field(**bounds("DeployRequest.fair_slice_ns", unit=NS_PER_MS))] | None
    ) = None
    """The time slice of each function under `other` and `batch`, ms, from Linux 6.12 on; absent:
    the kernel's base slice."""


class Match(Part):
    """Packets that a chain takes: those that agree in every field given."""

    src: Ipv4Prefix | None = None
    """Source prefix, as 10.0.0.0/8."""
    dst: Ipv4Prefix | None = None
    """Destination prefix."""
    src_port: Port | None = None
    dst_port: Port | None = None
    protocol: Protocol | None = None
    """IP protocol: icmp, tcp, udp or its number."""

    @property
    def protocol_number(self) -> int | None:
        """The IP protocol as a number; None matches every one."""
        return protocol_number(self.protocol)

    @property
    def everything(self) -> bool:
        """Whether every packet matches."""
        return not self.model_dump(exclude_none=True)


class Defaults(Part):
    """What functions have where they state nothing else."""

    cpu: Cpu | None = None
    user: User | None = None
    env: dict[Variable, Argument] = Field(default={})
    """Those of a function are added, and take the place of these."""
    yield_every: YieldEvery = 0
    restart: Restart = "never"


class Function(Part):
    """A network function: any program that forwards packets between DPDK ports. It runs once,
    however many chains it serves.
    """

    program: str | None = Field(default=None, min_length=1)
    """The name of a built function or of one on PATH; with a slash, a path from the chain file."""
    args: list[Argument] = Field(default=[])
    """Its arguments, after those for DPDK's EAL; it runs in the directory of the chain file."""
    command: list[Argument] | None = Field(default=None, min_length=1)
    """Instead of program and args: any DPDK program as one starts it by hand, without EAL's
    arguments. They are put before the others, and `--` between; or where `{eal}` stands. `{vdev0}`,
    `{vdev1}`, …, `{file_prefix}`, `{cpu}`, `{lcores}` and `{plugin}` stand for parts of them, and
    `{lcore0}`, `{lcore1}`, … for the numbers of single lcores. Its links are
    memifs unless `links` says otherwise."""
    lcores: Annotated[int, Field(ge=1, le=_MOST_LCORES)] = 1
    """How many lcores EAL gives it. With more than one the first, on which many programs only serve
    a console, is on a CPU of the platform until it polls too."""
    queues: QueuesOrCount = Queues()
    """How many queues it has on each of its memifs and veths: a number, each way, or `rx` and `tx`.
    A neighbour on one receives by as many as it sends by, and the other way round."""
    stdin: Said | None = None
    """What a command reads from its standard input, which then stays open; at most 65536 bytes as
    UTF-8 (the schema's maxLength counts characters, of up to four bytes)."""
    terminal: bool = False
    """Whether its standard input and output are a terminal; what `stdin` holds is typed into it."""
    cpu: Cpu | None = None
    """The CPU that it runs on, which it may share with others; absent: that of `defaults`."""
    cost_ns: Cost | None = None
    """Cost of a packet, ns, or one per packet size; absent: the Cycle Estimator measures."""
    yield_every: YieldEvery | None = None
    """Makes it yield the CPU every so many bursts under policy cooperative; 0: it never does."""
    user: User | None = None
    """Whom it runs as, on memifs; absent: root."""
    capabilities: list[Capability] = Field(default=[])
    """What it may do beyond forwarding packets, as `net_raw`; nothing it starts may do more."""
    offloads: list[Offload] = Field(default=[])
    """What its ports offer though their driver lacks it, for a program that ends without.
    `rx-checksum`: of each packet they say that they do not know whether its checksums are right."""
    plugin: bool = True
    """Whether EAL loads our plug-in into a command; `false` for one with another DPDK than UNiS."""
    env: dict[Variable, Argument] = Field(default={})
    """Environment, beside that of UNiS."""
    restart: Restart | None = None
    """When it ends: `never`, its chains stay down; `on-failure`, it is started again, unless it
    ended by itself with exit code 0."""

    @property
    def executable(self) -> str:
        """The program, however it was named."""
        return self.program or (self.command or [""])[0]


class EdgePart(Part):
    """Packets pass from one function of a chain to another. Of several edges that leave a function
    by one port each packet takes one, by `match` or `weight`; copies take those with `mode: tap`.
    """

    origin: Origin = Field(alias="from")
    """A function, or `ingress`."""
    to: Destination
    """A function, or `egress`. Several edges may lead to it."""
    port: FunctionPort | None = None
    """Of `from`, as the program counts its ports: it decides by the port that it sends on."""
    in_port: FunctionPort | None = None
    """Of `to`, where it receives the packets."""
    match: list[Match] = Field(default=[], max_length=limit("ChainConfig.match").max_items)
    """Which packets take this edge; those that match none take the edge without a match."""
    weight: Annotated[int, Field(ge=1, **bounds("Branch.weight"))] | None = None
    """Its share of the flows, beside the weights of the others; a flow stays on its edge."""
    mode: Literal["tap"] | None = None
    """`tap`: a copy of every packet takes this edge, for a monitor; copies end in the chain."""


class Chain(Part):
    """A service function chain (SFC): a path, a graph, or the way back of another chain."""

    match: list[Match] = Field(default=[], max_length=limit("ChainConfig.match").max_items)
    """A packet belongs to the first chain with a match for it; absent: every packet."""
    ring: Ring = defaults.RING
    """Slots of each of its rings, a power of two; `auto`: so many that switches cost little, but no
    more than its goals allow."""
    slo: Goals | None = None
    """Goals, by which `ring: auto` and with it θmax and the turns are chosen."""
    path: list[Name] | None = Field(
        default=None, min_length=1, max_length=limit("ChainConfig.hops").max_items
    )
    """The functions that its packets pass, in order."""
    graph: list[EdgePart] | None = Field(
        default=None, min_length=2, max_length=limit("ChainConfig.edges").max_items
    )
    """Instead of a path, the edges by which its packets pass from one function to the next."""
    reverse_of: ChainName | None = None
    """A chain whose path this one goes the other way round, through the same functions."""

    @property
    def matches_everything(self) -> bool:
        """Whether no packet is left for chains after this one."""
        return not self.match or any(match.everything for match in self.match)


class Platform(Part):
    """Traffic and scheduler."""

    cpus: list[Cpu] | None = Field(default=None, min_length=1)
    """Of source, sink and scheduler, in this order; with one they take turns. Absent: what is
    free."""
    restart: Restart = "never"
    """When unisd dies: `never`, the run ends; `on-failure`, all of it is brought up again."""


class ChainFile(Part):
    """A file that `unis up` runs. `${VAR}` and `${VAR:-default}` are filled in; keys `x-…` are
    left out.
    """

    api_version: Literal["unis/v1"] = Field(alias="apiVersion")
    """The version of this format."""
    name: Name
    """What `unis ps` and `unis down` call it."""
    platform: Platform = Platform()
    traffic: Traffic = Traffic()
    scheduler: SchedulerPart = SchedulerPart()
    defaults: Defaults = Defaults()
    functions: dict[Name, Function] = Field(
        min_length=1, max_length=limit("DeployRequest.functions").max_items
    )
    """By name; each runs once."""
    chains: dict[ChainName, Chain] = Field(
        min_length=1, max_length=limit("DeployRequest.chains").max_items
    )
    """By name."""
    links: list[Link] = Field(default=[])

    def function(self, name: str) -> Function:
        """The function called `name`, with the defaults filled in; KeyError if there is none."""
        own = self.functions[name]
        common = self.defaults
        return own.model_copy(
            update={
                "cpu": common.cpu if own.cpu is None else own.cpu,
                "user": common.user if own.user is None else own.user,
                "env": {**common.env, **own.env},
                "yield_every": self._yield_every(own),
                "restart": common.restart if own.restart is None else own.restart,
            }
        )

    def _yield_every(self, own: Function) -> int:
        if own.command is not None:  # it would not know the option
            return 0
        return self.defaults.yield_every if own.yield_every is None else own.yield_every

    @property
    def platform_cpus(self) -> list[int]:
        """The CPUs of source, sink and scheduler that the file states, if it does."""
        return list(self.platform.cpus or [])

    @property
    def cpus(self) -> frozenset[int]:
        """The CPUs that functions run on."""
        return frozenset(self.function(name).cpu or 0 for name in self.functions)

"""The chain file as one pydantic model, from which CLI, plan, simulator input and the JSON schema
are made. `unis.chain.consistency` checks its parts against one another. Nothing here reads the
machine.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from unis.chain import defaults
from unis.chain.goals import Goals
from unis.chain.link import Descriptors, Link, Queues, QueuesOrCount, Ring
from unis.chain.problem import wrong
from unis.chain.values import (
    PROTOCOLS,
    AbsolutePath,
    Argument,
    ArrivalsName,
    Capability,
    ChainName,
    ControllerName,
    Cost,
    CostSource,
    Cpu,
    Destination,
    Duration,
    FunctionPort,
    Gamma,
    Ipv4Prefix,
    Lead,
    MacAddress,
    MaxDelay,
    MountWords,
    Name,
    NicName,
    Offload,
    Origin,
    Part,
    PolicyName,
    Port,
    Protocol,
    Quota,
    Rate,
    Restart,
    Size,
    Stdin,
    User,
    Variable,
    YieldEvery,
    in_ns,
    rate_in,
)
from unis.engine.limits import bounds, limit

API_VERSION = "unis/v1"
# Frames that a call moves; and bytes of the receive buffer, for some 10000 small frames.
_INTERFACE_PORT = "batch=64,rcvbuf=8388608"
NS_PER_US = 1000
NS_PER_MS = 1_000_000
_MOST_LCORES = 64  # of a function
_SHORTEST_WINDOW_NS, _LONGEST_WINDOW_NS = 50 * NS_PER_MS, 60_000 * NS_PER_MS


NicDriver = Literal["vfio-pci", "kernel", "mmsg"]


def _window(duration: str) -> str:
    if not _SHORTEST_WINDOW_NS <= in_ns(duration) <= _LONGEST_WINDOW_NS:
        raise wrong(f"a window of {duration} is not between 50ms and 60s")
    return duration


class SyntheticSource(Part):
    """Packets that the platform generates."""

    kind: Literal["synthetic"]
    size: Size = defaults.DEFAULT_SIZE
    """Packet size in bytes with FCS; `imix`: 64, 594, 1518 at 7:4:1; `datacenter`: 200 and 1400."""
    flows: Annotated[int, Field(ge=1, **bounds("SyntheticTraffic.flows"))] = defaults.DEFAULT_FLOWS
    """Number of distinct 5-tuples."""


class PcapSource(Part):
    """A capture, read into memory and replayed while the chain runs."""

    kind: Literal["pcap"]
    file: str
    """A pcap or pcapng file, relative to the chain file."""


class PortSource(Part):
    """Packets that a DPDK port receives."""

    kind: Literal["port"]
    device: str = Field(min_length=1)
    """EAL device string, such as `net_pcap0,rx_pcap=FILE` or `net_tap0`; or a NIC, by its PCI
    address or the name of its network interface."""
    driver: NicDriver | None = None
    """Of a NIC: `vfio-pci` takes the NIC from the kernel while the chain runs; `kernel` leaves it
    to its driver, beside which DPDK uses it, as mlx5_core; `mmsg` uses its interface, as kind
    `interface` does. Default: `kernel` if the NIC needs that, else `vfio-pci`."""
    descriptors: Descriptors | None = None
    """Size of its receive queue, a power of two. Default: 1024, or fewer for a NIC if the cache
    ways that DMA fills hold fewer."""


class HostInterface(Part):
    """An interface of this host, by its name, as a port of net_mmsg."""

    kind: Literal["interface"]
    interface: Annotated[str, Field(min_length=1, max_length=15, pattern=r"^[^\s/:,]+$")]
    """Name of a network interface of this host, such as eth1."""

    @property
    def device(self) -> str:
        """As EAL has it; the same for a source and a sink on one interface."""
        return f"net_mmsg_{self.interface},iface={self.interface},{_INTERFACE_PORT}"

    @property
    def descriptors(self) -> None:
        """Its queues are buffers of the kernel."""


class InterfaceSource(HostInterface):
    """Packets that an interface of this host receives."""


class InterfaceSink(HostInterface):
    """Sends packets out of an interface of this host."""


class WireSource(Part):
    """Packets that others send to a virtual function of the first function of each chain, without
    UNiS between them.
    """

    kind: Literal["wire"]


class WireSink(Part):
    """The last function of each chain sends out of a virtual function of its own, without UNiS."""

    kind: Literal["wire"]
    next_hop: MacAddress
    """MAC address that the last function writes into packets, as destination."""


class MeasureSink(Part):
    """Counts packets, measures their latency and frees them."""

    kind: Literal["measure"]


class PortSink(Part):
    """Sends packets out of a DPDK port."""

    kind: Literal["port"]
    device: str = Field(min_length=1)
    """EAL device string, or a NIC."""
    driver: NicDriver | None = None
    """Of a NIC, as of a source."""
    descriptors: Descriptors | None = None
    """Size of its send queue, a power of two."""


_Source = SyntheticSource | PcapSource | PortSource | InterfaceSource | WireSource
_Sink = MeasureSink | PortSink | InterfaceSink | WireSink


class Traffic(Part):
    """Where packets come from, how fast, and where they go."""

    source: Annotated[_Source, Field(discriminator="kind")] = SyntheticSource(kind="synthetic")
    """kind `synthetic`, `pcap`, `port`, `interface` or `wire`."""
    rate: Rate = "max"
    """`max`: as fast as the first rings take packets; or a rate, such as `2.5Mpps` or `1Gbps`. A
    port, interface or wire has none."""
    arrivals: ArrivalsName = defaults.ARRIVALS
    """Gaps between the packets of a rate: `constant`, or `poisson` for exponentially distributed
    gaps."""
    sink: Annotated[_Sink, Field(discriminator="kind")] = MeasureSink(kind="measure")
    """kind `measure`, `port`, `interface` or `wire`."""

    @property
    def from_port(self) -> bool:
        """Whether packets come when they come."""
        return isinstance(self.source, PortSource | InterfaceSource | WireSource)

    @property
    def next_hop(self) -> str | None:
        """Where chains at wires send; None: they begin and end at source and sink of UNiS."""
        return self.sink.next_hop if isinstance(self.sink, WireSink) else None

    @property
    def interfaces(self) -> list[str]:
        """Those of the host that are its source and sink."""
        ends = [end for end in self.ends if isinstance(end, HostInterface)]
        return list(dict.fromkeys(end.interface for end in ends))

    @property
    def ends(self) -> tuple[_Source, _Sink]:
        """Source and sink."""
        return self.source, self.sink

    @property
    def pps(self) -> float:
        """Packets per second; 0 if the rate has another unit."""
        return rate_in(self.rate, "pps")

    @property
    def bps(self) -> float:
        """Bits per second; 0 if the rate has another unit."""
        return rate_in(self.rate, "bps")

    @property
    def size_shares(self) -> dict[int, int]:
        """How many packets have which size (bytes with FCS). Empty for a capture and for a port:
        what those hold is not looked at beforehand.
        """
        match self.source:
            case SyntheticSource(size=str(mix)):
                return dict(defaults.MIXES[mix])
            case SyntheticSource(size=int(size)):
                return {size: 1}
        return {}


class SchedulerPart(Part):
    """Which function of a core runs, and for how long."""

    policy: PolicyName = defaults.POLICY
    """`unis` is Algorithm 1 of the paper; the others are baselines."""
    controller: ControllerName = defaults.CONTROLLER
    """How the scheduler switches from one function to another."""
    gamma: Gamma = defaults.GAMMA
    """γ: share of the egress that a time slice fills. `auto`: all but two bursts, 0.75 to 0.95."""
    theta_min: Annotated[int, Field(ge=0, **bounds("SchedulerSettings.theta_min"))] = (
        defaults.THETA_MIN
    )
    """θmin, packets: a function with at most θmin packets at its ingress has no work."""
    theta_max: Annotated[int, Field(**bounds("SchedulerSettings.theta_max"))] | None = None
    """θmax, packets: a function with θmax packets at its egress must not run. Default: γ ·
    capacity."""
    interval_us: Annotated[
        float, Field(**bounds("SchedulerSettings.interval_ns", unit=NS_PER_US))
    ] = defaults.INTERVAL_US
    """T: interval between decisions of the scheduler, µs."""
    occupancy: bool = True
    """Whether to preempt by interface occupancy (section 4.4); false: by time slices only."""
    lead_us: Lead = "auto"
    """How early a switch starts, µs. `auto`: the duration of a switch on this machine."""
    max_wait_us: Annotated[
        float, Field(ge=0, **bounds("SchedulerSettings.max_wait_ns", unit=NS_PER_US))
    ] = defaults.MAX_WAIT_US
    """A function with at most θmin packets runs once they have waited this long, µs; 0: never."""
    cost: CostSource = defaults.COST
    """Cost of a packet. `online`: starts with the stated or measured cost and follows the real one
    while the chains run. `static`: keeps the stated or measured cost."""
    quota: Quota = defaults.QUOTA
    """Packets per turn of a function that hands the CPU over, at most γ of its links. `auto`: 2048
    packets."""
    idle_us: Annotated[
        float, Field(ge=0, **bounds("SchedulerSettings.idle_ns", unit=NS_PER_US))
    ] = defaults.IDLE_US
    """The functions of a CPU sleep after this time without a packet, µs. 0, with `max_delay_us: 0`:
    they keep polling."""
    max_delay_us: MaxDelay = defaults.MAX_DELAY
    """Functions that hand the CPU over sleep between packets: until a quarter of a link is full, or
    a packet has waited this long, µs; 0: they poll while packets come. `auto`: a tenth of the
    shortest latency goal by the number of CPUs, 100 at most; 0 where that is below 20."""
    keep_order: bool = True
    """Whether the engine puts functions that hand the CPU over back into the order of their chain
    when they have left it."""
    rr_timeslice_ms: (
        Annotated[int, Field(ge=1, **bounds("DeployRequest.rr_timeslice_ms"))] | None
    ) = None
    """SCHED_RR time slice of the kernel while the chains run, ms. Default: unchanged."""
    fair_slice_ms: (
        Annotated[float, Field(**bounds("DeployRequest.fair_slice_ns", unit=NS_PER_MS))] | None
    ) = None
    """Time slice of each function under `other` and `batch`, ms, from Linux 6.12 on. Default: the
    base slice of the kernel."""


class Match(Part):
    """Packets that match every given field."""

    src: Ipv4Prefix | None = None
    """Source prefix, such as 10.0.0.0/8."""
    dst: Ipv4Prefix | None = None
    """Destination prefix."""
    src_port: Port | None = None
    dst_port: Port | None = None
    protocol: Protocol | None = None
    """IP protocol: icmp, tcp, udp or its number."""

    @property
    def protocol_number(self) -> int | None:
        """The IP protocol as a number; None matches every one."""
        return PROTOCOLS[self.protocol] if isinstance(self.protocol, str) else self.protocol

    @property
    def everything(self) -> bool:
        """Whether every packet matches."""
        return not self.model_dump(exclude_none=True)


class Kernel(Part):
    """How the kernel runs the polling threads of a function, under the policies of the kernel."""

    policy: Literal["other", "batch", "idle", "rr", "fifo"] | None = None
    """Its scheduling class. Default: that of the policy of the run."""
    priority: Annotated[int, Field(ge=1, **bounds("KernelScheduling.priority"))] | None = None
    """Real-time priority, under `rr` and `fifo`. Default: 1."""
    nice: Annotated[int, Field(**bounds("KernelScheduling.nice"))] | None = None
    """Nice value, under `other` and `batch`. Default: unchanged."""
    slice_ms: (
        Annotated[float, Field(**bounds("KernelScheduling.slice_ns", unit=NS_PER_MS))] | None
    ) = None
    """Time slice, ms, under `other` and `batch`. Default: `fair_slice_ms` of the scheduler."""


Namespace = Literal["own", "host"]


class Defaults(Part):
    """Defaults of all functions."""

    cpu: Cpu | None = None
    user: User | None = None
    env: dict[Variable, Argument] = Field(default={})
    """Environment variables; those of a function are added and override these."""
    yield_every: YieldEvery = 0
    restart: Restart = "never"
    kernel: Kernel | None = None
    namespace: Namespace = "host"


class Container(Part):
    """The container that a function runs in; made by crun, and gone with the function's process."""

    image: str | None = Field(default=None, min_length=1)
    """Folder of an OCI image layout, as `unis image` makes it, or of a root file system, relative
    to the chain file; `program` is in it. Default: the program of this machine, with nothing but
    the libraries that it needs."""
    mounts: list[MountWords] = Field(default=[])
    """What it sees of this machine beside the folder of the chain file: `FROM:TO`, read-only, or
    `FROM:TO:rw`; FROM is relative to the chain file."""


class Function(Part):
    """A network function: a program that forwards packets between DPDK ports. It runs once and may
    serve several chains.
    """

    program: str | None = Field(default=None, min_length=1)
    """Name of a reference function or of a program on PATH; with a slash, a path relative to the
    chain file."""
    args: list[Argument] = Field(default=[])
    """Its arguments, which follow those of EAL. It runs in the directory of the chain file."""
    command: list[Argument] | None = Field(default=None, min_length=1)
    """Instead of program and args: the command line of any DPDK program, without EAL arguments.
    UNiS inserts EAL arguments and `--` before the other arguments, or in place of `{eal}`.
    `{vdev0}`, `{vdev1}`, …, `{file_prefix}`, `{cpu}`, `{lcores}` and `{plugin}` stand for parts of
    them, and `{lcore0}`, `{lcore1}`, … for the numbers of single lcores. On links of kind `sriov`
    `{mac0}`, … stand for the MAC addresses of its ports, and `{next_mac0}`, … for those of the
    ports at the other ends. Its links are memifs by default."""
    lcores: Annotated[int, Field(ge=1, le=_MOST_LCORES)] = 1
    """Number of lcores. If it has several, the first runs on a CPU of the platform until it polls:
    in many programs it only serves a console."""
    queues: QueuesOrCount = Queues()
    """Number of queues on each of its memifs, veths and bridges: one number for both ways, or `rx`
    and `tx`. A neighbour on a link has the opposite numbers."""
    stdin: Stdin | None = None
    """Text for the standard input of a command, which then stays open; at most 65536 bytes of UTF-8
    (maxLength of the schema counts characters)."""
    terminal: bool = False
    """Whether its standard input and output are a terminal, into which `stdin` is typed."""
    cpu: Cpu | None = None
    """CPU that it runs on; functions may share a CPU. Default: that of `defaults`."""
    cost_ns: Cost | None = None
    """Cost of a packet, ns, or a cost per packet size. Default: measured."""
    yield_every: YieldEvery | None = None
    """Number of bursts after which it yields under policy cooperative; 0: never."""
    user: User | None = None
    """User that it runs as; requires memifs. Default: root."""
    container: Container | None = None
    """`container: {}` runs it in a container: with processes, files and hardware of this machine
    out of its sight. Its links are memifs by default."""
    capabilities: list[Capability] = Field(default=[])
    """Capabilities of it and of the processes that it starts, such as `net_raw`. Default: none."""
    namespace: Namespace | None = None
    """Its network namespace. `own`: one of its own, which has its ends of kernel links and a
    loopback device, and which `ip netns` lists as `unis-RUN.FUNCTION`. `host` (the default): the
    one in which UNiS runs."""
    offloads: list[Offload] = Field(default=[])
    """Offloads that its ports claim though their driver lacks them, for a program that requires
    them. `rx-checksum`: the ports report the checksum of each packet as unknown.
    `jumbo-frames`: they take frames of up to 16128 bytes, though UNiS sends none that long."""
    plugin: bool = True
    """Whether EAL loads the plug-in of UNiS into a command; `false` if its DPDK is another
    version."""
    telemetry: bool = False
    """Whether DPDK's telemetry of it stays on, in a socket that `unis ps --json` names. Not for
    functions on rings, in a container or with a `user`."""
    env: dict[Variable, Argument] = Field(default={})
    """Environment variables, added to those of UNiS."""
    rewrites: bool = False
    """Whether a command writes the MAC address of the next function into each packet by itself,
    before links of kind `sriov`. Else the plug-in of UNiS writes the address, except where the
    command line has `{next_mac0}` or the like."""
    may_sleep: bool = True
    """Whether UNiS may put it to sleep, without traffic and between packets. `false` for a program
    with timers that must not be 4 ms late; then no function of its CPU sleeps."""
    kernel: Kernel | None = None
    """How the kernel runs it. Default: as its chains state, or `defaults`."""
    restart: Restart | None = None
    """When it ends: `never`: its chains stay down; `on-failure`: it is restarted, unless it exited
    with code 0."""

    @property
    def executable(self) -> str:
        """The program, however it was named."""
        return self.program or (self.command or [""])[0]


class EdgePart(Part):
    """An edge of a chain's graph. If several edges leave a port, each packet takes one of them, by
    `match` or `weight`; copies take the edges with `mode: tap`.
    """

    origin: Origin = Field(alias="from")
    """A function, or `ingress`."""
    to: Destination
    """A function, or `egress`. Several edges may lead to it."""
    port: FunctionPort | None = None
    """Port of `from` by the program's count: the program chooses the branch by the port."""
    in_port: FunctionPort | None = None
    """Port of `to` that receives the packets."""
    match: list[Match] = Field(default=[], max_length=limit("ChainConfig.match").max_items)
    """Packets that take this edge; packets without a match take the edge without `match`."""
    weight: Annotated[int, Field(ge=1, **bounds("Branch.weight"))] | None = None
    """Its share of the flows, relative to the other weights; a flow stays on its edge."""
    mode: Literal["tap"] | None = None
    """`tap`: copies of all packets take this edge, to a monitor; copies never reach the egress."""


class Chain(Part):
    """A service function chain (SFC): a path, a graph, or the reverse of another chain."""

    match: list[Match] = Field(default=[], max_length=limit("ChainConfig.match").max_items)
    """A packet belongs to the first chain that matches it. Default: every packet matches."""
    ring: Ring = defaults.RING
    """Slots of each of its rings, a power of two. `auto`: enough that switches cost little, but no
    more than its goals allow."""
    slo: Goals | None = None
    """Goals, which bound `ring: auto`, and with it θmax and turns."""
    path: list[Name] | None = Field(
        default=None, min_length=1, max_length=limit("ChainConfig.hops").max_items
    )
    """The functions that its packets pass, in order."""
    graph: list[EdgePart] | None = Field(
        default=None, min_length=2, max_length=limit("ChainConfig.edges").max_items
    )
    """Instead of a path: the edges between its functions."""
    reverse_of: ChainName | None = None
    """Chain whose path this chain takes in reverse, through the same functions."""
    tenant: Name | None = None
    """Whose it is. No function serves two tenants, and on NICs that several have the links of each
    get a VLAN of their own."""
    kernel: Kernel | None = None
    """How the kernel runs those of its functions that do not state it."""

    def visits(self, function: str) -> bool:
        """Whether its path or graph names the function."""
        edges = self.graph or []
        return function in (self.path or ()) or any(
            function in (edge.origin, edge.to) for edge in edges
        )

    @property
    def matches_everything(self) -> bool:
        """Whether no packet is left for chains after this one."""
        return not self.match or any(match.everything for match in self.match)


class VirtualFunctions(Part):
    """NICs whose virtual functions are the ends of links of kind `sriov`."""

    nics: list[NicName] = Field(default=[])
    """Ports of NICs, by the kernel's interface or by PCI address. UNiS makes the virtual functions
    there, so they must have none, and puts the ports back as they were."""


class Platform(Part):
    """Traffic and scheduler."""

    cpus: list[Cpu] | None = Field(default=None, min_length=1)
    """CPUs of source, sink and scheduler, in this order; they share a single CPU. Default: free
    CPUs."""
    share: bool = False
    """Whether source, sink and scheduler, on one CPU, also sleep while functions work, up to 50 µs
    each time. Other programs can use the CPU then. Packets wait up to 0.15 ms longer."""
    restart: Restart = "never"
    """When unisd dies: `never`: the run ends; `on-failure`: the whole run is restarted."""


class OpenVSwitch(Part):
    """The process of Open vSwitch that carries the packets of all links of kind `ovs`."""

    cpu: Cpu | None = None
    """CPU of the thread that carries packets: its own, or that of functions. Default: those of the
    platform."""
    kernel: Kernel | None = None
    """How the kernel runs that thread. Default: `fifo` with priority 49, above all functions, on a
    CPU of functions; else as any process."""


class ProfileModePart(Part):
    """What `unis up` measures with `mode: profile`, as the options of `unis profile chain`."""

    load: Annotated[float, Field(ge=0.01, le=1)] = 0.5
    """Load, as a share of what passes at most."""
    rounds: Annotated[int, Field(ge=2, le=1000)] = 8
    """Number of rounds."""
    window: Annotated[Duration, AfterValidator(_window)] = "500ms"
    """Length of a measured window, 50ms to 60s."""
    hot: bool = False
    """Whether to sample what functions run too."""
    output: Annotated[str, Field(min_length=1)] | None = None
    """Directory for profile.json and profile.html, relative to the chain file. Default: the result
    is only printed."""


class ChainFile(Part):
    """A file for `unis up`. `${VAR}` and `${VAR:-default}` are substituted; keys `x-…` ignored."""

    api_version: Literal["unis/v1"] = Field(alias="apiVersion")
    """Version of this format."""
    name: Name
    """Name of the run in `unis ps` and `unis down`."""
    directory: AbsolutePath | None = None
    """Absolute path of the folder that relative paths in the file begin at, and in which functions
    run. Default: the folder of the file."""
    mode: Literal["run", "profile"] = "run"
    """`run` chains until Ctrl-C, or `profile`: measure where the time of a packet goes, and end."""
    profile: ProfileModePart = ProfileModePart()
    platform: Platform = Platform()
    traffic: Traffic = Traffic()
    scheduler: SchedulerPart = SchedulerPart()
    defaults: Defaults = Defaults()
    functions: dict[Name, Function] = Field(
        min_length=1, max_length=limit("DeployRequest.functions").max_items
    )
    """Functions by name; each runs once."""
    chains: dict[ChainName, Chain] = Field(
        min_length=1, max_length=limit("DeployRequest.chains").max_items
    )
    """Chains by name."""
    links: list[Link] = Field(default=[])
    ovs: OpenVSwitch = OpenVSwitch()
    sriov: VirtualFunctions = VirtualFunctions()

    def tenant_of(self, chain: str) -> str | None:
        """Whose a chain is; a way back is of whom the way there is."""
        part = self.chains[chain]
        return part.tenant or (self.chains[part.reverse_of].tenant if part.reverse_of else None)

    def function(self, name: str) -> Function:
        """The function called `name`, with the defaults filled in; KeyError if there is none."""
        own, common = self.functions[name], self.defaults
        update: dict[str, object] = {"env": {**common.env, **own.env}}
        for key in ("cpu", "user", "restart", "yield_every", "namespace"):
            update[key] = getattr(common if getattr(own, key) is None else own, key)
        if own.command is not None:  # it would not know the option
            update["yield_every"] = 0
        of_chains = (chain.kernel for chain in self.chains.values() if chain.visits(name))
        update["kernel"] = own.kernel or next(filter(None, of_chains), common.kernel)
        return own.model_copy(update=update)

    @property
    def max_delay_us(self) -> float:
        """How long a packet may wait for functions that sleep, µs; 0: they do not."""
        stated = self.scheduler.max_delay_us
        if stated != "auto":
            return stated
        goals = [chain.slo.p95_ns for chain in self.chains.values() if chain.slo]
        least = min(goals, default=float("inf")) / 10 / len(self.cpus) / NS_PER_US
        longest = min(least, defaults.MAX_DELAY_US)
        return longest if longest >= defaults.LEAST_DELAY_US else 0.0

    @property
    def platform_cpus(self) -> list[int]:
        """The CPUs of source, sink and scheduler that the file states, if it does."""
        return list(self.platform.cpus or [])

    @property
    def cpus(self) -> frozenset[int]:
        """The CPUs that functions run on."""
        return frozenset(self.function(name).cpu or 0 for name in self.functions)

"""The chain file as one pydantic model: the CLI, the engine's input, the simulator's input and
docs/chain-file.schema.json all come from here.
"""

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from unis.chain import defaults
from unis.chain.machine import capture_problem, find_program, format_cpu_list
from unis.chain.order import Place, line_up
from unis.chain.problem import Problem, problems_error, wrong
from unis.chain.values import (
    Argument,
    ControllerName,
    Cost,
    Ipv4Prefix,
    Lead,
    LinkName,
    Name,
    PolicyName,
    Port,
    Protocol,
    Rate,
    Size,
    protocol_number,
    rate_in,
    surroundings,
)

API_VERSION = "unis/v1"


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        populate_by_name=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )


class SyntheticSource(_Part):
    """Packets made by the platform."""

    kind: Literal["synthetic"]
    size: Size = defaults.DEFAULT_SIZE
    """Bytes of a packet with FCS; `imix`: 64, 594 and 1518 at 7:4:1; `datacenter`: 200 and 1400."""
    flows: int = Field(default=defaults.DEFAULT_FLOWS, ge=1, le=1 << 20)
    """Distinct 5-tuples."""


class PcapSource(_Part):
    """A capture, read into memory and replayed for as long as the chain runs."""

    kind: Literal["pcap"]
    file: str
    """A pcap or pcapng file, relative to the chain file."""

    @field_validator("file")
    @classmethod
    def _readable(cls, value: str, info: ValidationInfo) -> str:
        around = surroundings(info)
        if around and (problem := capture_problem(around.directory / value)):
            raise wrong(problem)
        return value


class PortSource(_Part):
    """Packets that a DPDK port receives."""

    kind: Literal["port"]
    device: str = Field(min_length=1)
    """EAL device string, as `net_pcap0,rx_pcap=FILE`, `net_tap0` or the PCI address of a NIC."""


class MeasureSink(_Part):
    """Counts packets, measures their latency and frees them."""

    kind: Literal["measure"]


class PortSink(_Part):
    """Sends packets out of a DPDK port."""

    kind: Literal["port"]
    device: str = Field(min_length=1)
    """EAL device string."""


class Traffic(_Part):
    """Where packets come from, how fast, and where they go."""

    source: Annotated[SyntheticSource | PcapSource | PortSource, Field(discriminator="kind")] = (
        SyntheticSource(kind="synthetic")
    )
    """kind `synthetic`, `pcap` or `port`."""
    rate: Rate = "max"
    """`max`: as fast as the first rings take packets; else as `2.5Mpps` or `1Gbps`."""
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


class SchedulerPart(_Part):
    """Which NF of a core runs, and for how long."""

    policy: PolicyName = defaults.POLICY
    """`unis` is Algorithm 1 of the paper; the others are what it is compared with."""
    controller: ControllerName = defaults.CONTROLLER
    """How an NF is put to running or waiting."""
    gamma: float = Field(default=defaults.GAMMA, gt=0, le=2)
    """γ: share of the egress that a time slice fills."""
    batch: int = Field(default=defaults.BATCH, ge=16, le=512)
    """Packets a burst."""
    theta_min: int | None = Field(default=None, ge=0)
    """θmin, packets: an NF with no more at its ingress has no meaningful work; batch − 8."""
    theta_max: int | None = Field(default=None, ge=1)
    """θmax, packets: an NF with as many at its egress must not run; γ · capacity."""
    interval_us: float = Field(default=defaults.INTERVAL_US, ge=1, le=1e6)
    """T: how often the scheduler decides, µs."""
    occupancy: bool = True
    """The interface occupancy based optimisation (section 4.4); false: time slices alone."""
    lead_us: Lead = "auto"
    """How early a switch is started, µs; `auto`: as long as a switch takes on this machine."""
    max_wait_us: float = Field(default=defaults.MAX_WAIT_US, ge=0, le=1e6)
    """An NF whose packets, though no more than θmin, waited so long runs; 0: never."""
    rr_timeslice_ms: int | None = Field(default=None, ge=1, le=1000)
    """The kernel's SCHED_RR time slice while the chain runs; absent: as it is."""

    @property
    def theta_min_packets(self) -> int:
        """θmin as used."""
        if self.theta_min is not None:
            return self.theta_min
        return self.batch - defaults.THETA_MIN_BELOW_BATCH


class Match(_Part):
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


class Function(_Part):
    """A network function: any program that forwards packets between DPDK ports."""

    name: Name
    program: str = Field(min_length=1)
    """Looked for beside the chain file, among the built functions, on PATH."""
    args: list[Argument] = []
    """Its arguments, after those for DPDK's EAL; it runs in the directory of the chain file."""
    cpu: int = Field(ge=0)
    """The CPU that it runs on, which it may share with others."""
    cost_ns: Cost | None = None
    """Cost of a packet, ns, or one per packet size; absent: the Cycle Estimator measures."""
    yield_every: int = Field(default=0, ge=0)
    """Makes it yield the CPU every so many bursts under policy cooperative; 0: it never does."""
    after: str | None = None
    """The function before it, or `ingress`; absent: the one before it in this list."""
    link: LinkName = defaults.LINK
    """What carries packets to it."""

    @property
    def mean_cost_ns(self) -> float | None:
        """What the scheduler reckons with; over several sizes, their mean (section 5.1.2)."""
        if isinstance(self.cost_ns, dict):
            return sum(self.cost_ns.values()) / len(self.cost_ns)
        return self.cost_ns

    @field_validator("cpu")
    @classmethod
    def _cpu_is_here(cls, value: int, info: ValidationInfo) -> int:
        around = surroundings(info)
        if around is None or around.machine is None:
            return value
        machine = around.machine
        if len(machine.cpus) == 1:
            raise wrong(
                "this machine has one CPU, and functions need another than the scheduler; "
                "try the chain with `unis simulate`"
            )
        free = machine.cpus - {machine.platform_cpu}
        if value not in machine.cpus:
            raise wrong(
                f"CPU {value} does not exist here ({format_cpu_list(machine.cpus)}); choose from "
                f"{format_cpu_list(free)}, or try the chain with `unis simulate`"
            )
        if value == machine.platform_cpu:
            raise wrong(
                f"CPU {value} is for traffic and the scheduler; choose from {format_cpu_list(free)}"
            )
        return value

    @field_validator("program")
    @classmethod
    def _program_is_here(cls, value: str, info: ValidationInfo) -> str:
        around = surroundings(info)
        if around and around.machine and find_program(value, around.directory) is None:
            raise wrong(
                f"there is no program `{value}` beside the chain file, among the built functions "
                "or on PATH; name one, or run `make build`"
            )
        return value


class Chain(_Part):
    """A service function chain (SFC)."""

    name: Name
    match: list[Match] = []
    """A packet belongs to the first chain with a match for it; absent: every packet."""
    ring: int = Field(default=defaults.RING)
    """Slots of each ring between two functions, a power of two."""
    functions: list[Function] = Field(min_length=1)

    @field_validator("ring")
    @classmethod
    def _power_of_two(cls, value: int) -> int:
        least, most = 2 * defaults.BATCH, 1 << 20
        if value < least or value > most or value & (value - 1):
            lower = max(least, min(most, 1 << max(value.bit_length() - 1, 0)))
            raise wrong(
                f"{value} is no ring size; it is a power of two from {least} to {most}, as {lower}"
            )
        return value

    @model_validator(mode="after")
    def _one_line(self) -> "Chain":
        _, problems = line_up([Place(f.name, f.after) for f in self.functions])
        if problems:
            raise problems_error(problems)
        return self

    @property
    def ordered(self) -> list[Function]:
        """The functions as packets pass them."""
        order, _ = line_up([Place(f.name, f.after) for f in self.functions])
        return [self.functions[index] for index in order]

    @property
    def matches_everything(self) -> bool:
        """Whether no packet is left for chains after this one."""
        return not self.match or any(match.everything for match in self.match)


class ChainFile(_Part):
    """A file that `unis up` runs."""

    api_version: Literal["unis/v1"] = Field(alias="apiVersion")
    """The version of this format."""
    name: Name
    """What `unis ps` and `unis down` call it."""
    traffic: Traffic = Traffic()
    scheduler: SchedulerPart = SchedulerPart()
    chains: list[Chain] = Field(min_length=1)

    @property
    def functions(self) -> list[Function]:
        """Every function, chain by chain, as packets pass them."""
        return [function for chain in self.chains for function in chain.ordered]

    @property
    def cpus(self) -> frozenset[int]:
        """The CPUs that functions run on."""
        return frozenset(function.cpu for function in self.functions)

    @model_validator(mode="after")
    def _consistent(self) -> "ChainFile":
        problems = [*self._same_names(), *self._hidden_chains(), *self._thresholds()]
        if (count := sum(len(chain.functions) for chain in self.chains)) > defaults.MAX_FUNCTIONS:
            problems.append(
                Problem(
                    ("chains",),
                    f"{count} functions are more than the {defaults.MAX_FUNCTIONS} that DPDK has "
                    "ports for; spread them over several chain files",
                )
            )
        if problems:
            raise problems_error(problems)
        return self

    def _same_names(self) -> list[Problem]:
        problems: list[Problem] = []
        chains: set[str] = set()
        functions: set[str] = set()
        for at, chain in enumerate(self.chains):
            if chain.name in chains:
                problems.append(
                    Problem(("chains", at, "name"), f"a chain before it is called `{chain.name}`")
                )
            chains.add(chain.name)
            for place, function in enumerate(chain.functions):
                if function.name in functions:
                    problems.append(
                        Problem(
                            ("chains", at, "functions", place, "name"),
                            f"a function of a chain before it is called `{function.name}`; give "
                            "each its own name",
                        )
                    )
            functions.update(function.name for function in chain.functions)
        return problems

    def _hidden_chains(self) -> list[Problem]:
        for at, chain in enumerate(self.chains[:-1]):
            if chain.matches_everything:
                return [
                    Problem(
                        ("chains", at + 1),
                        f"never gets a packet, for `{chain.name}` before it takes every one; give "
                        f"`{chain.name}` a narrower match, or put it last",
                    )
                ]
        return []

    def _thresholds(self) -> list[Problem]:
        low, high = self.scheduler.theta_min_packets, self.scheduler.theta_max
        smallest = min(chain.ring for chain in self.chains)
        if low >= smallest:
            key = "theta_min" if self.scheduler.theta_min is not None else "batch"
            return [
                Problem(
                    ("scheduler", key),
                    f"θmin is {low} packets and the smallest ring {smallest}: no function would "
                    "ever have work; lower it",
                )
            ]
        if high is not None and high <= low:
            return [
                Problem(
                    ("scheduler", "theta_max"),
                    f"θmax ({high}) must be above θmin ({low}), or no function ever runs",
                )
            ]
        return []

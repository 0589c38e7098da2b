"""MACHINE.yaml: what the model must know of a machine. Each number has its source."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from unis.capacity.parameter import Parameter, assumed
from unis.chain.problem import wrong
from unis.chain.values import LinkName, Name, Part

API_VERSION = "unis/machine/v1"
NS_PER_S = 1e9
# Bit/s of a lane each way, after 8b/10b or 128b/130b, by generation.
LANE_RATES: Mapping[int, float] = MappingProxyType(
    {1: 2.0e9, 2: 4.0e9, 3: 8e9 * 128 / 130, 4: 16e9 * 128 / 130, 5: 32e9 * 128 / 130}
)


def _in(*units: str, least: float = 0.0) -> AfterValidator:
    """A parameter in one of these units, and at least so large."""

    def check(parameter: Parameter) -> Parameter:
        if parameter.unit not in units:
            raise wrong(f"has the unit `{parameter.unit}`; must be {' or '.join(units)}")
        if parameter.value < least or (least and not parameter.value):
            raise wrong(f"is {parameter.value:g} {parameter.unit}; must be at least {least:g}")
        return parameter

    return AfterValidator(check)


def _generation(parameter: Parameter) -> Parameter:
    if parameter.value not in LANE_RATES:
        raise wrong(f"is generation {parameter.value:g}; must be {', '.join(map(str, LANE_RATES))}")
    return parameter


def _share(parameter: Parameter) -> Parameter:
    if parameter.value >= 1:
        raise wrong(f"is {parameter.value:g}; must be a share below 1")
    return parameter


Time = Annotated[Parameter, _in("cycles", "ns")]  # a packet, or whatever it is of
Bytes = Annotated[Parameter, _in("bytes")]
FullBytes = Annotated[Parameter, _in("bytes", least=1)]
BitRate = Annotated[Parameter, _in("bit/s", least=1)]
Operations = Annotated[Parameter, _in("operations")]


class Cpus(Part):
    """The CPUs, all alike."""

    count: Annotated[Parameter, _in("CPUs", least=1)]
    frequency: Annotated[Parameter, _in("Hz", least=1)]
    lost: Annotated[Parameter, _in("share"), AfterValidator(_share)] | None = None
    """Share of a CPU's time that neither functions nor the platform get: ticks, kernel threads,
    the host of a virtual machine."""


class Pcie(Part):
    """The connection of a NIC, and how it transfers packets."""

    generation: Annotated[Parameter, _in("generation"), AfterValidator(_generation)]
    lanes: Annotated[Parameter, _in("lanes", least=1)]
    bandwidth: BitRate | None = None
    """Each way. Default: by generation and lanes."""
    descriptor: Bytes = assumed(16, "bytes", "of a descriptor of Intel's 10 Gbit/s NICs")
    """δ: what is transferred beside a packet."""
    cache_line: FullBytes = assumed(64, "bytes", "usual")
    """Packets are transferred in whole lines, in the modes `padded` and `tlp`."""
    header: Bytes = assumed(20, "bytes", "3 DW, and 8 bytes of framing, sequence number and LCRC")
    """Of a TLP, in the mode `tlp`."""
    payload: FullBytes = assumed(256, "bytes", "usual maximum payload size")
    """Of a TLP at most, in the mode `tlp`."""
    request: FullBytes = assumed(512, "bytes", "usual maximum read request size")
    """What one read request asks for at most, in the mode `tlp`."""
    batch: Annotated[Parameter, _in("descriptors", least=1)] = assumed(
        4, "descriptors", "at least four, says the paper"
    )
    """Descriptors that one TLP carries, in the mode `tlp`."""

    @property
    def bit_rate(self) -> Parameter:
        """Each way."""
        if self.bandwidth is not None:
            return self.bandwidth
        generation, lanes = int(self.generation.value), self.lanes.value
        told = f"PCIe {generation} x{lanes:g}, without headers"
        rate = LANE_RATES[generation] * lanes
        return Parameter(value=rate, unit="bit/s", source="derived", note=told)

    def of_generation(self, generation: int) -> "Pcie":
        """As a question would have it."""
        told = f"asked for: PCIe {generation}"
        faster = self.generation.with_value(generation, told)
        return self.model_copy(update={"generation": faster, "bandwidth": None})


class Nic(Part):
    """A NIC."""

    ports: Annotated[Parameter, _in("ports", least=1)]
    line_rate: BitRate
    """Of a port, each way."""
    gap: Bytes = Parameter(
        value=20, unit="bytes", source="published", note="Ethernet: preamble 8, gap 12"
    )
    """What a frame takes of the line beside its bytes."""
    pcie: Pcie
    driver: Name
    """One of `drivers`: that of the whole NIC, with software links."""
    vf_driver: Name | None = None
    """That of virtual functions, with links of kind sriov. Default: as `driver`."""
    operations: Annotated[Parameter, _in("operations/s", least=1)] | None = None
    """What its packet engine does a second; null: unknown, and then no limit."""
    receive: Operations = assumed(0, "operations", "unpublished; only switching is counted")
    """Of a packet that comes in by a port."""
    switch: Operations = assumed(1, "operations", "a decision of the NIC's switch is the unit")
    """Of a packet that the NIC switches."""
    send: Operations = assumed(0, "operations", "unpublished; only switching is counted")
    """Of a packet that leaves by a port."""
    virtual_functions: Annotated[Parameter, _in("VFs", least=1)] | None = None
    """Of a port; null: not a limit."""


class PortCost(Part):
    """What sending and receiving costs the CPU that does it."""

    receive: Time
    """A packet."""
    send: Time
    per_byte: Time | None = None
    """Of a packet, at each end."""
    per_burst: Time | None = None
    """Of a call that moves several packets, at each end."""


class LinkCost(PortCost):
    """The same of a software link, beside what a function costs on rings."""

    carry: Time | None = None
    """A packet, on the CPU that carries packets from end to end: that of Open vSwitch."""
    carry_per_byte: Time | None = None
    copies: Annotated[Parameter, _in("copies")] | None = None
    """How often the link copies a packet, for the memory's bandwidth."""


class PlatformCosts(Part):
    """What UNiS's own parts cost. Their CPU is not that of functions."""

    source: Time
    """A generated packet."""
    sink: Time
    """A counted packet."""
    bridge: Time
    """A packet that the engine carries from a link to another."""
    decision: Time
    """A turn of a function: the scheduler's share of it."""


class MemoryPart(Part):
    """The memory."""

    bandwidth: Annotated[Parameter, _in("bytes/s", least=1)]


class MachineFile(Part):
    """A file for `unis model --machine`."""

    api_version: Literal["unis/machine/v1"] = Field(alias="apiVersion")
    """Version of this format."""
    name: Name
    description: str = ""
    """What it is, and where its numbers come from."""
    cpus: Cpus
    nics: dict[Name, Nic] = Field(default={})
    """NICs by name. The chains use the first one; without any, packets come from UNiS's source."""
    memory: MemoryPart | None = None
    """null: not a limit."""
    drivers: dict[Name, PortCost] = Field(default={})
    """Drivers of NICs and of virtual functions by name."""
    links: dict[LinkName, LinkCost] = Field(default={})
    """Software links by kind."""
    platform: PlatformCosts | None = None
    switch: Annotated[Parameter, _in("cycles", "ns")] = assumed(0, "ns", "nobody measured it")
    """From one function of a CPU to the next, once a turn."""
    crossing: Time | None = None
    """What a packet costs beside that a function which receives it from another CPU by a software
    link: its cache lines are there."""
    crossing_per_byte: Time | None = None
    """Of that packet."""
    wake: Time | None = None
    """Waking a CPU's functions, which slept for lack of packets. null: they poll."""
    functions: dict[Name, Time] = Field(default={})
    """Costs of functions here, a packet: by name of the function or of its program."""

    @property
    def hz(self) -> float:
        """Cycles a second."""
        return self.cpus.frequency.value

    def cycles(self, cost: Parameter | None) -> float:
        """A cost in cycles."""
        if cost is None:
            return 0.0
        return cost.value if cost.unit == "cycles" else cost.value * self.hz / NS_PER_S

    def driver(self, name: str) -> PortCost:
        """KeyError if there is none; `problems` tells it beforehand."""
        return self.drivers[name]

    def problems(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """What does not fit together: where, and a sentence."""
        for name, nic in self.nics.items():
            for key, driver in (("driver", nic.driver), ("vf_driver", nic.vf_driver)):
                if driver is not None and driver not in self.drivers:
                    known = ", ".join(self.drivers) or "none is"
                    told = f"`{driver}` is not in drivers: {known}"
                    yield ("nics", name, key), told

    def parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Every number, by where it stands in the file."""
        yield from _parameters(self, "")


def _parameters(part: object, where: str) -> Iterator[tuple[str, Parameter]]:
    if isinstance(part, Parameter):
        yield where, part
    elif isinstance(part, Part):
        for key in type(part).model_fields:
            yield from _parameters(getattr(part, key), f"{where}.{key}" if where else key)
    elif isinstance(part, Mapping):
        for key, value in part.items():
            yield from _parameters(value, f"{where}.{key}")

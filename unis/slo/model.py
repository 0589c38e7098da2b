"""The workload file: servers, profiles and promises. Pure; with lines in its errors (`load`)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError

from unis.chain.defaults import MAX_SIZE, MIN_SIZE
from unis.chain.document import read_document
from unis.chain.explain import explained
from unis.chain.model import NS_PER_US
from unis.chain.problem import ChainFileError, Location, Problem, wrong
from unis.chain.values import Duration, Part, in_ns
from unis.slo.profile import (
    MOST_MEMORY,
    ImpossibleProfileError,
    PacketForm,
    PcieReading,
    Profile,
    Server,
    Slo,
    Workload,
)
from unis.slo.resq_profiles import PROFILES
from unis.slo.splits import unknown_memory

API_VERSION = "unis/slo/v1"
_THROUGHPUT = re.compile(r"(\d+(?:\.\d+)?)\s*(%|[kM]?pps)")
_MPPS = {"pps": 1e-6, "kpps": 1e-3, "Mpps": 1.0}


def _throughput(text: str) -> str:
    match = _THROUGHPUT.fullmatch(text.strip())
    if match is None or float(match[1]) == 0:
        raise wrong(f'is `{text}`; write "90 %" of what the function passes alone, or "2.5 Mpps"')
    return text


class LeasePart(Part):
    """What a server sets aside for promises on demand."""

    cores: Annotated[int, Field(ge=1, le=1024)]
    ways: Annotated[int, Field(ge=1, le=32)]


class ServerPart(Part):
    """Servers of one kind."""

    count: Annotated[int, Field(ge=1, le=100_000)]
    sockets: Annotated[int, Field(ge=1, le=16)] = 1  # what follows is of each of them
    cores: Annotated[int, Field(ge=1, le=1024)]  # for functions
    ways: Annotated[int, Field(ge=1, le=32)]  # of the last-level cache, for functions
    classes: Annotated[int, Field(ge=2, le=1024)] = 16  # of service; one is everybody else's
    on_demand: Annotated[LeasePart | None, Field(alias="on-demand")] = None
    memory_gbps: Annotated[float, Field(gt=0)] | None = None
    # Machine file of `unis model`, beside this one: what the NIC of each socket bears.
    machine: str | None = None

    @property
    def lease(self) -> tuple[int, int]:
        """Cores and ways that are set aside."""
        return (self.on_demand.cores, self.on_demand.ways) if self.on_demand else (0, 0)

    def server(self, name: str) -> Server:
        """As the planner has it."""
        return Server(name, **self.model_dump(exclude={"on_demand"}))


class ProfilePart(Part):
    """What a function passes alone, of that by ways, its latency by load, and what it takes.

    Of one that is known by name, what is other than known.
    """

    solo_mpps: Annotated[float, Field(gt=0)] | None = None
    percent_by_ways: (
        Annotated[list[Annotated[float, Field(gt=0, le=100)]], Field(min_length=1)] | None
    ) = None
    p95_us_by_percent_of_load: Annotated[dict[float, float], Field(min_length=1)] | None = None
    cores: Annotated[int, Field(ge=1, le=1024)] | None = None
    # Moved from and to memory at the full rate that it has with so many ways.
    gbps_by_ways: Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=1)] | None = None
    # What it passes of what it passes alone, by the part of the memory's bandwidth in use.
    percent_by_memory: Annotated[dict[float, float], Field(min_length=1)] | None = None
    source: str | None = None

    def profile(self, name: str) -> Profile:
        """With what is known of that name for what is not stated. ImpossibleProfileError."""
        stated = {
            "solo_mpps": self.solo_mpps,
            "share_by_ways": tuple(percent / 100 for percent in self.percent_by_ways or ()),
            "p95_us_by_load": tuple(
                (load / 100, us) for load, us in (self.p95_us_by_percent_of_load or {}).items()
            ),
            "cores": self.cores,
            "gbps_by_ways": tuple(self.gbps_by_ways or ()),
            "share_by_memory": tuple(
                (used / 100, percent / 100)
                for used, percent in (self.percent_by_memory or {}).items()
            ),
            "source": self.source,
        }
        known = PROFILES.get(name, Profile(name, 1.0, (1.0,), ((1.0, 1.0),)))
        return replace(known, **{key: value for key, value in stated.items() if value})  # type: ignore[arg-type]


class SloPart(Part):
    """A reserved promise."""

    function: str
    throughput: Annotated[str, AfterValidator(_throughput)]
    p95_latency: Duration
    count: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    # Of packets, bytes with FCS: what they take of a NIC. Default: the heaviest load.
    packet_bytes: Annotated[int, Field(ge=MIN_SIZE, le=MAX_SIZE)] = MIN_SIZE
    # Functions of its chain that have virtual functions of the NIC. Default: links in software.
    sriov_functions: Annotated[int, Field(ge=1, le=64)] | None = None

    def slo(self, name: str, profile: Profile) -> Slo:
        """As the planner has it."""
        match = _THROUGHPUT.fullmatch(self.throughput.strip())
        number, unit = match.groups() if match else ("0", "pps")
        mpps = float(number) * (_MPPS[unit] if unit != "%" else profile.solo_mpps / 100)
        packet = PacketForm(self.packet_bytes, self.sriov_functions or 0)
        return Slo(name, profile, mpps, in_ns(self.p95_latency) / NS_PER_US, self.count, packet)


# As groups of resctrl can be called.
_Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,57}$")]


class WorkloadFile(Part):
    """All of it."""

    apiVersion: Literal["unis/slo/v1"]  # noqa: N815  as in other files of this kind
    name: Annotated[str, Field(min_length=1)]
    servers: Annotated[dict[str, ServerPart], Field(min_length=1)]
    functions: dict[str, ProfilePart] = Field(default={})
    slos: dict[_Name, SloPart] = Field(default={})
    # Points of load that isolation leaves uncertain (ResQ, appendix A).
    margin_percent: Annotated[float, Field(ge=0, lt=100)] = 3.0
    # Of the memory's bandwidth of a socket: all that functions use. Where servers have memory_gbps
    # it is looked at, and this is 90, where access begins to get slow faster (ResQ, Fig. 3).
    memory_percent: Annotated[float, Field(gt=0, le=100 * MOST_MEMORY)] | None = None
    # How the load of the PCIe bus is reckoned, where servers have `machine` (docs/model.md).
    pcie: PcieReading = "paper"

    @property
    def memory(self) -> float | None:
        """The part of the memory's bandwidth for functions; None: memory is not looked at."""
        if self.memory_percent is not None:
            return self.memory_percent / 100
        known = any(part.memory_gbps is not None for part in self.servers.values())
        return MOST_MEMORY if known else None


@dataclass(frozen=True)
class ClusterFile:
    """Servers with what they set aside for promises on demand, and the profiles that are known."""

    workload: Workload  # its promises are not given yet
    profiles: Mapping[str, Profile]
    leases: Mapping[str, tuple[int, int]]  # cores and ways of each server of a kind


def load(path: Path) -> Workload:
    """Reads and checks. Raises ChainFileError: a line `file:line: key: sentence` a problem."""
    return _read(path, slos=True).workload


def load_cluster(path: Path) -> ClusterFile:
    """The same where promises are yet to come; some may be in it, to be given first."""
    return _read(path, slos=False)


def _read(path: Path, *, slos: bool) -> ClusterFile:
    document = read_document(path)
    if not isinstance(document.data, dict):
        begin = f"invalid workload file: expected `apiVersion: {API_VERSION}` in the first line"
        raise ChainFileError([document.located(Problem((), begin))])
    found: list[Problem] = []
    cluster = None
    try:
        file = WorkloadFile.model_validate(document.data)
        if slos and not file.slos:
            found.append(Problem(("slos",), "is missing; say what is promised"))
        cluster = _cluster(file, found)
    except ValidationError as error:
        found = list(explained(error, document, WorkloadFile))
    if cluster is None or found or document.problems:
        located = [*document.problems, *map(document.located, found)]
        raise ChainFileError(sorted(located, key=lambda problem: problem.line))
    return cluster


def _cluster(file: WorkloadFile, found: list[Problem]) -> ClusterFile | None:
    for name, part in file.servers.items():
        _check_server(file, name, part, found)
    profiles: dict[str, Profile | None] = {**PROFILES}  # None: what is stated is none
    for name, stated in file.functions.items():
        profiles[name] = _profile(name, stated, found)
    slos: list[Slo] = []
    for name, slo in file.slos.items():
        where: Location = ("slos", name, "function")
        profile = profiles.get(slo.function)
        if slo.function not in profiles:
            known = ", ".join(sorted(profiles))
            found.append(Problem(where, f"`{slo.function}` is not known: {known}"))
        if profile is None:
            continue
        if file.memory is not None and (no := unknown_memory(profile, file.memory)):
            told = f"`{slo.function}` {no}; state it in functions.{slo.function}"
            found.append(Problem(where, told))
        slos.append(slo.slo(name, profile))
    if found:
        return None
    servers = tuple(part.server(name) for name, part in file.servers.items())
    margin = file.margin_percent / 100
    workload = Workload(file.name, tuple(slos), servers, margin, file.memory, file.pcie)
    leases = {name: part.lease for name, part in file.servers.items() if part.on_demand}
    return ClusterFile(
        workload, {name: profile for name, profile in profiles.items() if profile}, leases
    )


def _check_server(file: WorkloadFile, name: str, part: ServerPart, found: list[Problem]) -> None:
    cores, ways = part.lease
    if cores >= part.server(name).places or ways >= part.ways:
        told = "leaves no core, way or class for reserved promises"
        found.append(Problem(("servers", name, "on-demand"), told))
    if file.memory is not None and part.memory_gbps is None:
        why = "for memory_percent" if file.memory_percent is not None else "for others here have it"
        told = f"has no memory_gbps: the bandwidth of one socket's memory, {why}"
        found.append(Problem(("servers", name), told))
    if part.machine is None and any(other.machine for other in file.servers.values()):
        told = "has no machine: the file that says what its NIC bears, for others here have one"
        found.append(Problem(("servers", name), told))


def _profile(name: str, part: ProfilePart, found: list[Problem]) -> Profile | None:
    needed = () if name in PROFILES else _NEEDED
    missing = [key for key in needed if getattr(part, key) is None]
    found += [Problem(("functions", name, key), "is missing; add it") for key in missing]
    try:
        return None if missing else part.profile(name)
    except ImpossibleProfileError as error:
        found.append(Problem(("functions", name), f"invalid profile: {error}"))
        return None


_NEEDED = ("solo_mpps", "percent_by_ways", "p95_us_by_percent_of_load")

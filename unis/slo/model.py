"""The workload file: servers, profiles and promises. Pure; with lines in its errors (`load`)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unis.chain.document import read_document
from unis.chain.explain import explained
from unis.chain.problem import ChainFileError, Location, Problem
from unis.slo.library import PROFILES
from unis.slo.profile import ImpossibleProfileError, Profile, Server, Slo, Workload

API_VERSION = "unis/slo/v1"
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_MPPS = re.compile(r"(\d+(?:\.\d+)?)\s*([kM])?pps")
_WRITE_THROUGHPUT = 'write "90 %" of what the function passes alone, or "2.5 Mpps"'
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(us|µs|ms)")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class LeasePart(_Part):
    """What a server sets aside for promises on demand."""

    cores: Annotated[int, Field(ge=1, le=1024)]
    ways: Annotated[int, Field(ge=1, le=32)]


class ServerPart(_Part):
    """Servers of one kind."""

    count: Annotated[int, Field(ge=1, le=100_000)]
    cores: Annotated[int, Field(ge=1, le=1024)]  # for functions
    ways: Annotated[int, Field(ge=1, le=32)]  # of the last-level cache, for functions
    classes: Annotated[int, Field(ge=2, le=1024)] = 16  # of service; one is everybody else's
    on_demand: Annotated[LeasePart | None, Field(alias="on-demand")] = None


class ProfilePart(_Part):
    """What a function passes alone, of that by ways, and its latency by load."""

    solo_mpps: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    percent_by_ways: Annotated[list[Annotated[float, Field(gt=0, le=100)]], Field(min_length=1)]
    p95_us_by_percent_of_load: Annotated[dict[float, float], Field(min_length=1)]
    source: str = ""


class SloPart(_Part):
    """A reserved promise."""

    function: str
    throughput: str  # "90 %" of what it passes alone, or "2.5 Mpps"
    p95_latency: str  # "100 us"
    count: Annotated[int, Field(ge=1, le=1_000_000)] = 1


class WorkloadFile(_Part):
    """All of it."""

    apiVersion: Literal["unis/slo/v1"]  # noqa: N815  as in other files of this kind
    name: Annotated[str, Field(min_length=1)]
    servers: Annotated[dict[str, ServerPart], Field(min_length=1)]
    functions: dict[str, ProfilePart] = {}
    slos: dict[str, SloPart] = {}
    # Points of load that isolation leaves uncertain (ResQ, appendix A).
    margin_percent: Annotated[float, Field(ge=0, lt=100)] = 3.0


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
        begin = f"is no workload: begin with apiVersion: {API_VERSION}"
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
        raise ChainFileError(sorted(located, key=lambda one: one.line))
    return cluster


def _cluster(file: WorkloadFile, found: list[Problem]) -> ClusterFile:
    profiles = dict(PROFILES)
    for name, part in file.functions.items():
        try:
            profiles[name] = _profile(name, part)
        except ImpossibleProfileError as error:
            found.append(Problem(("functions", name), f"is no profile: {error}"))
            profiles[name] = PROFILES["firewall"]  # so that what names it is looked at too
    slos: list[Slo] = []
    for name, of in file.slos.items():
        where = ("slos", name)
        if of.function not in profiles:
            known = ", ".join(sorted(profiles))
            found.append(Problem((*where, "function"), f"`{of.function}` is not known: {known}"))
            continue
        profile = profiles[of.function]
        mpps, latency = _mpps(of.throughput, profile), _microseconds(of.p95_latency)
        if not mpps:
            told = f"is `{of.throughput}`; {_WRITE_THROUGHPUT}"
            found.append(Problem((*where, "throughput"), told))
        if not latency:
            found.append(Problem((*where, "p95_latency"), f'is `{of.p95_latency}`; write "100 us"'))
        if mpps and latency:
            slos.append(Slo(name, profile, mpps, latency, of.count))
    servers = tuple(
        Server(name, part.count, part.cores, part.ways, part.classes)
        for name, part in file.servers.items()
    )
    leases = {
        name: (part.on_demand.cores, part.on_demand.ways)
        for name, part in file.servers.items()
        if part.on_demand
    }
    for server in servers:
        cores, ways = leases.get(server.name, (0, 0))
        if cores >= server.places or ways >= server.ways:
            left: Location = ("servers", server.name, "on-demand")
            found.append(Problem(left, "leaves no core, way or class for reserved promises"))
    margin = file.margin_percent / 100
    return ClusterFile(Workload(file.name, tuple(slos), servers, margin), profiles, leases)


def _profile(name: str, part: ProfilePart) -> Profile:
    return Profile(
        name,
        part.solo_mpps,
        tuple(percent / 100 for percent in part.percent_by_ways),
        tuple((load / 100, us) for load, us in part.p95_us_by_percent_of_load.items()),
        part.source,
    )


def _mpps(text: str, profile: Profile) -> float | None:
    if percent := _PERCENT.fullmatch(text.strip()):
        return float(percent[1]) / 100 * profile.solo_mpps or None
    if rate := _MPPS.fullmatch(text.strip()):
        return float(rate[1]) * {None: 1e-6, "k": 1e-3, "M": 1.0}[rate[2]] or None
    return None


def _microseconds(text: str) -> float | None:
    if time := _TIME.fullmatch(text.strip()):
        return float(time[1]) * (1000 if time[2] == "ms" else 1) or None
    return None

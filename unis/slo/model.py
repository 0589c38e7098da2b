"""The workload file: servers, profiles and promises. Pure; with lines in its errors (`load`)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unis.chain.document import read_document
from unis.chain.explain import explained
from unis.chain.problem import ChainFileError, Location, Problem
from unis.slo.library import PROFILES
from unis.slo.profile import (
    MOST_MEMORY,
    ImpossibleProfileError,
    Profile,
    Server,
    Slo,
    Workload,
)
from unis.slo.splits import unknown_memory

API_VERSION = "unis/slo/v1"
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_MPPS = re.compile(r"(\d+(?:\.\d+)?)\s*([kM])?pps")
_WRITE_THROUGHPUT = 'write "90 %" of what the function passes alone, or "2.5 Mpps"'
_Points = tuple[tuple[float, float], ...]
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
    sockets: Annotated[int, Field(ge=1, le=16)] = 1  # what follows is of each of them
    cores: Annotated[int, Field(ge=1, le=1024)]  # for functions
    ways: Annotated[int, Field(ge=1, le=32)]  # of the last-level cache, for functions
    classes: Annotated[int, Field(ge=2, le=1024)] = 16  # of service; one is everybody else's
    on_demand: Annotated[LeasePart | None, Field(alias="on-demand")] = None
    memory_gbps: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class ProfilePart(_Part):
    """What a function passes alone, of that by ways, its latency by load, and what it takes.

    Of one that is known by name, what is other than known.
    """

    solo_mpps: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
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


class SloPart(_Part):
    """A reserved promise."""

    function: str
    throughput: str  # "90 %" of what it passes alone, or "2.5 Mpps"
    p95_latency: str  # "100 us"
    count: Annotated[int, Field(ge=1, le=1_000_000)] = 1


# As groups of resctrl can be called.
_Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,57}$")]


class WorkloadFile(_Part):
    """All of it."""

    apiVersion: Literal["unis/slo/v1"]  # noqa: N815  as in other files of this kind
    name: Annotated[str, Field(min_length=1)]
    servers: Annotated[dict[str, ServerPart], Field(min_length=1)]
    functions: dict[str, ProfilePart] = {}
    slos: dict[_Name, SloPart] = {}
    # Points of load that isolation leaves uncertain (ResQ, appendix A).
    margin_percent: Annotated[float, Field(ge=0, lt=100)] = 3.0
    # Of the memory's bandwidth of a socket: all that functions use. Where servers have memory_gbps
    # it is looked at, and this is 90, where access begins to get slow faster (ResQ, Fig. 3).
    memory_percent: Annotated[float, Field(gt=0, le=100 * MOST_MEMORY)] | None = None


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


def _cluster(file: WorkloadFile, found: list[Problem]) -> ClusterFile | None:
    memory = _memory(file, found)
    profiles = _profiles(file, found)
    slos = [
        slo
        for name, of in file.slos.items()
        if (slo := _slo(name, of, profiles, memory, found)) is not None
    ]
    servers = tuple(
        Server(
            name, part.count, part.cores, part.ways, part.classes, part.sockets, part.memory_gbps
        )
        for name, part in file.servers.items()
    )
    leases = _leases(file, servers, found)
    if found:
        return None
    margin = file.margin_percent / 100
    workload = Workload(file.name, tuple(slos), servers, margin, memory)
    return ClusterFile(workload, profiles, leases)


def _leases(
    file: WorkloadFile, servers: Sequence[Server], found: list[Problem]
) -> dict[str, tuple[int, int]]:
    leases = {
        name: (part.on_demand.cores, part.on_demand.ways)
        for name, part in file.servers.items()
        if part.on_demand
    }
    for server in servers:
        cores, ways = leases.get(server.name, (0, 0))
        if cores >= server.places or ways >= server.ways:
            where: Location = ("servers", server.name, "on-demand")
            found.append(Problem(where, "leaves no core, way or class for reserved promises"))
    return leases


def _profiles(file: WorkloadFile, found: list[Problem]) -> dict[str, Profile]:
    profiles = dict(PROFILES)
    for name, part in file.functions.items():
        profiles[name] = _WRONG  # so that what names it is looked at too
        try:
            profiles[name] = _profile(name, part)
        except ImpossibleProfileError as error:
            found.append(Problem(("functions", name), f"is no profile: {error}"))
        except _MissingError as error:
            found += [Problem(("functions", name, key), "is missing; add it") for key in error.keys]
    return profiles


def _slo(
    name: str,
    of: SloPart,
    profiles: dict[str, Profile],
    memory: float | None,
    found: list[Problem],
) -> Slo | None:
    where = ("slos", name)
    if of.function not in profiles:
        known = ", ".join(sorted(profiles))
        found.append(Problem((*where, "function"), f"`{of.function}` is not known: {known}"))
        return None
    profile = profiles[of.function]
    mpps, latency = _mpps(of.throughput, profile), _microseconds(of.p95_latency)
    if not mpps:
        told = f"is `{of.throughput}`; {_WRITE_THROUGHPUT}"
        found.append(Problem((*where, "throughput"), told))
    if not latency:
        found.append(Problem((*where, "p95_latency"), f'is `{of.p95_latency}`; write "100 us"'))
    if memory is not None and profile is not _WRONG and (no := unknown_memory(profile, memory)):
        told = f"`{of.function}` {no}; state it in functions.{of.function}"
        found.append(Problem((*where, "function"), told))
    return Slo(name, profile, mpps, latency, of.count) if mpps and latency else None


def _memory(file: WorkloadFile, found: list[Problem]) -> float | None:
    """The part of the memory's bandwidth that is for functions; None: memory is not looked at."""
    without = [name for name, part in file.servers.items() if part.memory_gbps is None]
    if file.memory_percent is None and len(without) == len(file.servers):
        return None
    for name in without:
        told = "has no memory_gbps: the bandwidth of one socket's memory, for others here have it"
        if file.memory_percent is not None:
            told = "has no memory_gbps: the bandwidth of one socket's memory, for memory_percent"
        found.append(Problem(("servers", name), told))
    return MOST_MEMORY if file.memory_percent is None else file.memory_percent / 100


class _MissingError(ValueError):
    def __init__(self, keys: list[str]) -> None:
        super().__init__(", ".join(keys))
        self.keys = keys


_WRONG = replace(PROFILES["firewall"], name="")  # stands for what is no profile
_NEEDED = ("solo_mpps", "percent_by_ways", "p95_us_by_percent_of_load")


def _profile(name: str, part: ProfilePart) -> Profile:
    """Of the file, and for what it does not say the one that is known by that name."""
    known = PROFILES.get(name)
    missing = [key for key in _NEEDED if getattr(part, key) is None]
    if known is None and missing:
        raise _MissingError(missing)
    stated: dict[str, Any] = {
        "solo_mpps": part.solo_mpps,
        "by_ways": _parts(part.percent_by_ways),
        "latency_us": _points(part.p95_us_by_percent_of_load, 1.0),
        "cores": part.cores,
        "gbps_by_ways": tuple(part.gbps_by_ways) if part.gbps_by_ways else None,
        "by_memory": _points(part.percent_by_memory, 0.01),
        "source": part.source,
    }
    stated = {key: value for key, value in stated.items() if value is not None}
    if known is not None:
        return replace(known, **stated)
    return Profile(name=name, **stated)


def _parts(percents: list[float] | None) -> tuple[float, ...] | None:
    return None if percents is None else tuple(percent / 100 for percent in percents)


def _points(
    points: dict[float, float] | None, unit: float
) -> tuple[tuple[float, float], ...] | None:
    """Of a curve by percents, whose values are of such a unit."""
    if points is None:
        return None
    return tuple((percent / 100, value * unit) for percent, value in points.items())


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

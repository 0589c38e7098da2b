"""A cluster that is asked for promises: reserved ones by the planner, on demand by what is leased.

Each server leases some cores and ways to its agent for promises on demand (ResQ, section 5.3), of
which a function takes a core; how they share the ways the agent says, which sees what they need.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from unis.chain.document import Document, read_document
from unis.chain.load import LoadedChain
from unis.chain.load import load as load_chain
from unis.chain.model import NS_PER_US, Chain
from unis.chain.problem import ChainFileError, Problem
from unis.slo.model import API_VERSION, ClusterFile, load
from unis.slo.online import Admitted, MachineKey, Online
from unis.slo.placement import Placement, Refusal
from unis.slo.profile import Profile, Server, Slo
from unis.slo.verify import problems

MORE = ".."  # between the name of a promise and the number of its second, third, … instance
_PER_MPPS = 1e6


@dataclass(frozen=True)
class OnDemandPromise:
    """A promise of latency alone, and the server that has a core for it."""

    name: str
    function: str
    p95_us: float
    server: str
    number: int


@dataclass
class Cluster:
    """All that is promised, and where."""

    profiles: Mapping[str, Profile]
    servers: tuple[Server, ...]  # as a whole
    leases: Mapping[str, tuple[int, int]]  # cores and ways on demand
    online: Online
    on_demand: dict[str, OnDemandPromise] = field(default_factory=dict)
    reconciled: dict[str, float] = field(default_factory=dict)  # as in the book

    def reserve(self, slo: Slo) -> Admitted | Refusal:
        """A promise of throughput within a latency."""
        if slo.name in self.on_demand:
            return Refusal(slo.name, f"{slo.name}: is promised on demand already; release it first")
        return self.online.admit(slo)

    def demand(self, name: str, function: str, p95_us: float) -> OnDemandPromise | Refusal:
        """A promise of latency, on the first server with a leased core that is free."""
        if name in self.on_demand or any(slo.name == name for slo in self.online.slos):
            return Refusal(name, f"{name}: is promised already; release it first")
        profile = self.profiles.get(function)
        least = profile.p95_us_by_load[0][1] if profile else 0.0
        if p95_us < least:
            return Refusal(
                name,
                f"{name}: {function} alone needs {least:g} µs, which is the nearest that can be "
                f"kept to {p95_us:g} µs",
            )
        machine = self._free_core()
        if machine is None:
            return Refusal(name, f"{name}: no server has a core left that is leased on demand")
        self.on_demand[name] = OnDemandPromise(name, function, p95_us, *machine)
        return self.on_demand[name]

    def another(self, name: str) -> OnDemandPromise | Refusal:
        """One more instance of a promise on demand, `NAME..2` and so on, on another server."""
        first = self.on_demand.get(name.partition(MORE)[0])
        if first is None:
            return Refusal(name, f"{name}: is not promised on demand")
        mine = [
            promise
            for promise in self.on_demand.values()
            if promise.name.partition(MORE)[0] == first.name
        ]
        machine = self._free_core({(promise.server, promise.number) for promise in mine})
        if machine is None:
            return Refusal(
                name, f"{name}: no server without an instance of it has a leased core left"
            )
        names = (f"{first.name}{MORE}{number}" for number in count(2))
        called = next(free for free in names if free not in self.on_demand)
        self.on_demand[called] = OnDemandPromise(called, first.function, first.p95_us, *machine)
        return self.on_demand[called]

    def _free_core(self, but: Collection[MachineKey] = ()) -> MachineKey | None:
        """The first server with a leased core that nobody has."""
        taken = Counter((promise.server, promise.number) for promise in self.on_demand.values())
        for server in self.servers:
            cores, _ = self.leases.get(server.name, (0, 0))
            for number in range(server.count):
                machine = (server.name, number)
                if taken[machine] < cores and machine not in but:
                    return machine
        return None

    def problems(self) -> Iterator[str]:
        """What is not kept by where it is: a profile has changed, say."""
        placement = Placement([*self.online.machines.values()])
        yield from problems(self.online.workload, placement)


def cluster_of(file: ClusterFile) -> Cluster:
    """An empty one."""
    reserved = []
    for server in file.workload.servers:
        cores, ways = file.leases.get(server.name, (0, 0))
        # Each function on demand may come to need a class of its own.
        classes = server.classes - cores
        left = replace(server, cores=server.cores - cores, ways=server.ways - ways, classes=classes)
        reserved.append(left)
    online = Online(reserved, file.workload.margin)
    return Cluster(file.profiles, file.workload.servers, file.leases, online)


# ---------------------------------------------------------------------- what a file asks for


@dataclass(frozen=True)
class LatencyRequest:
    """A promise of latency alone."""

    name: str
    function: str
    p95_us: float


def requests(file: Path, profiles: Mapping[str, Profile]) -> list[Slo | LatencyRequest]:
    """In the order of the file. Raises ChainFileError with a line for each problem."""
    document = read_document(file)
    if isinstance(document.data, dict) and document.data.get("apiVersion") == API_VERSION:
        return _promises(document, load(file).slos, profiles)
    chain = load_chain(file)
    found: list[Slo | LatencyRequest] = []
    wrong: list[Problem] = []
    for name, stated in chain.file.chains.items():
        if stated.slo is None:
            continue
        function = _profile_of(chain, name, stated)
        full = f"{chain.file.name}.{name}"
        p95_us = stated.slo.p95_ns / NS_PER_US
        if stated.slo.reserved is None:
            found.append(LatencyRequest(full, function, p95_us))
        elif function in profiles:
            mpps = stated.slo.reserved.most_pps / _PER_MPPS
            found.append(Slo(full, profiles[function], mpps, p95_us))
        else:
            known = ", ".join(sorted(profiles))
            told = f"there is no profile `{function}` in the cluster's file; there are {known}"
            wrong.append(Problem(("chains", name, "slo", "reserved"), told))
    if not found and not wrong:
        wrong.append(Problem(("chains",), "have no slo, so nothing is asked for"))
    if wrong:
        raise chain.error(wrong)
    return found


def _promises(
    document: Document, slos: Sequence[Slo], profiles: Mapping[str, Profile]
) -> list[Slo | LatencyRequest]:
    told = "has another profile here than in the cluster's file, which is what counts"
    wrong = [
        document.located(Problem(("slos", slo.name, "function"), f"`{slo.profile.name}` {told}"))
        for slo in slos
        if profiles.get(slo.profile.name) != slo.profile
    ]
    if wrong:
        raise ChainFileError(wrong)
    return [
        # A promise that is asked for several times has a number behind its name.
        replace(slo, name=f"{slo.name}-{at}", count=1) if slo.count > 1 else slo
        for slo in slos
        for at in range(slo.count)
    ]


def _profile_of(chain: LoadedChain, name: str, stated: Chain) -> str:
    if stated.slo and stated.slo.reserved and stated.slo.reserved.profile:
        return stated.slo.reserved.profile
    path = chain.graph.chains[name].functions
    if len(path) == 1:
        return Path(chain.file.function(path[0]).executable).name
    return name

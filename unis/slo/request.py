"""What is asked of a cluster: the SLOs of a chain file, or the promises of a workload file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from unis.chain.document import Document, read_document
from unis.chain.load import LoadedChain
from unis.chain.load import load as load_chain
from unis.chain.model import NS_PER_US, Chain
from unis.chain.problem import ChainFileError, Problem
from unis.slo.model import API_VERSION, load
from unis.slo.profile import Profile, Slo

_PER_MPPS = 1e6


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
    for name, of in chain.file.chains.items():
        if of.slo is None:
            continue
        function = _profile_of(chain, name, of)
        full = f"{chain.file.name}.{name}"
        p95_us = of.slo.p95_ns / NS_PER_US
        if of.slo.reserved is None:
            found.append(LatencyRequest(full, function, p95_us))
        elif function in profiles:
            mpps = of.slo.reserved.most_pps / _PER_MPPS
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
    return [one for slo in slos for one in one_by_one(slo)]


def one_by_one(slo: Slo) -> Iterator[Slo]:
    """A promise that is asked for several times has a number behind its name."""
    if slo.count == 1:
        yield slo
    else:
        yield from (replace(slo, name=f"{slo.name}-{at}", count=1) for at in range(slo.count))


def _profile_of(chain: LoadedChain, name: str, of: Chain) -> str:
    if of.slo and of.slo.reserved and of.slo.reserved.profile:
        return of.slo.reserved.profile
    path = chain.graph.chains[name].functions
    if len(path) == 1:
        return Path(chain.file.function(path[0]).executable).name
    return name

"""Placement compared with the ResQ paper's numbers, and its scaling."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evaluation.caches.references import NoRecorderError
from evaluation.resq.admission import admission, answers
from evaluation.resq.methods import PAPER, by_baselines, models
from evaluation.resq.modelled_caches import in_caches
from evaluation.resq.profile_error import most_broken
from evaluation.resq.results import LargePlacement, Placed, Resq, Shared
from evaluation.resq.shared_cores import simulated
from evaluation.resq.socket_workloads import evaluate_sockets, wrong
from unis.slo.cores import SharedPlacement
from unis.slo.exact import exact
from unis.slo.greedy import greedy
from unis.slo.placement import Placement
from unis.slo.profile import Server, Slo, Workload
from unis.slo.resq_profiles import PROFILES
from unis.slo.shared import shared
from unis.slo.verify import shared_problems

_P95_US = 100.0
_PART = 0.9  # of the solo throughput
SENSITIVE = ("stats", "lpm", "mazunat", "snort")
INSENSITIVE = ("efficuts", "firewall", "ipsec")
_COUNTS = {
    "sensitive": (SENSITIVE, 50), "insensitive": (INSENSITIVE, 66),
    "combination": (tuple(PROFILES), 22),
}  # fmt: skip
WORKLOADS = tuple(_COUNTS)
_XEON = Server("xeon", 5000, cores=9, ways=18)
_SLOS, _SERVERS = 20_000, 5_000
_SEED = 1  # of the large workload
_ARRIVALS = range(1000, 1050)  # seeds; the method was tuned on others
_COME = 2000  # promises per seed
_SEEDS = (1, 2)  # of promises of parts of cores; the model's factor was tuned on the first


@dataclass(frozen=True)
class Evaluation:
    """The results, and the placements for the pictures."""

    results: Resq
    exact: Mapping[str, tuple[Workload, Placement]]  # by workload
    shared: Mapping[str, tuple[Workload, SharedPlacement]]


def paper_workload(name: str) -> Workload:
    """One of the paper's three workloads (section 6)."""
    functions, count = _COUNTS[name]
    return Workload(
        f"paper-{name}",
        tuple(_slo(function, function, _PART, count) for function in functions),
        (_XEON,),
    )


def large_workload(count: int = _SLOS, servers: int = _SERVERS, seed: int = _SEED) -> Workload:
    """Promises of 10 to 150 % of the solo throughput, of all nine functions."""
    chance = random.Random(seed)  # noqa: S311  no secret
    names = tuple(PROFILES)
    slos = tuple(
        _slo(f"slo{number}", chance.choice(names), chance.uniform(0.1, 1.5), 1)
        for number in range(count)
    )
    return Workload("large", slos, (Server("xeon", servers, cores=9, ways=18),))


def _slo(name: str, function: str, part: float, count: int) -> Slo:
    profile = PROFILES[function]
    return Slo(name, profile, part * profile.solo_mpps, _P95_US, count)


def evaluate(report: Callable[[str], None]) -> Evaluation:
    """Runs the whole comparison."""
    placement: dict[str, Placed] = {}
    exact_placements: dict[str, tuple[Workload, Placement]] = {}
    for name in WORKLOADS:
        report(f"placing {name}")
        workload = paper_workload(name)
        by_exact = exact(workload)
        placement[name] = _placed(name, workload, by_exact)
        exact_placements[name] = workload, by_exact
    parts: dict[str, Shared] = {}
    shared_placements: dict[str, tuple[Workload, SharedPlacement]] = {}
    for name in WORKLOADS:
        for seed in _SEEDS:
            key = f"{name}, seed {seed}"
            report(f"placing and simulating shared cores: {key}")
            workload = part_workload(name, seed)
            by_shared = shared(workload)
            parts[key] = _shared(workload, by_shared)
            shared_placements[key] = workload, by_shared
    try:
        caches = in_caches(report)
    except NoRecorderError as error:
        report(f"left out: {error}")
        caches = None
    sockets = evaluate_sockets(report)
    report(f"placing {_SLOS:,} promises on {_SERVERS:,} servers")
    scale = _scale()
    report(f"admitting promises one by one: {len(_ARRIVALS)} random workloads of {_COME:,}")
    admitted = admission(_ARRIVALS, _COME)
    report(f"admitting {_SLOS:,} promises one by one on {_SERVERS:,} servers")
    results = Resq(
        placement=placement, models=models(), shared=parts, sockets=sockets, caches=caches,
        scale=scale, admission=admitted,
        answers=answers(Server("xeon", _SERVERS, cores=9, ways=18), _SLOS, _SEED),
    )  # fmt: skip
    return Evaluation(results, exact_placements, shared_placements)


def _placed(name: str, workload: Workload, by_exact: Placement) -> Placed:
    by_greedy = greedy(workload)
    return Placed(
        promises=sum(slo.count for slo in workload.slos),
        greedy=len(by_greedy.machines),
        exact=len(by_exact.machines),
        bound=by_exact.bound or 0,
        seconds=by_exact.seconds,
        greedy_seconds=by_greedy.seconds,
        wrong=wrong(workload, by_greedy) + wrong(workload, by_exact),
        off=max(most_broken(workload, placed) for placed in (by_greedy, by_exact)),
        paper=dict(PAPER[name]),
        **by_baselines(workload),
    )


def _scale() -> LargePlacement:
    workload = large_workload()
    placed = exact(workload, gap=0.001)
    return LargePlacement(
        slos=_SLOS,
        servers=_SERVERS,
        machines=len(placed.machines),
        bound=placed.bound or 0,
        seconds=placed.seconds,
        gap=placed.gap or 0.0,
        wrong=wrong(workload, placed),
    )


def _shared(workload: Workload, parts: SharedPlacement) -> Shared:
    unshared = exact(workload)
    problems = len([*shared_problems(workload, parts)]) + len(parts.refused)
    kept = simulated(workload, parts)
    return Shared(
        exact=len(unshared.machines),
        shared=len(parts.machines),
        bound=parts.bound,
        wrong=problems + wrong(workload, unshared),
        seconds=parts.seconds,
        fewer=1 - len(parts.machines) / len(unshared.machines),
        simulated=len(kept),
        late_or_short=sum(not check.holds for check in kept),
        closest=max(check.p95_us / check.promised_us for check in kept),
    )


def part_workload(name: str, seed: int = _SEED) -> Workload:
    """One of the three workloads with promises of 10 to 60 % of a core."""
    chance = random.Random(seed)  # noqa: S311  no secret
    functions, count = _COUNTS[name]
    slos = tuple(
        _slo(f"{function}{number}", function, chance.uniform(0.1, 0.6), 1)
        for function in functions
        for number in range(count)
    )
    return Workload(f"part-{name}", slos, (_XEON,))

"""The baselines of the ResQ paper on its workloads, and the numbers that it prints."""

from collections.abc import Mapping

from evaluation.resq.baselines import agnostic, elastic, predictor
from evaluation.resq.baselines.arrivals import broken
from evaluation.resq.baselines.contention import Tenant, shares
from evaluation.resq.baselines.predictor import PENALTY_US, RuleReading
from evaluation.resq.results import Models, ReproducedNumber
from unis.slo.profile import Workload
from unis.slo.resq_profiles import PROFILES

# Printed in Fig. 9 (machines) and Fig. 8 (% of promises broken by more than 5 %).
PAPER: Mapping[str, Mapping[str, int]] = {
    "sensitive": {
        "greedy": 45, "exact": 38, "dynamic": 44, "predictor": 128,
        "agnostic_shared_violated": 91, "agnostic_split_violated": 100,
    },
    "insensitive": {
        "greedy": 22, "exact": 22, "dynamic": 22, "predictor": 22,
        "agnostic_shared_violated": 0, "agnostic_split_violated": 0,
    },
    "combination": {
        "greedy": 35, "exact": 30, "dynamic": 35, "predictor": 48,
        "agnostic_shared_violated": 11, "agnostic_split_violated": 55,
    },
}  # fmt: skip
# Functions of which the paper counts throughput only: it could not measure latency (Fig. 2).
UNTIMED = ("mazunat", "ipsec")
# Read off Fig. 2: % of throughput lost beside eleven copies of the worst neighbour, 64 B.
WORST_NEIGHBOURS = {
    "efficuts": 2.3, "endre": 0.7, "firewall": 0.5, "ipsec": 2.5, "lpm": 32.0, "mazunat": 44.3,
    "snort": 17.5, "stats": 43.4, "suricata": 5.9,
}  # fmt: skip
# Read off Fig. 10, single functions only: overestimate of the predictor in points.
OVERESTIMATES = {"lpm": 7.3, "mazunat": 11.5, "snort": 6.0}
_NEIGHBOURS = 11  # of Fig. 2
_WAYS = 18.0  # 45 MB, for functions
_SMALL = _WAYS * 19.5 / 45  # the cache of Fig. 10
_HEADROOM = 0.05


def by_baselines(workload: Workload) -> dict[str, float]:
    """Fields of `Placed`, by name."""
    servers = agnostic.packed(workload)
    functions = tuple(slo.profile.name for slo in workload.slos)
    count = sum(slo.count for slo in workload.slos)
    dynamic = elastic.scaled(workload)
    machines = {
        "agnostic": len(servers),
        "dynamic": len(dynamic.servers),
        "dynamic_headroom": len(elastic.scaled(workload, _HEADROOM).servers),
        "predictor": len(predictor.first_fit(workload, RuleReading.PROGRAM)),
        "predictor_named": len(predictor.first_fit(workload, RuleReading.NAMED)),
        "predictor_second": len(predictor.first_fit(workload, RuleReading.SECOND)),
    }
    violated = {
        "agnostic_shared_violated": agnostic.broken_when_shared(workload, servers, UNTIMED),
        "agnostic_split_violated": agnostic.broken_when_split(workload, servers, UNTIMED),
        "agnostic_shared_short": agnostic.broken_when_shared(workload, servers, functions),
        "agnostic_split_short": agnostic.broken_when_split(workload, servers, functions),
        "dynamic_violated": broken(dynamic.served, UNTIMED),
    }
    return machines | {
        name: 100 * len(broken_promises) / count for name, broken_promises in violated.items()
    }


def models() -> Models:
    """The models, compared with figures of the paper."""
    return Models(
        worst_neighbours={
            name: ReproducedNumber(here=_worst(name), paper=lost)
            for name, lost in WORST_NEIGHBOURS.items()
        },
        overestimates={
            name: ReproducedNumber(here=overestimate(name), paper=points)
            for name, points in OVERESTIMATES.items()
        },
        penalty_ns=PENALTY_US * 1000,
    )


def overestimate(name: str, penalty_us: float = PENALTY_US) -> float:
    """The overestimate in points, as in Fig. 10: six functions, 19.5 MB."""
    competitors = tuple(PROFILES.values())
    return predictor.overestimate(PROFILES[name], competitors, _SMALL, penalty_us=penalty_us)


def _worst(name: str) -> float:
    target = Tenant(PROFILES[name], 1.0)
    least = min(
        shares([target, *[Tenant(other, 1.0)] * _NEIGHBOURS], _WAYS)[0]
        for other in PROFILES.values()
    )
    return 100 * (1 - least)

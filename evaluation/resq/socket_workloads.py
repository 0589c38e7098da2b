"""Random workloads of functions with several cores and memory bandwidth, on sockets."""

import random
from collections.abc import Callable, Sequence

from evaluation.resq.results import Sockets
from unis.slo.exact import exact
from unis.slo.greedy import greedy
from unis.slo.placement import Placement
from unis.slo.profile import Profile, Server, Slo, Workload
from unis.slo.verify import problems

_WAYS = 18
_LATENCY = ((0.1, 10.0), (0.9, 20.0), (0.95, 90.0), (1.0, 500.0))
_P95_US = 100.0
_FUNCTIONS = 10
_SEEDS = (0, 1)
# GB/s of a socket's memory. With the lower one memory is the scarce resource.
MEMORY_GBPS = {"enough": 20.0, "scarce": 6.0}


def socket_workload(seed: int, memory_gbps: float, count: int = 30) -> Workload:
    """`count` promises of each of ten functions, of 10 to 150 % of the solo throughput.

    With one way functions have 40 to 100 % of their throughput and move 0.03 to 3 GB/s; with more
    ways they move less per packet. They have 1 to 3 cores. Memory is used up to 65 %. Servers have
    two sockets of 12 cores and 18 ways.
    """
    chance = random.Random(seed)  # noqa: S311  no secret
    profiles = [_profile(f"function{number}", chance) for number in range(_FUNCTIONS)]
    slos = tuple(
        Slo(profile.name, profile, profile.solo_mpps * chance.uniform(0.1, 1.5), _P95_US, count)
        for profile in profiles
    )
    server = Server("xeon", 100 * count, 12, _WAYS, 16, 2, memory_gbps)
    return Workload(f"sockets-{seed}", slos, (server,), memory=0.65)


def _profile(name: str, chance: random.Random) -> Profile:
    shares = sorted(chance.uniform(0.4, 1.0) for _ in range(chance.randint(1, 10)))
    by_ways = tuple(share / shares[-1] for share in shares)
    most = chance.choice([0.05, 0.3, 1.0, 2.0]) * chance.uniform(0.5, 1.5)
    rest = (1.0,) * (_WAYS - len(by_ways))
    return Profile(
        name,
        chance.uniform(0.3, 5.0),
        by_ways,
        _LATENCY,
        cores=chance.choice([1, 1, 1, 2, 3]),
        gbps_by_ways=tuple(
            most * share * (1 - 0.05 * more_ways)
            for more_ways, share in enumerate((*by_ways, *rest))
        ),
        share_by_memory=(
            (0.33, chance.uniform(0.9, 1.0)),
            (0.65, chance.uniform(0.8, 0.9)),
            (0.9, chance.uniform(0.7, 0.8)),
        ),
    )


def evaluate_sockets(
    report: Callable[[str], None], seeds: Sequence[int] = _SEEDS, seconds: float = 10.0
) -> dict[str, Sockets]:
    """The results by memory and seed."""
    found: dict[str, Sockets] = {}
    for name, gbps in MEMORY_GBPS.items():
        for seed in seeds:
            report(f"sockets, cores and memory: {name}, seed {seed}")
            found[f"{name}, seed {seed}"] = evaluated(socket_workload(seed, gbps), seconds)
    return found


def wrong(workload: Workload, placement: Placement) -> int:
    """The number of problems that the verifier finds and of refused promises; all fit, so 0."""
    return len([*problems(workload, placement)]) + len(placement.refused)


def evaluated(workload: Workload, seconds: float) -> Sockets:
    """Places the workload by both methods, and verifies them."""
    by_greedy, by_exact = greedy(workload), exact(workload, seconds=seconds)
    return Sockets(
        promises=sum(slo.count for slo in workload.slos),
        greedy=len(by_greedy.machines),
        exact=len(by_exact.machines),
        bound=by_exact.bound or 0,
        seconds=by_exact.seconds,
        wrong=wrong(workload, by_greedy) + wrong(workload, by_exact),
    )

"""Online admission, compared with the fewest machines that the same promises need."""

import gc
import random
import time
from collections.abc import Sequence

from evaluation.resq.results import Admission, Answers
from unis.slo.exact import exact
from unis.slo.online import Online
from unis.slo.placement import Placement, Refusal
from unis.slo.profile import Profile, Server, Slo, Workload
from unis.slo.resq_profiles import PROFILES
from unis.slo.verify import problems

_LATENCY = ((0.1, 10.0), (0.9, 20.0), (0.98, 40.0))
_P95_US = 100.0
_GAP = 0.002  # relative, of the fewest machines
_PARTS = (0.3, 0.5, 0.7, 0.9)  # of the solo throughput: the promises of the large cluster


def random_arrivals(seed: int, count: int) -> tuple[Server, list[Slo]]:
    """Promises of three to ten functions with concave profiles, in random order."""
    draw = random.Random(seed)  # noqa: S311
    ways, cores = draw.choice([11, 12, 16, 18, 20]), draw.choice([6, 8, 9, 12, 15])
    functions = [_random_profile(draw, f"f{number}", ways) for number in range(draw.randint(3, 10))]
    parts = [draw.uniform(0.3, 1.8) for _ in functions]
    weights = [draw.uniform(0.2, 1.0) for _ in functions]
    slos = [
        Slo(f"s{number}", functions[index], functions[index].solo_mpps * parts[index], _P95_US)
        for number, index in enumerate(draw.choices(range(len(functions)), weights, k=count))
    ]
    return Server("server", count, cores, ways), slos


def _random_profile(draw: random.Random, name: str, ways: int) -> Profile:
    useful = draw.randint(1, ways)
    first = draw.uniform(0.3, 1.0) if useful > 1 else 1.0
    steps = sorted((draw.random() for _ in range(useful - 1)), reverse=True)
    by_ways, reached = [first], 0.0
    for step in steps:
        reached += step
        by_ways.append(min(1.0, first + (1 - first) * reached / sum(steps)))
    return Profile(name, draw.uniform(0.3, 6.0), tuple(by_ways), _LATENCY)


def admit_all(server: Server, slos: Sequence[Slo]) -> tuple[Online, list[Refusal]]:
    """Admits promises one by one, and updates prices when they are due."""
    online = Online([server], 0.03)
    refused = []
    for slo in slos:
        answer = online.admit(slo)
        if isinstance(answer, Refusal):
            refused.append(answer)
        if online.due:
            online.learn()
    return online, refused


def admission(seeds: Sequence[int], promises: int) -> Admission:
    """Compares online admission with the exact method, which knows all promises beforehand."""
    ratios, wrong = [], 0
    for seed in seeds:
        server, slos = random_arrivals(seed, promises)
        online, refused = admit_all(server, slos)
        workload = Workload("arrivals", tuple(slos), (server,), 0.03)
        wrong += len(refused)
        wrong += len([*problems(workload, Placement([*online.machines.values()]))])
        best = exact(workload, gap=_GAP)
        ratios.append(len(online.machines) / (best.bound or 1))
    ratios.sort()
    return Admission(
        workloads=len(ratios), promises=promises, median=ratios[len(ratios) // 2],
        worst=ratios[-1], wrong=wrong,
    )  # fmt: skip


def answers(server: Server, count: int, seed: int) -> Answers:
    """Times the answers to `count` promises of the paper's functions, with some releases."""
    draw = random.Random(seed)  # noqa: S311
    online = Online([server], 0.03)
    answer_ms: list[float] = []
    prices_ms: list[float] = []
    gc.collect()
    gc.disable()  # a server collects garbage between requests, together with the prices
    try:
        _serve(online, draw, count, answer_ms, prices_ms)
    finally:
        gc.enable()
    answer_ms.sort()
    return Answers(
        slos=len(online.slos), servers=server.count, machines=len(online.machines),
        median_ms=answer_ms[count // 2], p99_ms=answer_ms[count * 99 // 100],
        worst_ms=answer_ms[-1], prices_ms=max(prices_ms, default=0.0),
    )  # fmt: skip


def _serve(
    online: Online, draw: random.Random, count: int, answer_ms: list[float], prices_ms: list[float]
) -> None:
    for number in range(count):
        profile = PROFILES[draw.choice([*PROFILES])]
        slo = Slo(f"s{number}", profile, profile.solo_mpps * draw.choice(_PARTS), _P95_US)
        began = time.thread_time()
        online.admit(slo)
        answer_ms.append((time.thread_time() - began) * 1000)
        if draw.random() < 0.1:
            online.release(f"s{draw.randrange(number + 1)}")
        if online.due:
            began = time.thread_time()
            online.learn()
            prices_ms.append((time.thread_time() - began) * 1000)

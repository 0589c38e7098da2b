"""A placement in words: how each promise is kept, and what the machines look like."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from unis.slo.placement import Machine, Placement
from unis.slo.profile import Slo, Workload
from unis.slo.splits import Split, passes, rates


@dataclass(frozen=True)
class Kept:
    """How promises of one name are kept."""

    slo: Slo
    load: float  # of what an instance can bear, with which it is in time
    splits: dict[Split, int]  # how many promises have it
    mpps: float  # the least that any of them gets


def kept(workload: Workload, placement: Placement) -> list[Kept]:
    """Those that are placed, in the order of the workload."""
    of: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for machine in placement.machines:
        for instance in machine.instances:
            of[instance.slo][instance.at].append(instance.ways)
    found: list[Kept] = []
    most = max(server.ways for server in workload.servers)
    for slo in workload.slos:
        if slo.name not in of:
            continue
        splits = Counter(tuple(sorted(ways, reverse=True)) for ways in of[slo.name].values())
        by_ways = rates(slo, workload.margin, most)
        load = slo.profile.load_within(slo.p95_us) - workload.margin
        least = min(passes(by_ways, split) for split in splits)
        found.append(Kept(slo, load, dict(sorted(splits.items())), least))
    return found


@dataclass(frozen=True)
class Alike:
    """Machines on which the same lies."""

    server: str
    count: int
    instances: tuple[tuple[str, int], ...]  # (function's promise, ways), the largest first


def alike(machines: Sequence[Machine]) -> list[Alike]:
    """The kinds of machines of a placement, the most frequent first."""
    found = Counter(
        (
            machine.server,
            tuple(sorted(((of.slo, of.ways) for of in machine.instances), key=_largest)),
        )
        for machine in machines
    )
    return [Alike(server, count, of) for (server, of), count in found.most_common()]


def _largest(instance: tuple[str, int]) -> tuple[int, str]:
    name, ways = instance
    return -ways, name


def summary(placement: Placement, method: str) -> str:
    """In a sentence."""
    count = len(placement.machines)
    servers = f"{count} server{'s' if count != 1 else ''}, {method}, {placement.seconds:.2f} s"
    if placement.bound is None:
        return f"{servers}."
    of = "" if all(refusal.tried for refusal in placement.refused) else " of what was tried"
    if count == placement.bound:
        return f"{servers}: no placement{of} needs fewer (proven)."
    return f"{servers}: no placement{of} needs fewer than {placement.bound} (proven)."

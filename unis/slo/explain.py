"""A placement in words: how each promise is kept, and what the machines look like."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from unis.slo.placement import Placement
from unis.slo.profile import Slo, Workload, only_ways
from unis.slo.sockets import Size, room_of, task_of
from unis.slo.splits import Split, pace, passes, rates


@dataclass(frozen=True)
class PromiseExplanation:
    """How promises of one name are kept."""

    slo: Slo
    load: float  # of what an instance can bear, with which it is in time
    splits: dict[Split, int]  # how many promises have it
    mpps: float  # the least that any of them gets
    slowed: float  # of what it passes alone, where as much of the memory is used as may be


def kept(workload: Workload, placement: Placement) -> list[PromiseExplanation]:
    """Those that are placed, in the order of the workload."""
    splits_of: dict[str, Counter[Split]] = defaultdict(Counter)
    for (name, _), split in placement.splits.items():
        splits_of[name][split] += 1
    found: list[PromiseExplanation] = []
    most = max(server.ways for server in workload.servers)
    for slo in workload.slos:
        splits = splits_of[slo.name]
        if not splits:
            continue
        by_ways = rates(slo, workload.margin, most, workload.memory)
        load, slowed = pace(slo, workload.margin, workload.memory)
        least = min(passes(by_ways, split) for split in splits)
        found.append(PromiseExplanation(slo, load, dict(sorted(splits.items())), least, slowed))
    return found


def costs(workload: Workload, placement: Placement) -> list[str]:
    """What memory bandwidth costs each function, and what there is too little of, in sentences."""
    told: list[str] = []
    if workload.memory is not None:
        slowed = {promise.slo.profile.name: promise.slowed for promise in kept(workload, placement)}
        each = ", ".join(f"{name} {part:.1%}" for name, part in sorted(slowed.items()))
        told.append(
            f"Functions use {workload.memory:.0%} of a socket's memory bandwidth at most, and pass "
            f"then of what they pass alone: {each}."
        )
    if placement.machines and not only_ways(workload):
        used = given_away(workload, placement)
        parts = ", ".join(f"{part:.0%} of the {name}" for name, part in used.items())
        told.append(f"Given away on these servers: {parts}.")
    return told


def given_away(workload: Workload, placement: Placement) -> dict[str, float]:
    """Of what all sockets of the machines that are used have for functions, by its name."""
    slos = {slo.name: slo for slo in workload.slos}
    cores = ways = memory = 0
    for (name, _), split in placement.splits.items():
        task = task_of(slos[name], workload.servers, workload.margin, workload.memory)
        for size in task.sizes(split):
            cores, ways, memory = cores + size.cores, ways + size.ways, memory + size.memory
    used = Counter(machine.server for machine in placement.machines)
    rooms = [
        (room_of(server, workload.memory).size, server.sockets * used[server.name])
        for server in workload.servers
    ]
    have = Size(*(sum(size[at] * sockets for size, sockets in rooms) for at in range(3)))
    given = {"cores": cores / have.cores, "ways": ways / have.ways}
    if workload.memory is not None:
        given["memory bandwidth for functions"] = memory / have.memory
    return given


def summary(placement: Placement, method: str) -> str:
    """In a sentence."""
    count = len(placement.machines)
    servers = f"{count} server{'s' if count != 1 else ''}, {method}, {placement.seconds:.2f} s"
    if placement.bound is None:
        return f"{servers}."
    tried = "" if all(refusal.tried for refusal in placement.refused) else " of what was tried"
    if count == placement.bound:
        return f"{servers}: no placement{tried} needs fewer (proven)."
    return f"{servers}: no placement{tried} needs fewer than {placement.bound} (proven)."

"""A placement in words: how each promise is kept, and what the machines look like."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from unis.slo.placement import Placement
from unis.slo.profile import Slo, Workload, only_ways
from unis.slo.sockets import room_of, task_of
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
    """What memory bandwidth costs each function, and what is given away, the scarcest first."""
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
        scarce = sorted(used.items(), key=lambda each: -each[1])
        parts = ", ".join(f"{part:.0%} of the {name}" for name, part in scarce)
        told.append(f"Given away on these servers: {parts}.")
    return told


def given_away(workload: Workload, placement: Placement) -> dict[str, float]:
    """Of what all sockets of the machines that are used have for functions, by its name."""
    slos = {slo.name: slo for slo in workload.slos}
    names = ["cores", "ways", *(flow.name for flow in workload.flows)]
    taken, have = Counter[str](), Counter[str]()
    for (name, _), split in placement.splits.items():
        for size in task_of(slos[name], workload).sizes(split):
            taken.update(dict(zip(names, size, strict=True)))
    used = Counter(machine.server for machine in placement.machines)
    for server in workload.servers:
        sockets = server.sockets * used[server.name]
        room = room_of(server, workload).size
        have.update({name: each * sockets for name, each in zip(names, room, strict=True)})
    return {name: taken[name] / have[name] for name in names if have[name]}


def summary(placement: Placement, method: str) -> str:
    """In a sentence."""
    count = len(placement.machines)
    servers = f"{count} server{'s' if count != 1 else ''}, {method}, {placement.seconds:.2f} s"
    if placement.bound is None:
        return f"{servers}."
    tried = "" if all(refusal.tried for refusal in placement.refused) else " of what was tried"
    if placement.instances is not None:
        into = f"{placement.instances} instance{'s' if placement.instances != 1 else ''}"
        tried += f" that splits each promise into at most {into}"
    than = "" if count == placement.bound else f" than {placement.bound}"
    return f"{servers}: no placement{tried} needs fewer{than} (proven)."

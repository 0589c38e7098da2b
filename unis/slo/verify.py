"""Whether a placement keeps what was asked for: by its own arithmetic, and nobody else's.

Shares no code with the planners: what is wrong with one of those is not wrong here too.
"""

from collections.abc import Iterator

from unis.slo.placement import Placement
from unis.slo.profile import Profile, Workload
from unis.slo.shared import SharedPlacement

_TOLERANCE = 1e-6  # of a throughput


def problems(
    workload: Workload, placement: Placement, margin: float | None = None
) -> Iterator[str]:
    """A sentence for each thing that is wrong; none: it is right.

    `margin`: of the load; None: as the workload has it.
    """
    kinds = {server.name: server for server in workload.servers}
    used = dict.fromkeys(kinds, 0)
    passed: dict[tuple[str, int], float] = {}
    slos = {slo.name: slo for slo in workload.slos}
    lost = workload.margin if margin is None else margin
    for number, machine in enumerate(placement.machines):
        where = f"machine {number} ({machine.server})"
        if machine.server not in kinds:
            yield f"{where}: there is no such server"
            continue
        server = kinds[machine.server]
        used[server.name] += 1
        if len(machine.instances) > server.cores:
            yield f"{where}: {len(machine.instances)} instances on {server.cores} cores"
        if len(machine.instances) >= server.classes:
            yield f"{where}: {len(machine.instances)} classes of service besides everybody else's"
        taken = 0
        for instance in machine.instances:
            mask = instance.mask
            if mask & taken:
                yield f"{where}: {instance.slo} shares ways with another"
            taken |= mask
            bits = f"{mask:b}"
            if bits.rstrip("0") != "1" * instance.ways or instance.ways < 1:
                yield f"{where}: {instance.slo} has {bits}, not {instance.ways} neighbouring ways"
            if instance.slo not in slos:
                yield f"{where}: nobody asked for {instance.slo}"
                continue
            slo = slos[instance.slo]
            load = max(0.0, _load(slo.profile, slo.p95_us) - lost)
            share = slo.profile.by_ways[min(instance.ways, len(slo.profile.by_ways)) - 1]
            key = (slo.name, instance.at)
            passed[key] = passed.get(key, 0.0) + slo.profile.solo_mpps * share * load
        if taken.bit_length() > server.ways:
            yield f"{where}: {taken.bit_length()} ways of {server.ways}"
    for name, count in used.items():
        if count > kinds[name].count:
            yield f"{count} servers {name} of {kinds[name].count}"
    refused = {refusal.slo for refusal in placement.refused}
    for slo in workload.slos:
        if slo.name in refused:
            continue
        for at in range(slo.count):
            got = passed.get((slo.name, at), 0.0)
            if got < slo.mpps * (1 - _TOLERANCE):
                yield f"{slo.name}, number {at}: {got:.4g} Mpps in time of {slo.mpps:.4g} promised"


def shared_problems(workload: Workload, placement: SharedPlacement) -> Iterator[str]:
    """The same where functions share cores: what each core has, gives away, and how late it is."""
    kinds = {server.name: server for server in workload.servers}
    slos = {slo.name: slo for slo in workload.slos}
    passed: dict[tuple[str, int], float] = {}
    for number, machine in enumerate(placement.machines):
        where = f"machine {number} ({machine.server})"
        server = kinds[machine.server]
        if len(machine.cores) > min(server.cores, server.classes - 1):
            yield f"{where}: {len(machine.cores)} cores"
        if sum(part.ways for core in machine.cores for part in core.parts) > server.ways:
            yield f"{where}: more than its {server.ways} ways"
        for core in machine.cores:
            of = [(part, slos[part.slo]) for part in core.parts]
            costs = {}  # µs a packet
            for part, slo in of:
                by_ways = slo.profile.by_ways
                alone = slo.profile.solo_mpps * by_ways[min(part.ways, len(by_ways)) - 1]
                costs[id(part)] = 1 / alone
            load = sum(part.mpps * costs[id(part)] for part, _ in of)
            for part, slo in of:
                passed[slo.name, part.at] = passed.get((slo.name, part.at), 0.0) + part.mpps
                if load > _load(slo.profile, slo.p95_us) + _TOLERANCE:
                    yield f"{where}: {slo.name} on a core with a load of {load:.2f}"
                queue = sum(other.mpps * costs[id(other)] ** 2 for other, _ in of)
                if load >= 1 or _latency(slo.profile, 0.0) + queue / (2 * (1 - load)) > slo.p95_us:
                    yield f"{where}: {slo.name} waits for longer in the mean than 95 % may"
    for name, server in kinds.items():
        used = sum(machine.server == name for machine in placement.machines)
        if used > server.count:
            yield f"{used} servers {name} of {server.count}"
    refused = {refusal.slo for refusal in placement.refused}
    for slo in workload.slos:
        for at in range(slo.count):
            got = passed.get((slo.name, at), 0.0)
            if slo.name not in refused and got < slo.mpps * (1 - _TOLERANCE):
                yield f"{slo.name}, number {at}: {got:.4g} Mpps of {slo.mpps:.4g} promised"


def _load(profile: Profile, p95_us: float) -> float:
    """The highest load that keeps a latency, looked for by halving."""
    low, high = 0.0, profile.latency_us[-1][0]
    if _latency(profile, high) <= p95_us:
        return high
    for _ in range(60):
        middle = (low + high) / 2
        if _latency(profile, middle) <= p95_us:
            low = middle
        else:
            high = middle
    return low


def _latency(profile: Profile, load: float) -> float:
    before = profile.latency_us[0]
    if load <= before[0]:
        return before[1]
    for point in profile.latency_us[1:]:
        if load <= point[0]:
            part = (load - before[0]) / (point[0] - before[0])
            return before[1] + part * (point[1] - before[1])
        before = point
    return float("inf")

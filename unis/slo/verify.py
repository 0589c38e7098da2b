"""Whether a placement keeps what was asked for: by its own arithmetic, and nobody else's.

Shares no code with the planners: what is wrong with one of those is not wrong here too. Instances
of a promise bear its traffic by what they pass themselves.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from unis.slo.placement import Instance, Placement
from unis.slo.profile import Profile, Server, Slo, Workload

_TOLERANCE = 1e-6  # of a throughput


def problems(
    workload: Workload, placement: Placement, margin: float | None = None
) -> Iterator[str]:
    """A sentence for each thing that is wrong; none: it is right.

    `margin`: of the load; None: as the workload has it.
    """
    kinds = {server.name: server for server in workload.servers}
    slos = {slo.name: slo for slo in workload.slos}
    lost = workload.margin if margin is None else margin
    split: dict[tuple[str, int], list[int]] = {}  # ways of the instances of each promise
    for machine in placement.machines:
        for instance in machine.instances:
            split.setdefault((instance.slo, instance.at), []).append(instance.ways)
    for number, machine in enumerate(placement.machines):
        where = f"machine {number} ({machine.server})"
        if machine.server not in kinds:
            yield f"{where}: there is no such server"
            continue
        server = kinds[machine.server]
        sockets: dict[int, list[Instance]] = {}
        for instance in machine.instances:
            sockets.setdefault(instance.socket, []).append(instance)
        for at, instances in sorted(sockets.items()):
            if not 0 <= at < server.sockets:
                yield f"{where}: socket {at} of {server.sockets}"
            on = where if server.sockets == 1 else f"{where}, socket {at}"
            yield from _wrong_socket(on, instances, server, slos)
            if workload.memory is not None:
                gbps = sum(
                    _gbps(slos[of.slo], of.ways, split[of.slo, of.at])
                    for of in instances
                    if of.slo in slos
                )
                most = workload.memory * (server.memory_gbps or 0.0)
                if gbps > most * (1 + _TOLERANCE):
                    yield f"{on}: {gbps:.4g} GB/s of memory, of {most:.4g} that are for functions"
    for name, server in kinds.items():
        used = sum(machine.server == name for machine in placement.machines)
        if used > server.count:
            yield f"{used} servers {name} of {server.count}"
    refused = {refusal.slo for refusal in placement.refused}
    for slo in workload.slos:
        if slo.name in refused:
            continue
        speed = 1.0 if workload.memory is None else _speed(slo.profile, workload.memory)
        load = max(0.0, _load(slo.profile, slo.p95_us * speed) - lost)
        for at in range(slo.count):
            ways = split.get((slo.name, at), [])
            got = load * speed * sum(_alone(slo.profile, of) for of in ways)
            if got < slo.mpps * (1 - _TOLERANCE):
                yield f"{slo.name}, number {at}: {got:.4g} Mpps in time of {slo.mpps:.4g} promised"


def _wrong_socket(
    where: str, instances: Sequence[Instance], server: Server, slos: Mapping[str, Slo]
) -> Iterator[str]:
    """Cores, classes, and the cache: masks of neighbouring ways, of which no two overlap."""
    cores = sum(slos[of.slo].profile.cores if of.slo in slos else 1 for of in instances)
    if cores > server.cores:
        wanted = "" if cores == len(instances) else f" of {cores} cores"
        yield f"{where}: {len(instances)} instances{wanted} on {server.cores} cores"
    if len(instances) >= server.classes:
        yield f"{where}: {len(instances)} classes of service besides everybody else's"
    taken = 0
    for instance in instances:
        mask = instance.mask
        if mask & taken:
            yield f"{where}: {instance.slo} shares ways with another"
        taken |= mask
        bits = f"{mask:b}"
        if bits.rstrip("0") != "1" * instance.ways or instance.ways < 1:
            yield f"{where}: {instance.slo} has {bits}, not {instance.ways} neighbouring ways"
        if instance.slo not in slos:
            yield f"{where}: nobody asked for {instance.slo}"
    if taken.bit_length() > server.ways:
        yield f"{where}: {taken.bit_length()} ways of {server.ways}"


def _alone(profile: Profile, ways: int) -> float:
    """Mpps with so many ways and the memory to itself."""
    return profile.solo_mpps * profile.by_ways[min(max(1, ways), len(profile.by_ways)) - 1]


def _gbps(slo: Slo, ways: int, split: Sequence[int]) -> float:
    """What one instance of a split moves: bytes a packet times its part of what is promised."""
    profile = slo.profile
    if not profile.gbps_by_ways:
        return float("inf")
    alone = _alone(profile, ways)
    bytes_a_packet = profile.gbps_by_ways[min(ways, len(profile.gbps_by_ways)) - 1] / alone
    return bytes_a_packet * slo.mpps * alone / sum(_alone(profile, of) for of in split)


def _speed(profile: Profile, memory: float) -> float:
    """Of what it passes with the memory to itself; 0 where that is not known."""
    points = [(0.0, 1.0), *profile.by_memory]
    for (less, high), (more, low) in pairwise(points):
        if less <= memory <= more:
            return low if less == more else high - (high - low) * (memory - less) / (more - less)
    return 0.0


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

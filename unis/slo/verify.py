"""Whether a placement keeps what was asked for: by its own arithmetic, and nobody else's.

Shares no code with the planners: what is wrong with one of those is not wrong here too. Instances
of a promise bear its traffic by what they pass themselves. Of what a shared core is late it knows
less than the planner, but that for certain: the law that the mean waits of all its functions
together obey.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from unis.slo.cores import Core, CoreShare, SharedMachine, SharedPlacement
from unis.slo.placement import Instance, Placement
from unis.slo.polling import SWITCH_US
from unis.slo.profile import Profile, Server, Slo, Workload

_TOLERANCE = 1e-6  # of a throughput, or of a load


def problems(workload: Workload, placement: Placement) -> Iterator[str]:
    """A sentence for each thing that is wrong; none: it is right."""
    kinds = {server.name: server for server in workload.servers}
    slos = {slo.name: slo for slo in workload.slos}
    split = placement.splits
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
                    _gbps(slos[instance.slo], instance.ways, split[instance.slo, instance.at])
                    for instance in instances
                    if instance.slo in slos
                )
                most = workload.memory * (server.memory_gbps or 0.0)
                if gbps > most * (1 + _TOLERANCE):
                    yield f"{on}: {gbps:.4g} GB/s of memory, of {most:.4g} that are for functions"
            if workload.nics is not None:
                yield from _wrong_nic(on, instances, server, workload, split)
    yield from _too_many(placement, kinds)
    passed: dict[tuple[str, int], float] = {}
    for (name, at), ways in split.items():
        if name in slos:
            profile, p95_us = slos[name].profile, slos[name].p95_us
            speed = 1.0 if workload.memory is None else _speed(profile, workload.memory)
            load = max(0.0, _load(profile, p95_us * speed) - workload.margin)
            passed[name, at] = load * speed * sum(_alone(profile, number) for number in ways)
    yield from _not_kept(workload, placement, passed)


def _wrong_nic(
    where: str,
    instances: Sequence[Instance],
    server: Server,
    workload: Workload,
    split: Mapping[tuple[str, int], Sequence[int]],
) -> Iterator[str]:
    """What packets of these instances take of a socket's NIC, if that is more than there is."""
    nics = workload.nics
    slos = {slo.name: slo for slo in workload.slos}
    if nics is None:
        return
    for at, flow in enumerate(nics.flows):
        taken = 0.0
        for instance in instances:
            if instance.slo not in slos:
                continue
            slo = slos[instance.slo]
            whole = sum(_alone(slo.profile, ways) for ways in split[instance.slo, instance.at])
            part = _alone(slo.profile, instance.ways) / whole
            taken += 1e6 * slo.mpps * part * nics.takes[slo.packet][at]
        most = nics.capacities[server.name][at]
        if taken > most * (1 + _TOLERANCE):
            yield f"{where}: {taken:.4g} units/s of {flow.name}, of {most:.4g}"


def _too_many(placement: Placement | SharedPlacement, kinds: Mapping[str, Server]) -> Iterator[str]:
    for name, server in kinds.items():
        used = sum(machine.server == name for machine in placement.machines)
        if used > server.count:
            yield f"{used} servers {name} of {server.count}"


def _not_kept(
    workload: Workload,
    placement: Placement | SharedPlacement,
    passed: Mapping[tuple[str, int], float],
) -> Iterator[str]:
    """Promises that get less than they should, by what all instances of each pass in time, Mpps."""
    refused = {refusal.slo for refusal in placement.refused}
    for slo in workload.slos:
        for at in range(slo.count):
            got = passed.get((slo.name, at), 0.0)
            if slo.name not in refused and got < slo.mpps * (1 - _TOLERANCE):
                yield f"{slo.name}, number {at}: {got:.4g} Mpps in time of {slo.mpps:.4g} promised"


def _wrong_socket(
    where: str, instances: Sequence[Instance], server: Server, slos: Mapping[str, Slo]
) -> Iterator[str]:
    """Cores, classes, and the cache: masks of neighbouring ways, of which no two overlap."""
    cores = sum(
        slos[instance.slo].profile.cores if instance.slo in slos else 1 for instance in instances
    )
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
    return (
        profile.solo_mpps * profile.share_by_ways[min(max(1, ways), len(profile.share_by_ways)) - 1]
    )


def _gbps(slo: Slo, ways: int, split: Sequence[int]) -> float:
    """What one instance of a split moves: bytes a packet times its part of what is promised."""
    profile = slo.profile
    if not profile.gbps_by_ways:
        return float("inf")
    alone = _alone(profile, ways)
    bytes_a_packet = profile.gbps_by_ways[min(ways, len(profile.gbps_by_ways)) - 1] / alone
    return bytes_a_packet * slo.mpps * alone / sum(_alone(profile, number) for number in split)


def _speed(profile: Profile, memory: float) -> float:
    """Of what it passes with the memory to itself; 0 where that is not known."""
    points = [(0.0, 1.0), *profile.share_by_memory]
    for (less, high), (more, low) in pairwise(points):
        if less <= memory <= more:
            return low if less == more else high - (high - low) * (memory - less) / (more - less)
    return 0.0


def _load(profile: Profile, p95_us: float) -> float:
    """The highest load that keeps a latency: the first piece of the curve that goes beyond."""
    load, us = 0.0, profile.p95_us_by_load[0][1]
    if us > p95_us:
        return 0.0
    for next_load, next_us in profile.p95_us_by_load:
        if next_us > p95_us:
            return load + (next_load - load) * (p95_us - us) / (next_us - us)
        load, us = next_load, next_us
    return load


# ---------------------------------------------------------------------- shared cores


def shared_problems(
    workload: Workload, placement: SharedPlacement, switch_us: float = SWITCH_US
) -> Iterator[str]:
    """A sentence for each thing that is wrong; none: it is right."""
    kinds = {server.name: server for server in workload.servers}
    slos = {slo.name: slo for slo in workload.slos}
    passed: dict[tuple[str, int], float] = {}
    for number, machine in enumerate(placement.machines):
        where = f"machine {number} ({machine.server})"
        if machine.server not in kinds:
            yield f"{where}: there is no such server"
            continue
        yield from _wrong_classes(where, machine, kinds[machine.server])
        for core in machine.cores:
            unknown = [part.slo for part in core.parts if part.slo not in slos]
            if unknown:
                yield f"{where}: nobody asked for {', '.join(unknown)}"
                continue
            yield from _wrong_core(where, core, slos, switch_us)
            for part in core.parts:
                key = (part.slo, part.at)
                passed[key] = passed.get(key, 0.0) + part.mpps
    yield from _too_many(placement, kinds)
    yield from _not_kept(workload, placement, passed)


def _wrong_classes(where: str, machine: SharedMachine, server: Server) -> Iterator[str]:
    """Cores, classes of service and their ways."""
    if len(machine.cores) > server.cores:
        yield f"{where}: {len(machine.cores)} cores of {server.cores}"
    taken = 0
    classes = 0
    for core in machine.cores:
        by_mask: dict[int, list[CoreShare]] = {}
        for part in core.parts:
            by_mask.setdefault(part.mask, []).append(part)
        for mask, parts in by_mask.items():
            classes += 1
            names = ", ".join(part.slo for part in parts)
            bits = f"{mask:b}"
            if mask <= 0 or bits.rstrip("0") != "1" * mask.bit_count():
                yield f"{where}: {names} has {bits}, not neighbouring ways"
            if mask & taken:
                yield f"{where}: {names} shares ways with another class"
            taken |= mask
            if len(parts) > 1 and any(part.ways > 1 for part in parts):
                yield f"{where}: {names} share a class, and count on more than one way each"
            if mask.bit_count() < sum(part.ways for part in parts):
                yield f"{where}: {names} has {mask.bit_count()} ways, and counts on more"
    if taken.bit_length() > server.ways:
        yield f"{where}: {taken.bit_length()} ways of {server.ways}"
    if classes >= server.classes:
        yield f"{where}: {classes} classes of service besides everybody else's"


def _wrong_core(where: str, core: Core, slos: Mapping[str, Slo], switch_us: float) -> Iterator[str]:
    """Loads, and how late."""
    profiles = [slos[part.slo].profile for part in core.parts]
    costs = [
        1 / _alone(profile, part.ways) for profile, part in zip(profiles, core.parts, strict=True)
    ]
    loads = [part.mpps * cost for part, cost in zip(core.parts, costs, strict=True)]
    total = sum(loads)
    if total >= 1:
        yield f"{where}: a core with a load of {total:.2f}"
        return
    for part, profile, load in zip(core.parts, profiles, loads, strict=True):
        left = 1 - (total - load)  # by the others
        if load > left * _load(profile, slos[part.slo].p95_us) + _TOLERANCE:
            yield f"{where}: {part.slo} has a load of {load / left:.2f} of what others leave it"
    # By load, packets wait no longer in the mean than 95 % of them may take beyond the least.
    allowed = [slos[part.slo].p95_us - p.p95_us_by_load[0][1]
               for part, p in zip(core.parts, profiles, strict=True)]  # fmt: skip
    waits = _weighted_waits(loads, costs, switch_us)
    if waits > sum(load * us for load, us in zip(loads, allowed, strict=True)):
        names = ", ".join(part.slo for part in core.parts)
        yield f"{where}: {names} wait longer in the mean than 95 % may"


def _weighted_waits(loads: Sequence[float], costs: Sequence[float], switch_us: float) -> float:
    """Σ ρi Wi: as one queue, the round that is left, and who has to wait for a round."""
    total = sum(loads)
    queue = total * sum(load * cost for load, cost in zip(loads, costs, strict=True))
    if len(loads) == 1:
        return queue / (2 * (1 - total))
    passing = len(loads) * switch_us
    others = total * total - sum(load * load for load in loads)
    return total * passing / 2 + (queue + passing * others) / (2 * (1 - total))

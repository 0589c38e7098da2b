"""Cores onto machines, and classes of service for the functions on them.

A function whose throughput counts on two ways or more has a class of its own: only then does it
find again what it left in the cache, whoever of its core ran since. Functions of one core that
count on one way each, the least that there is, have their own too while there are classes. Where
there are too few, those of a core share one, with as many ways as they are, first on the cores
whose functions pass least more with all ways. Either takes as many ways: none is better by that.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from unis.slo.cores import Core, Part, SharedMachine
from unis.slo.exact import Kind, filled, solve
from unis.slo.profile import Server, Slo

_SECONDS = 10.0


def machines_for(
    cores: Sequence[Core], server: Server, slos: Mapping[str, Slo]
) -> list[SharedMachine]:
    """The fewest by their ways, exactly; where classes do not suffice then, by first fit."""
    machines = _by_ways(cores, server)
    if any(_classes(machine) >= server.classes for machine in machines):
        machines = _first_fit(cores, server)
    return [SharedMachine(of.name, _masked(machine, of, slos)) for machine, of in (
        (machine, server) for machine in machines)]  # fmt: skip


def _classes(machine: Sequence[Core]) -> int:
    return sum(core.classes for core in machine)


def _by_ways(cores: Sequence[Core], server: Server) -> list[list[Core]]:
    """How many cores of how many ways each has; then those of as many go where classes are left."""
    by_ways: dict[int, list[Core]] = defaultdict(list)
    for core in cores:
        by_ways[core.ways].append(core)
    kinds = [
        Kind(((ways,),), tuple((str(ways), at) for at in range(len(of))))
        for ways, of in by_ways.items()
    ]
    many = replace(server, count=len(cores))
    places = [
        Counter(int(instance.slo) for instance in machine.instances)
        for machine in filled(solve(kinds, (many,), _SECONDS, 0.0), kinds)
    ]
    machines: list[list[Core]] = [[] for _ in places]
    for core in sorted(cores, key=lambda core: -core.classes):
        free = [at for at, of in enumerate(places) if of[core.ways]]
        at = min(free, key=lambda at: (_classes(machines[at]), at))
        places[at][core.ways] -= 1
        machines[at].append(core)
    return machines


def _first_fit(cores: Sequence[Core], server: Server) -> list[list[Core]]:
    machines: list[list[Core]] = []
    for core in sorted(cores, key=lambda core: (-core.classes, -core.ways)):
        fits = (
            machine
            for machine in machines
            if len(machine) < server.places
            and sum(of.ways for of in machine) + core.ways <= server.ways
            and _classes(machine) + core.classes < server.classes
        )
        machine = next(fits, None)
        if machine is None:
            machines.append(machine := [])
        machine.append(core)
    return machines


def _masked(cores: Sequence[Core], server: Server, slos: Mapping[str, Slo]) -> list[Core]:
    """Neighbouring ways for each class, one class after the other."""
    together = _sharing(cores, server, slos)
    masked: list[Core] = []
    first = 0
    for at, core in enumerate(cores):
        single = [part for part in core.parts if part.ways == 1]
        one = len(single) if at in together else 0
        joint, first = ((1 << one) - 1) << first, first + one
        parts: list[Part] = []
        for part in core.parts:
            if part.ways == 1 and joint:
                parts.append(replace(part, mask=joint))
                continue
            parts.append(replace(part, mask=((1 << part.ways) - 1) << first))
            first += part.ways
        masked.append(Core(parts))
    return masked


def _sharing(cores: Sequence[Core], server: Server, slos: Mapping[str, Slo]) -> set[int]:
    """Cores, by their number, whose functions of one way share a class."""

    def loss(core: Core) -> float:
        lost = (1 - slos[part.slo].profile.share(1) for part in core.parts if part.ways == 1)
        return max(lost, default=0.0)

    needed = sum(len(core.parts) for core in cores)
    together: set[int] = set()
    for at in sorted(range(len(cores)), key=lambda at: (loss(cores[at]), at)):
        if needed < server.classes:
            break
        saved = len(cores[at].parts) - cores[at].classes
        if saved:
            together.add(at)
            needed -= saved
    return together

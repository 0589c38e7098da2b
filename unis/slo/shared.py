"""Promises onto shared cores: a promise that needs a fifth of a core takes a fifth (docs/slo.md).

First fit gives a first placement. If it takes more machines than the bound, cores are looked for
together (`core_cover.py`), some hundred promises at a time. How late functions of a core make each
other's packets says `polling.py`. A function that counts on two ways or more has a class of service
of its own. Functions of a core that count on one way each share a class where there are too few.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from unis.errors import UnisError
from unis.slo.core_cover import covered
from unis.slo.cores import (
    Core,
    CoreDemand,
    CoreModel,
    CoreShare,
    SharedMachine,
    SharedPlacement,
    core_demands,
)
from unis.slo.exact import SloGroup, filled, solve
from unis.slo.polling import SWITCH_US
from unis.slo.profile import Server, Slo, Workload
from unis.slo.program import Program

_TOGETHER = 240  # promises whose cores are looked for at the same time
# Cores are never quite full: the emptier they are taken to be, the more ways, which make loads
# smaller, are worth.
_FULLNESS = (1.0, 0.92, 0.84, 0.76)
_SECONDS = 10.0  # to put cores onto machines
_EPSILON = 1e-6


@dataclass(frozen=True)
class _PackingProblem:
    """What is the same for all promises."""

    server: Server
    model: CoreModel
    report: Callable[[str], None]

    def machines(self, cores: Iterable[Core]) -> list[SharedMachine]:
        """That they take."""
        return _machines([*cores], self.server, self.model.slos)

    def cover(
        self, demands: Sequence[CoreDemand], starts: Iterable[Sequence[Core]], *, whole: bool
    ) -> list[Core]:
        """Cores that are looked for together."""
        return covered(demands, self.server, self.model, starts, whole=whole, report=self.report)


def shared(
    workload: Workload,
    switch_us: float = SWITCH_US,
    report: Callable[[str], None] = lambda _: None,
) -> SharedPlacement:
    """Places all promises that can be kept.

    UnisError where there are several kinds of servers, or too few. `report` is told how it goes.
    """
    began = time.monotonic()
    if len(workload.servers) > 1:
        raise UnisError("cores are shared on servers of one kind only: name one in the workload")
    if switch_us <= 0:
        raise ValueError("passing a core on takes longer than 0 µs")
    (server,) = workload.servers
    _see_that_it_is_modelled(workload, server)
    demands, refused = core_demands(workload, server, switch_us)
    if not demands:
        return SharedPlacement((), refused, 0, time.monotonic() - began)
    slos = {slo.name: slo for slo in workload.slos}
    problem = _PackingProblem(server, CoreModel(slos, workload.margin, switch_us), report)
    groups = math.ceil(len(demands) / _TOGETHER)
    machines, bound = (
        _together(problem, demands) if groups == 1 else _apart(problem, demands, groups)
    )
    if len(machines) > server.count:
        least = f"; none takes fewer than {bound}" if bound else ""
        raise UnisError(
            f"this placement takes {len(machines)} servers {server.name}, and there are "
            f"{server.count}{least}",
            bad_input=False,
        )
    return SharedPlacement(machines, refused, bound, time.monotonic() - began)


def _see_that_it_is_modelled(workload: Workload, server: Server) -> None:
    """UnisError where it is not."""
    if server.places < 1:
        raise UnisError(
            f"servers {server.name} have no class of service, or no core, for functions"
        )
    if server.sockets > 1:
        raise UnisError(
            f"cores are shared on servers of one socket only: write {server.name} as so many more "
            "servers of one"
        )
    if workload.memory is not None:
        raise UnisError("where cores are shared memory bandwidth is not looked at: leave it out")
    if workload.nics is not None:
        raise UnisError("where cores are shared NICs are not looked at: leave `machine` out")
    for slo in workload.slos:
        if slo.profile.cores > 1:
            raise UnisError(
                f"{slo.name}: {slo.profile.name} is a function of {slo.profile.cores} cores, and "
                "such share none: plan it without shared cores"
            )


def _together(
    problem: _PackingProblem, demands: Sequence[CoreDemand]
) -> tuple[list[SharedMachine], int]:
    """Machines, and how many no placement goes below."""
    starts = [_first_fit(problem, demands, full) for full in _FULLNESS]
    best = min((problem.machines(cores) for cores in starts), key=len)
    bound = _bound(problem, demands)
    if len(best) > bound and (cores := problem.cover(demands, starts, whole=True)):
        best = min(best, problem.machines(cores), key=len)
    return best, bound


def _apart(
    problem: _PackingProblem, demands: Sequence[CoreDemand], groups: int
) -> tuple[list[SharedMachine], int]:
    """The same where there are too many: each group has its own cores, and machines have of all."""
    cores: list[Core] = []
    for number in range(groups):
        problem.report(f"promises, group {number + 1} of {groups}")
        group = demands[number::groups]
        starts = [_first_fit(problem, group, full) for full in _FULLNESS]
        found = problem.cover(group, starts, whole=False)
        cores += found or min(starts, key=lambda start: len(problem.machines(start)))
    return problem.machines(cores), _bound(problem, demands)


def _bound(problem: _PackingProblem, demands: Sequence[CoreDemand]) -> int:
    """Machines that no placement goes below, however promises are cut."""
    promises: dict[tuple[str, int], list[CoreDemand]] = defaultdict(list)
    for demand in demands:
        promises[demand.slo.name, demand.at].append(demand)
    # Of one in several instances: all of it with so many ways, were it not cut.
    shares = [tuple(share * len(parts) for share in parts[0].shares) for parts in promises.values()]
    return math.ceil(_pooled(shares, problem.server)[0] - _EPSILON)


def _pooled(
    wanted: Sequence[tuple[float, ...]], server: Server, full: float = 1.0
) -> tuple[float, list[int]]:
    """Machines as one pool of ways and of cores that get that full; and ways for each that wants.

    With w ways it takes of the pool w of them and its share of a core. Whatever is placed, a
    machine has no more than all of its ways and cores, so no placement takes fewer machines.
    """
    kinds: dict[tuple[float, ...], list[int]] = defaultdict(list)
    for at, shares in enumerate(wanted):
        kinds[shares].append(at)
    program = Program()
    ways, cores = program.row(), program.row()
    program.column(1.0, {ways: float(server.ways), cores: full * server.places})
    for shares, indices in kinds.items():
        row = program.row(len(indices), len(indices))
        for count, share in enumerate(shares, 1):
            program.column(0.0, {ways: -float(count), cores: -share, row: 1.0})
    found = program.solve(relaxed=True)
    if found is None:
        raise AssertionError("as many machines as one likes hold all of it")
    chosen = [1] * len(wanted)
    values = iter(found.values[1:])
    for shares, indices in kinds.items():
        counts = {count: next(values) for count in range(1, len(shares) + 1)}
        most = max(count for count, value in counts.items() if value > _EPSILON)
        some = [count for count, value in counts.items() for _ in range(round(value))]
        for at, count in zip(indices, [*some, *[most] * len(indices)], strict=False):
            chosen[at] = count
    return found.objective, chosen


def _first_fit(problem: _PackingProblem, demands: Sequence[CoreDemand], full: float) -> list[Core]:
    """Onto cores, the largest load first, each where least is left."""
    server = problem.server
    _, ways = _pooled([demand.shares for demand in demands], server, full)
    parts = [
        next(
            part
            for at in range(least, len(demand.shares) + 1)
            if problem.model.holds([part := demand.part(at)])
        )
        for demand, least in zip(demands, ways, strict=True)
    ]
    # Ways of one core, so that no machine is lopsided.
    most = min(server.ways, -(-server.ways * 2 // server.cores))
    cores: list[Core] = []
    for part in sorted(parts, key=lambda part: (-part.load, -part.ways)):
        fits = [
            core
            for core in cores
            if core.ways + part.ways <= max(most, part.ways)
            and Core([*core.parts, part]).classes < server.classes
            and problem.model.holds([*core.parts, part])
        ]
        if fits:
            max(fits, key=lambda core: core.load).parts.append(part)
        else:
            cores.append(Core([part]))
    return [Core(problem.model.trimmed(core.parts)) for core in cores]


# ---------------------------------------------------------------------- cores onto machines


def _machines(
    cores: Sequence[Core], server: Server, slos: Mapping[str, Slo]
) -> list[SharedMachine]:
    """The fewest by their ways, exactly; where classes do not suffice then, by first fit."""
    machines = _by_ways(cores, server)
    if any(_classes(machine) >= server.classes for machine in machines):
        machines = _by_classes(cores, server)
    return [SharedMachine(server.name, _masked(machine, server, slos)) for machine in machines]


def _classes(machine: Sequence[Core]) -> int:
    return sum(core.classes for core in machine)


def _by_ways(cores: Sequence[Core], server: Server) -> list[list[Core]]:
    """How many cores of how many ways each has; then those of as many go where classes are left."""
    by_ways: dict[int, list[Core]] = defaultdict(list)
    for core in cores:
        by_ways[core.ways].append(core)
    kinds = [
        SloGroup(((ways,),), tuple((str(ways), at) for at in range(len(alike))))
        for ways, alike in by_ways.items()
    ]
    many = replace(server, count=len(cores))
    places = [
        Counter(int(instance.slo) for instance in machine.instances)
        for machine in filled(solve(kinds, (many,), _SECONDS, 0.0), kinds)
    ]
    machines: list[list[Core]] = [[] for _ in places]
    for core in sorted(cores, key=lambda core: -core.classes):
        free = [at for at, place in enumerate(places) if place[core.ways]]
        at = min(free, key=lambda at: (_classes(machines[at]), at))
        places[at][core.ways] -= 1
        machines[at].append(core)
    return machines


def _by_classes(cores: Sequence[Core], server: Server) -> list[list[Core]]:
    """By first fit."""
    machines: list[list[Core]] = []
    for core in sorted(cores, key=lambda core: (-core.classes, -core.ways)):
        fits = (
            machine
            for machine in machines
            if len(machine) < server.places
            and sum(other.ways for other in machine) + core.ways <= server.ways
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
        width = len(single) if at in together else 0
        joint, first = ((1 << width) - 1) << first, first + width
        parts: list[CoreShare] = []
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

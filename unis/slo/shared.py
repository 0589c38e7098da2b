"""Promises onto shared cores: a promise that needs a fifth of a core takes a fifth.

Functions of a core pass the CPU on in turn, each when it has no packets left, and packets come at
random: how late that makes them is `polling.py`'s. Each takes of the core its load by the load that
its profile allows it on one of its own, together no more than one core. So none has more load, of
what the others leave it, than its profile allows. A promise may be cut, its flows divided between
instances: into as many as it needs cores, and into quarters where that fills cores.

First fit gives a first placement; where it takes more machines than the bound, cores are looked for
together (`core_cover.py`), some hundred promises at a time.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from unis.errors import UnisError
from unis.slo.core_bound import least_machines, pooled
from unis.slo.core_cover import Covered, covered
from unis.slo.cores import (
    Core,
    Part,
    SharedMachine,
    SharedPlacement,
    Wish,
    holds,
    trimmed,
    wishes,
)
from unis.slo.polling import SWITCH_US
from unis.slo.profile import Server, Slo, Workload
from unis.slo.shared_machines import machines_for

__all__ = ["SharedPlacement", "shared"]

_TOGETHER = 240  # promises whose cores are looked for at the same time
# Cores are never quite full: the emptier they are taken to be, the more ways, which make loads
# smaller, are worth.
_FULLNESS = (1.0, 0.92, 0.84, 0.76)
_EPSILON = 1e-6


@dataclass(frozen=True)
class _Task:
    """What is the same for all promises."""

    server: Server
    slos: dict[str, Slo]  # by name
    margin: float
    switch_us: float
    report: Callable[[str], None]

    def machines(self, cores: Iterable[Core]) -> list[SharedMachine]:
        """That they take."""
        return machines_for([*cores], self.server, self.slos)

    def holds(self, parts: Sequence[Part]) -> bool:
        """Whether one core keeps these promises."""
        return holds(parts, self.slos, self.margin, self.switch_us)


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
    every, refused = wishes(workload, server, switch_us)
    if not every:
        return SharedPlacement((), refused, 0, time.monotonic() - began)
    slos = {slo.name: slo for slo in workload.slos}
    task = _Task(server, slos, workload.margin, switch_us, report)
    groups = math.ceil(len(every) / _TOGETHER)
    machines, bound = _together(task, every) if groups == 1 else _apart(task, every, groups)
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
    for slo in workload.slos:
        if slo.profile.cores > 1:
            raise UnisError(
                f"{slo.name}: {slo.profile.name} is a function of {slo.profile.cores} cores, and "
                "such share none: plan it without shared cores"
            )


def _together(task: _Task, every: Sequence[Wish]) -> tuple[list[SharedMachine], int]:
    """Machines, and how many no placement goes below."""
    starts = [_first_fit(task, every, full) for full in _FULLNESS]
    best = min((task.machines(cores) for cores in starts), key=len)
    # A promise in several instances might be cut otherwise than into equal ones.
    cut = len(every) > len({(wish.slo.name, wish.at) for wish in every})
    bound = 1 if cut else _whole(pooled(every, task.server)[0])
    if len(best) == bound:
        return best, bound
    found = _covered(task, every, starts, whole=True)
    if found.cores:
        best = min(best, task.machines(found.cores), key=len)
    if len(best) > bound:
        enough = len(best) - 1
        bound = max(bound, _whole(least_machines(every, task.server, found.known, enough)))
    return best, bound


def _apart(
    task: _Task, every: Sequence[Wish], groups: int
) -> tuple[list[SharedMachine], int | None]:
    """The same where there are too many: each group has its own cores, and machines have of all."""
    cores: list[Core] = []
    for number in range(groups):
        task.report(f"promises, group {number + 1} of {groups}")
        of = every[number::groups]
        starts = [_first_fit(task, of, full) for full in _FULLNESS]
        found = _covered(task, of, starts, whole=False)
        cores += found.cores or min(starts, key=lambda start: len(task.machines(start)))
    cut = len(every) > len({(wish.slo.name, wish.at) for wish in every})
    return task.machines(cores), None if cut else _whole(pooled(every, task.server)[0])


def _whole(machines: float) -> int:
    return math.ceil(machines - _EPSILON)


def _covered(
    task: _Task, every: Sequence[Wish], starts: Sequence[Sequence[Core]], *, whole: bool
) -> Covered:
    return covered(
        every, task.server, task.margin, task.switch_us, starts, whole=whole, report=task.report
    )


def _first_fit(task: _Task, every: Sequence[Wish], full: float) -> list[Core]:
    """Onto cores, the largest load first, each where least is left."""
    server = task.server
    _, ways = pooled(every, server, full)
    parts = [
        next(part for at in range(of, len(wish.shares) + 1) if task.holds([part := wish.part(at)]))
        for wish, of in zip(every, ways, strict=True)
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
            and task.holds([*core.parts, part])
        ]
        if fits:
            max(fits, key=lambda core: core.load).parts.append(part)
        else:
            cores.append(Core([part]))
    return [Core(trimmed(core.parts, task.slos, task.margin, task.switch_us)) for core in cores]

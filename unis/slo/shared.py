"""Promises onto shared cores: a promise that needs a fifth of a core takes a fifth.

Functions of a core pass the CPU on in turn, each when it has no packets left, and packets come at
random: how late that makes them is `polling.py`'s. No core has more load than the profile of each
function on it allows for its latency. A promise may be cut, as packets of a flow are kept together:
into as many instances as it needs cores, and into eighths where that fills cores.

First fit gives a first placement; where it takes more machines than the bound, cores are looked for
together (`core_cover.py`), some hundred promises at a time.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence

from unis.errors import UnisError
from unis.slo.core_bound import least_machines
from unis.slo.core_cover import covered
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
from unis.slo.pool import pooled
from unis.slo.profile import Server, Slo, Workload
from unis.slo.shared_machines import machines_for

_TOGETHER = 240  # promises whose cores are looked for at the same time
# Cores are never quite full: the emptier they are taken to be, the more ways, which make loads
# smaller, are worth.
_FULLNESS = (1.0, 0.92, 0.84, 0.76)
_EPSILON = 1e-6


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
    every, refused = wishes(workload, server, switch_us)
    if not every:
        return SharedPlacement((), refused, 0, time.monotonic() - began)
    slos = {slo.name: slo for slo in workload.slos}
    machines, bound = _placed(every, workload, server, switch_us, report)
    if len(machines) > server.count:
        least = f"; none takes fewer than {bound}" if bound else ""
        raise UnisError(
            f"this placement takes {len(machines)} servers {server.name}, and there are "
            f"{server.count}{least}",
            bad_input=False,
        )
    placed = [
        SharedMachine(machine.server, [Core(_by_name(core, slos)) for core in machine.cores])
        for machine in machines
    ]
    return SharedPlacement(placed, refused, bound, time.monotonic() - began)


def _by_name(core: Core, slos: Mapping[str, Slo]) -> list[Part]:
    order = {name: at for at, name in enumerate(slos)}
    return sorted(core.parts, key=lambda part: (order[part.slo], part.at))


def _placed(
    every: Sequence[Wish],
    workload: Workload,
    server: Server,
    switch_us: float,
    report: Callable[[str], None],
) -> tuple[list[SharedMachine], int | None]:
    slos = {slo.name: slo for slo in workload.slos}
    groups = max(1, math.ceil(len(every) / _TOGETHER))
    cut = len(every) > len({(wish.slo.name, wish.at) for wish in every})
    # A promise in several instances might be cut otherwise than into equal ones.
    bound = None if cut else math.ceil(pooled(every, server)[0] - _EPSILON)
    by_fullness: list[list[Core]] = [[] for _ in _FULLNESS]
    looked_for: list[Core] = []
    for group in range(groups):
        of = every[group::groups]
        starts = [_first_fit(of, workload, server, switch_us, full) for full in _FULLNESS]
        for cores, start in zip(by_fullness, starts, strict=True):
            cores += start
        if group == 0 and groups == 1:
            best = min((machines_for(cores, server, slos) for cores in starts), key=len)
            if len(best) == bound:
                return best, bound
        found = covered(
            of, server, workload.margin, switch_us, starts, whole=groups == 1, report=report
        )
        looked_for += found.cores
        if groups == 1:
            enough = len(machines_for(found.cores, server, slos)) - 1 if found.cores else math.inf
            proven = least_machines(of, server, found.known, enough)
            bound = max(bound or 0, math.ceil(proven - _EPSILON))
    every_way = [*by_fullness, looked_for] if looked_for else by_fullness
    return min((machines_for(cores, server, slos) for cores in every_way), key=len), bound


def _first_fit(
    every: Sequence[Wish], workload: Workload, server: Server, switch_us: float, full: float
) -> list[Core]:
    """Onto cores, the largest load first, each where least is left."""
    slos = {slo.name: slo for slo in workload.slos}
    _, ways = pooled(every, server, full)
    parts = [
        next(
            part
            for at in range(of, len(wish.shares) + 1)
            if holds([part := wish.part(at)], slos, workload.margin, switch_us)
        )
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
            and holds([*core.parts, part], slos, workload.margin, switch_us)
        ]
        if fits:
            max(fits, key=lambda core: core.load).parts.append(part)
        else:
            cores.append(Core([part]))
    return [Core(trimmed(core.parts, slos, workload.margin, switch_us)) for core in cores]

"""Promises onto shared cores: a promise that needs a fifth of a core takes a fifth.

Functions of a core pass the CPU on in turn, each when it has no packets left; packets are taken to
come at random (Poisson). With loads ρi, ρ of all n of them, whose packets take Si and come at rates
λi, a packet waits in the mean for

    W = Σ λi Si² ÷ 2 (1 − ρ)  +  n · switch ÷ 2 (1 − ρ):

what is in front of it, as in any queue at random, and half a round of turns. Those of a function
with little load wait longer than those of one that has the CPU most of the time,

    Wi = W · ρ (1 − ρi) ÷ Σ ρj (1 − ρj)

(cyclic polling, exhaustive service). 95 % wait no longer than some 4 Wi: more than where waits are
exponential, for turns come together. That comes on top of what the function takes at a low load;
and no core has more load than the function's own profile allows. A core's functions share one class
of service, which has the ways of all: each finds again what it left in the cache.
"""

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import highspy
import numpy as np

from unis.errors import UnisError
from unis.slo.exact import Kind, filled, solve
from unis.slo.placement import Refusal
from unis.slo.profile import Profile, Server, Slo, Workload

SWITCH_US = 1.5  # that a function takes to pass the CPU on (`unis calibrate`)
_FULL = 0.98  # of a core: the most that is given away
_TAIL = 4.0  # times the mean; ln 20 = 3.0 where waits are exponential
_EPSILON = 1e-9
_SECONDS = 10.0  # for cores onto machines
_MORE_WAYS = 5  # for two cores to become one
_TRIED = 40  # cores
_FULLNESS = (0.98, 0.94, 0.9, 0.86, 0.82, 0.78, 0.74)


@dataclass(frozen=True)
class Part:
    """An instance on a shared core."""

    slo: str
    at: int  # which of the promises of that name, from 0
    mpps: float
    ways: int
    load: float  # of its core


@dataclass
class Core:
    """Functions in turn, with one class of service."""

    parts: list[Part]

    @property
    def ways(self) -> int:
        """Of its class."""
        return sum(part.ways for part in self.parts)

    @property
    def load(self) -> float:
        """Of the core."""
        return sum(part.load for part in self.parts)


@dataclass
class SharedMachine:
    """A server and its cores."""

    server: str
    cores: list[Core]

    @property
    def ways(self) -> int:
        """That are given away."""
        return sum(core.ways for core in self.cores)


@dataclass(frozen=True)
class SharedPlacement:
    """All machines that are used."""

    machines: Sequence[SharedMachine]
    refused: Sequence[Refusal]
    # By this model, cores at most 98 % full, none uses fewer. None: not known.
    bound: int | None
    seconds: float


def wait_us(part: Part, parts: Sequence[Part], switch_us: float = SWITCH_US) -> float:
    """Wi above, of one of `parts`; endless where the core is full."""
    load = sum(of.load for of in parts)
    if load >= 1:
        return math.inf
    # λ S² = load · S, and S is load ÷ rate.
    work = sum(of.load * of.load / of.mpps for of in parts)
    turns = len(parts) * switch_us if len(parts) > 1 else 0.0
    away = load * (1 - part.load) / sum(of.load * (1 - of.load) for of in parts)
    return away * (work + turns) / (2 * (1 - load))


def p95_us(
    part: Part, parts: Sequence[Part], profile: Profile, switch_us: float = SWITCH_US
) -> float:
    """95 % of the packets of one of `parts` take no longer."""
    return profile.latency_us[0][1] + _TAIL * wait_us(part, parts, switch_us)


@dataclass(frozen=True)
class _Wish:
    slo: Slo
    at: int
    mpps: float
    loads: tuple[float, ...]  # of a core, with 1, 2, … ways


def shared(workload: Workload, switch_us: float = SWITCH_US) -> SharedPlacement:
    """Places all promises that can be kept.

    UnisError where there are several kinds of servers, or too few.
    """
    began = time.monotonic()
    if len(workload.servers) > 1:
        raise UnisError("cores are shared on servers of one kind only: name one in the workload")
    (server,) = workload.servers
    every, refused = _wishes(workload, server)
    late = {wish.slo.name for wish in every if not _part(wish, 1, workload.margin, switch_us)}
    told = "even alone on a core its packets, which come at random, are late"
    refused += [Refusal(name, f"{name}: {told}") for name in sorted(late)]
    wishes = [wish for wish in every if wish.slo.name not in late]
    if not wishes:
        return SharedPlacement((), refused, 0, time.monotonic() - began)
    bound, _ = _relaxed(wishes, server)
    best: list[SharedMachine] = []
    # Cores are never quite full: the emptier they are taken to be, the more ways, which make loads
    # smaller, are worth.
    for full in _FULLNESS:
        _, ways = _relaxed(wishes, server, full)
        parts = [
            part
            for wish, of in zip(wishes, ways, strict=True)
            if (part := _part(wish, of, workload.margin, switch_us))
        ]
        machines = _packed(parts, workload, server, switch_us)
        if not best or len(machines) < len(best):
            best = machines
        if len(best) == bound:
            break
    # A promise in several instances might be cut otherwise than into equal ones.
    cut = len(wishes) > len({(wish.slo.name, wish.at) for wish in wishes})
    if len(best) > server.count:
        least = "" if cut else f"; none takes fewer than {bound}"
        raise UnisError(
            f"this placement takes {len(best)} servers {server.name}, and there are {server.count}"
            + least,
            bad_input=False,
        )
    return SharedPlacement(best, refused, None if cut else bound, time.monotonic() - began)


def _wishes(workload: Workload, server: Server) -> tuple[list[_Wish], list[Refusal]]:
    """Instances: as few for a promise as cores that it needs with all ways."""
    wishes: list[_Wish] = []
    refused: list[Refusal] = []
    for slo in workload.slos:
        highest = min(_FULL, slo.profile.load_within(slo.p95_us)) - workload.margin
        if highest <= 0:
            least = slo.profile.latency_us[0][1]
            told = f"{slo.name}: nothing keeps {slo.p95_us:g} µs; {least:g} µs is the nearest"
            refused.append(Refusal(slo.name, told))
            continue
        most = slo.profile.solo_mpps * slo.profile.share(server.ways) * highest
        count = math.ceil(slo.mpps / most - _EPSILON)
        each = slo.mpps / count
        loads = tuple(
            each / (slo.profile.solo_mpps * slo.profile.share(ways))
            for ways in range(1, min(server.ways, len(slo.profile.by_ways)) + 1)
        )
        wishes += [_Wish(slo, at, each, loads) for at in range(slo.count) for _ in range(count)]
    return wishes, refused


def _relaxed(wishes: Sequence[_Wish], server: Server, full: float = _FULL) -> tuple[int, list[int]]:
    """A bound, and ways for each where cores get that full.

    Machines are taken for one pool of cores and of ways, and instances for what can be cut up.
    Each instance takes of the pool, with w ways, w of them and a part of a core; whatever is
    placed, a machine has no more than all of its ways and cores.
    """
    kinds: dict[tuple[float, ...], list[int]] = {}
    for at, wish in enumerate(wishes):
        kinds.setdefault(wish.loads, []).append(at)
    columns = [
        (kind, ways) for kind, loads in enumerate(kinds) for ways in range(1, len(loads) + 1)
    ]
    loads_of = list(kinds)
    # Column 0 is the number of machines. Rows: ways, cores, then each kind.
    starts, rows, values = [0, 2], [0, 1], [float(server.ways), full * server.cores]
    for kind, ways in columns:
        rows += [0, 1, 2 + kind]
        values += [-float(ways), -loads_of[kind][ways - 1], 1.0]
        starts.append(len(rows))
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(columns) + 1, 2 + len(kinds)
    lp.col_cost_ = np.array([1.0] + [0.0] * len(columns))
    lp.col_lower_, lp.col_upper_ = np.zeros(len(columns) + 1), np.full(len(columns) + 1, np.inf)
    counts = [float(len(of)) for of in kinds.values()]
    lp.row_lower_ = np.array([0.0, 0.0, *counts])
    lp.row_upper_ = np.array([np.inf, np.inf, *counts])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.array(starts)
    lp.a_matrix_.index_ = np.array(rows)
    lp.a_matrix_.value_ = np.array(values)
    solver = highspy.Highs()
    solver.silent()
    solver.passModel(lp)
    solver.run()
    found = solver.getSolution().col_value
    chosen = [1] * len(wishes)
    left: dict[int, list[int]] = {kind: list(of) for kind, of in enumerate(kinds.values())}
    for (kind, ways), count in zip(columns, found[1:], strict=True):
        for _ in range(round(count)):
            if left[kind]:
                chosen[left[kind].pop()] = ways
    for kind, rest in left.items():
        of_kind = [ways for (at, ways), count in zip(columns, found[1:], strict=True)
                   if at == kind and count > _EPSILON]  # fmt: skip
        for at in rest:
            chosen[at] = max(of_kind, default=1)
    return math.ceil(found[0] - 1e-6), chosen


def _part(wish: _Wish, ways: int, margin: float, switch_us: float) -> Part | None:
    """With so many ways, or more where it could not keep its promise alone on a core."""
    for of in range(ways, len(wish.loads) + 1):
        part = Part(wish.slo.name, wish.at, wish.mpps, of, wish.loads[of - 1])
        if holds([part], {wish.slo.name: wish.slo}, margin, switch_us):
            return part
    return None


def _packed(
    parts: Sequence[Part], workload: Workload, server: Server, switch_us: float
) -> list[SharedMachine]:
    """Onto cores, the largest load first, each where least is left; then cores onto machines."""
    slos = {slo.name: slo for slo in workload.slos}
    cores: list[Core] = []
    # Ways of one core, so that no machine is lopsided.
    most = min(server.ways, -(-server.ways * 2 // server.cores))
    for part in sorted(parts, key=lambda part: (-part.load, -part.ways)):
        fits = [
            core
            for core in cores
            if core.ways + part.ways <= max(most, part.ways)
            and holds([*core.parts, part], slos, workload.margin, switch_us)
        ]
        if fits:
            max(fits, key=lambda core: core.load).parts.append(part)
        else:
            cores.append(Core([part]))
    return _onto_machines(_merged(cores, slos, workload.margin, server, switch_us), server)


def _merged(
    cores: list[Core], slos: Mapping[str, Slo], margin: float, server: Server, switch_us: float
) -> list[Core]:
    """Fewer cores as long as these are what there is too few of: two become one with more ways.

    That which takes the fewest more, first, of each core with some of the emptiest.
    """
    cores = [_trimmed(core, slos, margin, switch_us) for core in cores]
    while len(cores) / server.cores > sum(core.ways for core in cores) / server.ways:
        emptiest = sorted(cores, key=lambda core: core.load)[:_TRIED]
        best: tuple[int, float, Core, Core, Core] | None = None
        for at, one in enumerate(emptiest):
            for other in emptiest[at + 1 :]:
                both = _together([*one.parts, *other.parts], slos, margin, server, switch_us)
                if both is None:
                    continue
                more = both.ways - one.ways - other.ways
                if best is None or (more, -both.load) < best[:2]:
                    best = more, -both.load, one, other, both
        if best is None:
            return cores
        *_, one, other, both = best
        cores = [core for core in cores if core is not one and core is not other] + [both]
    return cores


def _together(
    parts: list[Part], slos: Mapping[str, Slo], margin: float, server: Server, switch_us: float
) -> Core | None:
    """One core for these, with ways as few as will do; None: it cannot be."""
    for _ in range(_MORE_WAYS + 1):
        if holds(parts, slos, margin, switch_us):
            core = _trimmed(Core(parts), slos, margin, switch_us)
            return core if core.ways <= server.ways else None
        gains = [part.load - _with(part, part.ways + 1, slos).load for part in parts]
        most = max(range(len(parts)), key=lambda at: gains[at])
        if gains[most] <= _EPSILON:
            return None
        parts = [_with(part, part.ways + (at == most), slos) for at, part in enumerate(parts)]
    return None


def _trimmed(core: Core, slos: Mapping[str, Slo], margin: float, switch_us: float) -> Core:
    """Without the ways that it can do without, those first that bring it least."""
    parts = list(core.parts)
    while True:
        fewer = [
            (less.load - part.load, at, less)
            for at, part in enumerate(parts)
            if part.ways > 1
            and (less := _with(part, part.ways - 1, slos)).load <= _FULL
            and holds([*parts[:at], less, *parts[at + 1 :]], slos, margin, switch_us)
        ]
        if not fewer:
            return Core(parts)
        _, at, less = min(fewer, key=lambda one: one[:2])
        parts[at] = less


def _with(part: Part, ways: int, slos: Mapping[str, Slo]) -> Part:
    profile = slos[part.slo].profile
    return replace(part, ways=ways, load=part.mpps / (profile.solo_mpps * profile.share(ways)))


def _onto_machines(cores: Sequence[Core], server: Server) -> list[SharedMachine]:
    """The fewest, exactly: a core is what needs so many ways and one place."""
    by_ways: dict[int, list[Core]] = defaultdict(list)
    for core in cores:
        by_ways[core.ways].append(core)
    kinds = [
        Kind(((ways,),), tuple((str(ways), at) for at in range(len(of))))
        for ways, of in by_ways.items()
    ]
    many = replace(server, count=len(cores))
    machines = filled(solve(kinds, (many,), _SECONDS, 0.0), kinds)
    return [
        SharedMachine(server.name, [by_ways[int(of.slo)][of.at] for of in machine.instances])
        for machine in machines
    ]


def holds(
    parts: Sequence[Part], slos: Mapping[str, Slo], margin: float, switch_us: float = SWITCH_US
) -> bool:
    """Whether these functions keep their promises on one core."""
    load = sum(part.load for part in parts)
    if load > _FULL:
        return False
    promised = [(part, slos[part.slo]) for part in parts]
    return all(
        slo.profile.load_within(slo.p95_us) - margin >= load
        and p95_us(part, parts, slo.profile, switch_us) <= slo.p95_us
        for part, slo in promised
    )

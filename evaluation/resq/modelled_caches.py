"""Promises placed by profiles of the cache model, and all functions of a machine in one such cache.

Profiles are of our functions, each alone, by the references that they really make and caches that
are modelled (docs/cache-model.md). Placed by them, the functions of each machine are played side by
side in one last-level cache, each at the rate that it is given and in the ways of its mask, while
devices write packets into the highest ways. On the core and the ways that each server leases to
functions on demand a hungry one may run, which nobody was asked about. What each passes there is
held against its promise, with profiles that are off besides; with masks, without, and where nobody
looked at the cache when functions were packed.
"""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from evaluation.caches.geometry import PAPER, Caches
from evaluation.caches.model import (
    IO_WAYS,
    Neighbour,
    PacketCost,
    beside,
    cache_profile,
    ns_by_ways,
)
from evaluation.caches.references import Recorded, record
from evaluation.resq.profile_error import given_mpps, most_broken, with_errors
from evaluation.resq.reference_subjects import SUBJECTS, reference_subject
from evaluation.resq.results import CacheArm, InCaches
from evaluation.resq.socket_workloads import wrong
from unis.counted.flows import Flows
from unis.isolate.masks import mask_of
from unis.slo.exact import exact
from unis.slo.placement import Instance, PlacedMachine, Placement
from unis.slo.profile import Profile, Server, Slo, Workload
from unis.slo.resq_profiles import PROFILES

_LEASED_WAYS = 2
_FLOWS = Flows(100_000, 300_000)
_HUNGRY, _MANY = "monitor", Flows(400_000, 200_000)
_PACKETS = 50_000  # that count, of each function of a machine
_EACH = 20  # promises
_PART, _P95_US = 0.9, 100.0  # as in the paper's workloads
_CORES, _SERVERS = 9, 100
_LATENCY = PROFILES["firewall"].p95_us_by_load  # assumed of all
_PORT_NS = 30.0  # assumed: what a poll-mode driver takes of a packet, in and out
_COST = PacketCost(port_ns=_PORT_NS)


@dataclass(frozen=True)
class ModelledFunction:
    """A function by the model."""

    recorded: Recorded
    profile: Profile


def modelled(
    report: Callable[[str], None], caches: Caches = PAPER, flows: Flows = _FLOWS
) -> dict[str, ModelledFunction]:
    """Our functions, as recorded and simulated one by one. UnisError where that cannot be."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="unis-subjects-") as folder:
        for name in SUBJECTS:
            report(f"{name} in caches that are modelled")
            recorded = record(reference_subject(name, Path(folder), flows), flows)
            found[name] = ModelledFunction(recorded, profile_of(recorded, caches))
    return found


def profile_of(recorded: Recorded, caches: Caches) -> Profile:
    """With the ways that are for promises."""
    function = cache_profile(recorded, caches)
    ns = ns_by_ways(function, _COST)[: _ways(caches)]
    shares = tuple(min(1.0, ns[-1] / each) for each in ns)
    return Profile(function.name, 1e3 / ns[-1], shares, _LATENCY, "cache model; latency assumed")


def workload(functions: Mapping[str, ModelledFunction], caches: Caches = PAPER) -> Workload:
    """So many promises of each function, of nine tenths of what it passes alone."""
    slos = tuple(
        Slo(name, function.profile, _PART * function.profile.solo_mpps, _P95_US, _EACH)
        for name, function in functions.items()
    )
    server = Server("modelled", _SERVERS, cores=_CORES, ways=_ways(caches))
    return Workload("modelled", slos, (server,))


def _ways(caches: Caches) -> int:
    return caches.llc.ways - IO_WAYS - _LEASED_WAYS


def hungry(caches: Caches = PAPER, flows: Flows = _MANY) -> Neighbour:
    """Of more flows than the cache holds, as fast as it goes, in the ways that are leased."""
    with tempfile.TemporaryDirectory(prefix="unis-subjects-") as folder:
        recorded = record(reference_subject(_HUNGRY, Path(folder), flows), flows)
    function = cache_profile(recorded, caches)
    mask = mask_of(_ways(caches), _LEASED_WAYS)
    return Neighbour(recorded, 1e3 / _COST.ns(function, _LEASED_WAYS), mask)


@dataclass(frozen=True)
class _AnonymousInstance:
    """An instance, without its name: those alike pass alike."""

    function: str
    mpps: float
    mask: int


class SideBySide:
    """What instances pass with all others of their machine in the same last-level cache."""

    def __init__(
        self,
        functions: Mapping[str, ModelledFunction],
        placed: tuple[Workload, Placement],
        *,
        masks: bool,
        guest: Neighbour | None = None,
        caches: Caches = PAPER,
    ) -> None:
        """`masks`: each fills its own ways; else all of them all that are not the devices'.

        `guest`: runs on every machine besides.
        """
        self._functions = functions
        self._caches = caches
        self._profiles = {slo.name: slo.profile.name for slo in placed[0].slos}
        self._given = given_mpps(*placed)
        self._masks = masks
        self._whole = mask_of(0, caches.llc.ways - IO_WAYS)
        self._guests = [replace(guest, mask=guest.mask if masks else self._whole)] if guest else []
        machines = {self._seats(machine) for machine in placed[1].machines}
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            passed = pool.map(self._play, machines)
            self._mpps = dict(zip(machines, passed, strict=True))

    @property
    def machines(self) -> int:
        """Different ones."""
        return len(self._mpps)

    def passes(self, machine: PlacedMachine, instance: Instance) -> float:
        """Mpps of an instance; of several that are alike on a machine the slowest."""
        return self._mpps[self._seats(machine)][self._seat(instance)]

    def _seats(self, machine: PlacedMachine) -> tuple[_AnonymousInstance, ...]:
        seats = map(self._seat, machine.instances)
        return tuple(sorted(seats, key=lambda seat: (seat.mask, seat.function, seat.mpps)))

    def _seat(self, instance: Instance) -> _AnonymousInstance:
        mpps = self._given[instance.slo, instance.at][instance.ways]
        mask = instance.mask if self._masks else self._whole
        return _AnonymousInstance(self._profiles[instance.slo], round(mpps, 9), mask)

    def _play(self, seats: Sequence[_AnonymousInstance]) -> dict[_AnonymousInstance, float]:
        neighbours = [
            Neighbour(self._functions[seat.function].recorded, seat.mpps, seat.mask)
            for seat in seats
        ]
        found = beside([*neighbours, *self._guests], self._caches, packets=_PACKETS)
        slowest: dict[_AnonymousInstance, float] = {}
        for seat, counts in zip(seats, found, strict=False):
            mpps = 1e3 / _COST.ns_beside(counts)
            slowest[seat] = min(mpps, slowest.get(seat, mpps))
        return slowest


def in_caches(report: Callable[[str], None]) -> InCaches:
    """Placed by the model's profiles, and played. UnisError where Valgrind is missing, under which
    functions are recorded.
    """
    functions = modelled(report)
    guest = hungry()
    asked = workload(functions)
    placed, at_will = exact(asked), packed(asked)
    arms = {}
    for name, by, masks, beside_them in (
        ("placed, masks, a hungry neighbour", placed, True, guest),
        ("placed, no masks", placed, False, None),
        ("placed, no masks, a hungry neighbour", placed, False, guest),
        ("packed, no masks, a hungry neighbour", at_will, False, guest),
    ):
        report(f"{len(by.machines)} servers in caches that are modelled: {name}")
        play = SideBySide(functions, (asked, by), masks=masks, guest=beside_them)
        arms[name] = _arm(asked, by, play)
    return InCaches(
        promises=sum(slo.count for slo in asked.slos),
        bound=placed.bound or 0,
        wrong=wrong(asked, placed),
        kept_apart=next(iter(arms)),
        arms=arms,
    )


def packed(asked: Workload) -> Placement:
    """One for each core, functions in turn: their ways say nothing."""
    most = max(slo.count for slo in asked.slos)
    instances = [
        Instance(slo.name, at, 1) for at in range(most) for slo in asked.slos if at < slo.count
    ]
    servers = range(0, len(instances), _CORES)
    return Placement([PlacedMachine("modelled", instances[at : at + _CORES]) for at in servers])


def _arm(asked: Workload, placed: Placement, play: SideBySide) -> CacheArm:
    exactly = with_errors(asked, placed, points=0.0, passes=play.passes)
    profiles = {slo.name: slo.profile for slo in asked.slos}
    lost: dict[str, float] = dict.fromkeys(profiles, 0.0)
    for machine in placed.machines:
        for instance in machine.instances:
            share = play.passes(machine, instance) / profiles[instance.slo].solo_mpps
            lost[instance.slo] = max(lost[instance.slo], 1 - share)
    return CacheArm(
        servers=len(placed.machines),
        played=play.machines,
        broken=dict(exactly.broken_of),
        broken_when_off=most_broken(asked, placed, play.passes),
        lost=lost,
    )

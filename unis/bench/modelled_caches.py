"""Promises placed by profiles of the cache model, and all functions of a machine in one such cache.

Profiles are of our functions, each alone, by the references that they really make and caches that
are modelled (docs/cache-model.md). Placed by them, the functions of each machine are played side by
side in one last-level cache, each at the rate that it is given and in the ways of its mask, while
devices write packets into the highest ways. What each passes there is held against its promise,
with profiles that are off besides.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from unis.bench.socket_workloads import wrong
from unis.profile.cache_model import Neighbour, PacketCost, beside, cache_profile
from unis.profile.machine_caches import PAPER, Caches
from unis.profile.reference_subjects import SUBJECTS, reference_subject
from unis.profile.references import Flows, Recorded, record
from unis.report.promises import InCaches
from unis.slo.exact import exact
from unis.slo.library import PROFILES
from unis.slo.placement import Instance, Machine, Placement
from unis.slo.profile import Profile, Server, Slo, Workload
from unis.slo.profile_error import Passes, given_mpps, with_errors

IO_WAYS = 2
_FLOWS = Flows(100_000, 300_000)
_PACKETS = 50_000  # that count, of each function of a machine
_EACH = 20  # promises
_PART, _P95_US = 0.9, 100.0  # as in the paper's workloads
_CORES, _SERVERS = 9, 100
_DRAWS = 20  # of errors of profiles
_LATENCY = PROFILES["firewall"].latency_us  # assumed of all
_COST = PacketCost()


@dataclass(frozen=True)
class Modelled:
    """A function by the model."""

    recorded: Recorded
    profile: Profile


def modelled(
    report: Callable[[str], None], caches: Caches = PAPER, flows: Flows = _FLOWS
) -> dict[str, Modelled]:
    """Our functions, as recorded and simulated one by one. UnisError where that cannot be."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="unis-subjects-") as folder:
        for name in SUBJECTS:
            report(f"{name} in caches that are modelled")
            recorded = record(reference_subject(name, Path(folder), flows), flows)
            found[name] = Modelled(recorded, profile_of(recorded, caches))
    return found


def profile_of(recorded: Recorded, caches: Caches) -> Profile:
    """With the ways that are not the devices'."""
    of = cache_profile(recorded, caches, io_ways=IO_WAYS)
    ways = of.ways - IO_WAYS
    ns = [_COST.ns(of, number) for number in range(1, ways + 1)]
    shares = tuple(min(1.0, ns[-1] / each) for each in ns)
    return Profile(of.name, 1e3 / ns[-1], shares, _LATENCY, "cache model; latency assumed")


def workload(functions: Mapping[str, Modelled], caches: Caches = PAPER) -> Workload:
    """So many promises of each function, of nine tenths of what it passes alone."""
    slos = tuple(
        Slo(name, of.profile, _PART * of.profile.solo_mpps, _P95_US, _EACH)
        for name, of in functions.items()
    )
    server = Server("modelled", _SERVERS, cores=_CORES, ways=caches.llc.ways - IO_WAYS)
    return Workload("modelled", slos, (server,))


@dataclass(frozen=True)
class _Seat:
    """An instance, without its name: those alike pass alike."""

    function: str
    mpps: float
    mask: int


class SideBySide:
    """What instances pass with all others of their machine in the same last-level cache."""

    def __init__(
        self,
        functions: Mapping[str, Modelled],
        placed: tuple[Workload, Placement],
        *,
        masks: bool,
        caches: Caches = PAPER,
    ) -> None:
        """`masks`: each fills its own ways; else all of them all that are not the devices'."""
        self._functions = functions
        self._caches = caches
        self._profiles = {slo.name: slo.profile.name for slo in placed[0].slos}
        self._given = given_mpps(*placed)
        self._masks = masks
        machines = {self._seats(machine) for machine in placed[1].machines}
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            passed = pool.map(self._play, machines)
            self._mpps = dict(zip(machines, passed, strict=True))

    @property
    def machines(self) -> int:
        """Different ones."""
        return len(self._mpps)

    def passes(self, machine: Machine, instance: Instance) -> float:
        """Mpps of an instance; of several that are alike on a machine the slowest."""
        return self._mpps[self._seats(machine)][self._seat(instance)]

    def _seats(self, machine: Machine) -> tuple[_Seat, ...]:
        seats = map(self._seat, machine.instances)
        return tuple(sorted(seats, key=lambda of: (of.mask, of.function, of.mpps)))

    def _seat(self, instance: Instance) -> _Seat:
        mpps = self._given[instance.slo, instance.at][instance.ways]
        whole = (1 << (self._caches.llc.ways - IO_WAYS)) - 1
        function = self._profiles[instance.slo]
        return _Seat(function, round(mpps, 9), instance.mask if self._masks else whole)

    def _play(self, seats: Sequence[_Seat]) -> dict[_Seat, float]:
        neighbours = [
            Neighbour(self._functions[of.function].recorded, of.mpps, of.mask) for of in seats
        ]
        found = beside(neighbours, self._caches, io_ways=IO_WAYS, packets=_PACKETS)
        slowest: dict[_Seat, float] = {}
        for seat, of in zip(seats, found, strict=True):
            mpps = 1e3 / _COST.ns_beside(of)
            slowest[seat] = min(mpps, slowest.get(seat, mpps))
        return slowest


def in_caches(report: Callable[[str], None]) -> InCaches:
    """Placed by the model's profiles, and played with masks and without. UnisError where Valgrind
    is missing, under which functions are recorded.
    """
    functions = modelled(report)
    of = workload(functions)
    placed = exact(of)
    report(f"{len(placed.machines)} servers, all functions of each in one cache that is modelled")
    isolated = SideBySide(functions, (of, placed), masks=True)
    report("the same functions, packed without a look at the cache, and no masks")
    at_will = packed(of)
    shared = SideBySide(functions, (of, at_will), masks=False)
    return InCaches(
        promises=sum(slo.count for slo in of.slos),
        servers=len(placed.machines),
        bound=placed.bound or 0,
        played=isolated.machines,
        wrong=wrong(of, placed),
        furthest=max(
            profile.share(one.ways) - share
            for one, profile, share in _passed(of, placed, isolated.passes)
        ),
        broken=_broken(of, placed, isolated.passes),
        packed_servers=len(at_will.machines),
        packed_broken=with_errors(of, at_will, points=0.0, passes=shared.passes).broken,
        packed_lost=max(1 - share for _, _, share in _passed(of, at_will, shared.passes)),
    )


def packed(of: Workload) -> Placement:
    """One for each core, in turn: their ways say nothing."""
    instances = [Instance(slo.name, at, 1) for slo in of.slos for at in range(slo.count)]
    servers = range(0, len(instances), _CORES)
    return Placement([Machine("modelled", instances[at : at + _CORES]) for at in servers])


def _broken(of: Workload, placed: Placement, passes: Passes) -> int:
    """The most, where each profile is off by 1.5 points: all of them down, and by chance."""
    seeds = (None, *range(_DRAWS))
    return max(with_errors(of, placed, seed=seed, passes=passes).broken for seed in seeds)


def _passed(
    of: Workload, placed: Placement, passes: Passes
) -> Iterator[tuple[Instance, Profile, float]]:
    """Of what each instance passes alone, what it passes."""
    profiles = {slo.name: slo.profile for slo in of.slos}
    for machine in placed.machines:
        for one in machine.instances:
            profile = profiles[one.slo]
            yield one, profile, passes(machine, one) / profile.solo_mpps

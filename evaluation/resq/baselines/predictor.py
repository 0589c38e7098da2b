"""The predictor of Dobrescu et al., and first fit by what it says (ResQ, section 6.2).

M. Dobrescu, K. Argyraki, S. Ratnasamy: *Toward Predictable Performance in Software
Packet-Processing Platforms*, NSDI 2012: a function that hits the cache h times a second, and of
whose hits the part κ become misses of δ each, loses

    drop = 1 ÷ (1 + 1 ÷ (δ κ h)),

for what took a second takes 1 + δ κ h. κ grows with the references R a second of its neighbours.
Each function is profiled beside synthetic ones that reach all over memory, and R is taken to be
what its neighbours make when they are alone on a server.

Here the curve is not measured. δ κ h is 1 ÷ s(w) − 1 of the function's profile, with the ways w
that it holds beside R references that all miss (`contention.beside`). That leaves one parameter for
all functions, δ (`PENALTY_US`). It is chosen by ResQ's Fig. 10 (six functions, 19.5 MB): how much
the predictor says too much there (`overestimate`); no count of machines enters.

There are three readings of the rule, for the text and the authors' program (NetSys/resq,
slo/policy.py) differ:

- `PROGRAM`: as their program has it. Promises are placed by the ways that they need, the most
  first, and an instance goes where all, it too, are said to keep what is promised. But a function
  that is on a server already is looked up in the list as it came in, by its place in the other
  order, so that most are taken for others. This comes near the paper's numbers.
- `NAMED`: the same with each under its own name, and as they come in.
- `SECOND`: as the text has it. An instance goes where those that are there keep their promises,
  whatever is left to itself; where that is too little, another is placed.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache

from evaluation.resq.baselines.arrivals import Promise, in_turn, only_server
from evaluation.resq.baselines.contention import Tenant, beside, shares
from unis.slo.profile import Profile, Workload

# References to the last-level cache a packet (ResQ, Table 1).
REFERENCES: Mapping[str, float] = {
    "efficuts": 10.23, "endre": 1.54, "firewall": 1.59, "ipsec": 5.13, "lpm": 3.87,
    "mazunat": 12.14, "snort": 25.61, "stats": 10.22, "suricata": 26.89,
}  # fmt: skip
PENALTY_US = 0.032  # δ
_EPSILON = 1e-9
_MOST = 64  # instances of a promise


class Reading(Enum):
    """Of the rule; above."""

    PROGRAM = "program"
    NAMED = "named"
    SECOND = "second"


def references(profile: Profile) -> float:
    """A µs, alone at its most. KeyError: it is none of Table 1's."""
    return profile.solo_mpps * REFERENCES[profile.name]


@lru_cache(maxsize=65536)
def predicted(profile: Profile, neighbours: float, ways: float, penalty_us: float) -> float:
    """By its solo throughput, what it passes beside so many references a µs."""
    return beside(profile, neighbours, ways, penalty_us)


def overestimate(
    profile: Profile,
    competitors: Sequence[Profile],
    ways: float,
    count: int = 5,
    penalty_us: float = PENALTY_US,
) -> float:
    """Points of throughput that the predictor takes away too much, as in Fig. 10: the mean.

    Beside `count` of each competitor in turn: what is predicted from what they refer to alone, less
    what contention makes of it.
    """
    errors = []
    for other in competitors:
        said = predicted(profile, count * references(other), ways, penalty_us)
        tenants = [Tenant(profile, 1.0)] + [Tenant(other, 1.0)] * count
        errors.append(shares(tenants, ways)[0] - said)
    return 100 * sum(errors) / len(errors)


def first_fit(
    workload: Workload, reading: Reading, penalty_us: float = PENALTY_US
) -> list[list[Promise]]:
    """A promise for each instance on each server. UnisError: several kinds of servers."""
    server = only_server(workload)
    packing = _Packing(server.cores, server.ways, penalty_us)
    if reading is Reading.PROGRAM:
        return packing.by_place(in_turn(workload))
    for promise in in_turn(workload):
        (packing.place if reading is Reading.NAMED else packing.place_with_second)(promise)
    return packing.servers


class _Packing:
    """Servers that fill up."""

    def __init__(self, cores: int, ways: int, penalty_us: float) -> None:
        self._cores, self._ways, self._penalty_us = cores, ways, penalty_us
        self.servers: list[list[Promise]] = []
        self._passes: dict[Promise, dict[int, float]] = {}  # by server, what is predicted

    def _predict(self, on: Sequence[Promise]) -> list[float]:
        every = [references(promise.slo.profile) for promise in on]
        return [
            # Rounded, so that sums of the same in another order are the same.
            predicted(of.slo.profile, round(sum(every) - own, 9), self._ways, self._penalty_us)
            for of, own in zip(on, every, strict=True)
        ]

    def _all_kept(self, on: Sequence[Promise]) -> bool:
        return all(
            passes >= promise.part / promise.instances - _EPSILON
            for promise, passes in zip(on, self._predict(on), strict=True)
        )

    def place(self, promise: Promise) -> None:
        """Each instance where all, itself too, are said to pass their part."""
        for _ in range(promise.instances):
            for on in self.servers:
                if len(on) < self._cores and self._all_kept([*on, promise]):
                    on.append(promise)
                    break
            else:
                self.servers.append([promise])

    def by_place(self, arrived: Sequence[Promise]) -> list[list[Promise]]:
        """The same in the order of need; who is there is looked up in another order."""
        listed = [promise for promise in arrived for _ in range(promise.instances)]
        order = sorted(listed, key=lambda promise: -_need(promise, self._ways))
        places: list[list[int]] = []
        for place, promise in enumerate(order):
            for on in places:
                if len(on) < self._cores and self._all_kept([*(listed[at] for at in on), promise]):
                    on.append(place)
                    break
            else:
                places.append([place])
        return [[order[at] for at in on] for on in places]

    def place_with_second(self, promise: Promise) -> None:
        """Instances where no other's promise breaks, until this one is said to be kept."""
        self._passes[promise] = {}
        while sum(self._passes[promise].values()) < promise.part - _EPSILON:
            if len(self._passes[promise]) >= _MOST:
                raise AssertionError(f"{promise.slo.name}: {_MOST} instances are not enough")
            at = next(
                (at for at, on in enumerate(self.servers) if self._bears(at, on, promise)),
                len(self.servers),
            )
            if at == len(self.servers):
                self.servers.append([])
            self.servers[at].append(promise)
            for of, passes in zip(self.servers[at], self._predict(self.servers[at]), strict=True):
                self._passes[of][at] = passes

    def _bears(self, at: int, on: Sequence[Promise], promise: Promise) -> bool:
        """Whether those on a server keep their promises, here and elsewhere, beside one more."""
        if len(on) >= self._cores or promise in on:
            return False
        for of, passes in zip(on, self._predict([*on, promise]), strict=False):
            elsewhere = sum(self._passes[of].values()) - self._passes[of][at]
            if elsewhere + passes < of.part - _EPSILON:
                return False
        return True


def _need(promise: Promise, ways: int) -> int:
    """Ways with which an instance of its own passes its part; all where none do."""
    wanted = promise.part / promise.instances - _EPSILON
    shares_of = promise.slo.profile.share_by_ways[:ways]
    return next((at for at, share in enumerate(shares_of, 1) if share >= wanted), ways)

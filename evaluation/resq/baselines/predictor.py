"""The predictor of Dobrescu et al., and first fit by what it says (ResQ, section 6.2).

M. Dobrescu, K. Argyraki, S. Ratnasamy: *Toward Predictable Performance in Software
Packet-Processing Platforms*, NSDI 2012: a function that hits the cache h times a second, and of
whose hits the part κ become misses of δ each, loses

    drop = 1 ÷ (1 + 1 ÷ (δ κ h)),

because the work of a second takes 1 + δ κ h seconds. κ grows with R, the references per second of
the neighbours. Each function is profiled beside synthetic functions that access all of memory. R is
taken from the neighbours alone on a server.

Here the curve is not measured: δ κ h is 1 ÷ s(w) − 1 of the function's profile, with the ways w
that it holds beside R references that all miss (`contention.beside`). One parameter is left for all
functions, δ (`PENALTY_US`). It is fitted to ResQ's Fig. 10 (six functions, 19.5 MB), the
overestimate of the predictor (`overestimate`), and not to any number of machines.

There are three readings of the rule, because the text and the authors' program (NetSys/resq,
slo/policy.py) differ:

- `PROGRAM`: as in their program. Promises are placed in falling order of the ways that they need.
  An instance goes to a server where all instances, itself included, are predicted to keep their
  promises. But the program sorts the list and then uses positions in the sorted list as positions
  in the unsorted one: it takes most placed functions for others. This comes near the paper's
  numbers.
- `NAMED`: the same, with the right functions and in the order of arrival.
- `SECOND`: as in the text. An instance goes to a server where the placed functions keep their
  promises, whatever is left for the new one. If that is too little, another instance is placed.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache

from evaluation.resq.baselines.arrivals import Promise, in_turn, only_server
from evaluation.resq.baselines.contention import Tenant, beside, shares
from unis.slo.profile import Profile, Workload

# References to the last-level cache per packet (ResQ, Table 1).
REFERENCES: Mapping[str, float] = {
    "efficuts": 10.23, "endre": 1.54, "firewall": 1.59, "ipsec": 5.13, "lpm": 3.87,
    "mazunat": 12.14, "snort": 25.61, "stats": 10.22, "suricata": 26.89,
}  # fmt: skip
PENALTY_US = 0.032  # δ
_EPSILON = 1e-9
_MOST = 64  # instances of a promise


class RuleReading(Enum):
    """The readings of the rule, as above."""

    PROGRAM = "program"
    NAMED = "named"
    SECOND = "second"


def references(profile: Profile) -> float:
    """References per µs, alone and at full load. KeyError: the function is not in Table 1."""
    return profile.solo_mpps * REFERENCES[profile.name]


@lru_cache(maxsize=65536)
def predicted(profile: Profile, neighbours: float, ways: float, penalty_us: float) -> float:
    """Predicted throughput ÷ solo throughput, beside `neighbours` references per µs."""
    return beside(profile, neighbours, ways, penalty_us)


def overestimate(
    profile: Profile,
    competitors: Sequence[Profile],
    ways: float,
    count: int = 5,
    penalty_us: float = PENALTY_US,
) -> float:
    """Mean overestimate of the loss, points of throughput, as in Fig. 10.

    Beside `count` instances of each competitor in turn: the throughput by the contention model
    minus the predicted one.
    """
    errors = []
    for other in competitors:
        predicted_share = predicted(profile, count * references(other), ways, penalty_us)
        tenants = [Tenant(profile, 1.0)] + [Tenant(other, 1.0)] * count
        errors.append(shares(tenants, ways)[0] - predicted_share)
    return 100 * sum(errors) / len(errors)


def first_fit(
    workload: Workload, reading: RuleReading, penalty_us: float = PENALTY_US
) -> list[list[Promise]]:
    """The promise of each instance, by server. UnisError: several kinds of servers."""
    server = only_server(workload)
    packing = _Packing(server.cores, server.ways, penalty_us)
    if reading is RuleReading.PROGRAM:
        return packing.by_place(in_turn(workload))
    for promise in in_turn(workload):
        (packing.place if reading is RuleReading.NAMED else packing.place_with_second)(promise)
    return packing.servers


class _Packing:
    """Places instances on servers, first fit."""

    def __init__(self, cores: int, ways: int, penalty_us: float) -> None:
        self._cores, self._ways, self._penalty_us = cores, ways, penalty_us
        self.servers: list[list[Promise]] = []
        self._passes: dict[Promise, dict[int, float]] = {}  # predicted throughput, by server

    def _predict(self, placed: Sequence[Promise]) -> list[float]:
        rates = [references(promise.slo.profile) for promise in placed]
        return [
            # Rounded, so that the order of a sum does not matter.
            predicted(promise.slo.profile, round(sum(rates) - own, 9), self._ways, self._penalty_us)
            for promise, own in zip(placed, rates, strict=True)
        ]

    def _all_kept(self, placed: Sequence[Promise]) -> bool:
        return all(
            passes >= promise.part / promise.instances - _EPSILON
            for promise, passes in zip(placed, self._predict(placed), strict=True)
        )

    def place(self, promise: Promise) -> None:
        """Places each instance where all, itself included, are predicted to pass their part."""
        for _ in range(promise.instances):
            for placed in self.servers:
                if len(placed) < self._cores and self._all_kept([*placed, promise]):
                    placed.append(promise)
                    break
            else:
                self.servers.append([promise])

    def by_place(self, arrived: Sequence[Promise]) -> list[list[Promise]]:
        """As the authors' program: in the order of need, but with positions of another order."""
        listed = [promise for promise in arrived for _ in range(promise.instances)]
        order = sorted(listed, key=lambda promise: -_need(promise, self._ways))
        places: list[list[int]] = []
        for place, promise in enumerate(order):
            for server in places:
                if len(server) < self._cores and self._all_kept(
                    [*(listed[position] for position in server), promise]
                ):
                    server.append(place)
                    break
            else:
                places.append([place])
        return [[order[position] for position in server] for server in places]

    def place_with_second(self, promise: Promise) -> None:
        """Places instances where no other promise breaks, until this one is predicted to hold."""
        self._passes[promise] = {}
        while sum(self._passes[promise].values()) < promise.part - _EPSILON:
            if len(self._passes[promise]) >= _MOST:
                raise AssertionError(f"{promise.slo.name}: {_MOST} instances are not enough")
            index = next(
                (
                    index
                    for index, placed in enumerate(self.servers)
                    if self._accepts(index, placed, promise)
                ),
                len(self.servers),
            )
            if index == len(self.servers):
                self.servers.append([])
            self.servers[index].append(promise)
            for neighbour, passes in zip(
                self.servers[index], self._predict(self.servers[index]), strict=True
            ):
                self._passes[neighbour][index] = passes

    def _accepts(self, index: int, placed: Sequence[Promise], promise: Promise) -> bool:
        """Whether the promises on a server still hold, over all their servers, with one more."""
        if len(placed) >= self._cores or promise in placed:
            return False
        for neighbour, passes in zip(placed, self._predict([*placed, promise]), strict=False):
            elsewhere = sum(self._passes[neighbour].values()) - self._passes[neighbour][index]
            if elsewhere + passes < neighbour.part - _EPSILON:
                return False
        return True


def _need(promise: Promise, ways: int) -> int:
    """The ways that an instance needs to pass its part; `ways` if no number is enough."""
    wanted = promise.part / promise.instances - _EPSILON
    shares_of = promise.slo.profile.share_by_ways[:ways]
    return next(
        (ways_needed for ways_needed, share in enumerate(shares_of, 1) if share >= wanted), ways
    )

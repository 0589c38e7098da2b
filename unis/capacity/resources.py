"""Throughput of chains over shared resources, as a linear program.

Each chain has a variable, its throughput in packets/s. Each resource has a row: what the chains
take of it is at most its capacity. One chain alone passes min(capacity / amount).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from unis.capacity.parameter import Parameter
from unis.errors import UnisError
from unis.slo.program import Program
from unis.slo.program import Solution as Found

Objective = Literal["total", "max-min"]

_FULL = 1e-6  # a share unused that is none
_FLOOR = 1 - 1e-9  # of a throughput that was reached, so that rounding makes nothing infeasible


class CapacityError(UnisError):
    """Resources and demands that have no answer; the text says why."""


@dataclass(frozen=True)
class Resource:
    """Something that packets use up. `capacity`: units/s."""

    name: str
    capacity: float
    unit: str
    sources: tuple[Parameter, ...] = ()  # what the capacity rests on


@dataclass(frozen=True)
class PacketDemand:
    """What a packet of a chain takes of a resource, in its unit. Several of a pair add up."""

    chain: str
    resource: str
    amount: float


@dataclass(frozen=True)
class Throughputs:
    """What the chains pass at most, and what holds them back."""

    throughput: Mapping[str, float]  # packets/s, by chain
    bottlenecks: tuple[str, ...]  # resources that are used up
    slack: Mapping[str, float]  # share unused, by resource

    @property
    def total(self) -> float:
        """Packets/s of all chains."""
        return sum(self.throughput.values())

    def objective(self, of: Objective) -> float:
        """The total, or the smallest throughput, packets/s."""
        return self.total if of == "total" else min(self.throughput.values())


def solve(
    resources: Iterable[Resource],
    demands: Iterable[PacketDemand],
    objective: Objective,
    tenants: Mapping[str, str] | None = None,
) -> Throughputs:
    """The most that the chains of the demands pass together.

    `total`: the sum is as large as can be, even if a chain then passes nothing. `max-min`: the
    smallest throughput is as large as can be, then the next one, and so on; with `tenants` (by
    chain) first the throughput of tenants, then that of chains within them. CapacityError if a
    chain takes nothing of any resource, or a demand names none.
    """
    model = _Model.of(tuple(resources), tuple(demands))
    rates = model.total() if objective == "total" else model.fair(tenants or {})
    slack = {
        resource.name: _slack(resource, model.used(resource.name, rates))
        for resource in model.resources
    }
    return Throughputs(
        rates,
        tuple(name for name, unused in slack.items() if unused <= _FULL and model.needs(name)),
        slack,
    )


def _slack(resource: Resource, used: float) -> float:
    unused = 1 - used / resource.capacity if resource.capacity else 0.0
    return 0.0 if abs(unused) <= _FULL else unused


@dataclass(frozen=True)
class _Model:
    resources: tuple[Resource, ...]
    chains: tuple[str, ...]
    amounts: Mapping[str, Mapping[str, float]]  # by chain and resource, above 0

    @classmethod
    def of(cls, resources: Sequence[Resource], demands: Sequence[PacketDemand]) -> "_Model":
        known = {resource.name for resource in resources}
        if len(known) < len(resources):
            raise CapacityError("two resources have the same name")
        for resource in resources:
            if not 0 <= resource.capacity < math.inf:
                raise CapacityError(
                    f"{resource.name}: a capacity of {resource.capacity:g} {resource.unit} is none"
                )
        amounts: dict[str, dict[str, float]] = {}
        for demand in demands:
            if demand.resource not in known:
                raise CapacityError(
                    f"chain {demand.chain} takes of {demand.resource}, which is no resource"
                )
            if not 0 <= demand.amount < math.inf:
                raise CapacityError(
                    f"chain {demand.chain} takes {demand.amount:g} of {demand.resource} a packet"
                )
            taken = amounts.setdefault(demand.chain, {})
            if demand.amount:
                taken[demand.resource] = taken.get(demand.resource, 0.0) + demand.amount
        for chain, taken in amounts.items():
            if not taken:
                raise CapacityError(
                    f"chain {chain} takes nothing of any resource, so nothing limits it"
                )
        return cls(tuple(resources), tuple(amounts), amounts)

    def used(self, resource: str, rates: Mapping[str, float]) -> float:
        """Units/s of it at these throughputs."""
        return sum(rates[chain] * self.amounts[chain].get(resource, 0.0) for chain in self.chains)

    def needs(self, resource: str) -> bool:
        """Whether a chain takes of it."""
        return any(resource in taken for taken in self.amounts.values())

    def total(self) -> dict[str, float]:
        """Throughput by chain."""
        alone = [self._alone(chain) for chain in self.chains]
        unit = math.exp(sum(map(math.log, alone)) / max(1, len(alone)))
        found = self._solved(unit, dict.fromkeys(self.chains, -1.0), [])
        return self._rates(unit, found)

    def fair(self, tenants: Mapping[str, str]) -> dict[str, float]:
        """The same by max–min fairness."""
        groups: dict[str, list[str]] = defaultdict(list)
        for chain in self.chains:
            groups[tenants.get(chain, chain)].append(chain)
        alone = [(chain,) for chain in self.chains]
        shared = [tuple(members) for members in groups.values()]
        floors, rates = self._filled(shared, [])
        if len(shared) < len(alone):
            _, rates = self._filled(alone, floors)
        return rates

    def _alone(self, chain: str) -> float:
        """What it would pass alone, packets/s; 1 where it passes nothing. The program reckons in a
        unit near the answer and in shares of a capacity: its numbers are near 1 then.
        """
        capacity = {resource.name: resource.capacity for resource in self.resources}
        return min(capacity[name] / amount for name, amount in self.amounts[chain].items()) or 1.0

    def _filled(
        self,
        groups: Sequence[tuple[str, ...]],
        kept: Sequence[tuple[tuple[str, ...], float]],
    ) -> tuple[list[tuple[tuple[str, ...], float]], dict[str, float]]:
        """Raises the smallest throughput of the groups, fixes those that cannot pass more, and so
        on. `kept`: groups that must pass so much (units). Returns what each group passes at least,
        and the throughput by chain.
        """
        unit = min(map(self._alone, self.chains), default=1.0)
        floors = list(kept)
        left = list(groups)
        rates: dict[str, float] = {}
        while left:
            found = self._solved(unit, {}, floors, left)
            level = found.values[-1]
            rates = self._rates(unit, found)
            raised = [*floors, *((group, level * _FLOOR) for group in left)]
            stuck = [
                group for group in left if self._most(unit, group, raised) <= level * (1 + _FULL)
            ]
            # Rounding may hide every one that cannot pass more: then all of them stop here.
            for group in stuck or [*left]:
                floors.append((group, level * _FLOOR))
                left.remove(group)
        return floors, rates

    def _most(
        self, unit: float, group: tuple[str, ...], floors: Sequence[tuple[tuple[str, ...], float]]
    ) -> float:
        found = self._solved(unit, dict.fromkeys(group, -1.0), floors)
        return -found.objective

    def _rates(self, unit: float, found: Found) -> dict[str, float]:
        return {
            chain: max(0.0, value) * unit
            for chain, value in zip(self.chains, found.values, strict=False)
        }

    def _solved(
        self,
        unit: float,
        costs: Mapping[str, float],
        floors: Sequence[tuple[tuple[str, ...], float]],
        least_of: Sequence[tuple[str, ...]] = (),
    ) -> Found:
        """Minimises the costs of chains. `floors`: groups that pass so much at least (units).
        `least_of`: another column, the last, is at most what each of these groups passes, and is to
        be as large as can be.
        """
        program = Program()
        rows = {
            resource.name: program.row(-math.inf, 1.0 if resource.capacity else 0.0)
            for resource in self.resources
        }
        scale = {resource.name: resource.capacity or 1.0 for resource in self.resources}
        above = [(group, program.row(floor)) for group, floor in floors]
        above += [(group, program.row(0.0)) for group in least_of]
        for chain in self.chains:
            taken = {
                rows[name]: amount * unit / scale[name]
                for name, amount in self.amounts[chain].items()
            }
            taken |= {row: 1.0 for group, row in above if chain in group}
            program.column(costs.get(chain, 0.0), taken)
        if least_of:
            program.column(-1.0, {row: -1.0 for _, row in above[len(floors) :]})
        found = program.solve(relaxed=True)
        if found is None:
            raise CapacityError("the linear program has no solution: its numbers are too far apart")
        return found

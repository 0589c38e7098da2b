"""What `unis model` found, as JSON has it and the page shows it."""

from dataclasses import replace

from pydantic import BaseModel, ConfigDict

from unis.capacity.case import Answered, CapacityCase
from unis.capacity.parameter import Source
from unis.capacity.resources import solve

MILLION = 1e6
_LARGER = 1.01
_EQUAL = 1e-6  # of a throughput, below which it is the same


class _Result(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ResourceRow(_Result):
    """A resource, and what the chains take of it."""

    name: str
    capacity: float
    unit: str
    used: float  # share
    slack: float  # share
    gain_of_one_percent: float  # packets/s that the objective gains with 1 % more of it alone
    per_packet: dict[str, dict[str, float]]  # by chain: what it is made of, in its unit
    sources: list[Source]


class Arrangement(_Result):
    """The chains over links of one kind or another."""

    name: str
    mpps: dict[str, float]  # by chain
    tenants_mpps: dict[str, float]
    total_mpps: float
    bottlenecks: list[str]
    gain_together: float  # packets/s that the objective gains with 1 % more of all bottlenecks
    resources: list[ResourceRow]

    @property
    def busy_cpus(self) -> float:
        """CPUs that packets keep busy, all together."""
        return sum(row.used for row in self.resources if row.name.startswith("CPU "))


class ChangeAnswer(_Result):
    """A question, and what the chains would pass then."""

    question: str
    total_mpps: float
    smallest_mpps: float  # of the chains
    same_chains: bool  # false: with another number of functions
    gain: float  # share of what they pass now
    bottlenecks: list[str]


class CapacityPoint(_Result):
    """Throughput at one packet size or length."""

    at: int
    total_mpps: float
    bottleneck: str


class CapacityCurve(_Result):
    """Throughput of an arrangement over packet sizes or lengths."""

    name: str
    over: str  # `bytes` or `functions`
    points: list[CapacityPoint]


class Crossing(_Result):
    """Where one arrangement overtakes the other, or another resource becomes the limit."""

    over: str
    at: int
    told: str


class UsedParameter(_Result):
    """A number that the result rests on."""

    where: str
    value: float
    unit: str
    source: Source
    note: str


class BusyRow(_Result):
    """How busy a resource is at a load."""

    name: str
    used: float  # share
    waking: float  # of that, wake-ups of functions that slept, and the turns that follow


class CapacityResult(_Result):
    """Everything of one call."""

    chain: str
    machine: str
    description: str
    objective: str
    sizes: dict[int, int]
    setting: dict[str, float | str | None]
    remarks: list[str]
    arrangements: list[Arrangement]
    load: float  # share of what the chains pass at most
    at_load: list[BusyRow]  # then, of the first arrangement
    answers: list[ChangeAnswer]
    readings: list[ChangeAnswer]
    curves: list[CapacityCurve]
    crossings: list[Crossing]
    parameters: list[UsedParameter]

    @property
    def main(self) -> Arrangement:
        """As the file has the chains."""
        return self.arrangements[0]

    @property
    def is_fair(self) -> bool:
        """Whether gains are of the smallest of several throughputs, not of the total."""
        return len(self.main.mpps) > 1 and self.objective != "total"


def arrangement(name: str, case: CapacityCase, answered: Answered) -> Arrangement:
    """The rows of an answer."""
    found, load = answered.found, answered.load
    tenants: dict[str, float] = {}
    for chain, rate in found.throughput.items():
        tenant = case.tenants.get(chain, chain)
        tenants[tenant] = tenants.get(tenant, 0.0) + rate / MILLION
    rows = [
        ResourceRow(
            name=resource.name,
            capacity=resource.capacity,
            unit=resource.unit,
            used=1 - found.slack[resource.name],
            slack=found.slack[resource.name],
            gain_of_one_percent=_gain(case, answered, {resource.name} & {*found.bottlenecks}),
            per_packet={
                chain: {term: part for term, part in parts.items() if part}
                for (chain, taken), parts in load.terms.items()
                if taken == resource.name
            },
            sources=[source.source for source in resource.sources],
        )
        for resource in load.resources
    ]
    rows.sort(key=lambda row: row.slack)
    return Arrangement(
        name=name,
        mpps={chain: rate / MILLION for chain, rate in found.throughput.items()},
        tenants_mpps=tenants if case.tenants else {},
        total_mpps=found.total / MILLION,
        bottlenecks=list(found.bottlenecks),
        gain_together=_gain(case, answered, {*found.bottlenecks}),
        resources=rows,
    )


def _gain(case: CapacityCase, answered: Answered, names: set[str]) -> float:
    """Packets/s with 1 % more of these resources. Duals do not tell: where two resources are used
    up at once, more of one of them alone may gain nothing.
    """
    if not names:
        return 0.0
    larger = [
        replace(each, capacity=each.capacity * _LARGER) if each.name in names else each
        for each in answered.load.resources
    ]
    found = solve(larger, answered.load.demands, case.objective, case.tenants)
    gained = found.objective(case.objective) - answered.found.objective(case.objective)
    return gained if gained > _EQUAL * found.total else 0.0

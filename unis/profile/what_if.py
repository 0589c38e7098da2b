"""What a packet would cost a function with few ways of the last-level cache to itself: modelled."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from unis.chain.values import mean_cost
from unis.plan.model import Plan
from unis.profile.cache_model import LABEL
from unis.profile.machine_caches import Caches
from unis.profile.modelled import modelled
from unis.simulate.scenario import CostOf


@dataclass(frozen=True)
class CostWithWays:
    """A function's cost with the whole cache, and by the cache model with `ways` of it."""

    function: str
    ways: int
    whole: CostOf  # ns a packet with the whole cache, or that for each packet size
    extra_ns: float  # a packet, beside the whole cache
    sizes: Mapping[int, int]  # of the traffic, and how often each comes
    source: str  # of extra_ns

    @property
    def cost(self) -> CostOf:
        """With these ways; each size bears the same ns more, though the model has only 64 B."""
        if isinstance(self.whole, dict):
            return {size: ns + self.extra_ns for size, ns in self.whole.items()}
        return self.whole + self.extra_ns

    def __str__(self) -> str:
        ways = f"{self.ways} way{'s' * (self.ways > 1)}"
        return (
            f"cost of {self.function} with {ways}: {self._mean(self.cost):.4g} ns instead of "
            f"{self._mean(self.whole):.4g}, {LABEL}: {self.source}"
        )

    def as_json(self) -> dict[str, Any]:
        """Costs in ns, in the mean over the traffic."""
        return {
            "ways": self.ways,
            "ns": self._mean(self.cost),
            "ns_with_whole_cache": self._mean(self.whole),
            "source": f"{LABEL}: {self.source}",
        }

    def _mean(self, cost: CostOf) -> float:
        return mean_cost(cost, self.sizes)


def cost_with_ways(
    plan: Plan, ways: int, caches: Caches, whole: CostOf, report: Callable[[str], None]
) -> CostWithWays:
    """Of the one function of `plan`, at its traffic. UnisError where it cannot be modelled."""
    found = modelled(plan, ways, caches, report)
    (function,) = plan.functions
    return CostWithWays(
        function.name, ways, whole, found.extra_ns[-1], plan.traffic.size_shares, found.source
    )

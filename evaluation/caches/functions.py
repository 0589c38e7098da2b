"""What ways of the last-level cache do to a function of a plan, by the cache model.

docs/cache-model.md says what the model leaves out.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.caches.geometry import Caches
from evaluation.caches.model import PacketCost, cache_profile, ns_by_ways, share_by_ways
from evaluation.caches.references import Recorded, RecordedProgram, RecordingError, record
from unis.chain.values import mean_cost
from unis.counted.flows import ENTRY, Flows
from unis.plan.model import FunctionPlan, Plan
from unis.simulate.scenario import CostOf

_PACKETS = 100_000  # recorded at least, and so many a flow
_A_FLOW = 3


@dataclass(frozen=True)
class ByWays:
    """A function with 1, 2, … ways, beside all ways."""

    shares: Sequence[float]  # of the throughput
    extra_ns: Sequence[float]  # that a packet takes more
    source: str


def by_ways(plan: Plan, caches: Caches, report: Callable[[str], None]) -> ByWays:
    """Of the one function of `plan`, at its traffic. UnisError where it cannot be modelled.

    A recording that has to be made first is reported.
    """
    if len(plan.functions) != 1:
        raise RecordingError("the cache model knows single functions, not chains")
    recorded = record_function(plan, plan.functions[0], report)
    profile, cost = cache_profile(recorded, caches), PacketCost()
    times = ns_by_ways(profile, cost)
    source = (
        f"cache of {caches.llc.ways} ways simulated on the references of the program to packets of "
        f"64 B of {recorded.fill} flows, caches of {caches.name}, latencies of the "
        f"paper's Xeon assumed ({cost.llc_ns:g} and {cost.memory_ns:g} ns)"
    )
    return ByWays(
        shares=share_by_ways(profile, cost),
        extra_ns=tuple(max(0.0, time - times[-1]) for time in times),
        source=source,
    )


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
            f"{self._mean(self.whole):.4g}, modelled: {self.source}"
        )

    def as_json(self) -> dict[str, Any]:
        """Costs in ns: in the mean over the traffic, and as `cost_ns` of a chain file."""
        return {
            "ways": self.ways,
            "ns": self._mean(self.cost),
            "ns_with_whole_cache": self._mean(self.whole),
            "cost_ns": self.cost,
            "source": f"modelled: {self.source}",
        }

    def _mean(self, cost: CostOf) -> float:
        return mean_cost(cost, self.sizes)


def cost_with_ways(
    plan: Plan, ways: int, caches: Caches, whole: CostOf, report: Callable[[str], None]
) -> CostWithWays:
    """Of the one function of `plan`, at its traffic. UnisError where it cannot be modelled."""
    found = by_ways(plan, caches, report)
    (function,) = plan.functions
    extra_ns, sizes = found.extra_ns[ways - 1], plan.traffic.size_shares
    return CostWithWays(function.name, ways, whole, extra_ns, sizes, found.source)


def record_function(
    plan: Plan, function: FunctionPlan, report: Callable[[str], None] = lambda _: None
) -> Recorded:
    """One of the plan's, with its arguments, on traffic of as many flows; kept, so recorded once.

    A recording that has to be made is reported. RecordingError where it cannot be.
    """
    flows = getattr(plan.traffic.source, "flows", None)
    if flows is None:
        raise RecordingError("the cache model knows synthetic traffic, not captures or ports")
    if function.is_command:
        raise RecordingError(
            f"the cache model knows programs that call {ENTRY} with packets, as ours do; "
            f"`{function.name}` is a command of others"
        )
    if function.user or function.env:
        raise RecordingError(
            f"`{function.name}` runs as another user, or with an environment of its own: it is "
            "not started again without them"
        )
    return record(_subject(function), Flows(flows, max(_PACKETS, _A_FLOW * flows)), report=report)


def _subject(function: FunctionPlan) -> RecordedProgram:
    """The files that its arguments name by their full paths, for it is recorded elsewhere."""
    words = [_found(function, word) for word in function.words]
    files = tuple(path for word, path in words if path is not None)
    arguments = tuple(str(path) if path else word for word, path in words)
    return RecordedProgram(function.program.name, function.program, arguments, files)


def _found(function: FunctionPlan, word: str) -> tuple[str, Path | None]:
    path = function.cwd / word
    # A word too long for a path, or with a zero byte, is none: Path.is_file() would raise.
    return word, path.resolve() if word and os.path.isfile(path) else None  # noqa: PTH113

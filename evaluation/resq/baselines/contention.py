"""How functions share an unpartitioned last-level cache, from their profiles alone.

A function with u ways has the share s(u) of its solo throughput: it waits 1 ÷ s(u) − 1 of a
packet's time for misses. At the share p of its solo throughput, and with δ per miss, it brings p (1
÷ s(u) − 1) ÷ δ lines a second into the cache. An LRU cache evicts a line after a time T without
access; T is the same for all functions. In T a function accesses as many lines as it would fill in
T if it were alone (X. Xiang, C. Ding, H. Luo, B. Bao: *HOTL: a Higher Order Theory of Locality*,
ASPLOS 2013). So the number of ways w that it holds beside others follows from

    T = δ ÷ p · ∫ du ÷ (1 ÷ s(u) − 1), from 0 to w,

with T such that all functions together hold the whole cache. δ cancels: among functions with
profiles the model has no parameter. Only `beside`, with a neighbour that is known by its references
alone, needs δ.

s is linear between whole ways, and below one way continues the line through one and two. Assumed:
each function has a core of its own, a miss costs each the same, and they contend for the cache
only. Compared with ResQ's Fig. 2 (64 B; eleven copies of the worst of nine neighbours; 18 ways),
points of throughput lost, measured and modelled: MazuNAT 44 and 43, Stats 43 and 42, LPM 32 and 30,
but Snort 18 and 29.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evaluation.resq.baselines.arrivals import Promise, Served
from unis.slo.profile import Profile

_STEPS = 100  # grid points per way
_LEAST = 1e-3  # lower limit of the throughput without cache ÷ solo throughput
_LITTLE = 1e-9  # lower limit of the wait for misses ÷ a packet's time
_HALVINGS = 80
_SMALLEST = 60.0  # the search for T starts at the longest time to fill ÷ e^60

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Tenant:
    """A function on a core of its own, and its offered load."""

    profile: Profile
    load: float  # offered throughput ÷ solo throughput; above 0


def shares(tenants: Sequence[Tenant], ways: float) -> list[float]:
    """The possible throughput of each ÷ its solo throughput, with the cache that it holds."""
    if not tenants:
        return []
    counts = Counter(tenants)
    # Sorted, so that the cache of _shares finds equal sets of tenants.
    kinds = tuple(sorted(counts.items(), key=lambda item: (item[0].profile.name, item[0].load)))
    found = dict(zip((tenant for tenant, _ in kinds), _shares(kinds, ways), strict=True))
    return [found[tenant] for tenant in tenants]


def served_together(
    promises: Sequence[Promise], loads: Sequence[float], ways: float
) -> list[Served]:
    """An instance of each promise, all on one server that shares its ways among them."""
    tenants = [
        Tenant(promise.slo.profile, load) for promise, load in zip(promises, loads, strict=True)
    ]
    return list(map(Served, promises, loads, shares(tenants, ways)))


def beside(profile: Profile, references: float, ways: float, penalty_us: float) -> float:
    """Throughput ÷ solo throughput, beside `references` per µs that all miss.

    Such neighbours are the synthetic functions with which Dobrescu et al. profile.
    """
    grid, passed, fill = _curve(profile, 1.0, ways)
    held = grid + fill * penalty_us * references  # ways of both, by the ways of its own
    own = ways if held[-1] <= ways else float(np.interp(ways, held, grid))
    return float(np.interp(own, grid, passed))


@lru_cache(maxsize=4096)
def _shares(kinds: tuple[tuple[Tenant, int], ...], ways: float) -> tuple[float, ...]:
    curves = [_curve(tenant.profile, tenant.load, ways) for tenant, _ in kinds]

    counts = np.array([count for _, count in kinds], dtype=float)

    def held(log_time: float) -> _Array:
        time = float(np.exp(log_time))
        return np.array([float(np.interp(time, fill, grid)) for grid, _, fill in curves])

    def total(held_ways: _Array) -> float:
        return float(counts @ held_ways)

    high = max(float(np.log(fill[-1])) for _, _, fill in curves) + _LITTLE
    low = high - _SMALLEST
    most = held(high)
    if total(most) <= ways:  # the cache is large enough for all
        own = most
    else:
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if total(held(middle)) <= ways else (low, middle)
        own, more = held(low), held(high)
        # If a little more time brings many ways, each function gets its part of them.
        own += (more - own) * (ways - total(own)) / max(total(more) - total(own), _LITTLE)
    return tuple(
        float(np.interp(held_ways, grid, passed))
        for held_ways, (grid, passed, _) in zip(own, curves, strict=True)
    )


@lru_cache(maxsize=256)
def _curve(profile: Profile, load: float, ways: float) -> tuple[_Array, _Array, _Array]:
    """Ways; throughput ÷ solo throughput with them; T ÷ δ until it holds them."""
    grid = np.linspace(0.0, ways, max(2, round(ways * _STEPS) + 1))
    by_ways = np.array(profile.share_by_ways)
    passed = np.interp(grid, np.arange(1, len(by_ways) + 1), by_ways)
    if len(by_ways) > 1:
        below = by_ways[0] - (by_ways[1] - by_ways[0]) * (1 - grid)
        passed = np.where(grid < 1, np.maximum(below, min(_LEAST, by_ways[0])), passed)
    waits = np.maximum(1 / passed - 1, _LITTLE)
    filled = np.concatenate(
        [[0.0], np.cumsum(np.diff(grid) * (1 / waits[1:] + 1 / waits[:-1]) / 2)]
    )
    # Throughput is limited by the load. The time to fill must rise with the ways: a function that
    # would fill more ways sooner, because they make it faster, holds more.
    pace = np.minimum(load, passed)
    return grid, passed, np.maximum.accumulate(filled / pace)

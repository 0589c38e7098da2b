"""How functions share a last-level cache that nobody divides, from their profiles alone.

A function that passes the part s(u) of its solo throughput with u ways waits 1 ÷ s(u) − 1 of a
packet's time for misses. While it passes the part p of that throughput, and a miss takes δ, it
brings p (1 ÷ s(u) − 1) ÷ δ lines a second into the cache. An LRU cache evicts what nobody touched
for a time T, the same for all in it; and a function touches in T as many lines as it would fill in
T had it the cache to itself (X. Xiang, C. Ding, H. Luo, B. Bao: *HOTL: a Higher Order Theory of
Locality*, ASPLOS 2013). So the ways w that it holds beside others follow from

    T = δ ÷ p · ∫ du ÷ (1 ÷ s(u) − 1), from 0 to w,

where T is such that all of them together hold the whole cache. δ cancels: among functions the model
has no parameter. It is needed only beside a neighbour of whom nothing is known but its references
(`beside`).

Between whole ways s is a straight line, and below one way that through one and two. Assumed: each
function is on a core of its own, a miss costs all of them the same, and the cache is all that they
contend for. Beside ResQ's Fig. 2 (64 B; the worst of nine neighbours, eleven times; 18 ways), in
points of throughput lost, measured and by this model: MazuNAT 44 and 43, Stats 43 and 42, LPM 32
and 30, but Snort 18 and 29.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from unis.slo.profile import Profile

_STEPS = 100  # a way
_LEAST = 1e-3  # of the solo throughput: what is left without cache, where the line has less
_LITTLE = 1e-9  # of a packet's time: who waits for less brings in nothing
_HALVINGS = 80
_SMALLEST = 60.0  # by e to this power shorter than the longest time to fill, T is not looked for

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Tenant:
    """A function on a core of its own, and what is offered to it."""

    profile: Profile
    load: float  # offered, by its solo throughput; above 0


def shares(tenants: Sequence[Tenant], ways: float) -> list[float]:
    """By its solo throughput, what each could pass with the part of the cache that it holds."""
    if not tenants:
        return []
    counts = Counter(tenants)
    # In one order, so that what is alike is computed once.
    kinds = tuple(sorted(counts.items(), key=lambda of: (of[0].profile.name, of[0].load)))
    found = dict(zip((tenant for tenant, _ in kinds), _shares(kinds, ways), strict=True))
    return [found[tenant] for tenant in tenants]


def beside(profile: Profile, references: float, ways: float, penalty_us: float) -> float:
    """By its solo throughput, what it passes beside so many references a µs that all miss.

    As beside synthetic functions that reach all over memory, with which Dobrescu et al. profile.
    """
    grid, passed, fill = _curve(profile, 1.0, ways)
    held = grid + fill * penalty_us * references  # ways of both, when it holds so many itself
    own = ways if held[-1] <= ways else float(np.interp(ways, held, grid))
    return float(np.interp(own, grid, passed))


@lru_cache(maxsize=4096)
def _shares(kinds: tuple[tuple[Tenant, int], ...], ways: float) -> tuple[float, ...]:
    curves = [_curve(tenant.profile, tenant.load, ways) for tenant, _ in kinds]

    counts = np.array([count for _, count in kinds], dtype=float)

    def held(log_time: float) -> _Array:
        time = float(np.exp(log_time))
        return np.array([float(np.interp(time, fill, grid)) for grid, _, fill in curves])

    def total(of: _Array) -> float:
        return float(counts @ of)

    high = max(float(np.log(fill[-1])) for _, _, fill in curves) + _LITTLE
    low = high - _SMALLEST
    most = held(high)
    if total(most) <= ways:  # all that any of them has use for
        own = most
    else:
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if total(held(middle)) <= ways else (low, middle)
        own, more = held(low), held(high)
        # Where a little time brings many ways, each gets a part of them.
        own += (more - own) * (ways - total(own)) / max(total(more) - total(own), _LITTLE)
    return tuple(
        float(np.interp(of, grid, passed))
        for of, (grid, passed, _) in zip(own, curves, strict=True)
    )


@lru_cache(maxsize=256)
def _curve(profile: Profile, load: float, ways: float) -> tuple[_Array, _Array, _Array]:
    """(ways, what it passes with them by its solo throughput, T ÷ δ until it holds them)."""
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
    # Nobody passes more than is offered. Where more cache made it so much faster that it would
    # have filled it sooner, it holds the more.
    pace = np.minimum(load, passed)
    return grid, passed, np.maximum.accumulate(filled / pace)

"""Which sizes packets have, and what one costs in the mean."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import TYPE_CHECKING

from unis.chain import defaults

if TYPE_CHECKING:
    from unis.chain.model import Traffic


def shares(traffic: Traffic) -> dict[int, int]:
    """Bytes with FCS, and how many packets of their sum have so many.

    Empty for a capture and for a port: what those hold is not looked at beforehand.
    """
    size = getattr(traffic.source, "size", None)
    if isinstance(size, str):
        return dict(defaults.MIXES[size])
    return {size: 1} if isinstance(size, int) else {}


def mean_cost(cost: float | Mapping[int, float], shares: Mapping[int, int]) -> float:
    """What a packet costs, each size as often as it comes; linear between those that are known.

    Without shares the sizes of `cost` count alike.
    """
    if not isinstance(cost, Mapping):
        return cost
    if not shares:
        return sum(cost.values()) / len(cost)
    whole = sum(_at(cost, size) * share for size, share in shares.items())
    return whole / sum(shares.values())


def _at(cost: Mapping[int, float], size: int) -> float:
    known = sorted(cost)
    above = bisect_left(known, size)
    if above in (0, len(known)):
        return cost[known[min(above, len(known) - 1)]]
    low, high = known[above - 1], known[above]
    return cost[low] + (cost[high] - cost[low]) * (size - low) / (high - low)

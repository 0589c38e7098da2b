"""`unis simulate --ways`: functions with few ways of the last-level cache, by the cache model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from unis.cli.numbers import by_name
from unis.cli.terminal import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unis.chain.load import LoadedChain
    from unis.profile.machine_caches import Caches
    from unis.profile.what_if import CostWithWays
    from unis.simulate.scenario import CostOf

CACHES = ("this", "paper")
_HINT = "--ways"


def stated_ways(values: list[str]) -> dict[str, int]:
    """By function. BadParameter for what is no number."""
    return {name: ways for _, name, ways in by_name(values, int, "NAME=N, as nat=2", _HINT)}


def costs_with_ways(
    chain: LoadedChain, ways: Mapping[str, int], whole: Mapping[str, CostOf], caches: str
) -> list[CostWithWays]:
    """Of functions of `chain`, whose costs with the `whole` cache are known; `caches` names it."""
    if not ways:
        return []
    from unis.plan.alone import alone
    from unis.profile.cache_model import IO_WAYS
    from unis.profile.what_if import cost_with_ways
    from unis.runtime.planning import plan_anywhere

    geometry = _geometry(caches)
    there = geometry.llc.ways
    most = there - IO_WAYS
    if min(ways.values()) < 1 or sum(ways.values()) > most:
        told = " ".join(f"{name}={count}" for name, count in ways.items())
        raise typer.BadParameter(
            f"`{told}`: the last-level cache of {geometry.name} has {there} ways, {IO_WAYS} of "
            f"them for what devices write: functions have 1 or more each, and {most} in all",
            param_hint=_HINT,
        )
    return [
        cost_with_ways(plan_anywhere(alone(chain, name)), count, geometry, whole[name], say)
        for name, count in ways.items()
    ]


def _geometry(caches: str) -> Caches:
    from unis.profile.machine_caches import PAPER, CacheError, read_caches

    if caches == "paper":
        return PAPER
    try:
        return read_caches()
    except CacheError as error:
        raise CacheError(
            f"{error}: `--caches paper` takes those of {PAPER.name}", bad_input=error.bad_input
        ) from None

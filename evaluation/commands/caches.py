"""What cache ways do to a function, by the cache model: `ways`, and `profile`."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.options import ChainFileArgument, JsonOption, by_name, one_of
from unis.cli.simulate_command import costs_of, see_that_they_are_there
from unis.cli.terminal import out, print_line, say
from unis.runtime.directory import keep_off_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from evaluation.caches.functions import CostWithWays
    from evaluation.caches.geometry import Caches
    from unis.chain.load import LoadedChain
    from unis.plan.model import Plan
    from unis.profile.result import Modelled
    from unis.simulate.scenario import CostOf

_CACHES = ("this", "paper")

# The help of `unis profile nf`, where the model takes the place of cache allocation.
PROFILE = """Run `unis profile nf`, with throughput by cache ways of the cache model.

The model is used on a machine that cannot set cache ways, for one function of UNiS under synthetic
traffic. The first time, UNiS records the function under Valgrind for some seconds. `unis profile
nf` says that throughput by ways is unknown there. All else is as `unis profile nf` measures it.
Readings that one of the two commands has made are also those of the other.

Example: uv run python -m evaluation profile nat -o nat.yaml --flows 100000
"""


def cache_model(plan: Plan, ways: int, report: Callable[[str], None]) -> Modelled:
    """Throughput with 1 to `ways`, by the caches of this machine. UnisError where it is unknown."""
    from evaluation.caches.functions import by_ways
    from evaluation.caches.geometry import read_caches
    from unis.profile.result import Modelled

    found = by_ways(plan, read_caches(), report)
    return Modelled(found.shares[:ways], found.source)


def ways(
    file: ChainFileArgument,
    stated: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=N...",
            help="Functions, each with the number of ways that it has to itself.",
            show_default=False,
        ),
    ],
    caches: Annotated[
        str,
        typer.Option(
            metavar="|".join(_CACHES),
            callback=one_of("caches", _CACHES),
            help="Machine whose caches are modelled: `this`, or `paper` (the Xeon of the "
            "ResQ paper).",
        ),
    ] = "this",
    cost: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NS", help="Cost of a packet with the whole cache, ns."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Model the cost of functions that have few ways of the last-level cache.

    Takes the cost with all ways from --cost, else from FILE, else from `unis estimate` or an
    earlier run on this machine. Adds the time that the program waits longer for memory by the cache
    model, at the number of flows in FILE (docs/cache-model.md). The first time, it records the
    program under Valgrind for some seconds. All functions together cannot have more ways than the
    cache, less two for devices. Prints the call of `unis simulate` that takes these costs.

    Example: uv run python -m evaluation ways chain.yaml nat=2 monitor=1
    """
    keep_off_functions()
    from unis.chain.load import load

    chain = load(file)
    few = {name: count for _, name, count in by_name(stated, int, "NAME=N, as nat=2", "NAME=N")}
    see_that_they_are_there(few, chain, "NAME=N")
    costs = {name: ns for name, (ns, _) in costs_of(chain, cost or []).items()}
    found = costs_with_ways(chain, few, costs, caches)
    if as_json:
        out.print_json(json.dumps({each.function: each.as_json() for each in found}))
        return
    for each in found:
        print_line(str(each))
    modelled = {each.function for each in found}
    options = [text for text in cost or [] if text.partition("=")[0] not in modelled]
    for each in found:
        if isinstance(each.cost, dict):
            sizes = ", ".join(f"{size}: {ns:.6g}" for size, ns in each.cost.items())
            print_line(f"in {file}: functions.{each.function}.cost_ns: {{{sizes}}}")
        else:
            options.append(f"{each.function}={each.cost:.6g}")
    if options:
        words = [word for option in options for word in ("--cost", option)]
        print_line(shlex.join(["unis", "simulate", str(file), *words]))


def costs_with_ways(
    chain: LoadedChain, ways: Mapping[str, int], whole: Mapping[str, CostOf], caches: str
) -> list[CostWithWays]:
    """Of functions of `chain`, whose costs with the `whole` cache are known; `caches` names it."""
    from evaluation.caches.functions import cost_with_ways
    from evaluation.caches.model import IO_WAYS
    from unis.plan.solo import solo_chain
    from unis.runtime.planning import plan_anywhere

    geometry = _geometry(caches)
    there = geometry.llc.ways
    most = there - IO_WAYS
    if min(ways.values()) < 1 or sum(ways.values()) > most:
        told = " ".join(f"{name}={count}" for name, count in ways.items())
        raise typer.BadParameter(
            f"`{told}`: the last-level cache of {geometry.name} has {there} ways, {IO_WAYS} of "
            f"them for what devices write: functions have 1 or more each, and {most} in all",
            param_hint="NAME=N",
        )
    return [
        cost_with_ways(plan_anywhere(solo_chain(chain, name)), count, geometry, whole[name], say)
        for name, count in ways.items()
    ]


def _geometry(caches: str) -> Caches:
    from evaluation.caches.geometry import PAPER, CacheError, read_caches

    if caches == "paper":
        return PAPER
    try:
        return read_caches()
    except CacheError as error:
        raise CacheError(
            f"{error}: `--caches paper` takes those of {PAPER.name}", bad_input=error.bad_input
        ) from None

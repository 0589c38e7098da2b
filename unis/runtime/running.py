"""Brings a run up and takes it down, whatever happens; before it, the runs that measure costs."""

import contextlib
import os
import subprocess
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from unis.chain.load import LoadedChain
from unis.chain.problem import ChainFileError
from unis.engine.client import EngineError
from unis.errors import UnisError
from unis.plan.machine import Machine
from unis.plan.model import Plan
from unis.runtime.account import account_line
from unis.runtime.claim import Report, claim
from unis.runtime.clean_up import clean_up
from unis.runtime.costs import (
    ESTIMATE_ROUNDS,
    Cost,
    alike,
    known_costs,
    remember_cost,
    shares_of,
)
from unis.runtime.directory import keep_off_functions
from unis.runtime.errors import InterruptedRunError, LaunchError, RunFailedError, RunTimeoutError
from unis.runtime.folders import port_parts
from unis.runtime.functions import listed
from unis.runtime.interrupts import Interrupts, interrupts
from unis.runtime.orphans import adopt_orphans
from unis.runtime.planning import plan_chain
from unis.runtime.process import keep_to
from unis.runtime.run import Options, Run, require_polling
from unis.runtime.state import Phase
from unis.runtime.steps import STEPS
from unis.v1 import engine_pb2 as pb

_UNISD_END_SECONDS = 3.0
_TRIES = 3  # of `brought_up`, of which one must succeed
_T = TypeVar("_T")


def measure_costs(
    plan: Plan, groups: list[list[str]], options: Options, report: Report, switch: Interrupts
) -> dict[str, Cost]:
    """What a packet costs functions, in runs of their own whose chains never start.

    One of each group is measured, and the others have its cost. Those between links of the engine
    take turns in one run; one with a link to another function has a run of its own. A function that
    cannot be measured, as one of several polling threads, is told of and left out.
    """
    if plan.wires and groups:
        raise LaunchError(
            "nothing of UNiS sends packets through functions at wires, so they are not measured; "
            "state their cost_ns"
        )
    only = Options(start=False, costs="unknown", sizes=options.sizes)
    costs: dict[str, Cost] = {}

    def measure(plan: Plan, names: Sequence[str]) -> None:
        with running(plan, only, report, switch) as run:
            estimate(run, names)
        switch.resume()
        costs.update((name, run.costs[name]) for name in names if name in run.costs)

    while groups:
        if together := [names[0] for names in groups if names[0] not in plan.linked]:
            measure(plan, together)
        for name in [names[0] for names in groups if names[0] in plan.linked]:
            report(f"{name} has a link to another function, so it is measured in a run of its own")
            try:
                solo = plan.solo(name)
            except ChainFileError as error:
                report(f"{name} is not measured, because it cannot run alone: {error}")
                continue
            measure(solo, [name])
        for first, *others in groups:
            if others and first in costs:
                report(f"{listed(others)}: cost taken from {first}, which is the same program")
                costs |= dict.fromkeys(others, costs[first])
        groups = [others for first, *others in groups if others and first not in costs]
    return costs


def known_before(
    plan: Plan, options: Options, report: Report, switch: Interrupts
) -> dict[str, Cost]:
    """What is known of costs before the chains start; what must be measured is."""
    if plan.foreign or options.costs == "unknown":
        return {}
    known = known_costs(plan, options.sizes) if options.costs != "anew" else {}
    if options.costs == "kept" and plan.scheduler.cost != "static":
        return known
    missing = [
        function.name
        for function in plan.functions
        if function.cost_ns is None and function.name not in known
    ]
    groups = alike(plan, missing, options.sizes)
    return known | measure_costs(plan, groups, options, report, switch)


@contextlib.contextmanager
def running(plan: Plan, options: Options, report: Report, switch: Interrupts) -> Iterator[Run]:
    """Brings `plan` up; takes it down when the block ends, however it ends.

    RunFailedError, besides what made it end, where something could not be undone.
    """
    require_polling(plan, options.policy, "give another --policy, such as --policy other")
    costs = known_before(plan, options, report, switch)
    run = Run(plan, options, report, switch, costs)
    cpus = os.sched_getaffinity(0)  # while it runs we keep off those of functions
    reason: str | None = None
    failed = True
    try:
        _bring_up(run)
        yield run
        failed = False
    except (UnisError, RunTimeoutError) as error:
        if options.again or _has_logs(run, error):
            reason = str(error)
        elif run.has_claimed:
            run.note(str(error))
        raise
    except (InterruptedRunError, KeyboardInterrupt, GeneratorExit):
        failed = False
        raise
    except BaseException as error:  # a fault of ours: its logs are wanted
        reason = f"unis itself failed: {error!r}"
        run.note(traceback.format_exc())
        raise
    finally:
        switch.armed = False
        account, problems = take_down(run, reason, switch.forced)
        if account and account.offered:
            report(account_line(account))
        for problem in problems:
            report(problem)
        if reason and run.has_claimed:
            report(f"the logs are kept: `unis logs {plan.name}`")
        if not problems:
            keep_to(cpus)  # for what this process plans next
        if problems and not failed:
            raise RunFailedError(
                f"the clean-up of `{plan.name}` is incomplete; try again with "
                f"`unis down {plan.name}`"
            )


def _has_logs(run: Run, error: BaseException) -> bool:
    """Whether there is more to read of a start that failed: not if nothing was started, or unisd
    alone, which has told what is wrong with the input.
    """
    refused = isinstance(error, UnisError) and error.bad_input
    return bool(run.functions) or (run.unisd is not None and not refused)


def _bring_up(run: Run) -> None:
    """Walks the steps forward; on any exception `take_down` undoes what was done."""
    keep_off_functions()
    adopt_orphans()
    port_parts(run.plan.name)  # nothing is claimed for what is not built
    claim(run.plan, run.directory, run.options, run.report, run.switch, run.claimed)
    for note in run.plan.notes:
        run.tell(note)
    for step in STEPS:
        step.do(run)
    run.record(phase=Phase.RUNNING)


def take_down(
    run: Run, reason: str | None, hurry: Callable[[], bool] = lambda: False
) -> tuple[pb.Account | None, list[str]]:
    """Walks the steps back; the last account of packets, and what could not be undone."""
    account = None
    problems: list[str] = []
    if run.has_claimed:
        with contextlib.suppress(LaunchError, RunFailedError):
            run.record(phase=Phase.STOPPING, reason=reason or "")
        lives = run.unisd is not None and not run.engine_died()
        followed = _followed(run) if lives and not hurry() else {}
        account = _stop_engine(run, hurry)
        if account:
            run.note(f"account: {account_line(account)}")
        if reason:
            run.note(reason)
        problems = clean_up(run.directory, run.state.run_id, reason, hurry)
        if problems:
            run.note("\n".join(problems))
        if not hurry():
            _remember_followed(run, followed)
    run.client.close()
    run.tell_guard("down")
    run.wait_for_ends()
    return account, problems


def _stop_engine(run: Run, hurry: Callable[[], bool]) -> pb.Account | None:
    unisd = run.unisd
    if unisd is None or unisd.process.poll() is not None:
        return None

    def insist() -> None:
        if hurry():
            raise EngineError("it takes too long")

    try:
        account = run.client.stop(alive=insist)
    except EngineError:
        return None
    with contextlib.suppress(subprocess.TimeoutExpired):
        unisd.process.wait(_UNISD_END_SECONDS)
    return account


# ------------------------------------------------------------------ one after the other


def brought_up(
    make: Callable[[], LoadedChain],
    machine: Machine,
    options: Options,
    report: Report,
    look: Callable[[Run], _T],
) -> _T:
    """What `look` sees of the chain that `make` makes; the chain is down when this returns."""
    # net_memif does not come back to a server that had not started its port yet.
    for left in reversed(range(_TRIES)):
        chain = make()
        try:
            # Such runs come and go by the dozen, so they report nothing; each keeps its log.
            with (
                interrupts() as switch,
                running(plan_chain(chain, machine), options, lambda _: None, switch) as run,
            ):
                seen = look(run)
            if switch.heard():  # while the run was undone: no other is brought up
                raise InterruptedRunError(switch.first)
            return seen
        except EngineError as error:
            if not left:
                raise
            report(f"{chain.file.name}: once more, for {error}")
    raise AssertionError


# ------------------------------------------------------------------ costs


def estimate(run: Run, functions: Sequence[str]) -> None:
    """Measures what a packet costs each function, before any chain starts, and remembers it."""
    run.tell(f"measuring the cost of a packet in {', '.join(functions)}")
    shares = shares_of(run.plan.traffic, run.options.sizes)
    for estimate in run.client.estimate(functions, shares, ESTIMATE_ROUNDS):
        name = estimate.function
        if estimate.not_measured:
            run.tell(f"{name} is not measured: {estimate.not_measured}; state its cost_ns")
            continue
        run.costs[name] = Cost.of(estimate)
        run.tell(f"{name}: {run.costs[name].ns:.1f} ns a packet")
        remember_cost(run.plan.function(name), shares, run.costs[name])


def _followed(run: Run) -> dict[str, float]:
    """What the scheduler found packets to cost, ns, by function; empty where nobody tells."""
    with contextlib.suppress(EngineError):
        functions = run.client.stats(seconds=1).functions
        followed = (
            function for function in functions if function.cost_source == pb.COST_SOURCE_FOLLOWED
        )
        return {function.name: function.cost_ns for function in followed}
    return {}


def _remember_followed(run: Run, followed: Mapping[str, float]) -> None:
    """Keeps the costs of functions whose cost neither the file states nor anybody measured."""
    shares = shares_of(run.plan.traffic, run.options.sizes)
    for function in run.plan.functions:
        before, ns = run.costs.get(function.name), followed.get(function.name)
        if function.cost_ns is None and ns and not (before and before.solo):
            remember_cost(function, shares, Cost.followed(ns))

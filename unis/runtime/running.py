"""A run brought up and taken down, whatever happens; before it those that measure costs."""

import contextlib
import traceback
from collections.abc import Iterator, Mapping, Sequence

from unis.chain.problem import ChainFileError
from unis.errors import UnisError
from unis.plan.model import Plan
from unis.plan.subject import Subject
from unis.runtime.account import account_line
from unis.runtime.claim import Report
from unis.runtime.costs import Cost, cost_key, known_costs, shares_of
from unis.runtime.errors import InterruptedRunError, RunFailedError
from unis.runtime.interrupts import Interrupts
from unis.runtime.options import Options
from unis.runtime.run import Run


def measure_costs(
    plan: Plan, functions: Sequence[str], options: Options, report: Report, switch: Interrupts
) -> dict[str, Cost]:
    """What a packet costs functions, in runs of their own whose chains never start.

    Those between links of the engine take turns in one run. One with a link to another function
    has a run of its own, which those share that are alike in all that may change the cost. A
    function that cannot be measured, as one of several polling threads, is told of and left out.
    """
    only = Options(start=False, costs="unknown", sizes=options.sizes)
    shares = shares_of(plan.traffic, options.sizes)
    costs: dict[str, Cost] = {}

    def measured(plan: Plan, names: Sequence[str]) -> dict[str, Cost]:
        with running(plan, only, report, switch) as run:
            run.estimate(names)
        switch.resume()
        return {name: run.costs[name] for name in names if name in run.costs}

    if together := [name for name in functions if name not in plan.linked]:
        costs |= measured(plan, together)
    alike: dict[str, Cost | None] = {}
    for name in functions:
        if name not in plan.linked:
            continue
        key = _likeness(plan.function(name).subject, shares)
        if key not in alike:
            report(f"{name} has a link to another function, so it is measured in a run of its own")
            try:
                by_itself = plan.alone(name)
            except ChainFileError as error:
                report(f"{name} is not measured, for it cannot run by itself: {error}")
                continue
            alike[key] = measured(by_itself, [name]).get(name)
        if cost := alike[key]:
            costs[name] = cost
    return costs


def _likeness(function: Subject, shares: Mapping[int, int]) -> str:
    """The same for functions that may share a cost; a program that is gone is like no other."""
    try:
        return cost_key(function, shares)
    except OSError:
        return f"function {function.name}"


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
    return known | measure_costs(plan, missing, options, report, switch)


@contextlib.contextmanager
def running(plan: Plan, options: Options, report: Report, switch: Interrupts) -> Iterator[Run]:
    """Brings `plan` up; takes it down when the block ends, however it ends.

    RunFailedError, besides what made it end, where something could not be undone.
    """
    run = Run(plan, options, report, switch, known_before(plan, options, report, switch))
    reason: str | None = None
    failed = True
    try:
        run.up()
        yield run
        failed = False
    except UnisError as error:
        reason = str(error)
        raise
    except (InterruptedRunError, KeyboardInterrupt, GeneratorExit):
        failed = False
        raise
    except BaseException as error:  # a fault of ours: its logs are wanted
        reason = f"unis itself failed: {error!r}"
        run.note(traceback.format_exc())
        raise
    finally:
        switch.hold()
        account, problems = run.take_down(reason, switch.forced)
        if account and account.offered:
            report(account_line(account))
        for problem in problems:
            report(problem)
        if problems and not failed:
            raise RunFailedError(
                f"not everything of `{plan.name}` could be undone; try again with "
                f"`unis down {plan.name}`"
            )

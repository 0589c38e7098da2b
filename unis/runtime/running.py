"""A run brought up and taken down, whatever happens; before it those that measure costs."""

import contextlib
import traceback
from collections.abc import Iterator, Mapping, Sequence

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


def measure_alone(
    plan: Plan, functions: Sequence[str], options: Options, report: Report, switch: Interrupts
) -> dict[str, Cost]:
    """What a packet costs functions with a link to another: each has a short run of its own.

    Those that are alike in all that may change the cost share one.
    """
    shares = shares_of(plan.traffic, options.sizes)
    measured: dict[str, Cost] = {}
    keys = {name: _likeness(plan.function(name).subject, shares) for name in functions}
    for name, key in keys.items():
        if key in measured:
            continue
        report(f"{name} has a link to another function, so it is measured in a run of its own")
        only = Options(start=False, use_cache=False, estimate=False, sizes=options.sizes)
        with running(plan.alone[name], only, report, switch) as run:
            run.estimate([name])
            measured[key] = run.costs[name]
        switch.resume()
    return {name: measured[key] for name, key in keys.items()}


def _likeness(function: Subject, shares: Mapping[int, int]) -> str:
    """The same for functions that may share a cost; a program that is gone is like no other."""
    try:
        return cost_key(function, shares)
    except OSError:
        return f"function {function.name}"


def _missing_alone(
    plan: Plan,
    options: Options,
    known: Mapping[str, Cost],
    report: Report,
    switch: Interrupts,
) -> dict[str, Cost]:
    if not options.estimate:
        return {}
    missing = [
        name for name in plan.alone if plan.function(name).cost_ns is None and name not in known
    ]
    return measure_alone(plan, missing, options, report, switch)


@contextlib.contextmanager
def running(plan: Plan, options: Options, report: Report, switch: Interrupts) -> Iterator[Run]:
    """Brings `plan` up; takes it down when the block ends, however it ends.

    RunFailedError, besides what made it end, where something could not be undone.
    """
    known = known_costs(plan, options.sizes) if options.use_cache else {}
    alone = _missing_alone(plan, options, known, report, switch)
    run = Run(plan, options, report, switch, known | alone)
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

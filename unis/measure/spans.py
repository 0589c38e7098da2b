"""How long the arms of a comparison are measured on this machine, and measuring them so."""

from collections import Counter
from collections.abc import Callable, Sequence

from unis.measure import order
from unis.measure.windows import Arm, Rounds, Span, alternate, span_of
from unis.plan.machine import rr_timeslice_ms
from unis.plan.model import Plan
from unis.runtime.run import Run


def spans(arms: Sequence[Arm], plan: Plan, window: float) -> dict[Arm, Span]:
    """The span of each arm; `window` is in seconds."""
    sharing = max(Counter(function.cpu for function in plan.functions).values())
    return {arm: span_of(arm, window, sharing, rr_slice(plan)) for arm in arms}


def rr_slice(plan: Plan) -> float:
    """The kernel's SCHED_RR time slice while the chain runs, seconds."""
    return (plan.scheduler.rr_timeslice_ms or rr_timeslice_ms()) / 1000


def in_turn(
    run: Run,
    arms: Sequence[Arm],
    rounds: int,
    window: float,
    look: Callable[[Rounds, Arm], None] = lambda *_: None,
) -> Rounds:
    """Windows of the arms in balanced rounds, as long as the run lives; `window` in seconds.

    `look` is called after each window, as by `alternate`.
    """

    def on_window(done: Rounds, arm: Arm) -> None:
        run.check()
        look(done, arm)

    return alternate(
        run.client, order.rounds(arms, rounds), spans(arms, run.plan, window),
        run.plan.controller, on_window,
    )  # fmt: skip

"""`python -m evaluation goals`: whether a chain at full load keeps its goal on latency.

The chain starts once per goal, with the ring lengths that `unis up` would choose. Measured latency
stands beside the expected one. Each goal is another start of the chain, so differences between
goals may also come from the machine.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from pydantic import BaseModel

from unis.bench.synthetic import macswap_chain
from unis.bench.throughput import POLICIES
from unis.chain.load import LoadedChain
from unis.chain.problem import ChainFileError
from unis.chain.values import ControllerName
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Quartiles
from unis.measure.summary import MachineSummary, latency_of, summarise_arm
from unis.measure.windows import Arm, in_turn
from unis.plan.machine import Machine
from unis.runtime.planning import plan_chain
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up

NO_GOAL = "none"


class GoalKept(BaseModel):
    """A goal, as measured."""

    notes: list[str]  # those of `unis config`, for example on a goal that may not be kept
    slots: int
    expected_p95_us: float | None  # with the model's margin; None: no goal
    latency_us: dict[str, float | None]
    mpps: Quartiles
    windows: int
    windows_kept: int | None  # with a p95 within the goal; None: no goal
    disturbed: Disturbance


class GoalRow(BaseModel):
    """One goal under one controller."""

    controller: str
    goal: str  # as in a chain file, or `none`
    refused: str | None  # why the planner refuses the goal
    kept: GoalKept | None


class GoalsResult(BaseModel):
    """The results, and the machine they are from."""

    machine: MachineSummary
    cost: str
    length: int
    rows: list[GoalRow]


@dataclass(frozen=True)
class GoalSettings:
    """What the command line says."""

    cost: str
    length: int
    goals: tuple[str, ...]  # as in a chain file, or `none`
    controllers: tuple[ControllerName, ...]
    windows: int  # per goal
    window: float  # seconds


def measure(
    settings: GoalSettings, machine: Machine, report: Callable[[str], None]
) -> Iterator[GoalRow]:
    """Measures a row per goal, controller by controller."""
    for controller in settings.controllers:
        report(f"measuring the costs of a packet and of a switch, for {controller}")
        # With assumed costs the planner would not refuse any goal.
        no_goal = partial(_chain, settings, machine, controller, NO_GOAL)
        brought_up(no_goal, machine, Options(costs="measured"), report, lambda _: None)
        for goal in settings.goals:
            report(f"{controller}, goal {goal}")
            yield _row(settings, machine, controller, goal, report)


def result(rows: list[GoalRow], settings: GoalSettings, machine: Machine) -> GoalsResult:
    """The content of the JSON file."""
    return GoalsResult(
        machine=MachineSummary.this(len(machine.cpus)),
        cost=settings.cost,
        length=settings.length,
        rows=rows,
    )


def _row(
    settings: GoalSettings,
    machine: Machine,
    controller: ControllerName,
    goal: str,
    report: Callable[[str], None],
) -> GoalRow:
    make = partial(_chain, settings, machine, controller, goal)
    try:
        plan_chain(make(), machine)
    except ChainFileError as error:
        refused = "; ".join(row.problem.sentence for row in error.problems)
        return GoalRow(controller=controller, goal=goal, refused=refused, kept=None)
    arm = replace(POLICIES[controller], name=controller)
    kept = brought_up(make, machine, Options(), report, lambda run: _kept(run, arm, settings))
    return GoalRow(controller=controller, goal=goal, refused=None, kept=kept)


def _kept(run: Run, arm: Arm, settings: GoalSettings) -> GoalKept:
    (chain,) = run.plan.chains
    rounds = in_turn(run, [arm], settings.windows, settings.window)
    summary = summarise_arm(rounds, str(arm))
    each = [latency_of([windows], str(arm)).percentiles_us((95,))["p95"] for windows in rounds]
    goal_us = None if chain.goal_ns is None else chain.goal_ns / 1e3
    return GoalKept(
        notes=list(run.plan.notes),
        slots=run.plan.links[0].slots,
        expected_p95_us=chain.ring.p95_us if chain.ring else None,
        latency_us=summary.latency_us,
        mpps=summary.mpps,
        windows=len(rounds),
        windows_kept=None
        if goal_us is None
        else sum(p95 is not None and p95 <= goal_us for p95 in each),
        disturbed=summary.disturbed,
    )


def _chain(
    settings: GoalSettings, machine: Machine, controller: ControllerName, goal: str
) -> LoadedChain:
    return macswap_chain(
        "bench-goals",
        settings.cost,
        settings.length,
        max(machine.cpus),
        controller=controller,
        goal=None if goal == NO_GOAL else goal,
    )

"""Follows a piece of advice, and measures before and after in turn."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from unis.advice.change import changed_chain
from unis.advice.observed import span_of_plan
from unis.advice.rules import LEAST_GAIN
from unis.chain.load import LoadedChain
from unis.engine.histogram import Latency
from unis.errors import UnisError
from unis.measure import order
from unis.measure.paired import Paired, Ratio
from unis.measure.windows import Arm, Offered, measure, overload
from unis.parts.advised import Advice, Trial, TrialLoad
from unis.plan.contract import scheduler_settings
from unis.plan.machine import Machine
from unis.plan.model import Plan
from unis.runtime.errors import RunTimeoutError
from unis.runtime.planning import plan_chain
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up
from unis.v1 import engine_pb2 as pb

_LEAST_PPS = 100.0
_HALF = 0.5
MOST = 3  # pieces of advice that are tried

_Replies = list[pb.MeasureReply]


@dataclass(frozen=True)
class TrialSettings:
    """How long a trial takes."""

    rounds: int  # at each load; of eight bring-ups each has half as many
    window: float  # seconds


@dataclass(frozen=True)
class _OfArm:
    """Windows of one arm, in one bring-up."""

    overload: _Replies
    half: _Replies


def in_turn(
    advice: Sequence[Advice],
    chain: LoadedChain,
    machine: Machine,
    settings: TrialSettings,
    report: Callable[[str], None],
) -> tuple[list[Trial], dict[str, str]]:
    """Tries one after the other until one was worth it, and no more than MOST. Each brings the
    chain up; of one that cannot be tried the second value says why. InterruptedRunError.
    """
    done: list[Trial] = []
    refused: dict[str, str] = {}
    for each in advice[:MOST]:
        report(f"trying: {each.what}")
        try:
            done.append(_tried(each, chain, machine, settings, report))
        except (UnisError, RunTimeoutError) as error:
            refused[each.what] = str(error)
            report(f"it cannot be tried: {error}")
            continue
        if done[-1].worth:
            break
    return done, refused


def _tried(
    advice: Advice,
    chain: LoadedChain,
    machine: Machine,
    settings: TrialSettings,
    report: Callable[[str], None],
) -> Trial:
    advised = changed_chain(chain, advice.change)
    plan = plan_chain(advised, machine)  # tells what is wrong with it before anything starts
    if all(path.startswith("scheduler.") for path in advice.change):
        blocks = [
            brought_up(
                lambda: chain, machine, Options(), report,
                lambda run: _alternating(run, plan, settings),
            )
        ]  # fmt: skip
        return _trial(advice, "windows", blocks)

    pps: list[float] = []  # half of what passed at first

    def look(run: Run) -> _OfArm:
        return _one_arm(run, settings, pps)

    # A B B A: a machine that becomes slower all the time tells for neither. Twice, because what is
    # said of two pairs of bring-ups has no bounds to speak of.
    seen = [
        brought_up(lambda each=each: each, machine, Options(), report, look)  # type: ignore[misc]
        for each in (chain, advised, advised, chain) * 2
    ]
    blocks = [(seen[at], seen[at + 1]) for at in (0, 4)]
    blocks += [(seen[at + 1], seen[at]) for at in (2, 6)]
    return _trial(advice, "bring-ups", blocks)


def _alternating(run: Run, advised: Plan, settings: TrialSettings) -> tuple[_OfArm, _OfArm]:
    arms = [_arm(run.plan, "before"), _arm(advised, "after")]
    before, after = (_OfArm([], []) for _ in arms)
    rounds = order.rounds(["before", "after"], order.balanced_rounds(2, settings.rounds))
    of_arm = {"before": (arms[0], run.plan, before), "after": (arms[1], advised, after)}
    for names in rounds:
        for name in names:
            arm, plan, seen = of_arm[name]
            seen.overload.append(_window(run, arm, plan, overload(plan).pps, settings))
    run.client.settle()
    half = _half_of(before.overload)
    for names in rounds:
        for name in names:
            arm, plan, seen = of_arm[name]
            seen.half.append(_window(run, arm, plan, half, settings))
    return before, after


def _one_arm(run: Run, settings: TrialSettings, pps: list[float]) -> _OfArm:
    arm = _arm(run.plan, "")
    count = -(-settings.rounds // 2)
    most = overload(run.plan).pps
    overloaded = [_window(run, arm, run.plan, most, settings) for _ in range(count)]
    run.client.settle()
    if not pps:
        pps.append(_half_of(overloaded))
    half = [_window(run, arm, run.plan, pps[0], settings) for _ in range(count)]
    return _OfArm(overloaded, half)


def _arm(plan: Plan, name: str) -> Arm:
    arm = Arm(plan.policy, plan.controller, name=name)
    return arm.with_settings(scheduler_settings(plan.scheduler, plan.gamma.value))


def _window(run: Run, arm: Arm, plan: Plan, pps: float, settings: TrialSettings) -> pb.MeasureReply:
    run.check()
    offered = Arm(
        arm.policy, arm.controller, name=arm.name, offered=Offered(pps, "constant"),
        scheduler=arm.scheduler,
    )  # fmt: skip
    return measure(run.client, offered, span_of_plan(plan, settings.window), plan.controller)


def _half_of(windows: _Replies) -> float:
    return max(_LEAST_PPS, _HALF * 1000 * statistics.median(map(_kpps, windows)))


# ------------------------------------------------------------------ what it comes to


def _trial(
    advice: Advice,
    how: Literal["windows", "bring-ups"],
    blocks: Sequence[tuple[_OfArm, _OfArm]],
) -> Trial:
    overload = _load([([_kpps(w) for w in before.overload], [_kpps(w) for w in after.overload])
                      for before, after in blocks], inverse=False)  # fmt: skip
    half = _load([([_median_us(w) for w in before.half], [_median_us(w) for w in after.half])
                  for before, after in blocks], inverse=True)  # fmt: skip
    gain = (overload if advice.kind == "throughput" else half).gain
    return Trial(
        what=advice.what,
        how=how,
        overload_kpps=overload,
        half_load_us=half,
        worth=gain is not None and gain.median >= LEAST_GAIN and gain.lo > 1,
    )


def _load(blocks: list[tuple[list[float], list[float]]], *, inverse: bool) -> TrialLoad:
    """`inverse`: less is better."""
    pairs = [(before, after) if inverse else (after, before) for before, after in blocks]
    return TrialLoad(
        before=statistics.median([value for before, _ in blocks for value in before]),
        after=statistics.median([value for _, after in blocks for value in after]),
        gain=Ratio.of(Paired.of_blocks(pairs)),
    )


def _kpps(reply: pb.MeasureReply) -> float:
    return reply.delivered / reply.window_ns * 1e6


def _median_us(reply: pb.MeasureReply) -> float:
    """0: no packet came, and the pair does not count."""
    return Latency([reply.latency]).percentile_us(50) or 0.0

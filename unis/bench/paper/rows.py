"""Rows of results.json: one arm of one case in one figure."""

import statistics
from collections.abc import Callable, Sequence

from unis.bench.paper import arms
from unis.bench.paper.cases import MAIN, TUNED, Case
from unis.bench.paper.measured import Measured, Window
from unis.measure.paired import Paired, Quartiles, Ratio
from unis.report.evaluation import Row


def best_of(measured: Measured) -> str:
    """Co-operative at the distance that was best when the two best were measured anew.

    Where they were not, that which passed most.
    """
    if measured.best_every is not None:
        return arms.K[measured.best_every]
    there = {name: measured.mpps(name) for name in arms.K.values()}
    found = {name: statistics.median(values) for name, values in there.items() if values}
    return max(found, key=lambda name: found[name], default=arms.PAPER_K)


def ratio(measured: Measured, arm: str, base: str, which: str = MAIN) -> Ratio | None:
    """Throughput of one arm by that of another, in windows of one round."""
    values, by = measured.mpps(arm, which), measured.mpps(base, which)
    return Ratio.of(Paired.ratio(values, by)) if values and len(values) == len(by) else None


def to_best(measured: Measured, arm: str, which: str = MAIN) -> Ratio | None:
    """By co-operative at its best; hand-over in windows that were measured for it."""
    if arm == arms.HANDOVER and which == MAIN and TUNED in measured.sets:
        return ratio(measured, arm, arms.BEST, TUNED)
    return ratio(measured, arm, best_of(measured), which)


def median_of(
    measured: Measured, arm: str, of: Callable[[Window], float], which: str = MAIN
) -> float:
    """The median over the windows of an arm, one at least."""
    return statistics.median(measured.values(arm, of, which))


def context_switches(window: Window) -> float:
    """By the kernel, of a function in the mean."""
    return statistics.fmean(window.context_switches_per_s.values())


def slowest(window: Window) -> float:
    """The share of the CPU of the function that had least of it."""
    return min(window.cpu_share.values())


def row(
    experiment: str,
    case: Case,
    measured: Measured,
    arm: str,
    *,
    which: str = MAIN,
    fused: Measured | None = None,
    x: float | None = None,
) -> Row:
    """What the windows of a set say of an arm."""
    windows = measured.values(arm, lambda _: 0.0, which)
    wanted = arms.ALL[arm].arm
    percentiles = {
        name: _median([of[arm].latency_us[name] for of in measured.sets[which] if arm in of])
        for name in ("mean", "p5", "p50", "p95", "p99")
    }
    return Row(
        experiment=experiment,
        cost=case.cost,
        length=case.length,
        size=case.size,
        ring=measured.slots,
        policy=arms.FUSED if arm == arms.FUSED else wanted.policy,
        controller=None if arm == arms.FUSED else wanted.controller,
        arm=arm,
        yield_every=wanted.yield_every or None,
        x=case.length if x is None else x,
        mpps=Quartiles.of(measured.mpps(arm, which)),
        ratio_to_cooperative=to_best(measured, arm, which),
        ratio_to_paper_k=ratio(measured, arm, arms.PAPER_K, which),
        ratio_to_fused=_to_fused(measured, arm, fused) if which == MAIN else None,
        latency_us=percentiles,
        drops=median_of(measured, arm, lambda window: window.dropped_pps, which),
        switches_per_s=median_of(measured, arm, lambda window: window.switches_per_s, which),
        context_switches_per_s=median_of(measured, arm, context_switches, which),
        slowest_cpu_share=median_of(measured, arm, slowest, which),
        windows=len(windows),
        source="measured",
    )


def _to_fused(measured: Measured, arm: str, fused: Measured | None) -> Ratio | None:
    if fused is None:
        return None
    values, by = measured.mpps(arm), fused.mpps(arms.FUSED)
    count = min(len(values), len(by))  # of two starts, so that no round is shared anyhow
    return Ratio.of(Paired.ratio(values[:count], by[:count]))


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None

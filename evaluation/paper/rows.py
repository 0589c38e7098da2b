"""Rows of results.json: one arm of one case in one figure."""

import statistics
from collections.abc import Callable, Sequence
from itertools import zip_longest

import numpy as np

from evaluation.paper import arms
from evaluation.paper.case import LOAD, MAIN, TUNED, Case
from evaluation.paper.measured import Measured, Window, ratio
from evaluation.paper.results import ResultRow
from unis.measure.paired import Quartiles, Ratio

_RESAMPLES = 2000
_SEED = 1  # the same windows give the same interval


def best_of(measured: Measured) -> str:
    """Co-operative at the distance that was best when the two best were measured anew.

    Where they were not, that which passed most.
    """
    if measured.best_every is not None:
        return arms.K[measured.best_every]
    there = {name: measured.mpps(name) for name in arms.K.values()}
    found = {name: statistics.median(values) for name, values in there.items() if values}
    return max(found, key=lambda name: found[name], default=arms.PAPER_K)


def ratios(measured: Measured, arm: str, base: str, which: str = MAIN) -> list[float]:
    """Throughput of one arm by that of another, in windows of one round."""
    return ratios_of(measured, arm, base, lambda window: window.mpps, which)


def ratios_of(
    measured: Measured, arm: str, base: str, of: Callable[[Window], float], which: str = MAIN
) -> list[float]:
    """The same of anything; without the rounds in which the other had none."""
    values, by = measured.values(arm, of, which), measured.values(base, of, which)
    return [value / other for value, other in zip_longest(values, by, fillvalue=0.0) if other]


def to_best(measured: Measured, arm: str, which: str) -> Ratio | None:
    """By co-operative at its best; hand-over only in windows that were measured for it."""
    if which == TUNED:
        return ratio(measured, arm, arms.BEST, TUNED)
    if measured.best_every is None or which == LOAD or arm == arms.HANDOVER:
        return None
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
    by: str | None = None,
    judged: Ratio | None = None,
    chain: str | None = None,
) -> ResultRow:
    """What the windows of a set say of an arm; `judged` by the arm `by`, of which it is 1."""
    windows = measured.values(arm, lambda window: window, which)
    passed = [window.chain_mpps[chain] if chain else window.mpps for window in windows]
    percentiles = {
        name: _median([window.latency_us[name] for window in windows])
        for name in ("mean", "p5", "p50", "p95", "p99")
    }
    loaded = which == LOAD  # all pass what is offered
    return _row(
        experiment, case, measured, arm, which, x, chain, Quartiles.of(passed), len(windows)
    ).model_copy(
        update={
            "offered_mpps": measured.offered_pps / 1e6 if loaded and measured.offered_pps else None,
            "ratio_to_cooperative": None if chain else to_best(measured, arm, which),
            "ratio_to_paper_k": None
            if chain or loaded
            else ratio(measured, arm, arms.PAPER_K, which),
            "ratio_to_fused": to_fused(passed, measured, fused) if fused else None,
            "ratio": judged or (ratio(measured, arm, by, which) if by else None),
            "ratio_to": by,
            "latency_us": percentiles,
            "drops": median_of(measured, arm, lambda window: window.dropped_pps, which),
            "switches_per_s": median_of(measured, arm, lambda of: of.switches_per_s, which),
            "context_switches_per_s": median_of(measured, arm, context_switches, which),
            "slowest_cpu_share": median_of(measured, arm, slowest, which),
        }
    )


def simulated_row(
    experiment: str, case: Case, measured: Measured, arm: str, mpps: float,
    *, x: float | None = None, chain: str | None = None,
) -> ResultRow:  # fmt: skip
    """What the simulator says of an arm."""
    only = Quartiles.of([mpps])
    return _row(experiment, case, measured, arm, "simulated", x, chain, only, 0).model_copy(
        update={"source": "simulated"}
    )


def _row(
    experiment: str, case: Case, measured: Measured, arm: str, which: str, x: float | None,
    chain: str | None, mpps: Quartiles, windows: int,
) -> ResultRow:  # fmt: skip
    wanted = arms.ALL.get(arm)
    every = measured.best_every if arm == arms.BEST else wanted and wanted.arm.yield_every
    policy = "cooperative" if wanted is None else wanted.arm.policy
    return ResultRow(
        experiment=experiment,
        case=case.key,
        set=which,
        cost=case.cost,
        length=case.length,
        size=case.size,
        ring=measured.slots,
        policy=arms.FUSED if arm == arms.FUSED else policy,
        controller=wanted.arm.controller if wanted and arm != arms.FUSED else None,
        arm=arm,
        yield_every=every or None,
        x=case.length if x is None else x,
        chain=chain,
        mpps=mpps,
        best_every=measured.best_every,
        windows=windows,
        source="measured",
    )


def to_fused(passed: Sequence[float], measured: Measured, fused: Measured) -> Ratio | None:
    """By what one process passes: medians, for they are of two starts and share no round.

    None where the machine went from one of its states into another meanwhile.
    """
    by = fused.mpps(arms.FUSED)
    if not measured.is_near(fused) or not passed or not by:
        return None
    generator = np.random.default_rng(_SEED)

    def medians(of: Sequence[float]) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
        drawn = generator.integers(len(of), size=(_RESAMPLES, len(of)))
        found: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
        found = np.median(np.array(of)[drawn], axis=1)
        return found

    lo, hi = np.quantile(medians(passed) / medians(by), [0.025, 0.975])
    middle = statistics.median(passed) / statistics.median(by)
    return Ratio(median=middle, lo=float(lo), hi=float(hi))


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None

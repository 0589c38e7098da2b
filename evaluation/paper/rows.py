"""Rows of results.json: one arm of one case in one figure."""

import statistics
from collections.abc import Callable, Sequence
from itertools import zip_longest

import numpy as np

from evaluation.paper import arms
from evaluation.paper.case import LOAD, MAIN, TUNED, Case
from evaluation.paper.measured import ArmWindow, Measured, ratio
from evaluation.paper.results import ResultRow
from unis.measure.paired import Quartiles, Ratio

_RESAMPLES = 2000
_SEED = 1  # the same windows give the same interval


def best_of(measured: Measured) -> str:
    """Co-operative at its best distance, as the set TUNED decided.

    Without that set the distance with the highest median.
    """
    if measured.best_every is not None:
        return arms.K[measured.best_every]
    mpps = {name: measured.mpps(name) for name in arms.K.values()}
    medians = {name: statistics.median(values) for name, values in mpps.items() if values}
    return max(medians, key=lambda name: medians[name], default=arms.PAPER_K)


def ratios(measured: Measured, arm: str, base: str, window_set: str = MAIN) -> list[float]:
    """Throughput of `arm` ÷ `base` in each round."""
    return ratios_of(measured, arm, base, lambda window: window.mpps, window_set)


def ratios_of(
    measured: Measured,
    arm: str,
    base: str,
    quantity: Callable[[ArmWindow], float],
    window_set: str = MAIN,
) -> list[float]:
    """The same for any quantity, without rounds in which `base` has 0."""
    values, base_values = (
        measured.values(arm, quantity, window_set),
        measured.values(base, quantity, window_set),
    )
    return [
        value / other for value, other in zip_longest(values, base_values, fillvalue=0.0) if other
    ]


def ratio_to_best(measured: Measured, arm: str, window_set: str) -> Ratio | None:
    """The ratio to co-operative at its best; of hand-over only in the set TUNED."""
    if window_set == TUNED:
        return ratio(measured, arm, arms.BEST, TUNED)
    if measured.best_every is None or window_set == LOAD or arm == arms.HANDOVER:
        return None
    return ratio(measured, arm, best_of(measured), window_set)


def median_of(
    measured: Measured, arm: str, quantity: Callable[[ArmWindow], float], window_set: str = MAIN
) -> float:
    """The median over the windows of an arm; there must be one."""
    return statistics.median(measured.values(arm, quantity, window_set))


def context_switches(window: ArmWindow) -> float:
    """The kernel's context switches, the mean over the functions."""
    return statistics.fmean(window.context_switches_per_s.values())


def slowest_cpu_share(window: ArmWindow) -> float:
    """The CPU share of the function that had the least."""
    return min(window.cpu_share.values())


def row(
    experiment: str,
    case: Case,
    measured: Measured,
    arm: str,
    *,
    window_set: str = MAIN,
    fused: Measured | None = None,
    x: float | None = None,
    base: str | None = None,
    chain: str | None = None,
) -> ResultRow:
    """A row from the windows of an arm in a set. `base`: the arm that `ratio` compares with."""
    windows = measured.values(arm, lambda window: window, window_set)
    passed = [window.chain_mpps[chain] if chain else window.mpps for window in windows]
    percentiles = {
        name: _median([window.latency_us[name] for window in windows])
        for name in ("mean", "p5", "p50", "p95", "p99")
    }
    loaded = window_set == LOAD  # all arms pass the offered load
    return _row(
        experiment, case, measured, arm, window_set, x, chain, Quartiles.of(passed), len(windows)
    ).model_copy(
        update={
            "offered_mpps": measured.offered_pps / 1e6 if loaded and measured.offered_pps else None,
            "ratio_to_cooperative": None if chain else ratio_to_best(measured, arm, window_set),
            "ratio_to_paper_k": None
            if chain or loaded
            else ratio(measured, arm, arms.PAPER_K, window_set),
            "ratio_to_fused": ratio_to_fused(passed, measured, fused) if fused else None,
            "ratio": ratio(measured, arm, base, window_set) if base else None,
            "ratio_to": base,
            "latency_us": percentiles,
            "drops": median_of(measured, arm, lambda window: window.dropped_pps, window_set),
            "switches_per_s": median_of(
                measured, arm, lambda window: window.switches_per_s, window_set
            ),
            "context_switches_per_s": median_of(measured, arm, context_switches, window_set),
            "slowest_cpu_share": median_of(measured, arm, slowest_cpu_share, window_set),
        }
    )


def simulated_row(
    experiment: str, case: Case, measured: Measured, arm: str, mpps: float,
    *, x: float | None = None, chain: str | None = None,
) -> ResultRow:  # fmt: skip
    """A row with the simulated throughput of an arm."""
    only = Quartiles.of([mpps])
    return _row(experiment, case, measured, arm, "simulated", x, chain, only, 0).model_copy(
        update={"source": "simulated"}
    )


def _row(
    experiment: str, case: Case, measured: Measured, arm: str, window_set: str, x: float | None,
    chain: str | None, mpps: Quartiles, windows: int,
) -> ResultRow:  # fmt: skip
    spec = arms.SPECS.get(arm)
    yield_every = measured.best_every if arm == arms.BEST else spec and spec.arm.yield_every
    policy = "cooperative" if spec is None else spec.arm.policy
    return ResultRow(
        experiment=experiment,
        case=case.key,
        set=window_set,
        cost=case.cost,
        length=case.length,
        size=case.size,
        ring=measured.slots,
        policy=arms.FUSED if arm == arms.FUSED else policy,
        controller=spec.arm.controller if spec and arm != arms.FUSED else None,
        arm=arm,
        yield_every=yield_every or None,
        x=case.length if x is None else x,
        chain=chain,
        mpps=mpps,
        best_every=measured.best_every,
        windows=windows,
        source="measured",
    )


def ratio_to_fused(passed: Sequence[float], measured: Measured, fused: Measured) -> Ratio | None:
    """The ratio to one process: of medians, because two starts share no round.

    None if the machine changed its state between the two.
    """
    fused_mpps = fused.mpps(arms.FUSED)
    if not measured.is_same_state(fused) or not passed or not fused_mpps:
        return None
    generator = np.random.default_rng(_SEED)

    def medians(values: Sequence[float]) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
        drawn = generator.integers(len(values), size=(_RESAMPLES, len(values)))
        found: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
        found = np.median(np.array(values)[drawn], axis=1)
        return found

    lo, hi = np.quantile(medians(passed) / medians(fused_mpps), [0.025, 0.975])
    middle = statistics.median(passed) / statistics.median(fused_mpps)
    return Ratio(median=middle, lo=float(lo), hi=float(hi))


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None

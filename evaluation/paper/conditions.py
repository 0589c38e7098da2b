"""Figures 1 (the kernel's policies), 5 (partial load) and 15 (wrong slices), A/A and scale."""

import math
from collections.abc import Callable, Sequence
from itertools import product

from evaluation.paper import arms
from evaluation.paper import scale as scale_of
from evaluation.paper.case import (
    GAMMA,
    HANDOVER_FILLS,
    LOAD,
    MAIN,
    ONLINE_COST_FILLS,
    SHORT,
    TUNED,
    Case,
)
from evaluation.paper.figure import FigureAndRows, Findings, MeasuredCase, ratio_at
from evaluation.paper.judging import at_least, at_most, combined, interval_text, pooled
from evaluation.paper.measured import ArmWindow, Measured, ratio
from evaluation.paper.results import Figure, Plot, Point, ResultRow, Verdict
from evaluation.paper.rows import median_of, row
from evaluation.paper.throughput import switch_us
from unis.measure.paired import Ratio

_KERNEL_LIMIT = 0.3  # share of the possible throughput (Fig. 1)
_CHANCE = 0.05  # that an interval misses the true value
# Share of lost packets above which a round is overload. A pause of 1 ms in a window of 70 is less.
_OVERLOADED = 0.02
_LEAST_ROUNDS = 4
_WITHIN = 0.97  # of the throughput with slices for 75 % (Fig. 15)


# ---------------------------------------------------------------------- Fig. 1


def fig1(findings: Findings) -> FigureAndRows:
    """The throughput under the kernel's policies."""
    chains = findings.chains("fig1")
    policies = {
        f"{arm}{' with its shortest slices' if short else ''}": (arm, short)
        for arm, short in product((arms.OTHER, arms.RR), (False, True))
    }
    series: dict[str, list[Point]] = {}
    verdicts: list[Verdict] = []
    words: list[str] = []
    for name, (arm, short) in policies.items():
        same_slices = [chain for chain in chains if chain[0].key.endswith(SHORT) == short]
        reached = {case.size: ratio(measured, arm, arms.HANDOVER) for case, measured in same_slices}
        known = {size: part for size, part in reached.items() if part}
        verdicts += [at_most(part, _KERNEL_LIMIT) for part in known.values()]
        series[name] = [ratio_at(f"{size} B", part, 100) for size, part in known.items()]
        words.append(f"{name} {', '.join(f'{100 * part.median:.2g} %' for part in known.values())}")
    sizes = ", ".join(dict.fromkeys(f"{case.size} B" for case, _ in chains))
    verdict = combined(verdicts)
    return Figure(
        key="fig1", name="Fig. 1", title="Two functions on one CPU under the kernel's policies",
        paper="At 64 B about 1 % of the throughput of functions with a CPU each, at 1500 B at most "
        "some 30 %. Shorter slices help, but not enough. Here: relative to hand-over on one CPU, "
        "because there is no CPU for each function. No wire limits the packet rate here, so large "
        "packets are no easier.",
        ours=f"For {sizes}: {'; '.join(words)}.",
        rule=f"each policy reaches at most {_KERNEL_LIMIT:.0%} at each size, with its default "
        "slices and with its shortest (1 ms, 0.1 ms)",
        verdict=verdict,
        why="" if verdict == "agrees" else "slices are shorter here than the work that a ring "
        "holds",
        source=["measured"],
        plots=[
            Plot(
                kind="bars", title="the kernel's policies", x="frame",
                y="% of the throughput under hand-over", series=series,
            )
        ],
    ), [
        row("fig1", case, measured, arm, x=_bytes(case), base=arms.HANDOVER)
        for case, measured in chains
        for arm in case.sets[MAIN]
    ]  # fmt: skip


def _bytes(case: Case) -> float:
    return float(case.size)


# ---------------------------------------------------------------------- Fig. 5


def fig5(findings: Findings) -> FigureAndRows:
    """Latency at 80 % of the sustained load."""
    chains = [
        (case, kept)
        for case, measured in findings.chains("fig5")
        if (kept := _without_overload(measured))
    ]
    left_out = len(findings.chains("fig5")) - len(chains)
    plots: list[Plot] = []
    words: list[str] = []
    verdicts: list[Verdict] = []
    for cost in ("light", "medium", "heavy"):
        same_cost = [(case, measured) for case, measured in chains if case.cost == cost]
        if not same_cost:
            verdicts.append("cannot be had here")
            words.append(f"{cost}: not measured")
            continue
        plots.append(
            Plot(
                kind="lines",
                title=f"{cost} functions",
                x="functions in the chain",
                y="mean latency, µs (p5 to p95)",
                series={
                    arm: [_latency(case.length, measured, arm) for case, measured in same_cost]
                    for arm in arms.LATENCY
                },
            )
        )
        unis, handed = (
            pooled([_added_us(measured, arm) for _, measured in same_cost])
            for arm in (arms.PRIORITY, arms.HANDOVER)
        )
        verdicts.append((at_most if cost == "heavy" else at_least)(unis, 0.0))
        words.append(
            f"{cost}: UNiS as in the paper {_microseconds(unis)}, hand-over {_microseconds(handed)}"
        )
    verdict = combined(verdicts)
    note = (
        f" Left out: {left_out} chains that did not keep up with that load in {_LEAST_ROUNDS} "
        "rounds."
        if left_out else ""
    )  # fmt: skip
    return Figure(
        key="fig5", name="Fig. 5", title="Latency at 80 % of the load that all arms sustain",
        paper="UNiS adds 14 µs to the mean latency of light functions and less to that of medium "
        "ones. It lowers that of heavy ones, which the kernel sometimes runs out of order. Packets "
        "of 128 B in the paper, 64 B here.",
        ours=f"Mean latency minus that with k = 8, the mean over the lengths: {'; '.join(words)}."
        + note,
        rule="UNiS as in the paper raises the latency of light and medium functions and lowers "
        f"that of heavy ones; rounds in which an arm lost more than {_OVERLOADED:.1%} are left out",
        verdict=verdict,
        why="" if verdict == "agrees" else _in_order(chains) if verdict == "differs" else _OVERLOAD,
        source=["measured"] if chains else [], plots=plots,
    ), [
        row("fig5", case, measured, arm, window_set=LOAD)
        for case, measured in chains
        for arm in arms.LATENCY
    ]  # fmt: skip


_OVERLOAD = "for some costs the chains did not keep up with that load for long enough"


def _in_order(chains: Sequence[MeasuredCase]) -> str:
    return (
        "functions that yield run in chain order here, because each goes to the end of the CPU's "
        f"queue; and a switch by priority takes {switch_us(chains):.0f} µs"
    )


def _without_overload(measured: Measured) -> Measured | None:
    """Without the rounds of overload; None if too few are left."""
    rounds = [
        windows
        for windows in measured.sets.get(LOAD, [])
        if all(
            window.lost <= _OVERLOADED and window.latency_us["mean"] for window in windows.values()
        )
    ]
    if len(rounds) < _LEAST_ROUNDS:
        return None
    return measured.model_copy(update={"sets": {**measured.sets, LOAD: rounds}})


def _added_us(measured: Measured, arm: str) -> list[float]:
    """Mean latency minus that with k = 8, per round, µs."""
    values, base = (measured.values(name, _mean, LOAD) for name in (arm, arms.PAPER_K))
    return [value - other for value, other in zip(values, base, strict=True)]


def _mean(window: ArmWindow) -> float:
    return window.latency_us["mean"] or math.nan


def _microseconds(found: Ratio | None) -> str:
    return f"{found.median:+.0f} [{found.lo:+.0f} to {found.hi:+.0f}] µs" if found else "not known"


def _latency(length: int, measured: Measured, arm: str) -> Point:
    mean, low, high = (
        median_of(measured, arm, lambda window, name=name: window.latency_us[name] or 0.0, LOAD)  # type: ignore[misc]
        for name in ("mean", "p5", "p95")
    )
    return Point(x=length, y=mean, low=low, high=high)


# ---------------------------------------------------------------------- Fig. 15


def fig15(findings: Findings) -> FigureAndRows:
    """Slices of a wrong length, each curve relative to its own slices for 75 %."""
    chains = findings.chains("fig15")
    curves: dict[str, tuple[str, Callable[[float], str], Sequence[float]]] = {
        "without the optimisation": (
            MAIN, lambda share: arms.fill_name(share, occupancy=False), arms.FILLS,
        ),
        "with it": (MAIN, lambda share: arms.fill_name(share, occupancy=True), arms.FILLS),
        "with it, costs estimated online": (
            ONLINE_COST_FILLS, arms.online_cost_fill_name, arms.FEW_FILLS,
        ),
        arms.HANDOVER: (HANDOVER_FILLS, arms.handover_fill_name, arms.FEW_FILLS),
    }  # fmt: skip
    plots: list[Plot] = []
    words: list[str] = []
    verdicts: list[Verdict] = []
    rows: list[ResultRow] = []
    for case, measured in chains:
        ratios: dict[str, dict[float, Ratio]] = {}
        for name, (window_set, arm, shares) in curves.items():
            by_share = {s: ratio(measured, arm(s), arm(GAMMA), window_set) for s in shares}
            ratios[name] = {share: found for share, found in by_share.items() if found}
            rows += [
                row(
                    "fig15",
                    case,
                    measured,
                    arm(share),
                    window_set=window_set,
                    x=share,
                    base=arm(GAMMA),
                )
                for share in shares
            ]
        with_it, without = ratios["with it"], ratios["without the optimisation"]
        verdicts += [at_least(found, _WITHIN) for found in with_it.values()]
        verdicts.append(at_most(without.get(arms.FILLS[-1]), _WITHIN))
        words.append(
            f"{case.cost}: "
            + "; ".join(f"{name} {_least(curve)}" for name, curve in ratios.items())
        )
        plots.append(
            Plot(
                kind="lines",
                title=f"{case.length} {case.cost} functions",
                x="% of the egress that a slice fills",
                y="÷ slices for 75 % on the same curve",
                series={
                    name: [ratio_at(100 * share, found) for share, found in points.items()]
                    for name, points in ratios.items()
                },
            )
        )
    verdict = combined(verdicts)
    return Figure(
        key="fig15", name="Fig. 15", title="Slices that are too short or too long",
        paper="With the optimisation no length costs much throughput. Without it slices for 125 % "
        "of the egress cost light functions 12 % and medium ones 22 %. Not in the paper: costs "
        "estimated online, as `unis up` does, where a slice lasts until it has filled its share; "
        "and hand-over, where a slice only ends the turn of a function that makes no progress.",
        ours=f"Worst ratio to slices for 75 %: {'. '.join(words)}.",
        rule=f"with the optimisation and costs measured once, slices of all lengths reach "
        f"{_WITHIN:g} of slices for 75 %; without it slices for 125 % reach less than {_WITHIN:g}",
        verdict=verdict,
        why="" if verdict == "agrees" or not chains else "short slices cause more switches by "
        f"priority, which take {switch_us(chains):.0f} µs each, with or without the optimisation",
        source=["measured"], plots=plots,
    ), rows  # fmt: skip


def _least(curve: dict[float, Ratio]) -> str:
    share = min(curve, key=lambda share: curve[share].median)
    return f"{interval_text(curve[share])} at {share:.0%}"


# ---------------------------------------------------------------------- A/A, scale


def same(findings: Findings) -> FigureAndRows:
    """One policy under two names."""
    chains = [
        (case, measured) for case, measured in findings.chains("same") if TUNED in measured.sets
    ]
    known = {
        case.key: found
        for case, measured in chains
        if (found := ratio(measured, arms.HANDOVER_AGAIN, arms.HANDOVER, TUNED))
    }
    outside = [key for key, found in known.items() if found.hi < 1.0 or found.lo > 1.0]
    allowed = _by_chance(len(known))
    widest = max(((found.hi - found.lo) / 2 for found in known.values()), default=0.0)
    holds = len(outside) <= allowed
    plot = Plot(
        kind="bars", title="one policy under two names", x="", y="ratio",
        series={
            "again ÷ first": [ratio_at(key, found) for key, found in known.items()]
        },
    )  # fmt: skip
    return Figure(
        key="same", name="A/A", title="Check of the measurement: one policy under two names",
        paper="(Not in the paper.) Hand-over runs twice in the rounds that compare it with "
        "co-operation at its best. The true ratio is 1, and one of twenty intervals misses it.",
        ours=f"{len(known) - len(outside)} of {len(known)} intervals contain 1"
        + (f"; not {', '.join(outside)}" if outside else "")
        + f". The widest is ± {widest:.2f}.",
        rule=f"at most {allowed} of {len(known)} intervals miss 1: by chance more do so in one run "
        f"of twenty",
        verdict="holds" if holds else "fails",
        why="" if holds else "the intervals are too narrow for this machine",
        source=["measured"], plots=[plot],
    ), [
        row("same", case, measured, arm, window_set=TUNED, base=arms.HANDOVER)
        for case, measured in chains
        for arm in (arms.HANDOVER, arms.HANDOVER_AGAIN)
    ]  # fmt: skip


def _by_chance(count: int) -> int:
    """The number of `count` intervals that miss the true value at most, in 19 runs of 20."""
    below = 0.0
    for outside in range(count + 1):
        below += math.comb(count, outside) * _CHANCE**outside * (1 - _CHANCE) ** (count - outside)
        if below >= 1 - _CHANCE:
            return outside
    return count


def scale(findings: Findings) -> FigureAndRows:
    """How many cores and functions one thread of the scheduler serves."""
    if findings.scale is None:
        raise ValueError("it was not simulated")
    return scale_of.figure(findings.scale), []

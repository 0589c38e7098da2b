"""Figures of other conditions: kernels' policies (1), part of the load (5), wrong slices (15).

And of the instrument itself.
"""

import statistics

from unis.bench.paper import arms
from unis.bench.paper import scale as scale_of
from unis.bench.paper.cases import GAMMA, HANDED, LOAD, MAIN, SAME
from unis.bench.paper.figure import FigureOf, Found, judged, ratio_at
from unis.bench.paper.measured import Measured
from unis.bench.paper.rows import median_of, ratio, row
from unis.bench.paper.throughput import switch_us
from unis.report.evaluation import Figure, Plot, Point, Row

_LITTLE = 0.35  # of what could be had: what the paper's kernels reach at most, and a little
_ON_BOTH = 19 / 20  # of intervals that hold 1 where nothing differs
_WITHIN = 0.97  # of the best (Fig. 15)


# ---------------------------------------------------------------------- Fig. 1


def fig1(found: Found) -> FigureOf:
    """What the kernel's policies reach."""
    names = {
        "other": ("", arms.OTHER), "rr": ("", arms.RR), "rr, slices of 1 ms": ("-short", arms.RR),
    }  # fmt: skip
    series: dict[str, list[Point]] = {}
    rows: list[Row] = []
    for name, (suffix, arm) in names.items():
        series[name] = []
        for case, measured in found.of("fig1"):
            if case.key != f"kernel-{case.size}{suffix}":
                continue
            if of := ratio(measured, arm, arms.HANDOVER):
                series[name].append(ratio_at(f"{case.size} B", of, 100))
            one = row("fig1", case, measured, arm, x=float(case.size))
            rows.append(one.model_copy(update={"arm": name}))
    rows += [
        row("fig1", case, measured, arm, x=float(case.size))
        for case, measured in found.of("fig1")
        for arm in (arms.HANDOVER, arms.PAPER_K)
        if arm in case.sets[MAIN]
    ]
    sizes = dict.fromkeys(case.size for case, _ in found.of("fig1"))
    shares = [point.y for points in series.values() for point in points]
    agrees = max(shares) <= 100 * _LITTLE
    told = "; ".join(
        f"{name} {', '.join(f'{point.y:.2g} %' for point in points)}"
        for name, points in series.items()
    )
    return Figure(
        key="fig1", name="Fig. 1", title="Two functions on one CPU under the kernel's policies",
        paper="About 1 % of what functions with a CPU each pass at 64 B, no more than some 30 % at "
        "1500 B; shorter slices help, and not enough. Here: of what they pass on one CPU under "
        "hand-over, as there is no CPU for each; its packets do not go over a wire, so large ones "
        "are no easier to reach.",
        ours=f"For {', '.join(f'{size} B' for size in sizes)}: {told}.",
        verdict=judged(agrees),
        why="" if agrees else "a function's slice is shorter here than what its ring holds",
        source=["measured"],
        plots=[
            Plot(
                kind="bars", title="the kernel's policies", x="frame",
                y="% of what hand-over passes", series=series,
            )
        ],
    ), rows  # fmt: skip


# ---------------------------------------------------------------------- Fig. 5


def fig5(found: Found) -> FigureOf:
    """Latency at 80 % of what can be sustained."""
    of = [(case, measured) for case, measured in found.of("fig5") if measured.sets.get(LOAD)]
    plots: list[Plot] = []
    more: dict[str, list[float]] = {}
    handed: list[float] = []
    for cost in dict.fromkeys(case.cost for case, _ in of):
        there = [(case, measured) for case, measured in of if case.cost == cost]
        plots.append(
            Plot(
                kind="lines",
                title=f"{cost} functions",
                x="functions in the chain",
                y="mean latency, µs (p5 to p95)",
                series={
                    arm: [_latency(case.length, measured, arm) for case, measured in there]
                    for arm in arms.LATENCY
                },
            )
        )
        more[cost] = [
            _mean(measured, arms.PRIORITY) - _mean(measured, arms.PAPER_K) for _, measured in there
        ]
        handed += [
            _mean(measured, arms.HANDOVER) - _mean(measured, arms.PAPER_K) for _, measured in there
        ]
    signs = {cost: statistics.median(values) > 0 for cost, values in more.items()}
    agrees = signs == {cost: cost != "heavy" for cost in signs}
    told = "; ".join(
        f"{cost} {', '.join(f'{value:+.0f}' for value in values)} µs"
        for cost, values in more.items()
    )
    switch = switch_us(of[0][1])
    return Figure(
        key="fig5", name="Fig. 5", title="Latency at 80 % of the load that all sustain",
        paper="UNiS adds 14 µs to the mean of light functions, less to that of medium ones, and "
        "takes some from heavy ones, which the kernel sometimes runs out of order. 128 B there, "
        "64 B here.",
        ours=f"UNiS as in the paper less k = 8, by length: {told}. Hand-over less k = 8: "
        f"{min(handed):+.0f} to {max(handed):+.0f} µs.",
        verdict=judged(agrees),
        why="" if agrees else "functions that yield run in the order of the chain here, for each "
        f"goes to the end of the CPU's queue; and a switch by priority takes {switch:.0f} µs",
        source=["measured"], plots=plots,
    ), [
        row("fig5", case, measured, arm, which=LOAD)
        for case, measured in of
        for arm in arms.LATENCY
    ]  # fmt: skip


def _mean(measured: Measured, arm: str) -> float:
    return median_of(measured, arm, lambda window: window.latency_us["mean"] or 0.0, LOAD)


def _latency(length: int, measured: Measured, arm: str) -> Point:
    def of(name: str) -> float:
        return median_of(measured, arm, lambda window: window.latency_us[name] or 0.0, LOAD)

    return Point(x=length, y=of("mean"), low=of("p5"), high=of("p95"))


# ---------------------------------------------------------------------- Fig. 15


def fig15(found: Found) -> FigureOf:
    """Slices of a wrong length."""
    of = found.of("fig15")
    plots: list[Plot] = []
    told: list[str] = []
    agrees = True
    for case, measured in of:
        points: dict[str, list[Point]] = {}
        for occupancy in (False, True):
            name = "with the optimisation" if occupancy else "without"
            points[name] = [_fill(measured, share, occupancy=occupancy) for share in arms.FILLS]
        without, with_it = points["without"], points["with the optimisation"]
        best = max(1e-9, *(point.y for point in with_it))
        worst = min(with_it, key=lambda point: point.y)
        drop = without[-1].y / max(1e-9, *(point.y for point in without))
        agrees &= (worst.high or worst.y) >= _WITHIN * best and drop < 0.95
        points[arms.HANDOVER] = handed = [_handed(measured, share) for share in arms.FILLS]
        least = min(point.y for point in handed) / max(1e-9, *(point.y for point in handed))
        told.append(
            f"{case.cost}: with it {100 * worst.y / best:.0f} % of the best at worst, without "
            f"{100 * drop:.0f} % at slices for 125 %, under hand-over {100 * least:.0f} % at worst"
        )
        plots.append(
            Plot(
                kind="lines",
                title=f"{case.length} {case.cost} functions",
                x="% of its egress that a slice fills",
                y="÷ slices for 75 %, with it",
                series=points,
            )
        )
    return Figure(
        key="fig15", name="Fig. 15", title="Slices that are too short or too long",
        paper="With the optimisation no length costs much; without it slices for 125 % of the "
        "egress cost light functions 12 % and medium ones 22 %. Hand-over is not in the paper: "
        "there a slice only ends the turn of who stands still.",
        ours="; ".join(told) + ".", verdict=judged(agrees),
        why="" if agrees else "short slices are more switches, which take long here, with or "
        "without the optimisation",
        source=["measured"], plots=plots,
    ), [
        row("fig15", case, measured, arm, x=arms.FILLS[at // 2])
        for case, measured in of
        for at, arm in enumerate(case.sets[MAIN])
    ] + [
        row("fig15", case, measured, arms.handed(share), which=HANDED, x=share)
        for case, measured in of
        for share in arms.FILLS
    ]  # fmt: skip


def _fill(measured: Measured, share: float, *, occupancy: bool) -> Point:
    """Held against slices as they should be, in windows of one round."""
    base = arms.fills(GAMMA, occupancy=True)
    found = ratio(measured, arms.fills(share, occupancy=occupancy), base)
    return ratio_at(100 * share, found) if found else Point(x=100 * share, y=0.0)


def _handed(measured: Measured, share: float) -> Point:
    """By the same as above, which was measured beside it."""
    found = ratio(measured, arms.handed(share), arms.PRIORITY, HANDED)
    return ratio_at(100 * share, found) if found else Point(x=100 * share, y=0.0)


# ---------------------------------------------------------------------- the instrument


def same(found: Found) -> FigureOf:
    """One policy under two names."""
    of = found.of("same")
    compared = {case.key: ratio(measured, arms.AGAIN, arms.PRIORITY, SAME) for case, measured in of}
    known = {key: found_ for key, found_ in compared.items() if found_}
    off = [key for key, one in known.items() if one.hi < 1.0 or one.lo > 1.0]
    agrees = len(off) <= (1 - _ON_BOTH) * len(known)
    plot = Plot(
        kind="bars", title="one policy under two names", x="", y="ratio",
        series={
            "again ÷ first": [ratio_at(key, one) for key, one in known.items()]
        },
    )  # fmt: skip
    return Figure(
        key="same", name="A/A", title="The instrument: one policy under two names",
        paper="(Not in the paper.) Nothing differs, so no more than one interval in twenty may "
        "leave 1 out.",
        ours=f"{len(known) - len(off)} of {len(known)} intervals hold 1"
        + (f"; not {', '.join(off)}" if off else "") + ".",
        verdict=judged(agrees), why="" if agrees else "intervals are too narrow for this machine",
        source=["measured"], plots=[plot],
    ), [
        row("same", case, measured, arm, which=SAME)
        for case, measured in of
        for arm in (arms.PRIORITY, arms.AGAIN)
    ]  # fmt: skip


def scale(found: Found) -> FigureOf:
    """What one thread of the scheduler serves."""
    if found.scale is None:
        raise ValueError("it was not simulated")
    return scale_of.figure(found.scale), []
